//! Slots that are taken for runs while these are being written.
//!
//! # Invariants
//! - A slot that was taken for a run is given back unless the run was leased at its birth, however its
//!   writing ended: found to be there, refused, failed, or cut off.
//!
//! # Not here
//! Which runs are offered, and to whom (`Dispatcher::reserve`).

use std::collections::BTreeMap;

use sichen_core::ids::SessionId;
use sichen_core::port::Fence;

use crate::dispatch::Dispatcher;
use crate::room::Seat;

/// Slots of sessions, each for one run that is about to be written.
#[derive(Debug)]
#[must_use = "dropping it gives the slots back"]
pub struct Reserved<'a> {
    dispatcher: &'a Dispatcher,
    /// The fences under which the runs may be given to those sessions.
    pub fences: Vec<Fence>,
    seats: BTreeMap<SessionId, Vec<Seat>>,
}

impl<'a> Reserved<'a> {
    /// Nothing yet, of this dispatcher's room.
    pub(crate) fn none(dispatcher: &'a Dispatcher) -> Self {
        Self {
            dispatcher,
            fences: Vec::new(),
            seats: BTreeMap::new(),
        }
    }

    /// A slot was taken.
    pub(crate) fn add(&mut self, seat: Seat) {
        self.seats.entry(seat.session).or_default().push(seat);
    }

    /// A run was leased to `session`: one of its slots is used.
    pub(crate) fn used(&mut self, session: SessionId) {
        if let Some(seats) = self.seats.get_mut(&session) {
            seats.pop();
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        for seat in std::mem::take(&mut self.seats).into_values().flatten() {
            self.dispatcher.give_back(&seat);
        }
    }
}
