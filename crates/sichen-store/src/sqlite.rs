//! One machine: SQLite.
//!
//! One writer thread owns the writing connection and takes use cases from a bounded queue; each
//! runs in a savepoint of its own inside a shared transaction, and all are answered after its
//! commit (group commit: while one commit is being flushed, the next one forms). A few reader
//! threads serve listings, each from a snapshot.
//!
//! # Invariants
//! - Nothing is answered before it is durable (WAL, `synchronous=FULL`).
//! - A use case that fails is rolled back alone; its neighbours are committed.
//! - A call needs no runtime. On disk its answer comes from a thread; in memory it is ready at the
//!   first poll.
//! - One process at a time has the data directory.
//!
//! # Repeated operations
//! A repeated [`Op`] is recorded once and its answer is not kept. What it did before stands guarded
//! by tokens, versions, marks and unique keys, so it is answered `Exists`, `Conflict`, `Duplicate`,
//! `NotReady`, … the second time; [`HistoryStore::find_op`](sichen_core::port::HistoryStore::find_op) tells that it was committed. Where no guard
//! would tell (registering, stopping, reopening) the recorded operation is the guard: a repeated
//! registration answers the id of the first one, a repeated stop or retry `Already`.
//!
//! # Numbers
//! Instants are kept in whole microseconds (`ready_at` is rounded up: never early); counts above
//! 2^63 − 1 are kept as that.
//!
//! # Not here
//! Rules ([`sichen_core::lifecycle`]); the same port in plain words ([`crate::memory`]).

mod access;
mod alerts;
mod backfills;
mod backup;
mod calendars;
mod capacities;
mod chains;
mod checks;
mod clock;
mod directory;
mod discards;
mod duties;
mod engine;
mod history;
mod jobs;
mod keys;
mod leases;
mod look;
mod migrate;
mod namespaces;
mod overview;
mod port;
mod recalls;
mod restore;
mod restored;
mod row;
mod runs;
mod sealed;
mod sessions;
mod shards;
#[doc(hidden)]
pub mod sql;
mod tx;
mod users;
mod write;

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use sichen_core::event::Event;
use sichen_core::model::Dump;
use sichen_core::port::{Answer, Error, Op, Page};
use tokio::sync::mpsc;

use crate::clock::Clock;
use engine::Engine;
use tx::{Read, Result, Tx};

pub use restore::Restored;
pub use sealed::{Backup, Error as BackupError};

/// The oldest SQLite that may be used, as its version number: older ones can corrupt a database
/// whose write-ahead log two connections checkpoint and commit at once.
pub const OLDEST_SQLITE: i32 = 3_051_003;

/// The version of SQLite that this program has in it.
#[must_use]
pub fn version() -> String {
    rusqlite::version().to_owned()
}

/// A store in one SQLite database.
#[derive(Debug)]
pub struct SqliteStore {
    engine: Engine,
}

impl SqliteStore {
    /// Opens the store in `dir`, making both if there are none, and starts its threads.
    ///
    /// Dropping the store ends them after the queued calls.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if another process has the directory, it is on a network file system,
    /// SQLite is too old, or the database is of a newer version; [`Error::Corrupt`] if the
    /// database is not what its migrations say; [`Error::ReadOnly`] if it can't be written.
    pub fn open(dir: &Path, clock: Arc<dyn Clock>) -> std::result::Result<Self, Error> {
        Ok(Self {
            engine: Engine::on_disk(dir, clock)?,
        })
    }

    /// The whole content of the store in `dir`, which no server has now. Nothing is written there.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if there is none, a server has the directory, or it is of another
    /// version; [`Error::Corrupt`] if the database can't be read.
    pub fn look(dir: &Path, clock: &dyn Clock) -> std::result::Result<Dump, Error> {
        look::at(dir, clock, history::dump)
    }

    /// [`SqliteStore::look`] for a long history: the log goes to `log` while it is read, all of it or
    /// what is about as young as `since` and younger, and the answer has no events. Blocks.
    ///
    /// # Errors
    /// As [`SqliteStore::look`], and if nobody takes the log.
    pub fn look_along(
        dir: &Path,
        clock: &dyn Clock,
        since: Option<Timestamp>,
        log: &mpsc::Sender<Vec<Event>>,
    ) -> std::result::Result<Dump, Error> {
        look::at(dir, clock, |read| {
            history::log(read, since, |events| {
                let taken = log.blocking_send(events);
                taken.map_err(|_| Error::Unavailable("nobody takes the log".to_owned()))
            })?;
            history::rows(read)
        })
    }

    /// Backs the store in `dir` up to the file `to`, while a server has it or while none does. Blocks.
    ///
    /// # Errors
    /// [`BackupError::NotWritten`]: nothing stands under that name then.
    pub fn back_up(dir: &Path, to: &Path) -> std::result::Result<Backup, BackupError> {
        backup::make(dir, to)
    }

    /// What the backup `file` holds, once all of it is read and its seal holds. Blocks.
    ///
    /// # Errors
    /// [`BackupError::Damaged`].
    pub fn inspect(file: &Path) -> std::result::Result<Backup, BackupError> {
        restore::inspect(file)
    }

    /// Puts the backup `file` into the data directory `dir`, under a higher epoch, and lets `op` begin its
    /// restore ([`RestoreStore::begin_restore`](sichen_core::port::RestoreStore::begin_restore)). `replace`: also if a store is there, which is then kept beside
    /// it. Blocks.
    ///
    /// # Errors
    /// [`BackupError`]: the directory's store is as it was.
    pub fn restore(
        file: &Path,
        dir: &Path,
        replace: bool,
        clock: Arc<dyn Clock>,
        op: Op,
    ) -> std::result::Result<Restored, BackupError> {
        restore::put(file, dir, replace, clock, op)
    }

    /// An empty store that lives as long as the value: for tests and simulation. Calls are carried
    /// out while they are first polled.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_in_memory(clock: Arc<dyn Clock>) -> std::result::Result<Self, Error> {
        Ok(Self {
            engine: Engine::in_memory(clock)?,
        })
    }

    fn read<'a, T: Send + 'static>(
        &'a self,
        f: impl FnOnce(&Read<'_>) -> Result<T> + Send + 'static,
    ) -> Answer<'a, T> {
        self.engine.read(f)
    }

    fn write<'a, T: Send + 'static>(
        &'a self,
        op: Op,
        f: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Answer<'a, T> {
        self.engine.write(Some(op), f)
    }
}

/// The rows a page may have.
fn capped<K>(page: &Page<K>) -> u32 {
    page.limit.min(sichen_core::port::MAX_PAGE)
}
