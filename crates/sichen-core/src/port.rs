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
//! - Lock order: duty → calendar → job → run → shard (ascending) → session → capacity (by name)
//!   → namespace (by name).
//!
//! # Not here
//! Transaction handles: none leaves a store.

mod overview;
mod values;

use std::future::Future;
use std::pin::Pin;

use crate::access::{AccessToken, NewAccessToken, TokenCreated, TokenRevoked};
use crate::backfill::check::{Check, CheckState, CheckStep, CheckVerdict};
use crate::backfill::{self, Backfill, Facts, NewBackfill};
use crate::dispatch::queue::{Place, Window};
use crate::event::Event;
use crate::ids::{
    BackfillId, JobUid, NodeId, Occasion, OpId, Revision, RunId, SessionId, ShardKey, Term,
};
use crate::lifecycle::StopCause;
use crate::model::{
    Calendar, CalendarUser, Decision, Dump, Duty, DutyKey, Hold, Job, Namespace, NamespaceChange,
    Node, Progress, Run, Session, Shard, Standing, Waiter,
};
use crate::name::{JobName, Name};
use crate::restore::{self, Decided, Restore};
use crate::timekeeping::Told;
use jiff::{SignedDuration, Timestamp};

pub use overview::*;
pub use values::*;

/// The most items one batch may have; a store refuses a larger one whole ([`Error::TooMany`]).
pub const MAX_BATCH: usize = 500;
/// Shards of new runs in one transaction: one that has as many takes no more runs. (A run is never
/// divided, and may have more.)
pub const MAX_BATCH_SHARDS: usize = 20_000;
/// The most rows one page of a listing may have.
pub const MAX_PAGE: u32 = 1_000;

/// A future that a store returns.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Why a store call failed as a whole. What concerns one item is a verdict, not an error.
#[derive(Clone, Debug, thiserror::Error)]
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
    /// A batch of so many items is larger than [`MAX_BATCH`]: a mistake of the caller; nothing was done.
    #[error("SC3006: a batch of {0} items is refused: a store takes at most {MAX_BATCH} at once")]
    TooMany(usize),
}

/// Whether a store takes `items` as one batch.
///
/// # Errors
/// [`Error::TooMany`] if there are more than [`MAX_BATCH`].
pub fn within_batch<T>(items: &[T]) -> Result<(), Error> {
    if items.len() > MAX_BATCH {
        return Err(Error::TooMany(items.len()));
    }
    Ok(())
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

/// The port. Object-safe. Whatever takes a batch takes at most [`MAX_BATCH`] items ([`within_batch`]). A call that was begun runs to its end, whether its future is kept or not.
pub trait Store: Send + Sync + 'static {
    /// The store's clock: the one authority on what is due and what has expired.
    fn now(&self) -> Answer<'_, Timestamp>;
    /// The same, with what is wrong with it. While time is held nothing is due.
    fn clock(&self) -> Answer<'_, Told>;
    /// Believes a clock that stepped ahead: by how much, or `None` if time is not held. What runs is
    /// given as much more time: sessions, nodes' leases, attempts' timeouts and runs' deadlines.
    fn accept_clock(&self, op: Op) -> Answer<'_, Option<SignedDuration>>;
    /// The restore that is not decided yet, if there is one; see [`crate::restore`].
    fn get_restore(&self) -> Answer<'_, Option<Restore>>;
    /// Notes that the store went back: raises its epoch above its own and `known`, leaves numbers out,
    /// takes all duties away, and lets nobody claim one until [`Subject::Rest`](crate::restore::Subject)
    /// is decided.
    fn begin_restore(&self, op: Op, known: u32) -> Answer<'_, Restore>;
    /// Records a decision and carries it out.
    fn decide_restore(&self, op: Op, decided: Decided) -> Answer<'_, restore::Verdict>;
    /// Whether this operation was committed.
    fn find_op(&self, op: OpId) -> Answer<'_, bool>;

    // -- coordinator --
    /// Registers a server node for `ttl`.
    fn register_node(&self, op: Op, address: String, ttl: SignedDuration) -> Answer<'_, NodeId>;
    /// Renews a node's lease; `None` if it has expired, and then it never comes back.
    fn renew_node(&self, node: NodeId, ttl: SignedDuration) -> Answer<'_, Option<Timestamp>>;
    /// Ends a node's lease before its time, so that its duties are free: it stops, or its process is
    /// gone. False if the lease had ended. A node that lives after all finds out when it renews.
    fn end_node(&self, op: Op, node: NodeId, cause: String) -> Answer<'_, bool>;
    /// Takes those of `keys` that are free: never owned, released, owned by an expired node, or
    /// by `node` itself (same term). Returns what `node` owns of them. None while a restore is not decided.
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
    /// Deletes a job: its name is free again, its history stays. `closing` records what its
    /// schedules leave undecided. False, and nothing written, if its version differs or `closing`
    /// does not hold.
    fn delete_job(
        &self,
        op: Op,
        job: JobUid,
        closing: Option<Advance>,
        expected_ver: u32,
    ) -> Answer<'_, bool>;
    /// Live, unpaused jobs of these partitions whose next instant is not after `until`, soonest
    /// first, at most `limit`.
    fn list_due_jobs(
        &self,
        partitions: Vec<u8>,
        until: Timestamp,
        limit: u32,
    ) -> Answer<'_, Vec<Job>>;
    /// Live, unpaused jobs of these partitions whose mark was set by zone data older than `data`, at
    /// most `limit`; see [`crate::schedule::zones`]. None while time is held.
    fn list_outdated_jobs(
        &self,
        partitions: Vec<u8>,
        data: String,
        limit: u32,
    ) -> Answer<'_, Vec<Job>>;
    /// Moves high-water marks and writes the runs and decisions in between.
    fn advance_schedules(
        &self,
        op: Op,
        fences: Vec<Fence>,
        items: Vec<Advance>,
    ) -> Answer<'_, Vec<AdvanceVerdict>>;
    /// Decisions of a job whose `to` is not before `from`, those that end first before others.
    fn list_decisions(&self, job: JobUid, from: Timestamp, limit: u32)
    -> Answer<'_, Vec<Decision>>;

    // -- calendars --
    /// Creates a calendar or writes its next version, if `expected` is its newest one (`None`: there
    /// is none). The jobs that use it go by their version until they are edited.
    fn apply_calendar(
        &self,
        op: Op,
        name: JobName,
        document: String,
        expected: Option<u32>,
    ) -> Answer<'_, CalendarVerdict>;
    /// A calendar by name, in its newest version or in that of this number; a deleted one only by
    /// number.
    fn get_calendar(&self, name: JobName, version: Option<u32>) -> Answer<'_, Option<Calendar>>;
    /// Calendars by (namespace, name).
    fn list_calendars(&self, page: Page<JobName>) -> Answer<'_, Vec<Calendar>>;
    /// Deletes a calendar that no live job uses.
    fn delete_calendar(&self, op: Op, name: JobName) -> Answer<'_, CalendarDeleted>;
    /// Live jobs that use a calendar, by uid after `page.after`; without a name, of any calendar,
    /// those alone whose version is not its newest one.
    fn list_calendar_users(
        &self,
        name: Option<JobName>,
        page: Page<JobUid>,
    ) -> Answer<'_, Vec<CalendarUser>>;

    // -- access --
    /// Keeps a token, in the place of one of its name that is over. The same digest again is the
    /// same request again.
    fn create_access_token(&self, op: Op, new: NewAccessToken) -> Answer<'_, TokenCreated>;
    /// Takes a token back for good.
    fn revoke_access_token(&self, op: Op, name: Name) -> Answer<'_, TokenRevoked>;
    /// Tokens by name, those that are over too.
    fn list_access_tokens(&self, page: Page<Name>) -> Answer<'_, Vec<AccessToken>>;
    /// Notes that tokens were used now. For display: it writes no event.
    fn note_access_tokens(&self, names: Vec<Name>) -> Answer<'_, ()>;

    // -- capacities --
    /// Creates a capacity or changes it, if `expected` is its version. What is held stays held.
    fn apply_capacity(&self, op: Op, apply: ApplyCapacity) -> Answer<'_, CapacityVerdict>;
    /// Deletes a capacity that nothing uses any more.
    fn delete_capacity(&self, op: Op, name: Name) -> Answer<'_, CapacityDeleted>;
    /// How these capacities stand, by name; those that do not exist are left out.
    fn get_capacities(&self, names: Vec<Name>) -> Answer<'_, Vec<Standing>>;
    /// How all capacities stand, by name.
    fn list_capacities(&self, page: Page<Name>) -> Answer<'_, Vec<Standing>>;
    /// What is held of a capacity, oldest first, at most `limit`.
    fn list_holds(&self, capacity: Name, limit: u32) -> Answer<'_, Vec<Hold>>;
    /// Open runs that use a capacity and have ready shards, by run, at most `limit`.
    fn list_waiters(&self, capacity: Name, limit: u32) -> Answer<'_, Vec<Waiter>>;

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
    /// run, same checkpoints; round + 1. `only`: these shards alone, discarded ones too.
    fn reopen_run(
        &self,
        op: Op,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        ready_at: Timestamp,
    ) -> Answer<'_, RequestVerdict>;
    /// Strikes failed shards of a `failed` or `partial` run off the dead letters: their outcome and
    /// the run's stay, and [`Store::reopen_run`] leaves them out unless it names them. `only`: these
    /// shards alone.
    fn discard_shards(
        &self,
        op: Op,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        why: Discard,
    ) -> Answer<'_, RequestVerdict>;
    /// Open runs of these partitions that are past their deadline and not being stopped, at most
    /// `limit`, and the deadline that passes next.
    fn list_late_runs(&self, partitions: Vec<u8>, limit: u32) -> Answer<'_, LateRuns>;
    /// How many shards of a job run, in all its runs.
    fn count_running_of_job(&self, job: JobUid) -> Answer<'_, u32>;
    /// Running shards of a run by number, at most `limit`: who is to be told that it stops.
    fn list_running(&self, run: RunId, limit: u32) -> Answer<'_, Vec<Shard>>;
    /// Settles runs whose counters are complete but whose state is not (there should be none).
    fn settle_runs(&self, op: Op, fences: Vec<Fence>, limit: u32) -> Answer<'_, Vec<RunId>>;

    // -- backfills --
    /// Writes a backfill that a person or program asked for.
    fn create_backfill(&self, op: Op, new: NewBackfill) -> Answer<'_, backfill::NewVerdict>;
    /// A backfill.
    fn get_backfill(&self, id: BackfillId) -> Answer<'_, Option<Backfill>>;
    /// A job's backfills, newest first.
    fn list_backfills(&self, job: JobUid, page: Page<BackfillId>) -> Answer<'_, Vec<Backfill>>;
    /// Backfills of the jobs of these partitions that go on, by id: running ones, and others whose
    /// checks do ([`backfill::check`]).
    fn list_running_backfills(
        &self,
        partitions: Vec<u8>,
        page: Page<BackfillId>,
    ) -> Answer<'_, Vec<Backfill>>;
    /// Pauses, resumes or cancels a backfill. `fence` if a duty does; `cause`: why.
    fn turn_backfill(
        &self,
        op: Op,
        fence: Option<Fence>,
        id: BackfillId,
        turn: backfill::Turn,
        cause: String,
    ) -> Answer<'_, backfill::TurnVerdict>;
    /// Moves a backfill on and starts its runs, all or nothing.
    fn advance_backfill(
        &self,
        op: Op,
        fence: Fence,
        advance: backfill::Advance,
    ) -> Answer<'_, backfill::AdvanceVerdict>;
    /// Moves checks of a backfill's runs; those that no longer fit are passed over.
    fn move_checks(&self, op: Op, fence: Fence, step: CheckStep) -> Answer<'_, CheckVerdict>;
    /// The checks of a backfill's runs, or those in `state`, by run and round.
    fn list_checks(
        &self,
        backfill: BackfillId,
        state: Option<CheckState>,
        page: Page<(RunId, u32)>,
    ) -> Answer<'_, Vec<Check>>;
    /// The newest run of each of these instants of a job, and what is recorded of it: a row for
    /// each, in the same order; at most [`MAX_BATCH`].
    fn list_instants(&self, job: JobUid, instants: Vec<Timestamp>) -> Answer<'_, Vec<Facts>>;
    /// A job's revisions with the marks at which they began, where that is known.
    fn list_revisions(
        &self,
        job: JobUid,
        page: Page<Revision>,
    ) -> Answer<'_, Vec<(Revision, Option<Timestamp>)>>;

    // -- namespaces --
    /// Sets what a namespace may have; as it is then. If nothing changes, nothing is written.
    fn set_namespace(&self, op: Op, name: Name, change: NamespaceChange) -> Answer<'_, Namespace>;
    /// Namespaces of which something was set, by name; with how many of its shards run, if that is
    /// limited.
    fn list_namespaces(&self, page: Page<Name>) -> Answer<'_, Vec<(Namespace, Option<u32>)>>;

    // -- dispatch --
    /// For open runs of the pool that are not being stopped, in the order of their places behind
    /// `after`, as many as `window` shows ([`crate::dispatch::queue`]): the first `per_run` ready
    /// shards. Only those with ready shards.
    fn list_ready(
        &self,
        pool: Name,
        after: Place,
        window: Window,
        per_run: u32,
    ) -> Answer<'_, Vec<ReadyHead>>;
    /// When the first waiting shard of the pool that is not ready at `after` becomes ready. To be asked
    /// with the instant before the ready ones were listed, so that none falls between.
    fn next_ready_at(&self, pool: Name, after: Timestamp) -> Answer<'_, Option<Timestamp>>;
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

    /// While the clock is behind, and time stands still: gives leases that nobody renews the ends that
    /// they would have ([`crate::timekeeping::standstill`]). One that was renewed meanwhile is passed
    /// over. How many were changed: none while time goes on, or under an old term of the janitor.
    fn shorten_leases(&self, op: Op, fence: Fence, leases: Vec<Shorter>) -> Answer<'_, u32>;

    // -- workers --
    /// Registers a worker (see [`Register`]), unless it has registered since it asked: then
    /// nothing is changed. Sessions that ended count as well ([`crate::lease::is_outdated`]).
    fn register_session(&self, op: Op, register: Register) -> Answer<'_, RegisterVerdict>;
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
    /// Stores checkpoints and progress, each a sign that its attempt has not stalled. Stale ones are recorded as `report_refused`.
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
    /// The highest number of the log; 0 if it is empty.
    fn get_last_event(&self) -> Answer<'_, u64>;
    /// How things stand at `now`, in numbers of one moment.
    fn get_overview(&self, now: Timestamp, span: Span) -> Answer<'_, Overview>;
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
