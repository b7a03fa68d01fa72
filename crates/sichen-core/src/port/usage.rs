//! What a store has been asked since it was opened, as it counts itself.
//!
//! # Not here
//! What its content says ([`super::overview`]).

use std::time::Duration;

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The clock alone.
    Clock,
    /// Rows.
    Read,
    /// A change.
    Write,
}

impl Call {
    /// Every kind, in the order of [`Usage::calls`].
    pub const ALL: [Self; 3] = [Self::Clock, Self::Read, Self::Write];

    /// As labels have it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// How many were answered.
    pub answered: u64,
    /// How many of them by an error.
    pub failed: u64,
    /// How long they took together.
    pub took: Duration,
}

/// Connections to a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// In use.
    pub busy: u64,
    /// Open and free.
    pub idle: u64,
    /// Calls that wait for one.
    pub waiting: u64,
}

/// What a store has been asked. A store that does not count has nothing to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// By kind, as [`Call::ALL`].
    pub calls: Option<[Calls; 3]>,
    /// Of a store that has any.
    pub connections: Option<Connections>,
}
