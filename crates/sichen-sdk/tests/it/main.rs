//! Integration tests of the SDK; one binary, one module per subject.
#![allow(clippy::unwrap_used)]
#![expect(
    clippy::disallowed_methods,
    reason = "measures real processes and streams"
)]

mod fake;
#[cfg(feature = "mysql")]
mod fence_mysql;
#[cfg(feature = "postgres")]
mod fence_postgres;
#[cfg(feature = "sqlite")]
mod fence_sqlite;
#[cfg(feature = "mysql")]
mod mariadb;
#[cfg(feature = "postgres")]
mod pg;
mod worker;
