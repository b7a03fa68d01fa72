//! Schedules without instants ahead: the end of the last run makes the next one.
//!
//! A job with such a schedule has a [`Chain`], kept in its row. Its one open instant is either
//! written down (`pending`), or is yet to be made by the end of the job's open runs. Whoever settles
//! the last open run writes it in that very transaction, so nothing can fall between the two.
//!
//! # Invariants
//! - Unless its schedule has ended, a chain has a pending instant or its job has open runs.
//! - An instant is made once and decided once: it lies after the job's high-water mark when it is
//!   made, is a whole second, and is gone when the mark passes it.
//! - A decided instant is never moved; one that has not come yet is.
//!
//! # Not here
//! What becomes of an instant that has come (`super::due`); storing a chain.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::zone;
use crate::lifecycle::RunState;

/// The first wait of a `continuous` schedule after a failure, unless it says otherwise.
pub const MIN_WAIT: SignedDuration = SignedDuration::from_secs(1);
/// The longest one.
pub const MAX_WAIT: SignedDuration = SignedDuration::from_mins(5);

/// How long after the end of the last run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Wait {
    /// Always as long.
    Delay(SignedDuration),
    /// At once; after failures in a row `min`, twice that, four times that, up to `max`.
    Continuous {
        min: SignedDuration,
        max: SignedDuration,
    },
}

impl Wait {
    /// The wait after so many failures in a row.
    fn after(self, failures: u32) -> SignedDuration {
        match self {
            Wait::Delay(delay) => delay,
            Wait::Continuous { .. } if failures == 0 => SignedDuration::ZERO,
            Wait::Continuous { min, max } => {
                let doublings = (failures - 1).min(30);
                min.checked_mul(1 << doublings).unwrap_or(max).min(max)
            }
        }
    }
}

/// A schedule's rule, as its job's row keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Follow {
    pub wait: Wait,
    /// The first instant that may be planned.
    pub start: Option<Timestamp>,
    /// The first one that may not.
    pub end: Option<Timestamp>,
}

/// Where a job stands between two runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Chain {
    pub follow: Follow,
    /// The next instant, unless open runs have yet to make it or the schedule has ended.
    pub pending: Option<Timestamp>,
    /// The instant before it: where the next run's period begins.
    pub before: Option<Timestamp>,
    /// What the wait counts from: the end of the last run, or the decision that there was none.
    pub since: Option<Timestamp>,
    /// Failures in a row.
    pub failures: u32,
}

/// How a run ended, as a chain sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub outcome: RunState,
    pub started_at: Option<Timestamp>,
    pub at: Timestamp,
}

impl Chain {
    /// The chain of a job as its document is applied: its first run is due at once, whatever it did
    /// before had another schedule. `mark` is the job's high-water mark, `open` whether it has open
    /// runs, the last of which makes the next instant.
    ///
    /// An edit keeps what the wait counts from: an instant that has not come yet is computed anew.
    #[must_use]
    pub fn applied(
        old: Option<&Chain>,
        follow: Option<Follow>,
        open: bool,
        mark: Timestamp,
    ) -> Option<Chain> {
        let mut chain = Chain {
            follow: follow?,
            pending: None,
            before: old.and_then(|old| old.before),
            since: old.and_then(|old| old.since),
            failures: old.map_or(0, |old| old.failures),
        };
        if !open {
            chain.pending = chain.next(mark);
        }
        Some(chain)
    }

    /// The mark has moved to `mark`: an instant up to there is decided.
    #[must_use]
    pub fn passed(&self, mark: Timestamp) -> Chain {
        let decided = self.pending.filter(|at| *at <= mark);
        Chain {
            pending: self.pending.filter(|at| *at > mark),
            before: decided.or(self.before),
            ..self.clone()
        }
    }

    /// An instant was decided and left the job without an open run: no end will make the next one,
    /// so the decision does, and counts as an end that failed.
    #[must_use]
    pub fn restarted(&self, mark: Timestamp, now: Timestamp) -> Chain {
        let mut chain = self.clone();
        chain.since = Some(whole(now));
        chain.failures = self.failures.saturating_add(1);
        chain.pending = chain.next(mark);
        chain
    }

    /// A run of the job has ended, and `open` says whether others are still open. An instant that
    /// has come stays; one ahead counts from this end instead.
    #[must_use]
    pub fn ended(&self, run: Ended, open: bool, mark: Timestamp) -> Chain {
        let mut chain = self.clone();
        chain.failures = self.failures_after(run);
        let has_come = self.pending.is_some_and(|at| at <= run.at);
        if !open && !has_come {
            chain.since = Some(whole(run.at));
            chain.pending = chain.next(mark);
        }
        chain
    }

    /// A cancelled run says nothing about its work. One that went well for longer than the longest
    /// wait before it failed is the first of its row.
    fn failures_after(&self, run: Ended) -> u32 {
        let held_out = match (self.follow.wait, run.started_at) {
            (Wait::Continuous { max, .. }, Some(started)) => run.at.duration_since(started) > max,
            _ => false,
        };
        match run.outcome {
            RunState::Succeeded => 0,
            RunState::Failed | RunState::Partial if held_out => 1,
            RunState::Failed | RunState::Partial => self.failures.saturating_add(1),
            RunState::Cancelled | RunState::Scheduled | RunState::Running => self.failures,
        }
    }

    /// The next instant, a whole second after `mark`; `None` if the schedule ends before it.
    fn next(&self, mark: Timestamp) -> Option<Timestamp> {
        let wait = self.follow.wait.after(self.failures);
        let from_end = self
            .since
            .map(|since| zone::ceil(since).saturating_add(zone::ceil_length(wait)));
        let start = self.follow.start.map(zone::ceil);
        let at = (zone::floor(mark) + 1).max(from_end.unwrap_or(i64::MIN));
        let at = at.max(start.unwrap_or(i64::MIN));
        let at = (at <= zone::LAST).then(|| zone::instant(at))?;
        self.follow.end.is_none_or(|end| at < end).then_some(at)
    }
}

/// Whole seconds, rounded up, so that every store keeps the same.
fn whole(at: Timestamp) -> Timestamp {
    zone::instant(zone::ceil(at))
}

#[cfg(test)]
mod tests;
