//! A simulated cluster, and the bounded model that settled its protocol first.
//!
//! Everything here runs in one thread from one seed: no wall clock, no threads, no hash maps, so
//! that the same seed gives the same history.
//!
//! # Not here
//! Rules (`sichen-core`), duties (`sichen-engine`), the worker session (`sichen-sdk`): the
//! simulator runs those, it does not restate them. Only [`model`] restates the protocol, in
//! miniature, so that every interleaving of it can be tried.

pub mod air;
pub mod edge;
pub mod hours;
pub mod model;
pub mod options;
pub mod panicked;
pub mod rng;
pub mod shrink;
pub mod sim;
pub mod store;
pub mod trace;
pub mod user;
