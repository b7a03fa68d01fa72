//! Where in the log to begin.
//!
//! Places of events rise with time, but not strictly: a transaction takes its places and its time
//! before it commits. So a beginning that is found by time is taken from a little earlier.
//!
//! # Not here
//! Reading the log (the stores' `history`).

use jiff::{SignedDuration, Timestamp};
use sichen_core::event::Event;

/// Events that are read at once.
pub(crate) const EVENTS_AT_ONCE: u32 = 10_000;

/// How much later than its neighbours in the log an event's time can be: longer than any call.
const SLACK: SignedDuration = SignedDuration::from_mins(5);

/// Bisects the log for the place after which all events of a time on are found.
#[derive(Debug)]
pub(crate) struct Search {
    since: Option<Timestamp>,
    /// Everything up to here is older.
    old: u64,
    /// The event after this place is young enough, or there is none.
    young: u64,
    asked: u64,
}

impl Search {
    /// Without a time the beginning of the log is the answer.
    pub fn new(since: Option<Timestamp>) -> Self {
        Self {
            since: since.map(|at| at.saturating_sub(SLACK).unwrap_or(Timestamp::MIN)),
            old: 0,
            young: 1 << 62,
            asked: 0,
        }
    }

    /// The place whose next event is to be looked at; `None` if it is known where to begin.
    pub fn probe(&mut self) -> Option<u64> {
        self.since?;
        if self.young - self.old <= 1 {
            return None;
        }
        self.asked = self.old + (self.young - self.old) / 2;
        Some(self.asked)
    }

    /// The event after the place that was asked for.
    pub fn found(&mut self, event: Option<&Event>) {
        match event {
            Some(event) if self.since.is_some_and(|since| event.at < since) => {
                self.old = event.seq;
                self.young = self.young.max(self.old);
            }
            _ => self.young = self.asked,
        }
    }

    /// The place to read on from.
    pub fn start(&self) -> u64 {
        self.old
    }
}

#[cfg(test)]
mod tests;
