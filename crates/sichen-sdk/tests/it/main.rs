//! Integration tests of the SDK; one binary, one module per subject.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "postgres")]
mod fence_postgres;
#[cfg(feature = "sqlite")]
mod fence_sqlite;
#[cfg(feature = "postgres")]
mod pg;
