//! What workers' beats say of them beside that they live: whether they can take work, and how busy their
//! machines are. Hints, in memory alone: the next beat says them again.
//!
//! # Invariants
//! - Bounded: of more than [`MAX_SESSIONS`] sessions the oldest are forgotten.
//!
//! # Not here
//! Who gets what ([`sichen_core::place`]).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use sichen_core::ids::SessionId;

/// Sessions whose signs are kept.
const MAX_SESSIONS: usize = 20_000;

/// What is known of each session.
#[derive(Debug, Default)]
pub(crate) struct Signs(Mutex<BTreeMap<SessionId, Sign>>);

#[derive(Clone, Copy, Debug, Default)]
struct Sign {
    /// Its worker can't take work just now: such a worker rejects what it is granted, and the shard comes
    /// back unharmed.
    unable: bool,
    /// The load of its machine by its processors, in thousandths.
    busy: u32,
    /// Until when its last beat that was taken renewed it.
    renewed: Option<Timestamp>,
}

impl Signs {
    /// Whether the worker of `session` can take work.
    pub fn set_able(&self, session: SessionId, able: bool) {
        self.change(session, |sign| sign.unable = !able);
    }

    /// How busy the machine of `session`'s worker is.
    pub fn set_busy(&self, session: SessionId, busy: u32) {
        self.change(session, |sign| sign.busy = busy);
    }

    /// A beat renewed `session` until then; until when the one before it had, if that was taken here.
    pub fn renewed(&self, session: SessionId, until: Timestamp) -> Option<Timestamp> {
        let mut before = None;
        self.change(session, |sign| before = sign.renewed.replace(until));
        before
    }

    /// How busy it is; `None` if it can't take work.
    pub fn of(&self, session: SessionId) -> Option<u32> {
        let signs = self.lock();
        let sign = signs.get(&session).copied().unwrap_or_default();
        (!sign.unable).then_some(sign.busy)
    }

    fn change(&self, session: SessionId, change: impl FnOnce(&mut Sign)) {
        let mut signs = self.lock();
        if signs.len() >= MAX_SESSIONS && !signs.contains_key(&session) {
            // The oldest session has the least number.
            signs.pop_first();
        }
        change(signs.entry(session).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Sign>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
