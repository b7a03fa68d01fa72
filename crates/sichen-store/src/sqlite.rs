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
//! `NotReady`, … the second time; [`Store::find_op`] tells that it was committed. Where no guard
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
mod leases;
mod look;
mod migrate;
mod namespaces;
mod overview;
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
mod write;

use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sichen_core::access::{AccessToken, NewAccessToken, TokenCreated, TokenRevoked};
use sichen_core::backfill::check::{Check, CheckState, CheckStep, CheckVerdict};
use sichen_core::backfill::{
    self, AdvanceVerdict as StepVerdict, Backfill, Facts, NewBackfill, NewVerdict, Turn,
    TurnVerdict,
};
use sichen_core::dispatch::queue::{Place, Window};
use sichen_core::event::Event;
use sichen_core::ids::{
    BackfillId, JobUid, NodeId, Occasion, OpId, Revision, RunId, SessionId, ShardKey,
};
use sichen_core::lifecycle::StopCause;
use sichen_core::model::{
    Calendar, CalendarUser, Decision, Dump, Duty, DutyKey, Hold, Job, Namespace, NamespaceChange,
    Node, Progress, Run, Session, Shard, Standing, Waiter,
};
use sichen_core::name::{JobName, Name};
use sichen_core::port::{
    Advance, AdvanceVerdict, Answer, ApplyCapacity, ApplyJob, ApplyVerdict, CalendarDeleted,
    CalendarVerdict, CapacityDeleted, CapacityVerdict, CheckpointVerdict, CreateVerdict, Discard,
    Error, EventFilter, Fence, Finish, FinishVerdict, Grant, GrantVerdict, LateRuns, NewRun, Op,
    Overdue, Overview, Page, ReadyHead, Reap, ReapVerdict, Register, RegisterVerdict, RenewVerdict,
    RequestVerdict, RunFilter, SaveCheckpoint, ShardFacts, Shorter, Span, Store,
};
use sichen_core::restore::{Decided, Restore, Verdict};
use sichen_core::timekeeping::Told;
use tokio::sync::mpsc;

use crate::clock::Clock;
use engine::Engine;
pub use restore::Restored;
pub use sealed::{Backup, Error as BackupError};
use tx::{Read, Result, Tx};

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
    /// restore ([`Store::begin_restore`]). `replace`: also if a store is there, which is then kept beside
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

impl Store for SqliteStore {
    fn now(&self) -> Answer<'_, Timestamp> {
        Box::pin(async { Ok(self.engine.clock().await?.now) })
    }
    fn clock(&self) -> Answer<'_, Told> {
        self.engine.clock()
    }
    fn accept_clock(&self, op: Op) -> Answer<'_, Option<SignedDuration>> {
        self.write(op, clock::accept)
    }
    fn get_restore(&self) -> Answer<'_, Option<Restore>> {
        self.read(restored::get)
    }
    fn begin_restore(&self, op: Op, known: u32) -> Answer<'_, Restore> {
        self.write(op, move |tx| restored::begin(tx, known))
    }
    fn decide_restore(&self, op: Op, decided: Decided) -> Answer<'_, Verdict> {
        self.write(op, move |tx| restored::decide(tx, decided))
    }
    fn find_op(&self, op: OpId) -> Answer<'_, bool> {
        self.read(move |r| r.exists(sql::FIND_OP, [row::blob(op.0)]))
    }

    fn register_node(&self, op: Op, address: String, ttl: SignedDuration) -> Answer<'_, NodeId> {
        self.write(op, move |tx| duties::register_node(tx, &address, ttl))
    }
    fn renew_node(&self, node: NodeId, ttl: SignedDuration) -> Answer<'_, Option<Timestamp>> {
        self.engine
            .write(None, move |tx| duties::renew_node(tx, node, ttl))
    }
    fn end_node(&self, op: Op, node: NodeId, cause: String) -> Answer<'_, bool> {
        self.write(op, move |tx| duties::end_node(tx, node, &cause))
    }
    fn claim_duties(&self, op: Op, node: NodeId, keys: Vec<DutyKey>) -> Answer<'_, Vec<Fence>> {
        self.write(op, move |tx| duties::claim(tx, node, keys))
    }
    fn release_duties(&self, op: Op, fences: Vec<Fence>) -> Answer<'_, ()> {
        self.write(op, move |tx| duties::release(tx, &fences))
    }
    fn list_members(&self) -> Answer<'_, (Vec<Node>, Vec<Duty>)> {
        self.read(duties::list)
    }

    fn apply_job(&self, op: Op, job: ApplyJob) -> Answer<'_, ApplyVerdict> {
        self.write(op, move |tx| jobs::apply(tx, job))
    }
    fn get_job(&self, name: JobName) -> Answer<'_, Option<Job>> {
        self.read(move |r| r.live_job(&name))
    }
    fn get_job_by_uid(&self, uid: JobUid) -> Answer<'_, Option<Job>> {
        self.read(move |r| Ok(r.job(uid)?.map(|row| row.job)))
    }
    fn get_revision(&self, job: JobUid, revision: Revision) -> Answer<'_, Option<String>> {
        self.read(move |r| {
            r.one(sql::GET_REVISION, (row::blob(job.0), revision.0), |row| {
                row.text(0)
            })
        })
    }
    fn list_jobs(&self, page: Page<JobName>) -> Answer<'_, Vec<Job>> {
        self.read(move |r| jobs::list(r, &page))
    }
    fn set_job_paused(
        &self,
        op: Op,
        paused: bool,
        closing: Advance,
        expected_ver: u32,
    ) -> Answer<'_, ApplyVerdict> {
        self.write(op, move |tx| {
            jobs::set_paused(tx, paused, closing, expected_ver)
        })
    }
    fn delete_job(
        &self,
        op: Op,
        job: JobUid,
        closing: Option<Advance>,
        expected_ver: u32,
    ) -> Answer<'_, bool> {
        self.write(op, move |tx| jobs::delete(tx, job, closing, expected_ver))
    }
    fn list_due_jobs(
        &self,
        partitions: Vec<u8>,
        until: Timestamp,
        limit: u32,
    ) -> Answer<'_, Vec<Job>> {
        self.read(move |r| jobs::list_due(r, &partitions, until, limit))
    }
    fn list_outdated_jobs(
        &self,
        partitions: Vec<u8>,
        data: String,
        limit: u32,
    ) -> Answer<'_, Vec<Job>> {
        self.read(move |r| jobs::list_outdated(r, &partitions, &data, limit))
    }
    fn advance_schedules(
        &self,
        op: Op,
        fences: Vec<Fence>,
        items: Vec<Advance>,
    ) -> Answer<'_, Vec<AdvanceVerdict>> {
        bounded!(items);
        self.write(op, move |tx| jobs::advance_all(tx, &fences, items))
    }
    fn list_decisions(
        &self,
        job: JobUid,
        from: Timestamp,
        limit: u32,
    ) -> Answer<'_, Vec<Decision>> {
        self.read(move |r| jobs::list_decisions(r, job, from, limit))
    }

    fn apply_calendar(
        &self,
        op: Op,
        name: JobName,
        document: String,
        expected: Option<u32>,
    ) -> Answer<'_, CalendarVerdict> {
        self.write(op, move |tx| {
            calendars::apply(tx, name, &document, expected)
        })
    }
    fn get_calendar(&self, name: JobName, version: Option<u32>) -> Answer<'_, Option<Calendar>> {
        self.read(move |r| calendars::get(r, &name, version))
    }
    fn list_calendars(&self, page: Page<JobName>) -> Answer<'_, Vec<Calendar>> {
        self.read(move |r| calendars::list(r, &page))
    }
    fn delete_calendar(&self, op: Op, name: JobName) -> Answer<'_, CalendarDeleted> {
        self.write(op, move |tx| calendars::delete(tx, name))
    }
    fn list_calendar_users(
        &self,
        name: Option<JobName>,
        page: Page<JobUid>,
    ) -> Answer<'_, Vec<CalendarUser>> {
        self.read(move |r| calendars::users(r, name.as_ref(), &page))
    }

    fn create_access_token(&self, op: Op, new: NewAccessToken) -> Answer<'_, TokenCreated> {
        self.write(op, move |tx| access::create(tx, new))
    }
    fn revoke_access_token(&self, op: Op, name: Name) -> Answer<'_, TokenRevoked> {
        self.write(op, move |tx| access::revoke(tx, name))
    }
    fn list_access_tokens(&self, page: Page<Name>) -> Answer<'_, Vec<AccessToken>> {
        self.read(move |r| access::list(r, &page))
    }
    fn note_access_tokens(&self, names: Vec<Name>) -> Answer<'_, ()> {
        bounded!(names);
        self.engine.write(None, move |tx| access::note(tx, &names))
    }
    fn apply_capacity(&self, op: Op, apply: ApplyCapacity) -> Answer<'_, CapacityVerdict> {
        self.write(op, move |tx| capacities::apply(tx, apply))
    }
    fn delete_capacity(&self, op: Op, name: Name) -> Answer<'_, CapacityDeleted> {
        self.write(op, move |tx| capacities::delete(tx, &name))
    }
    fn get_capacities(&self, names: Vec<Name>) -> Answer<'_, Vec<Standing>> {
        bounded!(names);
        self.read(move |r| capacities::get(r, &names))
    }
    fn list_capacities(&self, page: Page<Name>) -> Answer<'_, Vec<Standing>> {
        self.read(move |r| capacities::list(r, &page))
    }
    fn list_holds(&self, capacity: Name, limit: u32) -> Answer<'_, Vec<Hold>> {
        self.read(move |r| capacities::holds(r, &capacity, limit))
    }
    fn list_waiters(&self, capacity: Name, limit: u32) -> Answer<'_, Vec<Waiter>> {
        self.read(move |r| capacities::waiters(r, &capacity, limit))
    }

    fn set_namespace(&self, op: Op, name: Name, change: NamespaceChange) -> Answer<'_, Namespace> {
        self.write(op, move |tx| namespaces::set(tx, name, &change))
    }
    fn list_namespaces(&self, page: Page<Name>) -> Answer<'_, Vec<(Namespace, Option<u32>)>> {
        self.read(move |r| namespaces::list(r, &page))
    }
    fn create_runs(
        &self,
        op: Op,
        fences: Vec<Fence>,
        runs: Vec<NewRun>,
    ) -> Answer<'_, Vec<CreateVerdict>> {
        bounded!(runs);
        self.write(op, move |tx| {
            runs.into_iter()
                .map(|run| backfills::create_run(tx, &fences, run))
                .collect()
        })
    }
    fn get_run(&self, run: RunId) -> Answer<'_, Option<(Run, Progress)>> {
        self.read(move |r| {
            let Some(run) = r.run_row(run)? else {
                return Ok(None);
            };
            let sum = r.progress(run.id)?;
            Ok(Some((run, sum)))
        })
    }
    fn find_run(&self, job: JobUid, occasion: Occasion) -> Answer<'_, Option<RunId>> {
        self.read(move |r| Ok(r.run_of(job, &occasion.key())?.map(|(id, _)| id)))
    }
    fn list_runs(&self, filter: RunFilter, page: Page<RunId>) -> Answer<'_, Vec<Run>> {
        self.read(move |r| runs::list(r, &filter, &page))
    }
    fn request_stop(
        &self,
        op: Op,
        fence: Option<Fence>,
        run: RunId,
        cause: StopCause,
    ) -> Answer<'_, RequestVerdict> {
        self.write(op, move |tx| {
            runs::request_stop(tx, fence.as_ref(), run, cause)
        })
    }
    fn reopen_run(
        &self,
        op: Op,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        ready_at: Timestamp,
    ) -> Answer<'_, RequestVerdict> {
        self.write(op, move |tx| runs::reopen(tx, run, only, ready_at, None))
    }
    fn discard_shards(
        &self,
        op: Op,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        why: Discard,
    ) -> Answer<'_, RequestVerdict> {
        self.write(op, move |tx| discards::discard(tx, run, only, &why))
    }
    fn list_late_runs(&self, partitions: Vec<u8>, limit: u32) -> Answer<'_, LateRuns> {
        self.read(move |r| runs::list_late(r, &partitions, limit))
    }
    fn list_running(&self, run: RunId, limit: u32) -> Answer<'_, Vec<Shard>> {
        self.read(move |r| shards::list_running(r, run, limit))
    }
    fn count_running_of_job(&self, job: JobUid) -> Answer<'_, u32> {
        self.read(move |r| leases::running_of_job(r, job))
    }
    fn settle_runs(&self, op: Op, fences: Vec<Fence>, limit: u32) -> Answer<'_, Vec<RunId>> {
        self.write(op, move |tx| runs::settle_complete(tx, &fences, limit))
    }

    fn create_backfill(&self, op: Op, new: NewBackfill) -> Answer<'_, NewVerdict> {
        self.write(op, move |tx| backfills::create(tx, &new))
    }
    fn get_backfill(&self, id: BackfillId) -> Answer<'_, Option<Backfill>> {
        self.read(move |r| backfills::get(r, id))
    }
    fn list_backfills(&self, job: JobUid, page: Page<BackfillId>) -> Answer<'_, Vec<Backfill>> {
        self.read(move |r| backfills::list(r, job, &page))
    }
    fn list_running_backfills(
        &self,
        partitions: Vec<u8>,
        page: Page<BackfillId>,
    ) -> Answer<'_, Vec<Backfill>> {
        self.read(move |r| backfills::list_running(r, &partitions, &page))
    }
    fn turn_backfill(
        &self,
        op: Op,
        fence: Option<Fence>,
        id: BackfillId,
        turn: Turn,
        cause: String,
    ) -> Answer<'_, TurnVerdict> {
        self.write(op, move |tx| {
            backfills::turn(tx, fence.as_ref(), id, turn, &cause)
        })
    }
    fn advance_backfill(
        &self,
        op: Op,
        fence: Fence,
        advance: backfill::Advance,
    ) -> Answer<'_, StepVerdict> {
        self.write(op, move |tx| backfills::advance(tx, &fence, advance))
    }
    fn move_checks(&self, op: Op, fence: Fence, step: CheckStep) -> Answer<'_, CheckVerdict> {
        let moves = &step.moves;
        bounded!(moves);
        self.write(op, move |tx| checks::step(tx, &fence, step))
    }
    fn list_checks(
        &self,
        backfill: BackfillId,
        state: Option<CheckState>,
        page: Page<(RunId, u32)>,
    ) -> Answer<'_, Vec<Check>> {
        self.read(move |r| checks::list(r, backfill, state, &page))
    }
    fn list_instants(&self, job: JobUid, instants: Vec<Timestamp>) -> Answer<'_, Vec<Facts>> {
        bounded!(instants);
        self.read(move |r| backfills::list_instants(r, job, &instants))
    }
    fn list_revisions(
        &self,
        job: JobUid,
        page: Page<Revision>,
    ) -> Answer<'_, Vec<(Revision, Option<Timestamp>)>> {
        self.read(move |r| backfills::list_revisions(r, job, &page))
    }

    fn list_ready(
        &self,
        pool: Name,
        after: Place,
        window: Window,
        per_run: u32,
    ) -> Answer<'_, Vec<ReadyHead>> {
        self.read(move |r| leases::list_ready(r, &pool, after, window, per_run))
    }
    fn next_ready_at(&self, pool: Name, after: Timestamp) -> Answer<'_, Option<Timestamp>> {
        self.read(move |r| leases::next_ready_at(r, &pool, after))
    }
    fn lease_shards(
        &self,
        op: Op,
        fence: Fence,
        grants: Vec<Grant>,
    ) -> Answer<'_, Vec<GrantVerdict>> {
        bounded!(grants);
        self.write(op, move |tx| leases::lease(tx, &fence, &grants))
    }
    fn list_overdue(
        &self,
        pool: Name,
        grace: SignedDuration,
        limit: u32,
    ) -> Answer<'_, Vec<Overdue>> {
        self.read(move |r| leases::list_overdue(r, &pool, grace, limit))
    }
    fn reap_shards(&self, op: Op, fence: Fence, reaps: Vec<Reap>) -> Answer<'_, Vec<ReapVerdict>> {
        bounded!(reaps);
        self.write(op, move |tx| leases::reap(tx, &fence, reaps))
    }

    fn shorten_leases(&self, op: Op, fence: Fence, leases: Vec<Shorter>) -> Answer<'_, u32> {
        bounded!(leases);
        self.write(op, move |tx| clock::shorten(tx, &fence, &leases))
    }
    fn register_session(&self, op: Op, register: Register) -> Answer<'_, RegisterVerdict> {
        self.write(op, move |tx| sessions::register(tx, &register))
    }
    fn renew_sessions(
        &self,
        sessions: Vec<SessionId>,
        ttl: SignedDuration,
    ) -> Answer<'_, Vec<RenewVerdict>> {
        bounded!(sessions);
        self.engine.write(None, move |tx| {
            sessions
                .into_iter()
                .map(|id| sessions::renew(tx, id, ttl))
                .collect()
        })
    }
    fn drain_session(&self, session: SessionId) -> Answer<'_, ()> {
        self.engine.write(None, move |tx| {
            tx.run_one(sql::DRAIN_SESSION, [row::int(session.0)])?;
            Ok(())
        })
    }
    fn end_session(
        &self,
        op: Op,
        fence: Option<Fence>,
        session: SessionId,
        cause: String,
    ) -> Answer<'_, bool> {
        self.write(op, move |tx| {
            sessions::end(tx, fence.as_ref(), session, &cause)
        })
    }
    fn list_sessions(&self, pool: Option<Name>) -> Answer<'_, Vec<(Session, u32)>> {
        self.read(move |r| sessions::list(r, pool.as_ref()))
    }
    fn get_session(&self, session: SessionId) -> Answer<'_, Option<Session>> {
        self.read(move |r| r.session(session))
    }
    fn list_leases(&self, session: SessionId) -> Answer<'_, Vec<Shard>> {
        self.read(move |r| {
            r.all(sql::LIST_LEASES, [row::int(session.0)], |row| {
                Ok(row.shard()?.shard)
            })
        })
    }
    fn get_shards(&self, keys: Vec<ShardKey>) -> Answer<'_, Vec<ShardFacts>> {
        bounded!(keys);
        self.read(move |r| shards::get(r, &keys))
    }
    fn finish_attempts(&self, op: Op, items: Vec<Finish>) -> Answer<'_, Vec<FinishVerdict>> {
        bounded!(items);
        self.write(op, move |tx| {
            items.into_iter().map(|f| shards::finish(tx, f)).collect()
        })
    }
    fn save_checkpoints(
        &self,
        op: Op,
        items: Vec<SaveCheckpoint>,
    ) -> Answer<'_, Vec<CheckpointVerdict>> {
        bounded!(items);
        self.write(op, move |tx| {
            items.iter().map(|c| shards::checkpoint(tx, c)).collect()
        })
    }

    fn list_shards(&self, run: RunId, page: Page<i32>) -> Answer<'_, Vec<Shard>> {
        self.read(move |r| shards::list(r, run, &page))
    }
    fn list_events(&self, filter: EventFilter, page: Page<u64>) -> Answer<'_, Vec<Event>> {
        self.read(move |r| history::list_events(r, filter, &page))
    }
    fn get_last_event(&self) -> Answer<'_, u64> {
        self.read(overview::last_event)
    }
    fn get_overview(&self, now: Timestamp, span: Span) -> Answer<'_, Overview> {
        self.read(move |r| overview::get(r, now, span))
    }
    fn remove_history(
        &self,
        op: Op,
        fence: Fence,
        before: Timestamp,
        limit: u32,
    ) -> Answer<'_, u32> {
        self.write(op, move |tx| history::remove(tx, &fence, before, limit))
    }
    fn dump(&self) -> Answer<'_, Dump> {
        self.read(history::dump)
    }
}

/// The rows a page may have.
fn capped<K>(page: &Page<K>) -> u32 {
    page.limit.min(sichen_core::port::MAX_PAGE)
}
