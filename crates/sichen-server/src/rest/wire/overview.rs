//! How things stand, on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How things stand, in numbers of one moment. Each is counted up to 10,000.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Overview {
    /// The store's clock.
    pub now: String,
    /// Jobs, by how they stand with their schedules.
    pub jobs: JobCounts,
    /// Runs: those that are open, and those that ended in the last 24 hours.
    pub runs: RunCounts,
    /// Whether all runs that ended in the last 24 hours were counted, and not only the last 10,000.
    pub ended_all: bool,
    /// The next hour in parts of 5 minutes, with the live jobs whose next planned instant lies in each.
    pub load: Vec<LoadPart>,
    /// Planned instants of the last 24 hours that were not run, by job and reason.
    pub skipped: Vec<SkippedInstants>,
}

/// Jobs, by how they stand with their schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobCounts {
    /// Whose schedules go on.
    pub live: u64,
    /// Whose schedules are paused.
    pub paused: u64,
    /// Live ones whose next planned instant is within the hour.
    pub due: u64,
    /// Live ones whose planned instant passed more than 10 seconds ago and is not decided.
    pub late: u64,
}

/// Runs by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunCounts {
    /// Not begun.
    pub scheduled: u64,
    /// Begun, not ended.
    pub running: u64,
    /// Ended in the last 24 hours.
    pub succeeded: u64,
    /// Ended in the last 24 hours.
    pub partial: u64,
    /// Ended in the last 24 hours.
    pub failed: u64,
    /// Ended in the last 24 hours.
    pub cancelled: u64,
}

/// A part of the next hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoadPart {
    /// Its beginning.
    pub from: String,
    /// Live jobs whose next planned instant lies in it.
    pub jobs: u64,
}

/// Planned instants of one job that were not run for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SkippedInstants {
    /// Namespace of the job.
    pub namespace: String,
    /// The job.
    pub job: String,
    /// Why, as in a `Decision`.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// How many of them have got their run since.
    pub filled: u64,
}
