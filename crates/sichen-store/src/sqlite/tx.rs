//! What a use case works with: a snapshot to read, and one transaction to write in.
//!
//! # Not here
//! Threads and commits ([`super::engine`], [`super::write`]).

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, Params};
use sichen_core::epoch;
use sichen_core::event::Entity;
use sichen_core::ids::{JobUid, RunId, SessionId, ShardKey, Term};
use sichen_core::lease::has_expired;
use sichen_core::model::{Job, Namespace, Progress, Run, Session};
use sichen_core::name::{JobName, Name};
use sichen_core::port::{Error, Fence, Op};
use sichen_core::timekeeping::Told;

use super::row::{self, DutyRow, JobRow, Row, ShardRow, at, blob, int};
use super::sql;
pub(super) use crate::happened::Happened;
use crate::spoilt::{pass_over, wider};

pub(super) type Result<T> = std::result::Result<T, Error>;

/// What SQLite's error means to the port.
#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
pub(super) fn fault(e: rusqlite::Error) -> Error {
    match e.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Busy(e.to_string()),
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::ReadOnly) => {
            Error::ReadOnly(e.to_string())
        }
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::PermissionDenied,
        ) => Error::Unavailable(e.to_string()),
        // The rest are rows or statements that do not fit the schema: nothing a retry would mend.
        _ => Error::Corrupt(e.to_string()),
    }
}

/// Reads from one snapshot.
pub(super) struct Read<'c> {
    conn: &'c Connection,
    /// The store's clock, read when the snapshot was taken (in a transaction: after its lock).
    pub now: Timestamp,
    /// The same, with what is wrong with the clock.
    pub told: Told,
}

impl<'c> Read<'c> {
    pub fn new(conn: &'c Connection, told: Told) -> Self {
        let now = told.now;
        Self { conn, now, told }
    }

    /// The first row, if there is one.
    pub fn one<T>(
        &self,
        statement: &str,
        params: impl Params,
        f: impl FnOnce(Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut statement = self.conn.prepare_cached(statement).map_err(fault)?;
        let mut rows = statement.query(params).map_err(fault)?;
        match rows.next().map_err(fault)? {
            Some(row) => f(row::row(row)).map(Some),
            None => Ok(None),
        }
    }

    pub fn exists(&self, statement: &str, params: impl Params) -> Result<bool> {
        Ok(self.one(statement, params, |_| Ok(()))?.is_some())
    }

    /// Every row.
    pub fn all<T>(
        &self,
        statement: &str,
        params: impl Params,
        mut f: impl FnMut(Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.conn.prepare_cached(statement).map_err(fault)?;
        let mut rows = statement.query(params).map_err(fault)?;
        let mut all = Vec::new();
        while let Some(row) = rows.next().map_err(fault)? {
            all.push(f(row::row(row))?);
        }
        Ok(all)
    }

    /// Every row that makes sense.
    pub fn sound<T>(
        &self,
        statement: &str,
        params: impl Params,
        mut f: impl FnMut(Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let all = self.all(statement, params, |row| pass_over(f(row)))?;
        Ok(all.into_iter().flatten().collect())
    }

    /// The first `limit` rows that make sense; `params` are those for a limit.
    pub fn sound_page<T, P: Params>(
        &self,
        statement: &str,
        limit: u32,
        params: impl Fn(u32) -> P,
        mut f: impl FnMut(Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut most = limit;
        loop {
            let all = self.all(statement, params(most), |row| pass_over(f(row)))?;
            let found = all.len();
            let sound: Vec<T> = all.into_iter().flatten().collect();
            match wider(limit, most, found, sound.len()) {
                Some(wider) => most = wider,
                None => return Ok(sound),
            }
        }
    }

    pub fn count(&self, statement: &str, params: impl Params) -> Result<u32> {
        Ok(self.one(statement, params, |row| row.u32(0))?.unwrap_or(0))
    }

    pub fn job(&self, uid: JobUid) -> Result<Option<JobRow>> {
        self.one(sql::GET_JOB, [blob(uid.0)], |row| row.job())
    }

    pub fn live_job(&self, name: &JobName) -> Result<Option<Job>> {
        let params = (name.namespace.as_str(), name.name.as_str());
        self.one(sql::GET_LIVE_JOB, params, |row| Ok(row.job()?.job))
    }

    pub fn run_row(&self, id: RunId) -> Result<Option<Run>> {
        self.one(sql::GET_RUN, [int(id.0)], |row| row.run())
    }

    /// The run of an occasion and its digest.
    pub fn run_of(&self, job: JobUid, occasion: &str) -> Result<Option<(RunId, String)>> {
        self.one(sql::FIND_RUN, (blob(job.0), occasion), |row| {
            Ok((RunId(row.u64(0)?), row.text(1)?))
        })
    }

    pub fn shard(&self, key: ShardKey) -> Result<Option<ShardRow>> {
        self.one(sql::GET_SHARD, (int(key.run.0), key.no.0), |row| {
            row.shard()
        })
    }

    pub fn session(&self, id: SessionId) -> Result<Option<Session>> {
        self.one(sql::GET_SESSION, [int(id.0)], |row| row.session())
    }

    /// Whether a session can hold leases no longer.
    pub fn session_over(&self, id: SessionId) -> Result<bool> {
        let session = self.session(id)?;
        Ok(session.is_none_or(|s| s.ended.is_some() || has_expired(s.expires_at, self.now)))
    }

    /// The sums of a run's shards' progress; `expected` if any shard knows its own.
    pub fn progress(&self, run: RunId) -> Result<Progress> {
        // Each sum comes in two halves; there is none where there was nothing to add.
        let joined = |row: Row<'_>, i| -> Result<Option<u64>> {
            let (Some(upper), Some(lower)) = (row.opt_u64(i)?, row.opt_u64(i + 1)?) else {
                return Ok(None);
            };
            let upper = upper.saturating_mul(1 << 32);
            Ok(Some(upper.saturating_add(lower)))
        };
        let sum = self.one(sql::SUM_PROGRESS, [int(run.0)], |row| {
            Ok(Progress {
                done: joined(row, 0)?.unwrap_or(0),
                expected: joined(row, 2)?,
                rate_milli: joined(row, 4)?.unwrap_or(0),
                waiting_on: String::new(),
            })
        })?;
        Ok(sum.unwrap_or_default())
    }

    /// Whether `fence` is that of the duty's present owner.
    pub fn is_current(&self, fence: &Fence) -> Result<bool> {
        let duty = self.duty(&fence.key.text())?;
        Ok(duty.is_some_and(|d| d.duty.node.is_some() && d.duty.term == fence.term))
    }

    pub fn duty(&self, key: &str) -> Result<Option<DutyRow>> {
        self.one(sql::GET_DUTY, [key], |row| row.duty())
    }
}

/// The numbers a store hands out; kept in its meta row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counters {
    pub epoch: u32,
    pub last_id: u64,
    pub last_event: u64,
    /// How often a step of the clock was accepted.
    pub accepts: u32,
}

/// One use case in progress, in a savepoint of its own.
pub(super) struct Tx<'c> {
    read: Read<'c>,
    op: Option<Op>,
    /// Who says what is written now, if that is not the operation's own author.
    author: Option<Arc<str>>,
    /// Whether this very operation was committed before.
    pub repeated: bool,
    /// The duty under which it writes.
    duty: Option<(String, Term)>,
    pub counters: Counters,
    /// How many runs of namespaces are queued, of those where that is limited and was asked.
    pub queues: BTreeMap<Name, Option<(u32, Namespace)>>,
}

impl<'c> Deref for Tx<'c> {
    type Target = Read<'c>;
    fn deref(&self) -> &Read<'c> {
        &self.read
    }
}

impl<'c> Tx<'c> {
    /// Begins a use case and records its operation.
    pub fn begin(read: Read<'c>, op: Option<Op>, counters: Counters) -> Result<Self> {
        let mut tx = Self {
            read,
            op,
            author: None,
            repeated: false,
            duty: None,
            counters,
            queues: BTreeMap::new(),
        };
        if let Some(op) = &tx.op {
            let params = (blob(op.id.0), at(tx.now), op.actor.as_str());
            tx.repeated = !tx.run_one(sql::INSERT_OP, params)?;
        }
        Ok(tx)
    }

    /// Notes that the step of a request is done, if anything was, while its attempt still has the key.
    pub fn note_step(&self, before: Counters) -> Result<()> {
        let hold = self.op.as_ref().and_then(|op| op.hold.as_ref());
        let Some(hold) = hold.filter(|_| self.counters.last_event > before.last_event) else {
            return Ok(());
        };
        let params = (hold.key.as_str(), blob(hold.holder), hold.step);
        match self.run_one(sql::NOTE_REQUEST_KEY, params)? {
            true => Ok(()),
            false => Err(crate::lost_key()),
        }
    }

    /// Names the operation for events, where it is not recorded: what is done may be done twice.
    pub fn named(&mut self, op: Op) {
        self.op.get_or_insert(op);
    }

    /// What is written from now on is said by `author`; `None`: by the operation's own.
    pub fn writes_as(&mut self, author: Option<Arc<str>>) {
        self.author = author;
    }

    /// Who writes.
    pub fn actor(&self) -> &str {
        self.op.as_ref().map_or("", |op| &op.actor)
    }

    /// Runs a statement that changes rows; how many.
    pub fn run(&self, statement: &str, params: impl Params) -> Result<usize> {
        let mut statement = self.read.conn.prepare_cached(statement).map_err(fault)?;
        statement.execute(params).map_err(fault)
    }

    /// Runs a statement whose guard may not hold; whether it did.
    pub fn run_one(&self, statement: &str, params: impl Params) -> Result<bool> {
        Ok(self.run(statement, params)? > 0)
    }

    /// Runs a statement whose guard this transaction has just read.
    pub fn must(&self, statement: &str, params: impl Params) -> Result<()> {
        if self.run_one(statement, params)? {
            return Ok(());
        }
        let name = statement
            .trim_start_matches("-- ")
            .split(':')
            .next()
            .unwrap_or_default();
        Err(Error::Corrupt(format!(
            "{name} found its row changed within one transaction"
        )))
    }

    /// The id that this repeated operation gave out when it was first committed.
    pub fn first_result(&self) -> Result<Option<u64>> {
        match &self.op {
            Some(op) if self.repeated => {
                let id = self.one(sql::GET_OP_RESULT, [blob(op.id.0)], |row| row.opt_u64(0))?;
                Ok(id.flatten())
            }
            _ => Ok(None),
        }
    }

    /// Keeps the id that this operation gives out, for a repeat.
    pub fn keep_result(&self, id: u64) -> Result<()> {
        match &self.op {
            Some(op) => self.must(sql::KEEP_OP_RESULT, (blob(op.id.0), int(id))),
            None => Ok(()),
        }
    }

    /// Writes under `fence`'s name if it is current.
    pub fn under(&mut self, fence: &Fence) -> Result<bool> {
        let current = self.is_current(fence)?;
        if current {
            self.duty = Some((fence.key.text(), fence.term));
        }
        Ok(current)
    }

    /// One more run of the namespace is queued.
    pub fn queued(&mut self, name: &Name) {
        if let Some(Some((queued, _))) = self.queues.get_mut(name) {
            *queued = queued.saturating_add(1);
        }
    }

    /// Queued runs were stopped: how many there are is to be counted anew.
    pub fn forget_queues(&mut self) {
        self.queues.clear();
    }

    pub fn next_id(&mut self) -> u64 {
        self.counters.last_id += 1;
        self.counters.last_id
    }

    /// Raises the epoch above its own and `known`.
    pub fn raise_epoch(&mut self, known: u32) -> Result<u32> {
        let epoch = epoch::after(self.counters.epoch.max(known), self.now);
        self.must(sql::RAISE_EPOCH, [epoch])?;
        self.must(sql::LEAVE_NUMBERS_OUT, [int(epoch::NUMBERS_LEFT_OUT)])?;
        self.counters.epoch = epoch;
        self.counters.last_id += epoch::NUMBERS_LEFT_OUT;
        self.counters.last_event += epoch::NUMBERS_LEFT_OUT;
        Ok(epoch)
    }

    pub fn event(&mut self, entity: &Entity, ver: u32, h: &Happened<'_>) -> Result<()> {
        self.counters.last_event += 1;
        let run = match entity {
            Entity::Run(id) => Some(int(id.0)),
            Entity::Shard(key) => Some(int(key.run.0)),
            Entity::Job(_)
            | Entity::Session(_)
            | Entity::Node(_)
            | Entity::Duty(_)
            | Entity::Calendar(_)
            | Entity::Backfill(_)
            | Entity::AccessToken(_)
            | Entity::User(_)
            | Entity::Capacity(_)
            | Entity::Namespace(_) => None,
        };
        let op = self.op.as_ref().map_or(uuid::Uuid::nil(), |op| op.id.0);
        let actor = self.author.as_deref().unwrap_or_else(|| self.actor());
        let duty = self.duty.as_ref();
        let params = rusqlite::params![
            int(self.counters.last_event),
            entity.kind(),
            entity.id(),
            run,
            ver,
            at(self.now),
            blob(op),
            actor,
            duty.map(|(key, _)| key.as_str()),
            duty.map(|(_, term)| int(term.0)),
            h.kind.word(),
            h.from,
            h.to,
            h.attempt,
            h.token.map(|t| int(t.0)),
            h.cause,
            h.data.to_string(),
        ];
        self.must(sql::INSERT_EVENT, params)
    }
}
