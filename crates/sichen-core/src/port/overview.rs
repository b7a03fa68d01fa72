//! What a store counts for those who want to see how things stand, all at one moment.
//!
//! # Invariants
//! - Each number is counted up to [`MAX_COUNTED`], so that looking costs the same on any store.
//!
//! # Not here
//! What is done about it.

use jiff::{SignedDuration, Timestamp};

use crate::lifecycle::RunState;
use crate::name::JobName;

/// How far each number of an overview is counted.
pub const MAX_COUNTED: u32 = 10_000;
/// A job is late whose planned instant passed this long ago and is not decided yet.
pub const LATE_AFTER: SignedDuration = SignedDuration::from_secs(10);

/// What an overview looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// How far back: what ended or was skipped since then.
    pub past: SignedDuration,
    /// How far ahead: what comes due by then.
    pub ahead: SignedDuration,
    /// Into parts of this length what lies ahead is divided; at least a microsecond.
    pub part: SignedDuration,
}

/// How things stand at `now`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// The store's clock.
    pub now: Timestamp,
    /// Jobs whose schedules go on.
    pub live_jobs: u64,
    /// Jobs whose schedules are paused.
    pub paused_jobs: u64,
    /// Live jobs whose planned instant passed more than [`LATE_AFTER`] ago.
    pub late_jobs: u64,
    /// Jobs whose next instant lies ahead, by the number of the part in which it does; parts without
    /// any are left out.
    pub load: Vec<(u64, u64)>,
    /// Runs that have not begun.
    pub scheduled: u64,
    /// Runs that have.
    pub running: u64,
    /// When the oldest of these was written.
    pub oldest: Option<Timestamp>,
    /// The runs that ended last, by state.
    pub ended: Vec<(RunState, u64)>,
    /// What was not run, by job and reason.
    pub skips: Vec<Skips>,
}

/// Planned instants of one job that were not run for one reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skips {
    /// The job.
    pub job: JobName,
    /// Why.
    pub reason: String,
    /// How many instants.
    pub count: u64,
    /// How many of them have got their run since.
    pub filled: u64,
}
