//! The store port kept three ways: memory (the readable specification), SQLite (one machine),
//! PostgreSQL (many).
//!
//! # Invariants
//! - One conformance suite runs over all of them, and one seeded stream of calls gives the same
//!   rows and events in each.
//!
//! # Not here
//! Rules (`sichen-core`): a store guards and calls them, it never decides a state.

pub mod clock;
mod happened;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod log;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod row;
#[cfg(feature = "sqlite")]
pub mod sqlite;
