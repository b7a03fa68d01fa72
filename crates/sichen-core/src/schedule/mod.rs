//! When a job is to run.
//!
//! # Invariants
//! - Pure: the same arguments give the same answer on every node, in tests and in replays.
//! - Everything ends: each search and each decision has a bound that does not depend on how long
//!   a server was down.
//!
//! # Not here
//! Writing runs and skips down, and the clock (the trigger duty).

pub mod cron;
mod zone;
