//! What every store must do, said once and asked of each; and what is SQLite's own.

mod bench;
mod conformance;
mod differential;
mod fold;
mod sqlite;
