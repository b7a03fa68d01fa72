//! Where calls run: a writer thread and reader threads on disk, or the caller itself in memory.
//!
//! # Invariants
//! - Queues are bounded; a full one answers [`Error::Busy`] at once.
//! - A use case that was taken runs to its end, whether its caller still waits or not.
//! - The directory is given back after the last thread has closed its connection.
//!
//! # Not here
//! What a transaction is made of ([`super::write`]).

use std::fmt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use sichen_core::port::{Answer, Call, Error, Op, Usage};
use sichen_core::timekeeping::Told;
use tokio::sync::oneshot;

use super::OLDEST_SQLITE;
use super::directory::DataDirectory;
use super::migrate::migrate;
use super::tx::{Read, Result, Tx, fault};
use super::write::{Failed, Writer};
use crate::clock::{Clock, Keeper};
use crate::usage::Counted;

/// Calls that may wait for the writer, and as many for the readers; more are told to come again.
const MAX_WAITING: usize = 1_024;
/// Calls that share one commit; more go into the next.
const MAX_GROUP: usize = 128;
/// Pages that a connection keeps in memory, in KiB; together below 40 MiB.
const WRITER_CACHE: i64 = 16_384;
const READER_CACHE: i64 = 4_096;
/// Reader threads.
const READERS: usize = 4;
/// Statements each connection keeps prepared; above their number.
const PREPARED: usize = 160;
/// How long the writer must have had nothing to do before it shrinks the log.
const IDLE: Duration = Duration::from_secs(30);

/// Answers one caller, once it is known how the commit went.
type Reply = Box<dyn FnOnce(std::result::Result<(), Failed>) + Send>;
/// Runs one use case in the open transaction (or learns that there is none).
type Work = Box<dyn FnOnce(std::result::Result<&mut Writer, Failed>) -> Option<Reply> + Send>;
type Look = Box<dyn FnOnce(&Connection) + Send>;

pub(super) struct Engine {
    keeper: Arc<Keeper>,
    place: Place,
    counted: Counted,
}

enum Place {
    Memory(Box<Mutex<Writer>>),
    Disk {
        writes: Option<SyncSender<Work>>,
        reads: Option<SyncSender<Look>>,
        threads: Vec<JoinHandle<()>>,
    },
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.place {
            Place::Memory(_) => "memory",
            Place::Disk { .. } => "disk",
        };
        f.debug_struct("Engine")
            .field("place", &place)
            .finish_non_exhaustive()
    }
}

impl Engine {
    pub fn in_memory(clock: Arc<dyn Clock>) -> Result<Self> {
        check_version()?;
        let mut conn = Connection::open_in_memory().map_err(fault)?;
        conn.set_prepared_statement_cache_capacity(PREPARED);
        conn.pragma_update(None, "foreign_keys", true)
            .map_err(fault)?;
        migrate(&mut conn)?;
        let (writer, keeper) = Writer::new(conn, clock)?;
        Ok(Self {
            keeper,
            counted: Counted::default(),
            place: Place::Memory(Box::new(Mutex::new(writer))),
        })
    }

    pub fn on_disk(dir: &Path, clock: Arc<dyn Clock>) -> Result<Self> {
        check_version()?;
        let dir = Arc::new(DataDirectory::take(dir)?);
        let mut conn = connect(&dir, WRITER_CACHE)?;
        migrate(&mut conn)?;
        let (writer, keeper) = Writer::new(conn, clock)?;
        if let Err(error) = writer.end_nodes() {
            // A full disk may still be read; their leases then end by themselves.
            tracing::debug!(%error, "the leases of the directory's last server go on");
        }
        let (writes, queue) = sync_channel(MAX_WAITING);
        let held = Arc::clone(&dir);
        let mut threads = vec![spawn("sichen-store-write", move || {
            serve_writes(writer, &queue);
            drop(held);
        })?];
        let (reads, queue) = sync_channel::<Look>(MAX_WAITING);
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..READERS {
            let conn = connect(&dir, READER_CACHE)?;
            conn.pragma_update(None, "query_only", true)
                .map_err(fault)?;
            let (queue, held) = (Arc::clone(&queue), Arc::clone(&dir));
            threads.push(spawn("sichen-store-read", move || {
                serve_reads(&conn, &queue);
                drop(conn);
                drop(held);
            })?);
        }
        let place = Place::Disk {
            writes: Some(writes),
            reads: Some(reads),
            threads,
        };
        Ok(Self {
            keeper,
            place,
            counted: Counted::default(),
        })
    }

    /// The time now; asks nobody.
    pub fn clock(&self) -> Answer<'_, Told> {
        Box::pin(async { Ok(self.keeper.read()) })
    }

    /// What it was asked; the clock is read without asking it.
    pub fn usage(&self) -> Usage {
        Usage {
            calls: Some(self.counted.calls()),
            connections: None,
        }
    }

    /// Runs a use case in a transaction of its own or shared; answers after the commit.
    pub fn write<'a, T: Send + 'static>(
        &'a self,
        op: Option<Op>,
        f: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Answer<'a, T> {
        let answer = Box::pin(async move {
            let queue = match &self.place {
                Place::Memory(writer) => {
                    let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
                    return write_now(&mut writer, op, f);
                }
                Place::Disk { writes, .. } => writes.as_ref(),
            };
            let (answer, wait) = oneshot::channel();
            let case = sichen_crash::use_case(&f);
            let work: Work = Box::new(move |writer| {
                let id = op.as_ref().map(|op| op.id);
                let done = match writer {
                    Ok(writer) => writer.run(op, f).inspect(|_| writer.note(case)),
                    Err(failed) => Err(failed.error(None)),
                };
                match done {
                    Ok(value) => Some(Box::new(move |committed| {
                        let _ = answer.send(committed.map(|()| value).map_err(|e| e.error(id)));
                    })),
                    // It was rolled back by itself: there is nothing to wait for.
                    Err(e) => {
                        let _ = answer.send(Err(e));
                        None
                    }
                }
            });
            submit(queue, work)?;
            wait.await.unwrap_or_else(|_| Err(gone()))
        });
        self.counted.count(Call::Write, answer)
    }

    /// Reads from one snapshot.
    pub fn read<'a, T: Send + 'static>(
        &'a self,
        f: impl FnOnce(&Read<'_>) -> Result<T> + Send + 'static,
    ) -> Answer<'a, T> {
        let answer = Box::pin(async move {
            let queue = match &self.place {
                Place::Memory(writer) => {
                    return writer
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .read(f);
                }
                Place::Disk { reads, .. } => reads.as_ref(),
            };
            let (answer, wait) = oneshot::channel();
            let keeper = Arc::clone(&self.keeper);
            let look: Look = Box::new(move |conn| {
                let read = || {
                    // A read transaction, so that all statements see one state.
                    let snapshot = conn.unchecked_transaction().map_err(fault)?;
                    f(&Read::new(&snapshot, keeper.read()))
                };
                let _ = answer.send(read());
            });
            submit(queue, look)?;
            wait.await.unwrap_or_else(|_| Err(gone()))
        });
        self.counted.count(Call::Read, answer)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Place::Disk {
            writes,
            reads,
            threads,
        } = &mut self.place
        {
            (*writes, *reads) = (None, None);
            for thread in threads.drain(..) {
                let _ = thread.join();
            }
        }
    }
}

fn gone() -> Error {
    Error::Corrupt("the call broke off inside the store; nothing is known to be written".into())
}

fn submit<W>(queue: Option<&SyncSender<W>>, work: W) -> Result<()> {
    let Some(queue) = queue else {
        return Err(Error::Unavailable("the store is closed".into()));
    };
    queue.try_send(work).map_err(|e| match e {
        TrySendError::Full(_) => Error::Busy(format!("{MAX_WAITING} calls are waiting already")),
        TrySendError::Disconnected(_) => {
            Error::Unavailable("the store's threads have ended".into())
        }
    })
}

fn write_now<T>(
    writer: &mut Writer,
    op: Option<Op>,
    f: impl FnOnce(&mut Tx<'_>) -> Result<T>,
) -> Result<T> {
    let id = op.as_ref().map(|op| op.id);
    writer.begin().map_err(|e| e.error(None))?;
    let done = writer.run(op, f);
    let committed = writer.commit();
    let value = done?;
    committed.map_err(|e| e.error(id))?;
    Ok(value)
}

fn serve_writes(mut writer: Writer, queue: &Receiver<Work>) {
    let mut tidy = true;
    let mut left = None;
    loop {
        let next = left.take().map_or_else(|| queue.recv_timeout(IDLE), Ok);
        match next {
            Ok(work) => {
                left = serve_group(&mut writer, work, queue);
                tidy = false;
            }
            Err(RecvTimeoutError::Timeout) if tidy => {}
            Err(RecvTimeoutError::Timeout) => {
                writer.tidy();
                tidy = true;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// One transaction: the first use case, and those that came meanwhile. Returns one that was taken
/// from the queue and did not fit.
fn serve_group(writer: &mut Writer, first: Work, queue: &Receiver<Work>) -> Option<Work> {
    if let Err(failed) = writer.begin() {
        first(Err(failed));
        return None;
    }
    let mut replies = Vec::new();
    let mut next = Some(first);
    for _ in 0..MAX_GROUP {
        let Some(work) = next.take() else { break };
        replies.extend(work(Ok(&mut *writer)));
        if writer.is_undone() {
            break;
        }
        next = queue.try_recv().ok();
    }
    let committed = writer.commit();
    for reply in replies {
        reply(committed.clone());
    }
    next
}

fn serve_reads(conn: &Connection, queue: &Mutex<Receiver<Look>>) {
    loop {
        let look = {
            let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.recv()
        };
        let Ok(look) = look else { return };
        // A panic is a bug in one read: its caller is told, the thread goes on.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| look(conn)));
    }
}

fn spawn(name: &str, f: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(f)
        .map_err(|e| Error::Unavailable(format!("can't start thread {name}: {e}")))
}

pub(super) fn check_version() -> Result<()> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        return Err(Error::Unavailable(format!(
            "SQLite {} can corrupt its write-ahead log; at least 3.51.3 is needed",
            rusqlite::version()
        )));
    }
    Ok(())
}

fn connect(dir: &DataDirectory, cache_kib: i64) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(dir.database(), flags).map_err(fault)?;
    conn.set_prepared_statement_cache_capacity(PREPARED);
    conn.busy_timeout(Duration::from_secs(5)).map_err(fault)?;
    let mode: String = conn
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
        .map_err(fault)?;
    if mode != "wal" {
        return Err(Error::Unavailable(format!(
            "the journal mode is {mode}, not wal"
        )));
    }
    for (pragma, value) in [
        ("synchronous", 2), // FULL: NORMAL loses the last commits with the power
        ("foreign_keys", 1),
        ("wal_autocheckpoint", 1_000), // pages
        ("journal_size_limit", 67_108_864),
        ("mmap_size", 0),
        ("cache_size", -cache_kib),
        ("temp_store", 2), // memory
    ] {
        conn.pragma_update(None, pragma, value).map_err(fault)?;
    }
    Ok(conn)
}
