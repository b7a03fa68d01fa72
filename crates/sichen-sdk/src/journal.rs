//! What the worker must remember across its own death: attempts started, results not yet
//! acknowledged.
//!
//! A SQLite database in the data directory, written by one thread, a batch per transaction.
//!
//! # Invariants
//! - A batch with a result is durable (`synchronous=FULL`) before it is answered. Other batches
//!   survive the death of the process but not of the machine; that is enough, since another boot
//!   id proves every attempt of before dead.
//! - A result that can't be read is never taken for an attempt without one: its row stays.
//! - After a failed fsync the file is not written again: the process is to end ([`Fault::Fatal`]).
//!
//! # Not here
//! When to write what (`session`), the log output of attempts.

use std::path::Path;
use std::time::Duration;

use prost::Message as _;
use rusqlite::{Connection, ErrorCode, params};
use sichen_proto::v1;

use crate::session::{Entry, JournalOp, Lease, Recovered};

const SCHEMA: &str = "
create table if not exists attempt (
    run_id integer not null,
    no integer not null,
    token integer not null,
    handler text not null default '',
    finish blob,
    primary key (token, run_id, no)
) without rowid;
create table if not exists probe (one integer primary key check (one = 1), n integer not null);
insert or ignore into probe values (1, 0);
";

/// Why a batch was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Disk full or not writable now: nothing of the batch is written, later ones may be.
    Unwritable,
    /// The state on disk is not known any more.
    Fatal,
}

/// A journal that can't be opened or read.
#[derive(Debug, thiserror::Error)]
#[error("the worker's journal: {0}")]
pub struct Error(#[from] rusqlite::Error);

#[derive(Debug)]
pub(crate) struct Journal {
    db: Connection,
}

impl Journal {
    pub(crate) fn open(dir: &Path) -> Result<Journal, Error> {
        let db = Connection::open(dir.join("journal.db"))?;
        db.busy_timeout(Duration::from_secs(5))?;
        db.pragma_update(None, "journal_mode", "wal")?;
        db.pragma_update(None, "synchronous", "full")?;
        db.execute_batch(SCHEMA)?;
        Ok(Journal { db })
    }

    /// What is open from earlier incarnations. All their attempts are dead: the caller holds the
    /// lock of the data directory and has swept away what they may have left running.
    pub(crate) fn recover(&self) -> Result<Vec<Recovered>, Error> {
        let mut rows = self
            .db
            .prepare("select run_id, no, token, finish from attempt")?;
        let entries = rows.query_map([], |row| {
            let lease = Lease {
                run_id: row.get::<_, i64>(0)?.cast_unsigned(),
                no: row.get(1)?,
                token: row.get::<_, i64>(2)?.cast_unsigned(),
            };
            let finish: Option<Vec<u8>> = row.get(3)?;
            Ok((lease, finish))
        })?;
        let mut recovered = Vec::new();
        for entry in entries {
            let (lease, finish) = entry?;
            let Some(bytes) = finish else {
                recovered.push(Recovered::RunningDead { lease });
                continue;
            };
            match read_finish(lease, &bytes) {
                Ok(finish) => recovered.push(Recovered::Finished(finish)),
                Err(why) => tracing::error!(
                    %lease,
                    why,
                    "SC6030: a result in the worker's journal can't be read; it is not reported and its row is kept"
                ),
            }
        }
        Ok(recovered)
    }

    /// Writes all of it or nothing. An empty batch tries whether the journal can be written.
    pub(crate) fn write(&mut self, batch: &[JournalOp]) -> Result<(), Fault> {
        self.try_write(batch).map_err(|error| {
            let fault = judge(&error);
            tracing::error!(%error, ?fault, "the journal could not be written");
            fault
        })
    }

    fn try_write(&mut self, batch: &[JournalOp]) -> rusqlite::Result<()> {
        let durable = batch.is_empty() || batch.iter().any(|op| matches!(op, JournalOp::Finish(_)));
        self.db
            .pragma_update(None, "synchronous", if durable { "full" } else { "normal" })?;
        let tx = self.db.transaction()?;
        if batch.is_empty() {
            tx.execute("update probe set n = n + 1", [])?;
        }
        for op in batch {
            apply(&tx, op)?;
        }
        tx.commit()
    }
}

/// A result as it was written; an error says what it is instead.
fn read_finish(lease: Lease, bytes: &[u8]) -> Result<v1::Finish, String> {
    let finish = v1::Finish::decode(bytes).map_err(|error| error.to_string())?;
    if Lease::from_wire(finish.shard, finish.token) == Some(lease) {
        Ok(finish)
    } else {
        Err("it is the result of another attempt".to_owned())
    }
}

fn apply(tx: &rusqlite::Transaction<'_>, op: &JournalOp) -> rusqlite::Result<()> {
    let key = |lease: &Lease| {
        (
            lease.token.cast_signed(),
            lease.run_id.cast_signed(),
            lease.no,
        )
    };
    match op {
        JournalOp::Start { lease, handler } => {
            let (token, run_id, no) = key(lease);
            tx.prepare_cached(
                "insert into attempt (token, run_id, no, handler) values (?1, ?2, ?3, ?4)
                 on conflict do nothing",
            )?
            .execute(params![token, run_id, no, handler])?;
        }
        JournalOp::Finish(finish) => {
            let Some(lease) = Lease::from_wire(finish.shard, finish.token) else {
                return Ok(());
            };
            let (token, run_id, no) = key(&lease);
            tx.prepare_cached(
                "insert into attempt (token, run_id, no, finish) values (?1, ?2, ?3, ?4)
                 on conflict do update set finish = excluded.finish",
            )?
            .execute(params![token, run_id, no, finish.encode_to_vec()])?;
        }
        JournalOp::Forget { lease, why } => {
            let (token, run_id, no) = key(lease);
            tracing::debug!(%lease, why, "journal entry done");
            tx.prepare_cached("delete from attempt where token = ?1 and run_id = ?2 and no = ?3")?
                .execute(params![token, run_id, no])?;
        }
    }
    Ok(())
}

/// SQLITE_IOERR_FSYNC and SQLITE_IOERR_DIR_FSYNC.
const FSYNC_CODES: [i32; 2] = [1034, 1290];

fn judge(error: &rusqlite::Error) -> Fault {
    match error.sqlite_error() {
        Some(e) if FSYNC_CODES.contains(&e.extended_code) => Fault::Fatal,
        Some(e) if matches!(e.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Fault::Fatal
        }
        _ => Fault::Unwritable,
    }
}

/// What a batch answers.
#[derive(Debug)]
pub(crate) struct Written {
    /// Starts and finishes of the batch.
    pub(crate) entries: Vec<(Lease, Entry)>,
    pub(crate) result: Result<(), Fault>,
}

/// The journal behind its thread. One batch is under way at a time; what comes meanwhile makes up
/// the next one.
#[derive(Debug)]
pub(crate) struct Writer {
    batches: std::sync::mpsc::SyncSender<Vec<JournalOp>>,
    waiting: Vec<JournalOp>,
    busy: bool,
}

impl Writer {
    /// Starts the thread; its answers come over `answers`, one for each batch.
    pub(crate) fn start(
        mut journal: Journal,
        answers: tokio::sync::mpsc::Sender<Written>,
    ) -> std::io::Result<Writer> {
        let (batches, incoming) = std::sync::mpsc::sync_channel::<Vec<JournalOp>>(1);
        std::thread::Builder::new()
            .name("sichen-journal".into())
            .spawn(move || {
                while let Ok(batch) = incoming.recv() {
                    pass(sichen_crash::Place::BeforeJournal, &batch);
                    let result = journal.write(&batch);
                    pass(sichen_crash::Place::AfterJournal, &batch);
                    let entries = batch.iter().filter_map(entry_of).collect();
                    if answers.blocking_send(Written { entries, result }).is_err() {
                        break;
                    }
                }
            })?;
        Ok(Writer {
            batches,
            waiting: Vec::new(),
            busy: false,
        })
    }

    pub(crate) fn add(&mut self, op: JournalOp) {
        self.waiting.push(op);
    }

    /// Sends what is waiting, unless a batch is under way. `probe` sends even nothing.
    ///
    /// # Errors
    /// The thread is gone.
    pub(crate) fn push(&mut self, probe: bool) -> Result<(), Fault> {
        if self.busy || (self.waiting.is_empty() && !probe) {
            return Ok(());
        }
        self.busy = true;
        self.batches
            .try_send(std::mem::take(&mut self.waiting))
            .map_err(|_| Fault::Fatal)
    }

    pub(crate) fn answered(&mut self) {
        self.busy = false;
    }

    /// Nothing waits and nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        !self.busy && self.waiting.is_empty()
    }
}

fn pass(place: sichen_crash::Place, batch: &[JournalOp]) {
    for op in batch.iter().filter(|_| sichen_crash::ON) {
        let which = match op {
            JournalOp::Start { .. } => "start",
            JournalOp::Finish(_) => "finish",
            JournalOp::Forget { .. } => "forget",
        };
        sichen_crash::at(place, which);
    }
}

fn entry_of(op: &JournalOp) -> Option<(Lease, Entry)> {
    match op {
        JournalOp::Start { lease, .. } => Some((*lease, Entry::Start)),
        JournalOp::Finish(finish) => {
            Lease::from_wire(finish.shard, finish.token).map(|lease| (lease, Entry::Finish))
        }
        JournalOp::Forget { .. } => None,
    }
}

#[cfg(test)]
mod tests;
