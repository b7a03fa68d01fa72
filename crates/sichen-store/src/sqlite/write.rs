//! The writing connection: use cases in savepoints, many to one commit.
//!
//! # Invariants
//! - `BEGIN IMMEDIATE` always: the lock is there before the clock is read or a row is looked at.
//! - The clock's mark and the counters are committed with what was written by them.
//! - After a flush that failed nothing is written any more: what the disk holds is not known, and a later
//!   flush that succeeds says nothing of it.
//!
//! # Not here
//! The thread and its queue ([`super::engine`]).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::Connection;
use sichen_core::ids::OpId;
use sichen_core::port::{Error, Op};
use sichen_core::timekeeping::{Kept, Told};

use super::tx::{Counters, Read, Result, Tx, fault};
use super::{row, sql};
use crate::clock::{Clock, Keeper};

/// How a commit failed, for each use case in it to answer.
#[derive(Clone, Debug)]
pub(super) enum Failed {
    /// Nothing of the group was written.
    Undone(String),
    /// The flush failed: what a later start will find is not known.
    Unknown(String),
    /// Another writer was in the way.
    Busy(String),
}

impl Failed {
    /// What the caller of a use case is told.
    pub fn error(&self, op: Option<OpId>) -> Error {
        match (self, op) {
            (Failed::Unknown(reason), Some(op)) => Error::Unknown {
                op,
                reason: reason.clone(),
            },
            (Failed::Unknown(reason) | Failed::Undone(reason), _) => {
                Error::ReadOnly(reason.clone())
            }
            (Failed::Busy(reason), _) => Error::Busy(reason.clone()),
        }
    }
}

pub(super) struct Writer {
    conn: Connection,
    keeper: Arc<Keeper>,
    counters: Counters,
    /// What the meta row has by the last commit: counters, mark, and whether time is held.
    saved: (Counters, Timestamp, bool),
    /// A flush failed: the file is not written again before the store is opened anew.
    broken_disk: Option<String>,
    /// A savepoint could not be closed, so it is not known what the transaction holds.
    broken: bool,
    /// The use cases of the open transaction, where a crash may be asked for.
    cases: Vec<&'static str>,
}

impl Writer {
    /// Takes a migrated connection.
    pub fn new(conn: Connection, clock: Arc<dyn Clock>) -> Result<(Self, Arc<Keeper>)> {
        let saved = load(&conn)?;
        let (counters, mark, held) = saved;
        let accepts = counters.accepts;
        let kept = Kept {
            mark,
            held,
            accepts,
        };
        let keeper = Arc::new(Keeper::new(clock, kept));
        let writer = Self {
            conn,
            keeper: Arc::clone(&keeper),
            counters,
            saved,
            broken_disk: None,
            broken: false,
            cases: Vec::new(),
        };
        Ok((writer, keeper))
    }

    /// Ends the leases of all nodes. Whoever has the directory to itself knows that they are dead, and
    /// need not wait for their duties. Ended at the last mark, which no later instant is before.
    pub fn end_nodes(&self) -> Result<()> {
        let mark = self.saved.1.as_microsecond();
        let end = "update node set expires_at = ?1 where expires_at > ?1";
        self.conn.execute(end, [mark]).map_err(fault)?;
        Ok(())
    }

    pub fn begin(&mut self) -> std::result::Result<(), Failed> {
        if let Some(reason) = &self.broken_disk {
            return Err(Failed::Undone(reason.clone()));
        }
        self.conn
            .execute_batch("begin immediate")
            .map_err(|e| classify(fault(e)))
    }

    /// Runs a use case inside the open transaction; if it fails, it alone is rolled back.
    pub fn run<T>(
        &mut self,
        op: Option<Op>,
        f: impl FnOnce(&mut Tx<'_>) -> Result<T>,
    ) -> Result<T> {
        let savepoint = |sql: &str| {
            let mut statement = self.conn.prepare_cached(sql).map_err(fault)?;
            statement.execute([]).map_err(fault)
        };
        savepoint("savepoint use_case")?;
        let told = self.keeper.read();
        let counters = self.counters;
        let conn = &self.conn;
        // A panic is a bug in one use case; it must not take the others' store away.
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let mut tx = Tx::begin(Read::new(conn, told), op, counters)?;
            let answer = f(&mut tx)?;
            tx.note_step(counters)?;
            Ok((answer, tx.counters))
        }));
        let ran = ran.unwrap_or_else(|_| {
            Err(Error::Corrupt(
                "a use case broke off in a panic; nothing of it was written".into(),
            ))
        });
        let closed = match &ran {
            Ok(_) => savepoint("release use_case").map(drop),
            // SQLite may have rolled the whole transaction back by itself.
            Err(_) if self.conn.is_autocommit() => Ok(()),
            Err(_) => savepoint("rollback to use_case")
                .and_then(|_| savepoint("release use_case"))
                .map(drop),
        };
        if closed.is_err() {
            self.broken = true;
        }
        let (answer, counters) = ran?;
        closed?;
        self.counters = counters;
        Ok(answer)
    }

    /// Remembers that this use case is in the open transaction.
    pub fn note(&mut self, case: &'static str) {
        if sichen_crash::ON {
            self.cases.push(case);
        }
    }

    fn pass(&self, place: sichen_crash::Place) {
        for case in &self.cases {
            sichen_crash::at(place, case);
        }
    }

    /// Whether the whole transaction is lost (a full disk, an I/O error): nothing more goes into it.
    pub fn is_undone(&self) -> bool {
        self.broken || self.conn.is_autocommit()
    }

    pub fn commit(&mut self) -> std::result::Result<(), Failed> {
        self.pass(sichen_crash::Place::BeforeCommit);
        let done = self.try_commit();
        if done.is_ok() {
            self.pass(sichen_crash::Place::AfterCommit);
        }
        self.cases.clear();
        self.broken = false;
        if let Err(Failed::Unknown(reason)) = &done {
            let reason = format!(
                "SC3009: a flush of the database to its disk failed ({reason}); it is not written again before \
                 the server is restarted"
            );
            tracing::error!(reason, "the store takes no more writes");
            self.broken_disk = Some(reason);
        }
        if done.is_err() {
            if !self.conn.is_autocommit() {
                let _ = self.conn.execute_batch("rollback");
            }
            if let Ok(saved) = load(&self.conn) {
                self.counters = saved.0;
                self.saved = saved;
            } else {
                self.counters = self.saved.0;
            }
        }
        done
    }

    fn try_commit(&mut self) -> std::result::Result<(), Failed> {
        if self.is_undone() {
            return Err(Failed::Undone(
                "the transaction was lost to an error of the disk".into(),
            ));
        }
        let told = self.keeper.read();
        let mark = told.now;
        let accepted = self.counters.accepts != self.saved.0.accepts;
        // An acceptance has written that time is not held.
        let held = told.held && !accepted;
        if held != self.saved.2 && !accepted {
            let params = (held, self.counters.accepts);
            let mut hold = self
                .conn
                .prepare_cached(sql::HOLD_CLOCK)
                .map_err(|e| classify(fault(e)))?;
            hold.execute(params).map_err(|e| classify(fault(e)))?;
        }
        if (self.counters, mark) != (self.saved.0, self.saved.1) {
            let Counters {
                last_id,
                last_event,
                ..
            } = self.counters;
            let params = (row::at(mark), row::int(last_id), row::int(last_event));
            let mut update = self
                .conn
                .prepare_cached(sql::UPDATE_META)
                .map_err(|e| classify(fault(e)))?;
            update.execute(params).map_err(|e| classify(fault(e)))?;
        }
        self.conn.execute_batch("commit").map_err(|e| {
            // A write that failed left no whole commit behind; a flush that failed may have.
            let code = e.sqlite_error().map(|e| e.extended_code);
            if code == Some(rusqlite::ffi::SQLITE_IOERR_FSYNC) {
                Failed::Unknown(e.to_string())
            } else {
                classify(fault(e))
            }
        })?;
        self.saved = (self.counters, mark, held);
        if accepted {
            self.keeper.accept(self.counters.accepts);
        }
        Ok(())
    }

    /// Reads outside of any transaction of its own (the in-memory store has one connection).
    pub fn read<T>(&mut self, f: impl FnOnce(&Read<'_>) -> Result<T>) -> Result<T> {
        f(&Read::new(&self.conn, self.keeper.read()))
    }

    /// Shrinks the write-ahead log while nobody waits.
    pub fn tidy(&mut self) {
        if self.broken_disk.is_some() {
            return;
        }
        let done = self
            .conn
            .query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()));
        if let Err(e) = done {
            tracing::debug!(error = %e, "the write-ahead log was not truncated");
        }
    }
}

fn classify(e: Error) -> Failed {
    match e {
        Error::Busy(reason) => Failed::Busy(reason),
        // Its words come again before the reason.
        Error::ReadOnly(reason) => Failed::Undone(reason),
        other => Failed::Undone(other.to_string()),
    }
}

fn load(conn: &Connection) -> Result<(Counters, Timestamp, bool)> {
    let nobody = Told {
        now: Timestamp::UNIX_EPOCH,
        wall: Timestamp::UNIX_EPOCH,
        steady: Timestamp::UNIX_EPOCH,
        held: false,
    };
    let meta = Read::new(conn, nobody).one(sql::GET_META, [], |row| {
        let counters = Counters {
            epoch: row.u32(0)?,
            last_id: row.u64(2)?,
            last_event: row.u64(3)?,
            accepts: row.u32(5)?,
        };
        Ok((counters, row.at(1)?, row.flag(4)?))
    })?;
    meta.ok_or_else(|| Error::Corrupt("the meta row is missing".into()))
}
