//! One machine: SQLite.
