//! What every store must do, said once and asked of each; and what is SQLite's own.

mod bench;
mod differential;
mod fold;
mod sqlite;
