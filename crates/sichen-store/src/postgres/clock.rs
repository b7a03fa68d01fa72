//! The store's time: the database's clock, or one given for tests; never behind what was used.

use std::sync::Arc;

use jiff::Timestamp;

use crate::clock::{Clock, Mark};

/// How far the stored mark may lie behind.
const MARK_LAG_MICROS: i64 = 1_000_000;

#[derive(Debug)]
pub(super) struct Time {
    given: Option<Arc<dyn Clock>>,
    mark: Mark,
}

/// An instant that was read elsewhere.
#[derive(Debug)]
struct Told(Timestamp);

impl Clock for Told {
    fn now(&self) -> Timestamp {
        self.0
    }
}

impl Time {
    pub fn new(given: Option<Arc<dyn Clock>>) -> Self {
        Self {
            given,
            mark: Mark::new(Timestamp::MIN),
        }
    }

    /// The present by the given clock, if there is one.
    pub fn given(&self) -> Option<Timestamp> {
        self.given.as_ref().map(|clock| self.mark.read(&**clock))
    }

    /// The present, from what the database says of it and its stored mark.
    pub fn read(&self, database: Timestamp, stored: Timestamp) -> Timestamp {
        let now = self.given.as_ref().map_or(database, |clock| clock.now());
        self.mark.read(&Told(now.max(stored)))
    }

    /// Whether the stored mark is to be raised to `now`.
    pub fn is_behind(stored: Timestamp, now: Timestamp) -> bool {
        let lag = now.as_microsecond().saturating_sub(stored.as_microsecond());
        lag >= MARK_LAG_MICROS
    }
}
