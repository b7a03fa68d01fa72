//! Many machines: PostgreSQL 14 or newer.
//!
//! A use case runs in one transaction of `READ COMMITTED` over one of a few connections: it locks the
//! rows it will decide upon in the port's order, reads the clock, and then does what the other stores
//! do, with the same rules. A duty's term is held by `FOR SHARE`, so that a takeover waits for what is
//! written under the old term. Reads each see one snapshot.
//!
//! # Invariants
//! - What a use case decides upon is locked before the clock is read ([`kept`]).
//! - A transaction that failed before its commit is run anew as a whole; one that failed at its
//!   commit is looked up by its operation ([`engine`]).
//! - The pool mends itself: a broken connection is noticed and replaced.
//!
//! # Repeated operations, numbers
//! As in [`crate::sqlite`]. Ids and places in the log come from sequences: they rise, with gaps where
//! a transaction was given up, and not in the order of commits. PostgreSQL keeps no text with a NUL.
//!
//! # Not here
//! Rules ([`sichen_core::lifecycle`]); the same port in plain words ([`crate::memory`]).

#[macro_use]
mod calls;

mod access;
mod address;
mod alerts;
mod backfills;
mod batch;
mod beacon;
mod calendars;
mod capacities;
mod chains;
mod check;
mod checks;
mod clock;
mod connect;
mod discards;
mod duties;
mod engine;
mod fault;
mod gates;
mod history;
mod jobs;
mod kept;
mod keys;
mod leases;
mod link;
mod migrate;
mod namespaces;
mod overview;
mod param;
mod password;
mod port;
mod read;
mod recalls;
mod restored;
mod row;
mod runs;
mod sessions;
mod shards;
#[doc(hidden)]
pub mod sql;
mod tls;
mod tx;
mod users;
mod whereabouts;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use sichen_core::event::Event;
use sichen_core::model::Dump;
use sichen_core::port::{Error, Fence, Page};
use tokio::sync::mpsc;

use crate::clock::Clock;
use engine::Engine;

pub use beacon::PostgresBeacon;

/// How a store uses its server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Instead of the database's clock: for tests. Two processes must not use one database so.
    pub clock: Option<Arc<dyn Clock>>,
    /// Take a server that may forget what it has committed (`fsync` or `synchronous_commit` off).
    pub unsafe_durability: bool,
    /// Connections at most, from 1.
    pub connections: u32,
    /// For a connection to be made.
    pub connect_timeout: Duration,
    /// For one statement, and for a free connection.
    pub statement_timeout: Duration,
    /// For all of one transaction, counted here: also where nothing answers any more.
    pub call_timeout: Duration,
    /// For a lock that another transaction holds; the call then answers [`Error::Busy`].
    pub lock_timeout: Duration,
    /// After which the server ends a transaction whose client has gone silent.
    pub idle_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: None,
            unsafe_durability: false,
            connections: 16,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(60),
            lock_timeout: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(5),
        }
    }
}

/// How long a whole store may be read.
const LOOK_TIMEOUT: Duration = Duration::from_secs(3_600);

/// A connection outside of any store, to the server at `url` as [`PostgresStore::open`] reads it, with
/// `settings` said at its start (so not through a pooler). It ends with the client.
///
/// # Errors
/// [`Error::Unavailable`] if the address is wrong or nobody answers there.
pub async fn connect(
    url: &str,
    settings: &[(&str, &str)],
) -> Result<tokio_postgres::Client, Error> {
    let address = address::Address::parse(url, |name| std::env::var(name).ok())?;
    connect::single(address, settings).await
}

/// What the server at `url` says of itself, by the names of its settings: for people.
///
/// # Errors
/// As [`connect`].
pub async fn facts(url: &str) -> Result<Vec<(String, String)>, Error> {
    let client = connect(url, &[]).await?;
    check::facts(&client).await
}

/// A transaction that has been open for long. While it lasts the database keeps every version of every
/// row that has changed since, which all others walk over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldTransaction {
    /// The process of its session; 0 for a prepared one, which has none.
    pub pid: i32,
    /// How long it has been open, if that may be known.
    pub age_seconds: Option<i64>,
    /// Whose it is, for people.
    pub what: String,
}

/// What slows a database down from outside.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Transactions that have been open for long, the oldest first; at most ten.
    pub old_transactions: Vec<OldTransaction>,
    /// Rows of the store's tables that are past and not yet removed, as the server estimates them.
    pub dead_rows: i64,
}

/// How the database at `url` is, with transactions that have been open for longer than `older_than`.
///
/// # Errors
/// As [`connect`].
pub async fn condition(url: &str, older_than: Duration) -> Result<Condition, Error> {
    let client = connect(url, &[("application_name", "sichen-check")]).await?;
    Ok(Condition {
        old_transactions: check::old_transactions(&client, older_than).await?,
        dead_rows: check::dead_rows(&client).await?,
    })
}

/// A store in one PostgreSQL database.
#[derive(Debug)]
pub struct PostgresStore {
    engine: Engine,
}

impl PostgresStore {
    /// Connects to the database at `url` (`postgres://…`, or `key=value` pairs, with libpq's words for
    /// encryption and password files; see `docs/postgres.md`), checks the server and brings the schema
    /// up to date. To be called on a Tokio runtime, on which all calls then run;
    /// their answers may be awaited anywhere.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the server can't be reached, is too old, may forget what it has
    /// committed, or the database is of a newer version; [`Error::ReadOnly`] if it is a standby;
    /// [`Error::Corrupt`] if the database is not what its migrations say.
    pub async fn open(url: &str, options: Options) -> Result<Self, Error> {
        let engine = Engine::open(url, options).await?;
        engine.settle().await?;
        Ok(Self { engine })
    }

    /// The whole content of the store at `url`, from one snapshot. Nothing is written there: rights to
    /// read are enough, and a standby will do.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the server can't be reached, there is no store, or it is of another
    /// version.
    pub async fn look(url: &str) -> Result<Dump, Error> {
        Self::looking(url)
            .await?
            .read(|read| Box::pin(async move { history::dump(read).await }))
            .await
    }

    /// [`PostgresStore::look`] for a long history: the log goes to `log` while it is read, all of it
    /// or what is about as young as `since` and younger, and the answer has no events.
    ///
    /// # Errors
    /// As [`PostgresStore::look`], and if nobody takes the log or the connection breaks meanwhile:
    /// what was handed on can't be taken back.
    pub async fn look_along(
        url: &str,
        since: Option<Timestamp>,
        log: mpsc::Sender<Vec<Event>>,
    ) -> Result<Dump, Error> {
        let begun = Arc::new(AtomicBool::new(false));
        let look = Self::looking(url).await?;
        look.read(move |read| {
            let (log, begun) = (log.clone(), Arc::clone(&begun));
            Box::pin(async move {
                if begun.swap(true, Ordering::Relaxed) {
                    let text = "the connection broke while the log was read";
                    return Err(Error::Unavailable(text.to_owned()));
                }
                history::log(read, since, &log).await?;
                history::rows(read).await
            })
        })
        .await
    }

    async fn looking(url: &str) -> Result<Engine, Error> {
        // A history may be long, and nobody waits for a reader.
        let options = Options {
            connections: 2,
            statement_timeout: LOOK_TIMEOUT,
            call_timeout: LOOK_TIMEOUT,
            // Between two pages of the log whoever judges it may be busy for long.
            idle_timeout: LOOK_TIMEOUT,
            ..Options::default()
        };
        Engine::look(url, options).await
    }
}

/// The texts of the duties of `fences`.
fn keys_of(fences: &[Fence]) -> Vec<String> {
    fences.iter().map(|fence| fence.key.text()).collect()
}

/// The rows a page may have.
fn capped<K>(page: &Page<K>) -> u32 {
    page.limit.min(sichen_core::port::MAX_PAGE)
}
