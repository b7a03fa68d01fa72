//! What a planned run stands for in the words of its schedule: wall-clock time and civil days.
//!
//! An instant alone can't say it: a gap moves a run away from its wall-clock time, and a later
//! release may bring other data of the zone. What is written here once never changes.
//!
//! # Not here
//! Which instant it is (the run's occasion); how these are computed (`super::due`).

use jiff::civil::{Date, DateTime};
use serde::{Deserialize, Serialize};

/// Wall-clock time, zone and civil days of a planned run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Nominal {
    /// The wall-clock time that the schedule names, in its zone.
    pub civil: DateTime,
    /// The schedule's zone; `UTC` for one without a name.
    pub zone: String,
    /// Version of the zone data that it was planned with.
    pub zone_data: String,
    /// The first civil day of the period.
    pub first_day: Date,
    /// The civil day with which the period ends, which is left out if it ends at its start.
    pub end_day: Date,
    /// How many planned instants the run stands for; more than 1 when it was coalesced.
    pub covers: u64,
}
