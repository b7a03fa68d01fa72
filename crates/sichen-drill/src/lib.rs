//! Drills: rehearsed failures on real processes, judged by evidence that the scheduler has no hand in.
//!
//! A drill starts a cluster of the very program that a user runs, puts a load on it, changes one
//! condition at instants drawn from a seed, and judges what the tasks themselves wrote down. It
//! leaves a folder of evidence that can be judged, compared and replayed.
//!
//! # Invariants
//! - A drill is a user of the product: it starts the program and speaks to it by its command line.
//! - Rules are apart from edges: what is drawn, matched, judged, masked and compared reads no clock
//!   and does no I/O.
//! - Only what the drill itself has started is signalled.
//!
//! # Code map
//! - what: `drill`, `catalogue`, `load`; when: `schedule`
//! - judged: `evidence`, `judge`, `logs`, `stop`; told: `record`, `conditions` (`identity`),
//!   `timeline`, `secrets`
//! - edges: `stage` (carries one out), `nemesis` (the faults), `guard` (when to stop), `cluster`,
//!   `members`, `proxy` (`beats`), `database`, `ground`, `program`, `business`, `metrics`, `task`,
//!   `folder`
//!
//! # Not here
//! The history's judgement (`sichen-check`, by `sichen verify`); the command line.

mod beats;
pub mod business;
pub mod catalogue;
mod clock;
mod cluster;
mod conditions;
mod database;
pub mod drill;
mod error;
pub mod evidence;
pub mod folder;
pub mod ground;
mod guard;
mod home;
mod identity;
pub mod judge;
pub mod load;
pub mod logs;
pub mod members;
mod metrics;
mod nemesis;
pub mod outcome;
mod program;
mod proxy;
pub mod record;
pub mod schedule;
pub mod secrets;
pub mod stage;
pub mod stop;
pub mod task;
pub mod timeline;

pub use error::Error;
