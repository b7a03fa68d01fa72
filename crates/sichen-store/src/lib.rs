//! The store port kept three ways: memory (the readable specification), SQLite (one machine),
//! PostgreSQL (many).
//!
//! # Invariants
//! - One conformance suite runs over all of them, and one seeded stream of calls gives the same
//!   rows and events in each.
//!
//! # Not here
//! Rules (`sichen-core`): a store guards and calls them, it never decides a state.

/// Answers a batch that is larger than the port allows, before anything is done of it.
#[cfg(any(feature = "memory", feature = "postgres", feature = "sqlite"))]
macro_rules! bounded {
    ($items:ident) => {
        if let Err(error) = sichen_core::port::within_batch(&$items) {
            return Box::pin(std::future::ready(Err(error)));
        }
    };
}

/// Why nothing is written for a request whose key another attempt has by now.
#[cfg(any(feature = "memory", feature = "postgres", feature = "sqlite"))]
fn lost_key() -> sichen_core::port::Error {
    let why = "the request is carried out by a repeat of it by now";
    sichen_core::port::Error::Busy(why.to_owned())
}

pub mod clock;
mod happened;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod kept_alert;
mod kept_user;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod log;
#[cfg(feature = "memory")]
pub mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod row;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod spoilt;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod usage;
