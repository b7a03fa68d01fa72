//! A run's outcome, folded from its shards'.
//!
//! # Invariant
//! The outcome is a function of the counters and the stop cause (I27): the same facts give the same
//! state, whoever is last to report.
//!
//! # Not here
//! Counting (the store does, in the transaction that ends an attempt).

use super::{RunState, StopCause};

/// What the outcome depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Shards in all; the plan step not counted.
    pub total: u32,
    /// Shards (and the plan step) that are not closed.
    pub open: u32,
    /// Shards that succeeded.
    pub succeeded: u32,
    /// Shards (or the plan step) that failed.
    pub failed: u32,
    /// Shards (or the plan step) that were stopped.
    pub cancelled: u32,
}

/// Decides the run's final state, or `None` while shards are open.
///
/// Order: cancelled (a request took effect on a shard) > failed by deadline or fatal error >
/// failed because counts that had to match do not > succeeded (all) > failed (none) > partial.
#[must_use]
pub fn settle(c: &Counters, stop: Option<StopCause>, counts_match: bool) -> Option<RunState> {
    if c.open > 0 {
        return None;
    }
    Some(match stop {
        Some(StopCause::Cancel) if c.cancelled > 0 => RunState::Cancelled,
        Some(StopCause::Deadline | StopCause::Fatal) => RunState::Failed,
        _ if c.failed == 0 && c.cancelled == 0 && !counts_match => RunState::Failed,
        _ if c.failed == 0 && c.cancelled == 0 => RunState::Succeeded,
        _ if c.succeeded == 0 => RunState::Failed,
        _ => RunState::Partial,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(counts: (u32, u32, u32, u32), stop: Option<StopCause>, expect: Option<RunState>) {
        let (open, succeeded, failed, cancelled) = counts;
        let total = open + succeeded + failed + cancelled;
        let c = Counters {
            total,
            open,
            succeeded,
            failed,
            cancelled,
        };
        assert_eq!(settle(&c, stop, true), expect, "{c:?} {stop:?}");
    }

    #[test]
    fn the_outcome_follows_the_settle_order() {
        use RunState::*;
        check((1, 9, 0, 0), None, None);
        check((0, 9, 0, 0), None, Some(Succeeded));
        check((0, 0, 0, 0), None, Some(Succeeded));
        check((0, 0, 9, 0), None, Some(Failed));
        check((0, 8, 1, 0), None, Some(Partial));
        check((0, 8, 0, 1), Some(StopCause::Cancel), Some(Cancelled));
        check((0, 9, 0, 0), Some(StopCause::Cancel), Some(Succeeded));
        check((0, 8, 1, 0), Some(StopCause::Cancel), Some(Partial));
        check((0, 8, 0, 1), Some(StopCause::Deadline), Some(Failed));
        check((0, 8, 1, 1), Some(StopCause::Fatal), Some(Failed));
        check((3, 5, 0, 0), Some(StopCause::Cancel), None);
    }

    #[test]
    fn a_count_that_had_to_match_fails_the_run() {
        let c = Counters {
            total: 2,
            succeeded: 2,
            ..Counters::default()
        };
        assert_eq!(settle(&c, None, false), Some(RunState::Failed));
    }
}
