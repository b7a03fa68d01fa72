//! What every store must do, said once and asked of each; and what is SQLite's own.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod bench;
mod conformance;
mod differential;
mod fold;
#[cfg(feature = "postgres")]
mod postgres;
mod spoilt;
mod sqlite;
