//! The duties of a server node, each stepped by `run_once`, over the store port.
//!
//! Data flows one way: time → runs ([`trigger`]) → ready shards → plan → lease ([`dispatch`]) →
//! attempt → outcome ([`sessions`], [`reap`]) → settled run (in the store's own transaction).
//!
//! # Invariants
//! - A duty writes only under the term with which [`coordinator`] holds it.
//! - A duty keeps nothing in memory that it could not read again: losing a node loses no fact.
//!
//! # Not here
//! Rules (`sichen-core`), SQL (`sichen-store`), transports (`sichen-server`).

pub mod alerts;
pub mod backfill;
pub mod births;
mod blocked;
mod broadcast;
pub mod calendars;
mod capacities;
pub mod census;
pub mod context;
pub mod control;
pub mod coordinator;
pub mod courier;
pub mod dispatch;
pub mod documents;
pub mod driver;
mod gather;
mod heads;
pub mod intake;
pub mod janitor;
pub mod meter;
pub mod preempt;
pub mod pulse;
pub mod reap;
pub mod room;
pub mod sessions;
mod shares;
mod signs;
pub mod tracer;
pub mod trigger;
pub mod work;
