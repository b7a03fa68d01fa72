//! Turns of runs: whose was the last, so that the others go first.
//!
//! # Not here
//! Shares (`super`).

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::MAX_ACCOUNTS;
use crate::ids::RunId;

/// When runs had their last turn, of those that had one lately.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    of: BTreeMap<RunId, (u64, Timestamp)>,
    order: BTreeMap<u64, RunId>,
    last: u64,
}

impl Turns {
    /// `run` has its turn.
    pub fn take(&mut self, run: RunId, now: Timestamp) {
        self.last += 1;
        if let Some((before, _)) = self.of.insert(run, (self.last, now)) {
            self.order.remove(&before);
        }
        self.order.insert(self.last, run);
        if self.of.len() > MAX_ACCOUNTS
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.of.remove(&oldest);
        }
    }

    /// The number of the run's last turn, and when it had it.
    pub fn of(&self, run: RunId) -> Option<(u64, Timestamp)> {
        self.of.get(&run).copied()
    }

    /// The number of the last turn of all.
    pub fn last(&self) -> u64 {
        self.last
    }
}
