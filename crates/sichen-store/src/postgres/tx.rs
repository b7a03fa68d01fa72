//! What a use case works with: a connection to read from, and one transaction to write in.
//!
//! A write whose guard the transaction has under lock is sent and not waited for
//! ([`Tx::must`]): the server takes statements in their order, so whatever is asked later sees it,
//! and the commit waits for all. Rows that were locked are kept here, and a change of them is made
//! here too or the kept row is forgotten.
//!
//! # Invariants
//! - A row is kept only while its lock is held.
//! - Events are written behind what they tell of; nothing reads them before the commit.
//!
//! # Not here
//! Which rows a use case locks ([`super::kept`]); retries and commits ([`super::engine`]).

use std::collections::VecDeque;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, MaybeDone, maybe_done, try_join, try_join3, try_join5};
use jiff::Timestamp;
use sichen_core::epoch;
use sichen_core::event::Entity;
use sichen_core::ids::{JobUid, RunId, SessionId, ShardKey, Term, Token};
use sichen_core::lease::has_expired;
use sichen_core::model::{Job, Progress, Run, Session};
use sichen_core::name::JobName;
use sichen_core::port::{Error, Fence, NewRun, Op};
use sichen_core::timekeeping::{Kept as KeptClock, Told};
use tokio_postgres::error::SqlState;

use super::batch::Gathered;
use super::clock::Time;
pub(super) use super::fault::Result;
use super::fault::fault;
use super::kept::{Kept, Locks};
use super::link::{Link, Ready};
use super::param::{Param, Params, params};
use super::row::{self, DutyRow, JobRow, Row, ShardRow, at, int};
use super::sql;
pub(super) use crate::happened::Happened;

/// Statements on their way at once.
const IN_FLIGHT: usize = 1_000;
/// Events written by one statement.
const EVENTS: usize = 5_000;

type Answered = std::result::Result<u64, tokio_postgres::Error>;

/// A statement's answer, which may have come and not been looked at.
type Coming = MaybeDone<BoxFuture<'static, Answered>>;

/// A statement on its way: its file's name, and the rows it must find.
type Flight = (&'static str, u64, Coming);

/// What the transactions of a store have in common.
pub(super) struct Common {
    pub time: Time,
    /// Ids that were drawn and not used, lowest first.
    ids: Mutex<VecDeque<u64>>,
}

impl Common {
    pub fn new(time: Time) -> Self {
        let ids = Mutex::default();
        Self { time, ids }
    }
}

/// The meta row, and the database's clock when it was read.
struct Meta {
    epoch: u32,
    kept: KeptClock,
    wall: Timestamp,
    limited: bool,
}

/// Reads from one connection.
pub(super) struct Read {
    link: Option<Arc<Link>>,
    /// The store's clock, read when the snapshot was taken (in a transaction: after its locks).
    pub now: Timestamp,
    pub epoch: u32,
    /// Whether any namespace has a limit.
    pub limited: bool,
    /// What the database has kept of its clock.
    clock: KeptClock,
    told: Told,
    common: Arc<Common>,
    flights: Mutex<Vec<Flight>>,
    /// The operation's record on its way.
    recording: Mutex<Option<Coming>>,
    kept: Mutex<Kept>,
    gathered: Mutex<Gathered>,
    /// Ids that were drawn for this transaction alone.
    ids: Mutex<VecDeque<u64>>,
    /// Whether what failed last may fare better anew.
    again: AtomicBool,
    /// Whether a transaction is open on the server: such a connection never goes back to the pool.
    open: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing is left half done under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name in a statement's first line.
fn name_of(statement: &'static str) -> &'static str {
    let name = statement.trim_start_matches("-- ").split(':').next();
    name.unwrap_or_default()
}

impl Read {
    pub fn new(link: Link, common: Arc<Common>) -> Self {
        Self {
            link: Some(Arc::new(link)),
            now: Timestamp::UNIX_EPOCH,
            epoch: 0,
            limited: false,
            clock: KeptClock::default(),
            told: Told {
                now: Timestamp::UNIX_EPOCH,
                wall: Timestamp::UNIX_EPOCH,
                steady: Timestamp::UNIX_EPOCH,
                held: false,
            },
            common,
            flights: Mutex::default(),
            recording: Mutex::default(),
            kept: Mutex::default(),
            gathered: Mutex::default(),
            ids: Mutex::default(),
            again: AtomicBool::new(false),
            open: AtomicBool::new(false),
        }
    }

    fn link(&self) -> &Arc<Link> {
        self.link.as_ref().expect("it is taken only by drop")
    }

    fn fault(&self, e: &tokio_postgres::Error) -> Error {
        let (error, again) = fault(e);
        self.again.store(again, Ordering::Relaxed);
        error
    }

    /// The first error of what is on its way, or else `e`: what follows an error is refused only
    /// because of it, be it within a transaction that has failed or outside one that did not begin.
    async fn blame(&self, e: &tokio_postgres::Error) -> Error {
        if !follows(e) {
            return self.fault(e);
        }
        let recording = locked(&self.recording).take();
        if let Some(recording) = recording
            && let Err(first) = self.behind(answer(recording)).await
            && !follows(&first)
        {
            return self.fault(&first);
        }
        if let Err(first) = self.land().await {
            return first;
        }
        self.fault(e)
    }

    pub fn may_fare_better(&self) -> bool {
        self.again.load(Ordering::Relaxed)
    }

    /// Reads the clock: once the locks are there, before anything is decided.
    pub async fn tell_time(&mut self) -> Result<()> {
        let meta = self.meta().await?;
        self.set_time(meta);
        Ok(())
    }

    /// What the database keeps of its clock, and the clock itself.
    async fn meta(&self) -> Result<Meta> {
        let meta = self.one(sql::GET_META, (), |row| {
            Ok(Meta {
                epoch: row.u32(0)?,
                kept: KeptClock {
                    mark: row.at(1)?,
                    held: row.flag(3)?,
                    accepts: row.u32(4)?,
                },
                wall: row.at(2)?,
                limited: row.flag(5)?,
            })
        });
        let meta = meta.await?;
        meta.ok_or_else(|| Error::Corrupt("the meta row is missing".into()))
    }

    fn set_time(&mut self, meta: Meta) {
        self.told = self.common.time.read(meta.wall, &meta.kept);
        self.now = self.told.now;
        (self.epoch, self.clock) = (meta.epoch, meta.kept);
        self.limited = meta.limited;
    }

    /// The clock as it was read, with what is wrong with it.
    pub fn told(&self) -> Told {
        self.told
    }

    /// Sends the beginning of the transaction `how`; what fails is seen by the next statement.
    pub async fn begin(&self, how: &str) {
        self.open.store(true, Ordering::Relaxed);
        let flight = sent(self.link().batch_ahead(how)).await;
        locked(&self.flights).push(("begin", 0, flight));
    }

    /// Sends the end of a snapshot, which has nothing to commit: whoever has the connection next is
    /// answered after it.
    pub async fn leave(&self) {
        drop(sent(self.link().batch_ahead("commit")).await);
        self.open.store(false, Ordering::Relaxed);
    }

    /// What statements that read the clock themselves must know of it: `sichen_now($n)`.
    pub fn clock(&self) -> Param {
        self.common.time.known()
    }

    /// Hears what a statement that read the clock itself said of it: the clock goes on from there, and
    /// a step is noticed, as if it had been asked.
    pub fn hear(&self, wall: Timestamp, kept: &KeptClock) {
        self.common.time.read(wall, kept);
    }

    /// Ends the transaction; the raw error, since only the caller can tell what it means.
    pub async fn end(&self, how: &'static str) -> std::result::Result<(), tokio_postgres::Error> {
        self.behind(self.link().batch(how)).await?;
        self.open.store(false, Ordering::Relaxed);
        Ok(())
    }

    async fn ready(&self, statement: &'static str) -> Result<Ready> {
        match self.behind(self.link().ready(statement)).await {
            Ok(ready) => Ok(ready),
            Err(e) => Err(self.blame(&e).await),
        }
    }

    /// Prepares a statement that is about to be asked many times at once.
    pub async fn warm(&self, statement: &'static str) -> Result<()> {
        self.flush().await?;
        self.ready(statement).await.map(drop)
    }

    /// Sends what is gathered and waits for it.
    pub async fn press(&self) -> Result<()> {
        self.flush().await?;
        self.land().await
    }

    /// Gathers a write, or looks at what is gathered.
    pub fn gathered<T>(&self, f: impl FnOnce(&mut Gathered) -> T) -> T {
        f(&mut locked(&self.gathered))
    }

    /// Sends what is gathered.
    async fn flush(&self) -> Result<()> {
        for (statement, columns, rows) in self.gathered(Gathered::take) {
            self.send(statement, columns, rows).await?;
        }
        Ok(())
    }

    /// Sends a statement that must find so many rows, and does not wait for it.
    async fn send(&self, statement: &'static str, params: Vec<Param>, rows: u64) -> Result<()> {
        let ready = self.ready(statement).await?;
        let flight = sent(self.link().execute(ready, params)).await;
        locked(&self.flights).push((name_of(statement), rows, flight));
        let many = locked(&self.flights).len() >= IN_FLIGHT;
        if many {
            self.land().await?;
        }
        Ok(())
    }

    async fn rows(
        &self,
        statement: &'static str,
        params: Vec<Param>,
    ) -> Result<Vec<tokio_postgres::Row>> {
        self.flush().await?;
        match self.behind(self.link().query(statement, &params)).await {
            Ok(rows) => Ok(rows),
            Err(e) => Err(self.blame(&e).await),
        }
    }

    /// The first row, if there is one.
    pub async fn one<T>(
        &self,
        statement: &'static str,
        params: impl Params,
        f: impl FnOnce(Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let params = params.list();
        let rows = self.rows(statement, params).await?;
        rows.first().map(|row| f(row::row(row))).transpose()
    }

    pub async fn exists(&self, statement: &'static str, params: impl Params) -> Result<bool> {
        let params = params.list();
        Ok(!self.rows(statement, params).await?.is_empty())
    }

    /// Every row.
    pub async fn all<T>(
        &self,
        statement: &'static str,
        params: impl Params,
        f: impl FnMut(Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let params = params.list();
        let rows = self.rows(statement, params).await?;
        rows.iter().map(row::row).map(f).collect()
    }

    pub async fn count(&self, statement: &'static str, params: impl Params) -> Result<u32> {
        let count = self.one(statement, params, |row| row.u32(0)).await?;
        Ok(count.unwrap_or(0))
    }

    pub async fn job(&self, uid: JobUid) -> Result<Option<JobRow>> {
        let kept = locked(&self.kept).jobs.get(&uid).cloned();
        match kept {
            Some(row) => Ok(Some(row)),
            None => self.one(sql::GET_JOB, [uid.0], |row| row.job()).await,
        }
    }

    pub async fn live_job(&self, name: &JobName) -> Result<Option<Job>> {
        let params = (name.namespace.as_str(), name.name.as_str());
        self.one(sql::GET_LIVE_JOB, params, |row| Ok(row.job()?.job))
            .await
    }

    pub async fn run_row(&self, id: RunId) -> Result<Option<Arc<Run>>> {
        let kept = locked(&self.kept).runs.get(&id).cloned();
        match kept {
            Some(run) => Ok(Some(run)),
            None => {
                let run = self.one(sql::GET_RUN, [int(id.0)], |row| row.run());
                Ok(run.await?.map(Arc::new))
            }
        }
    }

    /// The run of an occasion and its digest.
    pub async fn run_of(&self, job: JobUid, occasion: &str) -> Result<Option<(RunId, String)>> {
        let kept = self.kept(|kept| kept.occasions.get(&job)?.get(occasion).cloned());
        if let Some(found) = kept {
            return Ok(found);
        }
        let found = |row: Row<'_>| Ok((RunId(row.u64(2)?), row.text(3)?));
        let params = (vec![job.0], vec![occasion.to_owned()]);
        self.one(sql::FIND_RUN, params, found).await
    }

    pub async fn shard(&self, key: ShardKey) -> Result<Option<ShardRow>> {
        let kept = locked(&self.kept).shards.get(&key).cloned();
        if kept.is_some() {
            return Ok(kept);
        }
        let params = (int(key.run.0), key.no.0);
        self.one(sql::GET_SHARD, params, |row| row.shard()).await
    }

    pub async fn session(&self, id: SessionId) -> Result<Option<Session>> {
        let kept = locked(&self.kept).sessions.get(&id).cloned();
        if kept.is_some() {
            return Ok(kept);
        }
        self.one(sql::GET_SESSION, [int(id.0)], |row| row.session())
            .await
    }

    /// Whether a session can hold leases no longer.
    pub async fn session_over(&self, id: SessionId) -> Result<bool> {
        let session = self.session(id).await?;
        Ok(session.is_none_or(|s| s.ended.is_some() || has_expired(s.expires_at, self.now)))
    }

    /// The sums of a run's shards' progress; `expected` if any shard knows its own.
    pub async fn progress(&self, run: RunId) -> Result<Progress> {
        // Each sum comes in two halves; there is none where there was nothing to add.
        let joined = |row: Row<'_>, i| -> Result<Option<u64>> {
            let (Some(upper), Some(lower)) = (row.opt_u64(i)?, row.opt_u64(i + 1)?) else {
                return Ok(None);
            };
            let upper = upper.saturating_mul(1 << 32);
            Ok(Some(upper.saturating_add(lower)))
        };
        let summed = |row: Row<'_>| {
            Ok(Progress {
                done: joined(row, 0)?.unwrap_or(0),
                expected: joined(row, 2)?,
                rate_milli: joined(row, 4)?.unwrap_or(0),
                waiting_on: String::new(),
            })
        };
        let sum = self.one(sql::SUM_PROGRESS, [int(run.0)], summed).await?;
        Ok(sum.unwrap_or_default())
    }

    /// Whether `fence` is that of the duty's present owner.
    pub async fn is_current(&self, fence: &Fence) -> Result<bool> {
        let duty = self.duty(&fence.key.text()).await?;
        Ok(duty.is_some_and(|d| d.duty.node.is_some() && d.duty.term == fence.term))
    }

    pub async fn duty(&self, key: &str) -> Result<Option<DutyRow>> {
        let kept = locked(&self.kept).duties.get(key).cloned();
        if kept.is_some() {
            return Ok(kept);
        }
        self.one(sql::GET_DUTY, [key], |row| row.duty()).await
    }

    /// Waits for what is on its way; each must have found its row.
    pub async fn land(&self) -> Result<()> {
        let flights = std::mem::take(&mut *locked(&self.flights));
        for (name, rows, flight) in flights {
            match self.behind(answer(flight)).await {
                Ok(n) if n < rows => return Err(moved(name)),
                Ok(_) => {}
                Err(e) => return Err(self.fault(&e)),
            }
        }
        Ok(())
    }

    /// Waits for `asked`, and meanwhile takes the answers of what was sent before it. The driver reads
    /// no further while an answer that came in several pieces is not taken: whoever waited for `asked`
    /// alone could wait for ever.
    async fn behind<T>(&self, asked: impl Future<Output = T>) -> T {
        let mut asked = std::pin::pin!(asked);
        std::future::poll_fn(|cx| {
            self.take_answers(cx);
            asked.as_mut().poll(cx)
        })
        .await
    }

    fn take_answers(&self, cx: &mut Context<'_>) {
        if let Some(recording) = &mut *locked(&self.recording) {
            let _ = recording.poll_unpin(cx);
        }
        for (_, _, flight) in locked(&self.flights).iter_mut() {
            if flight.poll_unpin(cx).is_pending() {
                return;
            }
        }
    }

    /// Looks at the kept rows, or changes them.
    pub fn kept<T>(&self, f: impl FnOnce(&mut Kept) -> T) -> T {
        f(&mut locked(&self.kept))
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        // What is on its way holds the connection: else a transaction that is given up in mid-way
        // would not be closed but go back to the pool, open.
        locked(&self.flights).clear();
        locked(&self.recording).take();
        let unused = std::mem::take(&mut *locked(&self.ids));
        if !unused.is_empty() {
            let mut ids = locked(&self.common.ids);
            ids.extend(unused);
            ids.make_contiguous().sort_unstable();
        }
        if self.open.load(Ordering::Relaxed)
            && let Some(link) = self.link.take().and_then(Arc::into_inner)
        {
            link.close();
        }
    }
}

/// Polls a statement once, which sends it.
async fn sent(flight: BoxFuture<'static, Answered>) -> Coming {
    let mut coming = maybe_done(flight);
    std::future::poll_fn(|cx| {
        let _ = coming.poll_unpin(cx);
        Poll::Ready(())
    })
    .await;
    coming
}

/// The answer, when it is there.
async fn answer(mut coming: Coming) -> Answered {
    (&mut coming).await;
    let answer = Pin::new(&mut coming).take_output();
    answer.expect("it is taken once, by whoever owns it")
}

/// Whether it is what a statement hears in a transaction that has failed, or that did not begin.
fn follows(e: &tokio_postgres::Error) -> bool {
    let codes = [
        Some(&SqlState::IN_FAILED_SQL_TRANSACTION),
        Some(&SqlState::READ_ONLY_SQL_TRANSACTION),
    ];
    codes.contains(&e.code())
}

fn moved(name: &str) -> Error {
    Error::Corrupt(format!("{name} found its row changed under its own lock"))
}

/// One use case in progress.
pub(super) struct Tx {
    read: Read,
    op: Option<Op>,
    /// Whether this very operation was committed before; known once the locks are there.
    pub repeated: bool,
    /// The duty under which it writes.
    duty: Option<(String, Term)>,
    events: Vec<Noted>,
}

impl Deref for Tx {
    type Target = Read;
    fn deref(&self) -> &Read {
        &self.read
    }
}

/// What of an event differs from others of its transaction.
struct Noted {
    entity: &'static str,
    entity_id: String,
    run: Option<i64>,
    ver: u32,
    duty: Option<(String, Term)>,
    kind: &'static str,
    from: String,
    to: String,
    attempt: Option<u32>,
    token: Option<Token>,
    cause: String,
    data: String,
}

impl Tx {
    /// Takes a connection on which a transaction has begun.
    pub fn new(read: Read, op: Option<Op>) -> Self {
        Self {
            read,
            op,
            repeated: false,
            duty: None,
            events: Vec::new(),
        }
    }

    /// Records the operation: sent ahead of everything else.
    pub async fn record(&mut self) -> Result<()> {
        if let Some(op) = &self.op {
            let params = (op.id.0, self.common.time.given().map(at), op.actor.as_str()).list();
            let ready = self.ready(sql::INSERT_OP).await?;
            let flight = sent(self.link().execute(ready, params)).await;
            *locked(&self.recording) = Some(flight);
        }
        Ok(())
    }

    /// Reads the clock, when all locks are there.
    pub async fn tell_time(&mut self) -> Result<()> {
        self.read.tell_time().await?;
        self.recorded().await
    }

    /// Locks rows in the port's order and then reads the clock, all in one round trip.
    pub async fn lock(&mut self, locks: &Locks) -> Result<()> {
        self.lock_to_write(locks, &[]).await
    }

    /// [`Tx::lock`], and in the same round trip, behind the locks, what is to be known before these
    /// runs are written.
    pub async fn lock_to_write(&mut self, locks: &Locks, runs: &[&NewRun]) -> Result<()> {
        // One that is prepared only now would be overtaken by those behind it.
        for statement in locks.statements().chain([sql::GET_META]) {
            self.ready(statement).await?;
        }
        if !runs.is_empty() {
            for statement in [sql::FIND_RUN, sql::NEXT_IDS, sql::COUNT_HELD] {
                self.ready(statement).await?;
            }
        }
        // Polled in this order, and so sent in it.
        let jobs_of = if locks.closing {
            &*locks.runs
        } else {
            &*locks.limited
        };
        let locked = try_join5(
            self.lock_duties(locks.duties.clone(), true),
            self.lock_jobs_of(jobs_of),
            self.lock_jobs(locks.jobs.clone()),
            self.lock_run_rows(&locks.runs),
            self.lock_shards(&locks.shards),
        );
        let last = try_join(self.lock_sessions(&locks.sessions), self.read.meta());
        let (_, (_, meta), ()) = try_join3(locked, last, self.look_for_runs(runs)).await?;
        self.read.set_time(meta);
        self.recorded().await
    }

    async fn recorded(&mut self) -> Result<()> {
        let recording = locked(&self.recording).take();
        if let Some(recording) = recording {
            match self.behind(answer(recording)).await {
                Ok(n) => self.repeated = n == 0,
                Err(e) => return Err(self.blame(&e).await),
            }
        }
        Ok(())
    }

    /// Who writes.
    pub fn actor(&self) -> &str {
        self.op.as_ref().map_or("", |op| &op.actor)
    }

    /// Runs a statement that changes rows; how many.
    pub async fn run(&self, statement: &'static str, params: impl Params) -> Result<usize> {
        let params = params.list();
        self.flush().await?;
        let ready = self.ready(statement).await?;
        match self.behind(self.link().execute(ready, params)).await {
            Ok(n) => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
            Err(e) => Err(self.blame(&e).await),
        }
    }

    /// Runs a statement whose guard may not hold; whether it did.
    pub async fn run_one(&self, statement: &'static str, params: impl Params) -> Result<bool> {
        let params = params.list();
        Ok(self.run(statement, params).await? > 0)
    }

    /// Sends a statement whose guard this transaction has under lock. It is seen by all that is asked
    /// later; that it found its row is looked at before the commit.
    pub async fn must(&self, statement: &'static str, params: impl Params) -> Result<()> {
        let params = params.list();
        self.flush().await?;
        self.send(statement, params, 1).await
    }

    /// The id that this repeated operation gave out when it was first committed.
    pub async fn first_result(&self) -> Result<Option<u64>> {
        match &self.op {
            Some(op) if self.repeated => {
                let id = self
                    .one(sql::GET_OP_RESULT, [op.id.0], |row| row.opt_u64(0))
                    .await?;
                Ok(id.flatten())
            }
            _ => Ok(None),
        }
    }

    /// Keeps the id that this operation gives out, for a repeat.
    pub async fn keep_result(&self, id: u64) -> Result<()> {
        match &self.op {
            Some(op) => self.must(sql::KEEP_OP_RESULT, (op.id.0, int(id))).await,
            None => Ok(()),
        }
    }

    /// Writes under `fence`'s name if it is current.
    pub async fn under(&mut self, fence: &Fence) -> Result<bool> {
        let current = self.is_current(fence).await?;
        if current {
            self.duty = Some((fence.key.text(), fence.term));
        }
        Ok(current)
    }

    /// A new id.
    pub async fn next_id(&self) -> Result<u64> {
        let own = locked(&self.ids).pop_front();
        let left = || locked(&self.common.ids).pop_front();
        if let Some(id) = own.or_else(left) {
            return Ok(id);
        }
        let id = self.one(sql::NEXT_IDS, [1], |row| row.u64(0)).await?;
        id.ok_or_else(|| Error::Corrupt("the sequence of ids is gone".into()))
    }

    /// Takes `n` ids for this transaction: those that others left, and drawn ones.
    pub async fn reserve_ids(&self, n: usize) -> Result<()> {
        let left: VecDeque<u64> = {
            let mut left = locked(&self.common.ids);
            let n = n.min(left.len());
            left.drain(..n).collect()
        };
        let missing = n.saturating_sub(left.len());
        locked(&self.ids).extend(left);
        if missing > 0 {
            let drawn = self
                .all(sql::NEXT_IDS, [int(missing as u64)], |row| row.u64(0))
                .await?;
            locked(&self.ids).extend(drawn);
        }
        Ok(())
    }

    /// Raises the epoch above its own and `known`.
    pub async fn raise_epoch(&mut self, known: u32) -> Result<u32> {
        let epoch = epoch::after(self.epoch.max(known), self.now);
        self.must(sql::RAISE_EPOCH, [epoch]).await?;
        // What this node has drawn and not used is behind what is left out.
        let drawn = std::mem::take(&mut *locked(&self.common.ids)).len() as u64;
        let out = epoch::NUMBERS_LEFT_OUT;
        let params = (int(out.saturating_sub(drawn)), int(out));
        self.exists(sql::LEAVE_NUMBERS_OUT, params).await?;
        Ok(epoch)
    }

    pub fn event(&mut self, entity: &Entity, ver: u32, h: &Happened<'_>) -> Result<()> {
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
            | Entity::Capacity(_)
            | Entity::Namespace(_) => None,
        };
        self.events.push(Noted {
            entity: entity.kind(),
            entity_id: entity.id(),
            run,
            ver,
            duty: self.duty.clone(),
            kind: h.kind.word(),
            from: h.from.to_owned(),
            to: h.to.to_owned(),
            attempt: h.attempt,
            token: h.token,
            cause: h.cause.to_owned(),
            data: h.data.to_string(),
        });
        Ok(())
    }

    /// Sends what is gathered except for sums, and the events so far, if that is much: the server works on
    /// it while the rest is made.
    pub async fn step(&mut self) -> Result<()> {
        if !self.gathered(|gathered| gathered.is_much()) {
            return Ok(());
        }
        for (statement, columns, rows) in self.gathered(Gathered::take_rows) {
            self.send(statement, columns, rows).await?;
        }
        self.log().await
    }

    /// Sends the events so far.
    async fn log(&mut self) -> Result<()> {
        let (op, actor) = match &self.op {
            Some(op) => (op.id.0, op.actor.clone()),
            None => (uuid::Uuid::nil(), String::new()),
        };
        let events = std::mem::take(&mut self.events);
        for chunk in events.chunks(EVENTS) {
            let texts = |f: fn(&Noted) -> &str| -> Vec<String> {
                chunk.iter().map(|e| f(e).to_owned()).collect()
            };
            let ints = |f: fn(&Noted) -> Option<i64>| Param::OptInts(chunk.iter().map(f).collect());
            let duties = chunk
                .iter()
                .map(|e| e.duty.as_ref().map(|(key, _)| key.clone()));
            let params = params![
                at(self.now),
                op,
                actor,
                texts(|e| e.entity),
                texts(|e| &e.entity_id),
                ints(|e| e.run),
                ints(|e| Some(i64::from(e.ver))),
                Param::OptTexts(duties.collect()),
                ints(|e| e.duty.as_ref().map(|(_, term)| int(term.0))),
                texts(|e| e.kind),
                texts(|e| &e.from),
                texts(|e| &e.to),
                ints(|e| e.attempt.map(i64::from)),
                ints(|e| e.token.map(|t| int(t.0))),
                texts(|e| &e.cause),
                texts(|e| &e.data),
            ];
            self.send(sql::INSERT_EVENT, params, 1).await?;
        }
        Ok(())
    }

    /// Writes the events and waits for all that was sent.
    pub async fn finish(&mut self) -> Result<()> {
        self.flush().await?;
        self.log().await?;
        let told = self.now > Timestamp::UNIX_EPOCH;
        if told && Time::is_behind(self.clock.mark, self.now) {
            // Somebody else may have raised it.
            self.run(sql::UPDATE_META, [at(self.now)]).await?;
        }
        if told && self.told.held != self.clock.held {
            let params = (self.told.held, self.clock.accepts);
            self.run(sql::HOLD_CLOCK, params).await?;
        }
        self.land().await
    }
}
