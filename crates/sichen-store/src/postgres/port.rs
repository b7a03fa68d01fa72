//! The port: what each use case locks, in the port's order, and what it then does.
//!
//! # Not here
//! What is written ([`super::jobs`], [`super::runs`], …).

mod alerts;
mod attempts;
mod backfills;
mod calendars;
mod capacities;
mod history;
mod jobs;
mod keys;
mod leases;
mod members;
mod namespaces;
mod restores;
mod runs;
mod sessions;
mod time;
mod tokens;
mod users;
