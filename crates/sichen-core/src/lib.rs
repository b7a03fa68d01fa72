//! The rules of Sichen: what may happen to jobs, runs, shards and leases, and what follows.
//!
//! Everything here decides and nothing here acts: no clock, runtime, randomness, SQL or wire.
//! The same arguments give the same answer in production, in the simulator, and when a recorded
//! history is replayed. Start with [`lifecycle`] (the moves), then [`port`] (what a store must
//! keep), then [`dispatch`] (who runs what).
//!
//! # Not here
//! Storing (`sichen-store`), the duties that call these rules (`sichen-engine`), wire formats
//! (`sichen-proto`, `sichen-server`).

pub mod access;
pub mod alert;
pub mod backfill;
pub mod beacon;
pub mod capacity;
pub mod dispatch;
pub mod document;
pub mod epoch;
pub mod event;
pub mod forecast;
pub mod ids;
pub mod keys;
pub mod layout;
pub mod lease;
pub mod lifecycle;
pub mod members;
pub mod model;
pub mod name;
pub mod place;
pub mod port;
pub mod restore;
pub mod retry;
pub mod schedule;
pub mod timekeeping;
pub mod timeouts;
pub mod trace;
pub mod user;
pub mod zoo;
