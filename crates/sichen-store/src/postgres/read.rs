//! What a use case reads with: one connection, and what is on its way on it.
//!
//! A statement that is sent and not waited for is answered behind those before it; whoever waits for one
//! takes the answers of all. Rows that were locked are kept here.
//!
//! # Invariants
//! - A connection with an open transaction is closed when this is dropped; it never goes back to the
//!   pool.
//! - The first error of what is on its way is the one that is told; what follows from it is not.
//!
//! # Not here
//! Writing ([`super::tx`]); retries and commits ([`super::engine`]).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, MaybeDone, maybe_done};
use jiff::Timestamp;
use sichen_core::ids::{JobUid, RunId, SessionId, ShardKey};
use sichen_core::lease::has_expired;
use sichen_core::model::{Job, Progress, Run, Session};
use sichen_core::name::JobName;
use sichen_core::port::{Error, Fence};
use sichen_core::timekeeping::{Kept as KeptClock, Told};
use tokio_postgres::error::SqlState;

use super::batch::Gathered;
use super::clock::Time;
use super::fault::{Result, fault};
use super::kept::Kept;
use super::link::{Link, Ready};
use super::param::{Param, Params};
use super::row::{self, DutyRow, JobRow, Row, ShardRow, int};
use super::sql;
use crate::spoilt::{pass_over, wider};

/// Statements on their way at once.
const IN_FLIGHT: usize = 1_000;

pub(super) type Answered = std::result::Result<u64, tokio_postgres::Error>;

/// A statement's answer, which may have come and not been looked at.
pub(super) type Coming = MaybeDone<BoxFuture<'static, Answered>>;

/// A statement on its way: its file's name, and the rows it must find.
type Flight = (&'static str, u64, Coming);

/// What the transactions of a store have in common.
pub(super) struct Common {
    pub time: Time,
    /// Ids that were drawn and not used, lowest first.
    pub(super) ids: Mutex<VecDeque<u64>>,
}

impl Common {
    pub fn new(time: Time) -> Self {
        let ids = Mutex::default();
        Self { time, ids }
    }
}

/// The meta row, and the database's clock when it was read.
pub(super) struct Meta {
    epoch: u32,
    kept: KeptClock,
    wall: Timestamp,
    limited: bool,
    queues_limited: bool,
}

/// Reads from one connection.
pub(super) struct Read {
    link: Option<Arc<Link>>,
    /// The store's clock, read when the snapshot was taken (in a transaction: after its locks).
    pub now: Timestamp,
    pub epoch: u32,
    /// Whether any namespace has a limit.
    pub limited: bool,
    /// Whether the queue of any namespace has a limit.
    pub queues_limited: bool,
    /// What the database has kept of its clock.
    pub(super) clock: KeptClock,
    pub(super) told: Told,
    pub(super) common: Arc<Common>,
    flights: Mutex<Vec<Flight>>,
    /// The operation's record on its way.
    pub(super) recording: Mutex<Option<Coming>>,
    kept: Mutex<Kept>,
    gathered: Mutex<Gathered>,
    /// Ids that were drawn for this transaction alone.
    pub(super) ids: Mutex<VecDeque<u64>>,
    /// Whether what failed last may fare better anew.
    again: AtomicBool,
    /// Whether a transaction is open on the server: such a connection never goes back to the pool.
    open: AtomicBool,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
            queues_limited: false,
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

    pub(super) fn link(&self) -> &Arc<Link> {
        self.link.as_ref().expect("it is taken only by drop")
    }

    fn fault(&self, e: &tokio_postgres::Error) -> Error {
        let (error, again) = fault(e);
        self.again.store(again, Ordering::Relaxed);
        error
    }

    /// The first error of what is on its way, or else `e`: what follows an error is refused only
    /// because of it, be it within a transaction that has failed or outside one that did not begin.
    pub(super) async fn blame(&self, e: &tokio_postgres::Error) -> Error {
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

    /// What was read under locks does not fit together: the same transaction is to be tried anew.
    pub fn anew(&self, why: String) -> Error {
        self.again.store(true, Ordering::Relaxed);
        Error::Busy(why)
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
    pub(super) async fn meta(&self) -> Result<Meta> {
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
                queues_limited: row.flag(6)?,
            })
        });
        let meta = meta.await?;
        meta.ok_or_else(|| Error::Corrupt("the meta row is missing".into()))
    }

    pub(super) fn set_time(&mut self, meta: Meta) {
        self.told = self.common.time.read(meta.wall, &meta.kept);
        self.now = self.told.now;
        (self.epoch, self.clock) = (meta.epoch, meta.kept);
        self.limited = meta.limited;
        self.queues_limited = meta.queues_limited;
    }

    /// How many steps of the clock the database had accepted when it was read.
    pub fn accepts(&self) -> u32 {
        self.clock.accepts
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

    pub(super) async fn ready(&self, statement: &'static str) -> Result<Ready> {
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
    pub(super) async fn flush(&self) -> Result<()> {
        for (statement, columns, rows) in self.gathered(Gathered::take) {
            self.send(statement, columns, rows).await?;
        }
        Ok(())
    }

    /// Sends a statement that must find so many rows, and does not wait for it.
    pub(super) async fn send(
        &self,
        statement: &'static str,
        params: Vec<Param>,
        rows: u64,
    ) -> Result<()> {
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

    /// Every row that makes sense.
    pub async fn sound<T>(
        &self,
        statement: &'static str,
        params: impl Params,
        mut f: impl FnMut(Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let all = self.all(statement, params, |row| pass_over(f(row))).await?;
        Ok(all.into_iter().flatten().collect())
    }

    /// The first `limit` rows that make sense; `params` are those for a limit.
    pub async fn sound_page<T, P: Params>(
        &self,
        statement: &'static str,
        limit: u32,
        params: impl Fn(u32) -> P,
        mut f: impl FnMut(Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut most = limit;
        loop {
            let all = self.all(statement, params(most), |row| pass_over(f(row)));
            let all = all.await?;
            let found = all.len();
            let sound: Vec<T> = all.into_iter().flatten().collect();
            match wider(limit, most, found, sound.len()) {
                Some(wider) => most = wider,
                None => return Ok(sound),
            }
        }
    }

    /// Whether what is written now is not ready yet, so that a look is not to pass over it.
    pub fn is_later(&self, ready_at: Timestamp) -> bool {
        ready_at > self.now
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
    pub(super) async fn behind<T>(&self, asked: impl Future<Output = T>) -> T {
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
    /// Whether a job that is kept is so.
    pub fn kept_job(&self, uid: JobUid, is_so: impl FnOnce(&Job) -> bool) -> bool {
        self.kept(|kept| kept.jobs.get(&uid).is_some_and(|row| is_so(&row.job)))
    }

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
pub(super) async fn sent(flight: BoxFuture<'static, Answered>) -> Coming {
    let mut coming = maybe_done(flight);
    std::future::poll_fn(|cx| {
        let _ = coming.poll_unpin(cx);
        Poll::Ready(())
    })
    .await;
    coming
}

/// The answer, when it is there.
pub(super) async fn answer(mut coming: Coming) -> Answered {
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
