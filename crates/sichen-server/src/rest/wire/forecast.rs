//! What a pool will have to do, on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is to be expected of a pool, reckoned from the schedules of all jobs and from how long their runs
/// took. Runs that people or programs ask for, retries and backfills are not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Forecast {
    /// The pool.
    pub pool: String,
    /// The beginning of the time.
    pub from: String,
    /// Its end.
    pub to: String,
    /// The length of its parts, in milliseconds; the last one may be shorter.
    pub part_ms: i64,
    /// The pool's slots and each capacity that its jobs use, first those with units, then rates, in this order.
    pub limits: Vec<LimitForecast>,
    /// The jobs with planned instants in the time.
    pub jobs: Vec<JobForecast>,
    /// Whether jobs or planned instants were left out: at most 10,000 jobs are read, and 20,000 instants.
    pub cut: bool,
}

/// What is to be expected of one limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitForecast {
    /// `slots`, or the name of a capacity. All jobs that use a capacity count, whatever their pool.
    pub limit: String,
    /// How much there is of it; 1 of a rate.
    pub there: u32,
    /// If it is the rate of a capacity, or of a job: tokens a period, such as `50/s`. What is wanted are tokens
    /// then; what more than may gather is wanted at once waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Part by part.
    pub parts: Vec<ForecastPart>,
    /// When more is wanted than there is; the first 100.
    pub overbooked: Vec<Overbooked>,
}

/// How it stands in one part of the time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForecastPart {
    /// Its beginning.
    pub from: String,
    /// Runs that begin in it.
    pub runs: u64,
    /// The most that is wanted at once.
    pub wanted: u64,
    /// How much of what there is will be in use, in percent.
    pub used_percent: u64,
    /// At its end: how long all that there is will take for what is left over, in milliseconds.
    pub behind_ms: u64,
}

/// A span in which more is wanted than there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Overbooked {
    /// From when on.
    pub from: String,
    /// When what was left over has been worked off; left out if that is not within the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The most that is wanted at once.
    pub wanted: u64,
    /// The jobs that want most meanwhile, as NAMESPACE/NAME, first the one that wants most; at most three.
    pub jobs: Vec<String>,
}

/// What one job brings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobForecast {
    /// The job's namespace.
    pub namespace: String,
    /// Its name.
    pub job: String,
    /// Whether its runs go to the pool that was asked for, and not only use a capacity of its jobs.
    pub in_pool: bool,
    /// Planned instants within the time.
    pub runs: u64,
    /// Slots that a run takes at once.
    pub slots: u32,
    /// How long a run takes, in milliseconds: the middle one of the last 20 that succeeded. Left out if
    /// none has; then its runs are reckoned with no load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_ms: Option<u64>,
}
