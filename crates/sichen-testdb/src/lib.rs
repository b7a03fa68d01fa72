//! Database servers and a monitor for one test, each a direct child of it, what must be installed for
//! them, and a network between processes that can be cut.
//!
//! # Invariants
//! - Nothing is left out in silence: a program that is missing fails the test with the words that
//!   say what to install, unless `SICHEN_TEST_WITHOUT` names it, and then that is said.
//! - Nothing outlives its test: not the server, not its files; not even when the test is killed.
//!
//! # Not here
//! Installing (`cargo xtask test`); speaking to a server: each test has a client of its own.

// Development only: what goes wrong here fails the test that asked, and says why.
#![allow(clippy::missing_panics_doc)]

pub mod disk;
pub mod mail;
pub mod pgbouncer;
pub mod postgres;
mod programs;
pub mod prometheus;
pub mod proxy;

pub use programs::{
    MariadbPrograms, PrometheusPrograms, Service, WITHOUT, faketime, in_ci, mail_server, mariadb,
    postgres_programs, prometheus,
};
