//! What a store must keep: the port that memory, SQLite and PostgreSQL implement alike.
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
//! - Lock order: duty → job → run → shard (ascending) → session.
//!
//! # Not here
//! Transaction handles: none leaves a store.

use std::future::Future;
use std::pin::Pin;

use jiff::{SignedDuration, Timestamp};

use crate::event::Event;
use crate::ids::{
    JobUid, NodeId, Occasion, OpId, Revision, RunId, SessionId, ShardKey, Term, Token,
};
use crate::layout::Descriptor;
use crate::lifecycle::shard::Transition;
use crate::lifecycle::{RunState, StopCause};
use crate::model::{
    Checkpoint, Decision, Dump, Duty, DutyKey, Failure, Job, Node, Period, Progress, Run, RunTerms,
    Session, Shard, WorkerIdentity,
};
use crate::name::{JobName, Name};

/// The most items one batch may have.
pub const MAX_BATCH: usize = 500;
/// The most rows one page of a listing may have.
pub const MAX_PAGE: u32 = 1_000;

/// A future that a store returns.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Why a store call failed as a whole. What concerns one item is a verdict, not an error.
#[derive(Debug, thiserror::Error)]
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
        /// The operation to look up with [`Store::find_op`].
        op: OpId,
        /// What broke.
        reason: String,
    },
    /// A row does not make sense; its run is to be quarantined.
    #[error("SC3004: the store holds a row that does not make sense: {0}")]
    Corrupt(String),
    /// The store is full or can't be written; reads still work.
    #[error("SC3005: the store can't be written: {0}")]
    ReadOnly(String),
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
}

/// A mutation's name and author, written with everything it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// By which an unknown commit is found.
    pub id: OpId,
    /// `node 3`, `worker w1`, `user alice`, …
    pub actor: String,
}

/// The right to write for a duty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Which duty.
    pub key: DutyKey,
    /// The term under which the caller owns it.
    pub term: Term,
}

/// A run to be written, with its shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// The job.
    pub job: JobUid,
    /// The occasion, unique together with the job.
    pub occasion: Occasion,
    /// Revision it was computed from; must be the job's current one.
    pub revision: Revision,
    /// Period it stands for.
    pub period: Option<Period>,
    /// What its attempts need.
    pub terms: RunTerms,
    /// Its shards, numbered from 0; or a single [`Descriptor::Plan`], which becomes the plan step.
    pub shards: Vec<Descriptor>,
    /// Not to be granted before.
    pub ready_at: Timestamp,
    /// Digest of the request (manual runs: the same key with another digest is a conflict).
    pub digest: String,
    /// Grant the only shard at once to this session (born leased), under `fences`' pool term.
    pub born_leased: Option<SessionId>,
    /// Timeout of the born-leased attempt.
    pub attempt_timeout: Option<SignedDuration>,
}

/// What became of a [`NewRun`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateVerdict {
    /// Written now. If its shard was born leased, the grant.
    Created(RunId, Option<Granted>),
    /// This occasion has its run already.
    Exists(RunId),
    /// The same idempotency key was used with another request.
    OtherRequest(RunId),
    /// The job is gone, or its revision is another by now: decide anew.
    Conflict,
}

/// One step of a job's schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Advance {
    /// The job.
    pub job: JobUid,
    /// Revision it was computed from.
    pub revision: Revision,
    /// The high-water mark it was computed from.
    pub from: Timestamp,
    /// The new one.
    pub to: Timestamp,
    /// The next instant to decide, if any.
    pub next_due: Option<Timestamp>,
    /// If given, the number of active runs it was decided with (overlap).
    pub active_runs: Option<u32>,
    /// Instants that become runs.
    pub runs: Vec<NewRun>,
    /// Instants that do not.
    pub decisions: Vec<Decision>,
}

/// What became of an [`Advance`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdvanceVerdict {
    /// Written; the verdicts of its runs in order.
    Advanced(Vec<CreateVerdict>),
    /// Revision, mark or number of active runs differ by now: decide anew. Nothing was written.
    Conflict,
    /// The caller no longer owns the job's partition. Nothing was written.
    OldTerm,
}

/// A job's new document.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyJob {
    /// Display name; creates the job if no live one has it.
    pub name: JobName,
    /// Uid to use for a creation.
    pub new_uid: JobUid,
    /// The version of the row it was decided on; `None` for a creation.
    pub expected_ver: Option<u32>,
    /// The document.
    pub document: String,
    /// For a creation: everything up to here counts as decided. For an edit: see `closing`.
    pub high_water: Timestamp,
    /// The next instant of the new document, if any.
    pub next_due: Option<Timestamp>,
    /// For an edit: what the old revision still decides, up to the edit's commit. Its `to` is the
    /// new high-water mark.
    pub closing: Option<Advance>,
}

/// What became of an [`ApplyJob`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyVerdict {
    /// A new job.
    Created(JobUid),
    /// A new revision.
    Updated(JobUid, Revision),
    /// The document is the current one already.
    Unchanged(JobUid, Revision),
    /// Changed by somebody else meanwhile: read and decide anew.
    Conflict,
}

/// A shard that may be granted, with what a plan needs.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyHead {
    /// Its run.
    pub run: RunId,
    /// Its job.
    pub job: JobUid,
    /// The job's revision the run uses.
    pub revision: Revision,
    /// Pool, handler, priority, parallelism.
    pub terms: RunTerms,
    /// Shards of the run now running.
    pub running: u32,
    /// The first ready shards by `ready_at`, then number, with their tokens.
    pub shards: Vec<(ShardKey, Token)>,
}

/// A grant to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The shard.
    pub key: ShardKey,
    /// The token the plan was based on.
    pub token: Token,
    /// Who gets it.
    pub session: SessionId,
    /// How long the attempt may take.
    pub attempt_timeout: Option<SignedDuration>,
}

/// A grant that was made: all that the worker is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The shard as it is now: running, with its new token.
    pub shard: Shard,
    /// Number of this grant within the session, from 1. A beat that has seen it and does not list
    /// the shard says that the worker does not run it.
    pub grant_seq: u64,
}

/// What became of a [`Grant`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantVerdict {
    /// Made.
    Granted(Box<Granted>),
    /// What the plan assumed no longer holds.
    Refused(GrantRefused),
}

/// Why a grant was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantRefused {
    /// Not waiting, not ready yet, another token, or its run is being stopped.
    NotReady,
    /// The session is over, draining, or not in the run's pool.
    NoSession,
    /// The session's slots are taken.
    NoSlot,
    /// The run has as many running shards as it may.
    Parallelism,
    /// The caller no longer owns the pool.
    OldTerm,
}

/// The end of an attempt, already decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// The shard.
    pub key: ShardKey,
    /// The token the holder reports with.
    pub token: Token,
    /// What the rules made of it. The store passes it through [`Transition::under_stop`] with what
    /// it finds in the transaction, so that no shard of a stopped run goes back to waiting.
    pub transition: Transition,
    /// Digest of the report.
    pub digest: String,
    /// Newest progress.
    pub progress: Option<Progress>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// For a plan step that succeeded: the run's shards.
    pub expand: Option<Vec<Descriptor>>,
}

/// What became of a [`Finish`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishVerdict {
    /// Accepted, first and only time. If it closed the run: the outcome.
    Accepted(Option<RunState>),
    /// This very report was accepted before.
    Duplicate,
    /// The same token reported something else before; the first one stands.
    Contradicts,
    /// The token is old (or unknown, if `current` is lower than the one given).
    Stale {
        /// The shard's token.
        current: Token,
    },
    /// The token is current, but the attempt has been ended by somebody else.
    NotRunning,
    /// No such shard.
    Missing,
}

/// A checkpoint or progress report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveCheckpoint {
    /// The shard.
    pub key: ShardKey,
    /// The holder's token.
    pub token: Token,
    /// The holder's session; must be live.
    pub session: SessionId,
    /// New checkpoint; `None` for progress alone.
    pub checkpoint: Option<Checkpoint>,
    /// Newest progress.
    pub progress: Progress,
}

/// What became of a [`SaveCheckpoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointVerdict {
    /// Stored.
    Saved,
    /// Not newer than the stored one; nothing to do.
    Old,
    /// The token is not that of the running attempt.
    Stale {
        /// The shard's token.
        current: Token,
    },
    /// The session is over: stop.
    SessionOver,
}

/// A worker that registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Who.
    pub worker: WorkerIdentity,
    /// The pool it serves.
    pub pool: Name,
    /// Shards it runs at once, 1 to 10,000.
    pub slots: u32,
    /// Handlers it offers.
    pub handlers: Vec<String>,
    /// How long the session lasts without a beat.
    pub ttl: SignedDuration,
    /// Whether the worker has made sure that nothing of its older incarnations still runs; only
    /// then, and only with the same uid and boot id, do their leases end at once.
    pub old_trees_dead: bool,
}

/// What a registration gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The new session.
    pub session: SessionId,
    /// When it ends unless renewed.
    pub expires_at: Timestamp,
    /// Older sessions of this worker that were ended by it; their shards can be reaped now.
    pub superseded: Vec<SessionId>,
    /// A live session of the same name with another identity: an alarm.
    pub name_taken_by: Option<SessionId>,
}

/// What became of a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewVerdict {
    /// Renewed.
    Renewed {
        /// New end of the session.
        expires_at: Timestamp,
    },
    /// Over; register anew.
    Lost,
    /// Over, because a newer incarnation of the same worker registered.
    Superseded,
}

/// A running shard whose attempt must be ended from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The shard as it is.
    pub shard: Shard,
    /// Whether its run is being stopped.
    pub stop: Option<StopCause>,
    /// Its job and revision, for the retry policy.
    pub job: (JobUid, Revision),
    /// Whether the session is over (else the attempt's timeout has passed).
    pub session_over: bool,
}

/// An attempt to be ended from outside, already decided. The token is raised with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reap {
    /// The shard.
    pub key: ShardKey,
    /// The token of the attempt to end.
    pub token: Token,
    /// What the rules made of it.
    pub transition: Transition,
    /// Why.
    pub failure: Failure,
    /// Only if its session is over by now (the guard against a beat that came in between).
    pub only_if_session_over: bool,
}

/// What became of a [`Reap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReapVerdict {
    /// Ended. If it closed the run: the outcome.
    Reaped(Option<RunState>),
    /// Reported or reaped meanwhile, or its session lives.
    Gone,
    /// The caller no longer owns the pool.
    OldTerm,
}

/// What became of a request to stop or reopen a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestVerdict {
    /// Done. If that closed the run: the outcome.
    Done(Option<RunState>),
    /// It was so already.
    Already,
    /// The run's state does not allow it.
    NotNow(RunState),
    /// No such run.
    Missing,
    /// The caller no longer owns the job's partition (requests made by a duty).
    OldTerm,
}

/// A page request: rows after `after`, at most `limit` (and at most [`MAX_PAGE`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<K> {
    /// Key of the last row seen.
    pub after: Option<K>,
    /// Rows wanted.
    pub limit: u32,
}

/// Which runs to list; newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Of this job alone.
    pub job: Option<JobUid>,
    /// In this state alone.
    pub state: Option<RunState>,
}

/// Which events to list; oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Of this run and its shards alone.
    pub run: Option<RunId>,
    /// Of this shard alone.
    pub shard: Option<ShardKey>,
}

/// A shard with what a decision about it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardFacts {
    /// The shard.
    pub shard: Shard,
    /// Its run.
    pub run: Run,
}

/// The port. Object-safe; every future may be dropped only before it is first polled.
pub trait Store: Send + Sync + 'static {
    /// The store's clock: the one authority on what is due and what has expired.
    fn now(&self) -> Answer<'_, Timestamp>;
    /// Whether this operation was committed.
    fn find_op(&self, op: OpId) -> Answer<'_, bool>;

    // -- coordinator --
    /// Registers a server node for `ttl`.
    fn register_node(&self, op: Op, address: String, ttl: SignedDuration) -> Answer<'_, NodeId>;
    /// Renews a node's lease; `None` if it has expired, and then it never comes back.
    fn renew_node(&self, node: NodeId, ttl: SignedDuration) -> Answer<'_, Option<Timestamp>>;
    /// Takes those of `keys` that are free: never owned, released, owned by an expired node, or
    /// by `node` itself (same term). Returns what `node` owns of them.
    fn claim_duties(&self, op: Op, node: NodeId, keys: Vec<DutyKey>) -> Answer<'_, Vec<Fence>>;
    /// Gives duties up; those no longer owned under the given term are passed over.
    fn release_duties(&self, op: Op, fences: Vec<Fence>) -> Answer<'_, ()>;
    /// Live nodes, and all duties.
    fn list_members(&self) -> Answer<'_, (Vec<Node>, Vec<Duty>)>;

    // -- jobs and time --
    /// Creates or changes a job. An edit closes the old revision's instants in its transaction.
    fn apply_job(&self, op: Op, job: ApplyJob) -> Answer<'_, ApplyVerdict>;
    /// A live job by name.
    fn get_job(&self, name: JobName) -> Answer<'_, Option<Job>>;
    /// A job by uid, deleted ones too.
    fn get_job_by_uid(&self, uid: JobUid) -> Answer<'_, Option<Job>>;
    /// The document of one revision.
    fn get_revision(&self, job: JobUid, revision: Revision) -> Answer<'_, Option<String>>;
    /// Live jobs by (namespace, name).
    fn list_jobs(&self, page: Page<JobName>) -> Answer<'_, Vec<Job>>;
    /// Pauses or resumes a job's schedules; `closing` decides what lies behind (see
    /// [`ApplyJob::closing`]), `next_due` is the next instant after it.
    fn set_job_paused(
        &self,
        op: Op,
        paused: bool,
        closing: Advance,
        expected_ver: u32,
    ) -> Answer<'_, ApplyVerdict>;
    /// Deletes a job: its name is free again, its history stays. False if its version differs.
    fn delete_job(&self, op: Op, job: JobUid, expected_ver: u32) -> Answer<'_, bool>;
    /// Live, unpaused jobs of these partitions whose next instant is not after `until`, soonest
    /// first, at most `limit`.
    fn list_due_jobs(
        &self,
        partitions: Vec<u8>,
        until: Timestamp,
        limit: u32,
    ) -> Answer<'_, Vec<Job>>;
    /// Moves high-water marks and writes the runs and decisions in between.
    fn advance_schedules(
        &self,
        op: Op,
        fences: Vec<Fence>,
        items: Vec<Advance>,
    ) -> Answer<'_, Vec<AdvanceVerdict>>;
    /// Decisions of a job whose `to` is not before `from`, oldest first.
    fn list_decisions(&self, job: JobUid, from: Timestamp, limit: u32)
    -> Answer<'_, Vec<Decision>>;

    // -- runs --
    /// Writes runs that people or programs asked for; callers of one batch are independent.
    /// `fences` are needed only for those born leased.
    fn create_runs(
        &self,
        op: Op,
        fences: Vec<Fence>,
        runs: Vec<NewRun>,
    ) -> Answer<'_, Vec<CreateVerdict>>;
    /// A run, with the sums of its shards' progress.
    fn get_run(&self, run: RunId) -> Answer<'_, Option<(Run, Progress)>>;
    /// The run of an occasion.
    fn find_run(&self, job: JobUid, occasion: Occasion) -> Answer<'_, Option<RunId>>;
    /// Runs, newest first.
    fn list_runs(&self, filter: RunFilter, page: Page<RunId>) -> Answer<'_, Vec<Run>>;
    /// Stops a run: waiting shards are cancelled now, running ones when their attempt ends.
    /// The first cause stays. `fence` if a duty asks.
    fn request_stop(
        &self,
        op: Op,
        fence: Option<Fence>,
        run: RunId,
        cause: StopCause,
    ) -> Answer<'_, RequestVerdict>;
    /// Reopens the failed and cancelled shards of a `failed` or `partial` run: new budget, same
    /// run, same checkpoints; round + 1. `only`: these shards alone.
    fn reopen_run(
        &self,
        op: Op,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        ready_at: Timestamp,
    ) -> Answer<'_, RequestVerdict>;
    /// Open runs of these partitions that are past their deadline and not being stopped.
    fn list_late_runs(&self, partitions: Vec<u8>, limit: u32) -> Answer<'_, Vec<(RunId, u8)>>;
    /// Settles runs whose counters are complete but whose state is not (there should be none).
    fn settle_runs(&self, op: Op, fences: Vec<Fence>, limit: u32) -> Answer<'_, Vec<RunId>>;

    // -- dispatch --
    /// For open runs of the pool that are not being stopped, by priority, then id, after `after`:
    /// the first `per_run` ready shards. At most `runs` runs, and only those with ready shards.
    fn list_ready(
        &self,
        pool: Name,
        after: Option<RunId>,
        runs: u32,
        per_run: u32,
    ) -> Answer<'_, Vec<ReadyHead>>;
    /// When the next waiting shard of the pool becomes ready, if one waits for its time.
    fn next_ready_at(&self, pool: Name) -> Answer<'_, Option<Timestamp>>;
    /// Grants what still holds.
    fn lease_shards(
        &self,
        op: Op,
        fence: Fence,
        grants: Vec<Grant>,
    ) -> Answer<'_, Vec<GrantVerdict>>;
    /// Running shards of the pool whose session is over or whose timeout passed `grace` ago.
    fn list_overdue(
        &self,
        pool: Name,
        grace: SignedDuration,
        limit: u32,
    ) -> Answer<'_, Vec<Overdue>>;
    /// Ends attempts from outside and raises their tokens.
    fn reap_shards(&self, op: Op, fence: Fence, reaps: Vec<Reap>) -> Answer<'_, Vec<ReapVerdict>>;

    // -- workers --
    /// Registers a worker (see [`Register`]).
    fn register_session(&self, op: Op, register: Register) -> Answer<'_, Registered>;
    /// Takes beats; a session that has expired is never renewed.
    fn renew_sessions(
        &self,
        sessions: Vec<SessionId>,
        ttl: SignedDuration,
    ) -> Answer<'_, Vec<RenewVerdict>>;
    /// A session takes no new work from now on.
    fn drain_session(&self, session: SessionId) -> Answer<'_, ()>;
    /// Ends a session (`drained`, or `expired` by the reaper under `fence`, which must then be
    /// past its expiry). False if it was over already, or is not.
    fn end_session(
        &self,
        op: Op,
        fence: Option<Fence>,
        session: SessionId,
        cause: String,
    ) -> Answer<'_, bool>;
    /// Sessions of a pool (or all) that are not ended, with the number of shards each holds
    /// (counted from the shards, never a counter of its own).
    fn list_sessions(&self, pool: Option<Name>) -> Answer<'_, Vec<(Session, u32)>>;
    /// A session, ended or not.
    fn get_session(&self, session: SessionId) -> Answer<'_, Option<Session>>;
    /// Shards that a session holds.
    fn list_leases(&self, session: SessionId) -> Answer<'_, Vec<Shard>>;
    /// Shards with their runs, for decisions; missing ones are left out.
    fn get_shards(&self, keys: Vec<ShardKey>) -> Answer<'_, Vec<ShardFacts>>;
    /// Ends attempts as their holders report. Accepted whenever the token is that of the running
    /// attempt, also after the session's expiry. Refused ones are recorded as `report_refused`.
    fn finish_attempts(&self, op: Op, items: Vec<Finish>) -> Answer<'_, Vec<FinishVerdict>>;
    /// Stores checkpoints and progress. Stale ones are recorded as `report_refused`.
    fn save_checkpoints(
        &self,
        op: Op,
        items: Vec<SaveCheckpoint>,
    ) -> Answer<'_, Vec<CheckpointVerdict>>;

    // -- history --
    /// Shards of a run by number.
    fn list_shards(&self, run: RunId, page: Page<i32>) -> Answer<'_, Vec<Shard>>;
    /// Events, oldest first.
    fn list_events(&self, filter: EventFilter, page: Page<u64>) -> Answer<'_, Vec<Event>>;
    /// Removes closed runs that ended before `before`, with their shards and events; at most
    /// `limit`. Leaves a decision `removed` for each planned one, so that its instant stays decided.
    fn remove_history(
        &self,
        op: Op,
        fence: Fence,
        before: Timestamp,
        limit: u32,
    ) -> Answer<'_, u32>;
    /// Everything, for tests and checks on small stores.
    fn dump(&self) -> Answer<'_, Dump>;
}
