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
        _ if crate::zoo::is("partial-is-success") => RunState::Succeeded,
        _ => RunState::Partial,
    })
}

#[cfg(test)]
mod tests;
