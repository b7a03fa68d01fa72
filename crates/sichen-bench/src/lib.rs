//! How fast Sichen is, measured from outside: real processes, a real PostgreSQL, final rows.
//!
//! `cargo xtask bench` runs it. A measurement starts a throwaway PostgreSQL, `sichen server` and a
//! worker of real SDK handlers, gives them work over the API, and counts what the database holds at
//! the end; `sichen verify --store` must then accept that very database.
//!
//! # Invariants
//! - Durability is PostgreSQL's default; only where its files lie (disk or memory) is a choice.
//! - A figure counts finished runs in the database, never messages sent.
//! - What was started is a direct child and gone at the end.
//!
//! # Not here
//! Other systems: `benches/peer` tells how they are run beside this one.

pub mod api;
pub mod clock;
pub mod fleet;
pub mod load;
pub mod measure;
pub mod postgres;
pub mod process;
pub mod report;
pub mod worker;
