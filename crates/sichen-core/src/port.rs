//! What a store must keep: the port that memory, SQLite and PostgreSQL implement alike. Each noun has a
//! trait and a file of its own; [`LeaseStore`] and [`AttemptStore`] are the ones to read first.
//!
//! One method is one transaction is one use case, and every method is safe to repeat with the same
//! [`Op`]. Methods take batches and answer per item: one bad item never spoils its neighbours.
//! The store guards (state, token, term, version), the rules decide; where a decision must see rows
//! only the transaction has (the fold of a run), the store calls the rule in
//! [`crate::lifecycle`] itself.
//!
//! # Invariants every store keeps
//! - Each change writes its event in the same transaction ([`crate::event`]).
//! - Time is the store's own, read after the transaction has its lock, and never goes back.
//! - A method that takes a [`Fence`] writes nothing under an old term.
//! - Lock order: duty → calendar → job → run → shard (ascending) → session → namespace (by name)
//!   → capacity (by name) → idempotency key.
//! - A listing that a duty works off leaves out the rows that make no sense and says so in the log: they
//!   stand, and their neighbours go on.
//!
//! # Not here
//! Transaction handles: none leaves a store.

mod alerts;
mod attempts;
mod backfills;
mod calendars;
mod capacities;
mod history;
mod jobs;
mod keys;
mod leases;
mod members;
mod namespaces;
mod overview;
mod restores;
mod runs;
mod sessions;
mod time;
mod tokens;
mod usage;
mod users;
mod values;

use std::future::Future;
use std::pin::Pin;

use crate::ids::{OpId, Term};
use crate::keys::KeyHold;
use crate::model::DutyKey;

pub use alerts::{AlertStore, SaveAlerts};
pub use attempts::AttemptStore;
pub use backfills::BackfillStore;
pub use calendars::CalendarStore;
pub use capacities::CapacityStore;
pub use history::HistoryStore;
pub use jobs::JobStore;
pub use keys::KeyStore;
pub use leases::LeaseStore;
pub use members::MemberStore;
pub use namespaces::NamespaceStore;
pub use overview::*;
pub use restores::RestoreStore;
pub use runs::RunStore;
pub use sessions::SessionStore;
pub use time::TimeStore;
pub use tokens::{Believed, TokenStore};
pub use usage::{Call, Calls, Connections, Usage};
pub use users::{ChangeUser, UserChanged, UserCreated, UserStore};
pub use values::*;

/// The most items one batch may have; a store refuses a larger one whole ([`Error::TooMany`]).
pub const MAX_BATCH: usize = 500;
/// Shards of new runs in one transaction: one that has as many takes no more runs. (A run is never
/// divided, and may have more.)
pub const MAX_BATCH_SHARDS: usize = 20_000;
/// The most rows one page of a listing may have.
pub const MAX_PAGE: u32 = 1_000;

/// A future that a store returns.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Why a store call failed as a whole. What concerns one item is a verdict, not an error.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The store can't be reached now, or gave up after its time limit.
    #[error("SC3001: the store is not available: {0}")]
    Unavailable(String),
    /// Another writer was in the way; nothing was written.
    #[error("SC3002: the store is busy: {0}")]
    Busy(String),
    /// The connection broke while committing: look the operation up before anything else.
    #[error("SC3003: it is not known whether operation {op} was committed: {reason}")]
    Unknown {
        /// The operation to look up with [`HistoryStore::find_op`].
        op: OpId,
        /// What broke.
        reason: String,
    },
    /// A row does not make sense; what is about others goes on ([`Error::is_of_some_rows`]).
    #[error("SC3004: the store holds a row that does not make sense: {0}")]
    Corrupt(String),
    /// The store is full or can't be written; reads still work.
    #[error("SC3005: the store can't be written: {0}")]
    ReadOnly(String),
    /// A batch of so many items is larger than [`MAX_BATCH`]: a mistake of the caller; nothing was done.
    #[error("SC3006: a batch of {0} items is refused: a store takes at most {MAX_BATCH} at once")]
    TooMany(usize),
}

/// Whether a store takes `items` as one batch.
///
/// # Errors
/// [`Error::TooMany`] if there are more than [`MAX_BATCH`].
pub fn within_batch<T>(items: &[T]) -> Result<(), Error> {
    if items.len() > MAX_BATCH {
        return Err(Error::TooMany(items.len()));
    }
    Ok(())
}

impl Error {
    /// Whether the same call may be tried again as it is.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::Unavailable(_) | Error::Busy(_) | Error::ReadOnly(_)
        )
    }

    /// Whether it is about rows that the call needed, so that a call about others may fare better.
    #[must_use]
    pub fn is_of_some_rows(&self) -> bool {
        matches!(self, Error::Busy(_) | Error::Corrupt(_))
    }
}

/// A mutation's name and author, written with everything it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// By which an unknown commit is found.
    pub id: OpId,
    /// `node 3`, `worker w1`, `user alice`, …
    pub actor: String,
    /// The idempotency key of the request that it belongs to, if it has one.
    pub hold: Option<KeyHold>,
}

/// The right to write for a duty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Which duty.
    pub key: DutyKey,
    /// The term under which the caller owns it.
    pub term: Term,
}

/// The port: a trait for each noun, all of them together. Object-safe. Whatever takes a batch takes at most [`MAX_BATCH`] items ([`within_batch`]). A call that was begun runs to its end, whether its future is kept or not.
pub trait Store:
    TimeStore
    + RestoreStore
    + MemberStore
    + JobStore
    + CalendarStore
    + TokenStore
    + UserStore
    + KeyStore
    + CapacityStore
    + RunStore
    + BackfillStore
    + NamespaceStore
    + LeaseStore
    + SessionStore
    + AttemptStore
    + HistoryStore
    + AlertStore
{
}

impl<T> Store for T where
    T: TimeStore
        + RestoreStore
        + MemberStore
        + JobStore
        + CalendarStore
        + TokenStore
        + UserStore
        + KeyStore
        + CapacityStore
        + RunStore
        + BackfillStore
        + NamespaceStore
        + LeaseStore
        + SessionStore
        + AttemptStore
        + HistoryStore
        + AlertStore
{
}
