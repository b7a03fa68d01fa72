//! A run's outcome, folded from its shards'; when it is late; when its turn has come.
//!
//! # Invariant
//! The outcome is a function of the counters and the stop cause (I27): the same facts give the same
//! state, whoever is last to report.
//!
//! # Not here
//! Counting (the store does, in the transaction that ends an attempt).

mod birth;

use jiff::Timestamp;

use super::{RunState, StopCause};
use crate::model::{Progress, Run, RunTerms};

pub use birth::Birth;

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
    if c.open > u32::from(crate::zoo::is("settles-early")) {
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

/// How a run of which nothing is open ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Its final state.
    pub outcome: RunState,
    /// Why, if the state alone does not say it.
    pub reason: String,
    /// Whether the counts that had to match do; `true` if none had to.
    pub counts_match: bool,
}

/// Whether [`settled`] looks at the sums of the shards' progress: they cost a walk over the shards.
#[must_use]
pub fn needs_sums(run: &Run) -> bool {
    run.terms.counts_must_match
}

/// Decides how `run` ends, whose shards' progress adds up to `sums`; `None` while it is open, or if
/// it has ended before.
#[must_use]
pub fn settled(run: &Run, sums: &Progress) -> Option<Settled> {
    if run.state.is_closed() {
        return None;
    }
    let expected = sums.expected.unwrap_or(0);
    let counts_match = !needs_sums(run) || sums.done == expected;
    let stop = run.stop.map(|(cause, _)| cause);
    let outcome = settle(&run.counters, stop, counts_match)?;
    let reason = match (outcome, stop) {
        (RunState::Cancelled, Some(_)) => run.stop_detail.clone(),
        (RunState::Failed, Some(_)) if !run.stop_detail.is_empty() => run.stop_detail.clone(),
        (RunState::Failed, Some(cause)) => cause.word().to_owned(),
        (RunState::Failed, None) if !counts_match && run.counters.failed == 0 => {
            format!("done {} of {expected} expected", sums.done)
        }
        _ => String::new(),
    };
    Some(Settled {
        outcome,
        reason,
        counts_match,
    })
}

/// The detail of the stop of a run that did not start by its latest start.
pub const STARTING_DEADLINE: &str = "starting_deadline";

/// Waiting runs that are cancelled in one transaction because they missed their latest start; more are
/// found by [`late`].
pub const LATE_AT_ONCE: usize = 100;

/// The detail of the stop of a run whose shards used up the failed attempts that they share.
pub const FAILURES_USED_UP: &str = "max_failures";

/// Why an open run is to be stopped at `now`, if its time is over: cause and detail.
///
/// A run that ends, or starts, at the very deadline is in time. One that could not start in time
/// has not failed: it is cancelled, and says why.
#[must_use]
pub fn late(run: &Run, now: Timestamp) -> Option<(StopCause, &'static str)> {
    let passed = |deadline: Option<Timestamp>| deadline.is_some_and(|deadline| deadline < now);
    if passed(run.terms.deadline) {
        Some((StopCause::Deadline, ""))
    } else if run.state == RunState::Scheduled && passed(run.terms.start_by) {
        Some((StopCause::Cancel, STARTING_DEADLINE))
    } else {
        None
    }
}

/// Whether a run with these terms that has not started can do so no more at `now`.
#[must_use]
pub fn missed_its_start(terms: &RunTerms, now: Timestamp) -> bool {
    let mut limits = terms.deadline.into_iter().chain(terms.start_by);
    limits.any(|limit| limit < now)
}

/// The first limit of an open run that has not passed at `now`.
#[must_use]
pub fn next_limit(run: &Run, now: Timestamp) -> Option<Timestamp> {
    let start_by = run
        .terms
        .start_by
        .filter(|_| run.state == RunState::Scheduled);
    let limits = run.terms.deadline.into_iter().chain(start_by);
    limits.filter(|limit| *limit >= now).min()
}

/// Cause and detail of a stop that was asked for with `cause`: a deadline's is the one that passed.
#[must_use]
pub fn stopped_by(run: &Run, cause: StopCause, now: Timestamp) -> (StopCause, &'static str) {
    match (cause, late(run, now)) {
        (StopCause::Deadline, Some(late)) => late,
        (cause, _) => (cause, ""),
    }
}

/// What becomes of the run that waits at the head of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It may start, not before this instant.
    Start(Timestamp),
    /// It waits on: as many run as may.
    Wait,
    /// Its window passed while it waited: it is stopped.
    TooLate,
}

/// Judges the run that waits at the head of its job, of which `running` are open and do not wait.
///
/// `run.dead_by` is when the task trees of those that closed before it are surely gone.
#[must_use]
pub fn turn(run: &Run, running: u32, now: Timestamp) -> Turn {
    let start = now
        .max(run.ready_at.unwrap_or(now))
        .max(run.dead_by.unwrap_or(now));
    if run.terms.start_by.is_some_and(|latest| start > latest) {
        Turn::TooLate
    } else if running < run.waits.map_or(1, |waits| waits.most.max(1)) {
        Turn::Start(start)
    } else {
        Turn::Wait
    }
}

/// How it is known that what went before is gone: the workers have confirmed it, or the time is over
/// after which nothing of it can be alive.
#[must_use]
pub fn how_gone(dead_by: Option<Timestamp>) -> &'static str {
    if dead_by.is_none() {
        "confirmed"
    } else {
        "expired"
    }
}

#[cfg(test)]
pub(super) mod tests;
