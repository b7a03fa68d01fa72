//! Many machines: PostgreSQL 14 or newer.
//!
//! A use case runs in one transaction of `READ COMMITTED` over one of a few connections: it locks the
//! rows it will decide upon in the port's order, reads the clock, and then does what the other stores
//! do, with the same rules. A duty's term is held by `FOR SHARE`, so that a takeover waits for what is
//! written under the old term. Reads each see one snapshot.
//!
//! # Invariants
//! - What a use case decides upon is locked before the clock is read ([`kept`]).
//! - A transaction that failed before its commit is run anew as a whole; one that failed at its
//!   commit is looked up by its operation ([`engine`]).
//! - The pool mends itself: a broken connection is noticed and replaced.
//!
//! # Repeated operations, numbers
//! As in [`crate::sqlite`]. Ids and places in the log come from sequences: they rise, with gaps where
//! a transaction was given up, and not in the order of commits. PostgreSQL keeps no text with a NUL.
//!
//! # Not here
//! Rules ([`sichen_core::lifecycle`]); the same port in plain words ([`crate::memory`]).

mod access;
mod address;
mod backfills;
mod batch;
mod beacon;
mod calendars;
mod capacities;
mod chains;
mod check;
mod checks;
mod clock;
mod connect;
mod discards;
mod duties;
mod engine;
mod fault;
mod history;
mod jobs;
mod kept;
mod leases;
mod link;
mod migrate;
mod namespaces;
mod overview;
mod param;
mod password;
mod restored;
mod row;
mod runs;
mod sessions;
mod shards;
#[doc(hidden)]
pub mod sql;
mod tls;
mod tx;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
use sichen_core::restore::{Decided, Restore, Subject, Verdict};
use sichen_core::timekeeping::Told;
use tokio::sync::mpsc;

use crate::clock::Clock;
pub use beacon::PostgresBeacon;
use engine::Engine;
use kept::Locks;
use row::int;

/// How a store uses its server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Instead of the database's clock: for tests. Two processes must not use one database so.
    pub clock: Option<Arc<dyn Clock>>,
    /// Take a server that may forget what it has committed (`fsync` or `synchronous_commit` off).
    pub unsafe_durability: bool,
    /// Connections at most, from 1.
    pub connections: u32,
    /// For a connection to be made.
    pub connect_timeout: Duration,
    /// For one statement, and for a free connection.
    pub statement_timeout: Duration,
    /// For all of one transaction, counted here: also where nothing answers any more.
    pub call_timeout: Duration,
    /// For a lock that another transaction holds; the call then answers [`Error::Busy`].
    pub lock_timeout: Duration,
    /// After which the server ends a transaction whose client has gone silent.
    pub idle_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: None,
            unsafe_durability: false,
            connections: 16,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(30),
            call_timeout: Duration::from_secs(60),
            lock_timeout: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(5),
        }
    }
}

/// How long a whole store may be read.
const LOOK_TIMEOUT: Duration = Duration::from_secs(3_600);

/// A connection outside of any store, to the server at `url` as [`PostgresStore::open`] reads it, with
/// `settings` said at its start (so not through a pooler). It ends with the client.
///
/// # Errors
/// [`Error::Unavailable`] if the address is wrong or nobody answers there.
pub async fn connect(
    url: &str,
    settings: &[(&str, &str)],
) -> Result<tokio_postgres::Client, Error> {
    let address = address::Address::parse(url, |name| std::env::var(name).ok())?;
    connect::single(address, settings).await
}

/// What the server at `url` says of itself, by the names of its settings: for people.
///
/// # Errors
/// As [`connect`].
pub async fn facts(url: &str) -> Result<Vec<(String, String)>, Error> {
    let client = connect(url, &[]).await?;
    check::facts(&client).await
}

/// A transaction that has been open for long. While it lasts the database keeps every version of every
/// row that has changed since, which all others walk over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldTransaction {
    /// The process of its session; 0 for a prepared one, which has none.
    pub pid: i32,
    /// How long it has been open, if that may be known.
    pub age_seconds: Option<i64>,
    /// Whose it is, for people.
    pub what: String,
}

/// Transactions in the database at `url` that have been open for longer than `older_than`, the oldest
/// first; at most ten.
///
/// # Errors
/// As [`connect`].
pub async fn old_transactions(
    url: &str,
    older_than: Duration,
) -> Result<Vec<OldTransaction>, Error> {
    let client = connect(url, &[("application_name", "sichen-check")]).await?;
    check::old_transactions(&client, older_than).await
}

/// A store in one PostgreSQL database.
#[derive(Debug)]
pub struct PostgresStore {
    engine: Engine,
}

/// Runs a use case over copies of its arguments, since it may be tried more than once.
macro_rules! write {
    ($store:ident, $op:expr, [$($arg:ident),*], |$tx:ident| $body:block) => {
        $store.engine.write($op, move |$tx| {
            $(let $arg = $arg.clone();)*
            Box::pin(async move { $body })
        })
    };
}

/// As `read!`, for reads that need no common snapshot and no clock but the one they read.
macro_rules! glance {
    ($store:ident, [$($arg:ident),*], |$read:ident| $body:expr) => {
        $store.engine.glance(move |$read| {
            $(let $arg = $arg.clone();)*
            Box::pin(async move { $body })
        })
    };
}

/// As `write!`, for one statement that is the whole use case and may be said again.
macro_rules! alone {
    ($store:ident, [$($arg:ident),*], |$read:ident| $body:expr) => {
        $store.engine.alone(move |$read| {
            $(let $arg = $arg.clone();)*
            Box::pin(async move { $body })
        })
    };
}

/// As `write!`, from one snapshot.
macro_rules! read {
    ($store:ident, [$($arg:ident),*], |$read:ident| $body:expr) => {
        $store.engine.read(move |$read| {
            $(let $arg = $arg.clone();)*
            Box::pin(async move { $body })
        })
    };
}

impl PostgresStore {
    /// Connects to the database at `url` (`postgres://…`, or `key=value` pairs, with libpq's words for
    /// encryption and password files; see `docs/postgres.md`), checks the server and brings the schema
    /// up to date. To be called on a Tokio runtime, on which all calls then run;
    /// their answers may be awaited anywhere.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the server can't be reached, is too old, may forget what it has
    /// committed, or the database is of a newer version; [`Error::ReadOnly`] if it is a standby;
    /// [`Error::Corrupt`] if the database is not what its migrations say.
    pub async fn open(url: &str, options: Options) -> Result<Self, Error> {
        let store = Self {
            engine: Engine::open(url, options).await?,
        };
        store.settle().await?;
        Ok(store)
    }

    /// Takes note of where the database is, and of a copy or another timeline ([`restored::settle`]).
    async fn settle(&self) -> Result<(), Error> {
        let places: Answer<'_, _> = glance!(self, [], |read| restored::places(read).await);
        let changed = match places.await {
            Ok((now, before)) => now != before,
            Err(error) => {
                // Not everybody may ask it everywhere; what it tells is only noticed earlier by it.
                tracing::warn!(%error, "it can't be asked which installation of PostgreSQL this is");
                false
            }
        };
        if !changed {
            return Ok(());
        }
        let settled: Answer<'_, ()> = write!(self, None, [], |tx| {
            tx.take_turn(kept::Turn::Claim, "").await?;
            let duties = restored::duties(tx).await?;
            tx.lock_duties(duties, false).await?;
            tx.tell_time().await?;
            restored::settle(tx).await
        });
        settled.await
    }

    /// The whole content of the store at `url`, from one snapshot. Nothing is written there: rights to
    /// read are enough, and a standby will do.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the server can't be reached, there is no store, or it is of another
    /// version.
    pub async fn look(url: &str) -> Result<Dump, Error> {
        Self::looking(url)
            .await?
            .read(|read| Box::pin(async move { history::dump(read).await }))
            .await
    }

    /// [`PostgresStore::look`] for a long history: the log goes to `log` while it is read, all of it
    /// or what is about as young as `since` and younger, and the answer has no events.
    ///
    /// # Errors
    /// As [`PostgresStore::look`], and if nobody takes the log or the connection breaks meanwhile:
    /// what was handed on can't be taken back.
    pub async fn look_along(
        url: &str,
        since: Option<Timestamp>,
        log: mpsc::Sender<Vec<Event>>,
    ) -> Result<Dump, Error> {
        let begun = Arc::new(AtomicBool::new(false));
        let look = Self::looking(url).await?;
        look.read(move |read| {
            let (log, begun) = (log.clone(), Arc::clone(&begun));
            Box::pin(async move {
                if begun.swap(true, Ordering::Relaxed) {
                    let text = "the connection broke while the log was read";
                    return Err(Error::Unavailable(text.to_owned()));
                }
                history::log(read, since, &log).await?;
                history::rows(read).await
            })
        })
        .await
    }

    async fn looking(url: &str) -> Result<Engine, Error> {
        // A history may be long, and nobody waits for a reader.
        let options = Options {
            connections: 2,
            statement_timeout: LOOK_TIMEOUT,
            call_timeout: LOOK_TIMEOUT,
            ..Options::default()
        };
        Engine::look(url, options).await
    }
}

/// The texts of the duties of `fences`.
fn keys_of(fences: &[Fence]) -> Vec<String> {
    fences.iter().map(|fence| fence.key.text()).collect()
}

impl Store for PostgresStore {
    fn now(&self) -> Answer<'_, Timestamp> {
        Box::pin(async { Ok(self.engine.clock().await?.now) })
    }
    fn clock(&self) -> Answer<'_, Told> {
        self.engine.clock()
    }
    fn accept_clock(&self, op: Op) -> Answer<'_, Option<SignedDuration>> {
        write!(self, Some(op), [], |tx| {
            tx.tell_time().await?;
            clock::accept(tx).await
        })
    }
    fn get_restore(&self) -> Answer<'_, Option<Restore>> {
        glance!(self, [], |read| restored::get(read).await)
    }
    fn begin_restore(&self, op: Op, known: u32) -> Answer<'_, Restore> {
        write!(self, Some(op), [], |tx| {
            tx.take_turn(kept::Turn::Claim, "").await?;
            let duties = restored::duties(tx).await?;
            tx.lock_duties(duties, false).await?;
            tx.tell_time().await?;
            restored::begin(tx, known).await
        })
    }
    fn decide_restore(&self, op: Op, decided: Decided) -> Answer<'_, Verdict> {
        write!(self, Some(op), [decided], |tx| {
            // In turn with the next restore's beginning and with whoever would take a duty.
            tx.take_turn(kept::Turn::Claim, "").await?;
            match &decided.subject {
                Subject::Job(job, _) => tx.lock_jobs(vec![job.0]).await?,
                Subject::Run(run) => tx.lock_runs(&[*run]).await?,
                Subject::Rest => {}
            }
            tx.tell_time().await?;
            restored::decide(tx, decided).await
        })
    }
    fn find_op(&self, op: OpId) -> Answer<'_, bool> {
        glance!(self, [], |read| read.exists(sql::FIND_OP, [op.0]).await)
    }
    fn register_node(&self, op: Op, address: String, ttl: SignedDuration) -> Answer<'_, NodeId> {
        write!(self, Some(op), [address], |tx| {
            tx.tell_time().await?;
            duties::register_node(tx, &address, ttl).await
        })
    }
    fn renew_node(&self, node: NodeId, ttl: SignedDuration) -> Answer<'_, Option<Timestamp>> {
        // Said twice it is what it is said once: no operation is recorded.
        alone!(self, [], |read| duties::renew_node(read, node, ttl).await)
    }
    fn end_node(&self, op: Op, node: NodeId, cause: String) -> Answer<'_, bool> {
        write!(self, Some(op), [cause], |tx| {
            tx.lock_nodes(Vec::new(), node).await?;
            tx.tell_time().await?;
            duties::end_node(tx, node, &cause).await
        })
    }
    fn claim_duties(&self, op: Op, node: NodeId, keys: Vec<DutyKey>) -> Answer<'_, Vec<Fence>> {
        write!(self, Some(op), [keys], |tx| {
            tx.take_turn(kept::Turn::Claim, "").await?;
            let texts: Vec<String> = keys.iter().map(DutyKey::text).collect();
            tx.lock_duties(texts.clone(), false).await?;
            tx.lock_nodes(texts, node).await?;
            tx.tell_time().await?;
            duties::claim(tx, node, keys).await
        })
    }
    fn release_duties(&self, op: Op, fences: Vec<Fence>) -> Answer<'_, ()> {
        write!(self, Some(op), [fences], |tx| {
            tx.lock_duties(keys_of(&fences), false).await?;
            tx.tell_time().await?;
            duties::release(tx, &fences).await
        })
    }
    fn list_members(&self) -> Answer<'_, (Vec<Node>, Vec<Duty>)> {
        glance!(self, [], |read| duties::list(read).await)
    }
    fn apply_job(&self, op: Op, job: ApplyJob) -> Answer<'_, ApplyVerdict> {
        write!(self, Some(op), [job], |tx| {
            tx.share_calendars(&job.calendars).await?;
            tx.lock_live_job(&job.name).await?;
            tx.tell_time().await?;
            jobs::apply(tx, job).await
        })
    }
    fn get_job(&self, name: JobName) -> Answer<'_, Option<Job>> {
        glance!(self, [name], |read| read.live_job(&name).await)
    }
    fn get_job_by_uid(&self, uid: JobUid) -> Answer<'_, Option<Job>> {
        glance!(self, [], |read| Ok(read.job(uid).await?.map(|row| row.job)))
    }
    fn get_revision(&self, job: JobUid, revision: Revision) -> Answer<'_, Option<String>> {
        glance!(self, [], |read| read
            .one(sql::GET_REVISION, (job.0, revision.0), |row| row.text(0))
            .await)
    }
    fn list_jobs(&self, page: Page<JobName>) -> Answer<'_, Vec<Job>> {
        read!(self, [page], |read| jobs::list(read, &page).await)
    }
    fn set_job_paused(
        &self,
        op: Op,
        paused: bool,
        closing: Advance,
        expected_ver: u32,
    ) -> Answer<'_, ApplyVerdict> {
        write!(self, Some(op), [closing], |tx| {
            tx.lock_jobs(vec![closing.job.0]).await?;
            tx.tell_time().await?;
            jobs::set_paused(tx, paused, closing, expected_ver).await
        })
    }
    fn delete_job(
        &self,
        op: Op,
        job: JobUid,
        closing: Option<Advance>,
        expected_ver: u32,
    ) -> Answer<'_, bool> {
        write!(self, Some(op), [closing], |tx| {
            tx.lock_jobs(vec![job.0]).await?;
            tx.tell_time().await?;
            jobs::delete(tx, job, closing, expected_ver).await
        })
    }
    fn list_due_jobs(
        &self,
        partitions: Vec<u8>,
        until: Timestamp,
        limit: u32,
    ) -> Answer<'_, Vec<Job>> {
        glance!(self, [partitions], |read| jobs::list_due(
            read,
            &partitions,
            until,
            limit
        )
        .await)
    }
    fn list_outdated_jobs(
        &self,
        partitions: Vec<u8>,
        data: String,
        limit: u32,
    ) -> Answer<'_, Vec<Job>> {
        read!(self, [partitions, data], |read| jobs::list_outdated(
            read,
            &partitions,
            &data,
            limit
        )
        .await)
    }
    fn advance_schedules(
        &self,
        op: Op,
        fences: Vec<Fence>,
        items: Vec<Advance>,
    ) -> Answer<'_, Vec<AdvanceVerdict>> {
        bounded!(items);
        write!(self, Some(op), [fences, items], |tx| {
            let runs: Vec<&NewRun> = items.iter().flat_map(|item| &item.runs).collect();
            let locks = Locks {
                duties: keys_of(&fences),
                jobs: items.iter().map(|item| item.job.0).collect(),
                sessions: runs.iter().filter_map(|run| run.born_leased).collect(),
                ..Locks::default()
            };
            tx.lock_to_write(&locks, &runs).await?;
            jobs::advance_all(tx, &fences, items).await
        })
    }
    fn list_decisions(
        &self,
        job: JobUid,
        from: Timestamp,
        limit: u32,
    ) -> Answer<'_, Vec<Decision>> {
        read!(self, [], |read| jobs::list_decisions(
            read, job, from, limit
        )
        .await)
    }
    fn apply_calendar(
        &self,
        op: Op,
        name: JobName,
        document: String,
        expected: Option<u32>,
    ) -> Answer<'_, CalendarVerdict> {
        write!(self, Some(op), [name, document], |tx| {
            tx.take_turn(kept::Turn::Calendar, name.name.as_str())
                .await?;
            tx.lock_calendar(&name).await?;
            tx.tell_time().await?;
            calendars::apply(tx, name, &document, expected).await
        })
    }
    fn get_calendar(&self, name: JobName, version: Option<u32>) -> Answer<'_, Option<Calendar>> {
        read!(self, [name], |read| calendars::get(read, &name, version)
            .await)
    }
    fn list_calendars(&self, page: Page<JobName>) -> Answer<'_, Vec<Calendar>> {
        read!(self, [page], |read| calendars::list(read, &page).await)
    }
    fn delete_calendar(&self, op: Op, name: JobName) -> Answer<'_, CalendarDeleted> {
        write!(self, Some(op), [name], |tx| {
            tx.lock_calendar(&name).await?;
            tx.tell_time().await?;
            calendars::delete(tx, name).await
        })
    }
    fn list_calendar_users(
        &self,
        name: Option<JobName>,
        page: Page<JobUid>,
    ) -> Answer<'_, Vec<CalendarUser>> {
        read!(self, [name], |read| calendars::users(
            read,
            name.as_ref(),
            &page
        )
        .await)
    }
    fn create_access_token(&self, op: Op, new: NewAccessToken) -> Answer<'_, TokenCreated> {
        write!(self, Some(op), [new], |tx| {
            tx.take_turn(kept::Turn::AccessToken, "").await?;
            tx.tell_time().await?;
            access::create(tx, new).await
        })
    }
    fn revoke_access_token(&self, op: Op, name: Name) -> Answer<'_, TokenRevoked> {
        write!(self, Some(op), [name], |tx| {
            tx.take_turn(kept::Turn::AccessToken, "").await?;
            tx.tell_time().await?;
            access::revoke(tx, name).await
        })
    }
    fn list_access_tokens(&self, page: Page<Name>) -> Answer<'_, Vec<AccessToken>> {
        glance!(self, [page], |read| access::list(read, &page).await)
    }
    fn note_access_tokens(&self, names: Vec<Name>) -> Answer<'_, ()> {
        bounded!(names);
        write!(self, None, [names], |tx| {
            tx.tell_time().await?;
            access::note(tx, &names).await
        })
    }
    fn apply_capacity(&self, op: Op, apply: ApplyCapacity) -> Answer<'_, CapacityVerdict> {
        write!(self, Some(op), [apply], |tx| {
            tx.take_turn(kept::Turn::Capacity, apply.name.as_str())
                .await?;
            let names = vec![apply.name.to_string()];
            tx.all(sql::LOCK_CAPACITIES, [names], |_| Ok(())).await?;
            tx.tell_time().await?;
            capacities::apply(tx, apply).await
        })
    }
    fn delete_capacity(&self, op: Op, name: Name) -> Answer<'_, CapacityDeleted> {
        write!(self, Some(op), [name], |tx| {
            tx.all(sql::LOCK_CAPACITY, [name.as_str()], |_| Ok(()))
                .await?;
            tx.tell_time().await?;
            capacities::delete(tx, &name).await
        })
    }
    fn get_capacities(&self, names: Vec<Name>) -> Answer<'_, Vec<Standing>> {
        bounded!(names);
        read!(self, [names], |read| capacities::get(read, &names).await)
    }
    fn list_capacities(&self, page: Page<Name>) -> Answer<'_, Vec<Standing>> {
        read!(self, [page], |read| capacities::list(read, &page).await)
    }
    fn list_holds(&self, capacity: Name, limit: u32) -> Answer<'_, Vec<Hold>> {
        read!(self, [capacity], |read| capacities::holds(
            read, &capacity, limit
        )
        .await)
    }
    fn list_waiters(&self, capacity: Name, limit: u32) -> Answer<'_, Vec<Waiter>> {
        read!(self, [capacity], |read| capacities::waiters(
            read, &capacity, limit
        )
        .await)
    }
    fn set_namespace(&self, op: Op, name: Name, change: NamespaceChange) -> Answer<'_, Namespace> {
        write!(self, Some(op), [name], |tx| {
            // One turn for all: whether any has a limit is noted in one row, by a statement that sees
            // only those that were committed before it.
            tx.take_turn(kept::Turn::Namespace, "").await?;
            tx.tell_time().await?;
            namespaces::set(tx, name, &change).await
        })
    }
    fn list_namespaces(&self, page: Page<Name>) -> Answer<'_, Vec<(Namespace, Option<u32>)>> {
        read!(self, [page], |read| namespaces::list(read, &page).await)
    }
    fn create_runs(
        &self,
        op: Op,
        fences: Vec<Fence>,
        runs: Vec<NewRun>,
    ) -> Answer<'_, Vec<CreateVerdict>> {
        bounded!(runs);
        write!(self, Some(op), [fences, runs], |tx| {
            let locks = Locks {
                duties: keys_of(&fences),
                jobs: runs.iter().map(|run| run.job.0).collect(),
                sessions: runs.iter().filter_map(|run| run.born_leased).collect(),
                ..Locks::default()
            };
            tx.lock_to_write(&locks, &Vec::from_iter(&runs)).await?;
            backfills::create_runs(tx, &fences, runs).await
        })
    }
    fn get_run(&self, run: RunId) -> Answer<'_, Option<(Run, Progress)>> {
        read!(self, [], |read| {
            let Some(run) = read.run_row(run).await? else {
                return Ok(None);
            };
            let sum = read.progress(run.id).await?;
            Ok(Some((Arc::unwrap_or_clone(run), sum)))
        })
    }
    fn find_run(&self, job: JobUid, occasion: Occasion) -> Answer<'_, Option<RunId>> {
        glance!(self, [occasion], |read| Ok(read
            .run_of(job, &occasion.key())
            .await?
            .map(|(id, _)| id)))
    }
    fn list_runs(&self, filter: RunFilter, page: Page<RunId>) -> Answer<'_, Vec<Run>> {
        read!(self, [filter, page], |read| runs::list(
            read, &filter, &page
        )
        .await)
    }
    fn request_stop(
        &self,
        op: Op,
        fence: Option<Fence>,
        run: RunId,
        cause: StopCause,
    ) -> Answer<'_, RequestVerdict> {
        write!(self, Some(op), [fence], |tx| {
            tx.lock_duties(keys_of(fence.as_slice()), true).await?;
            tx.lock_runs(&[run]).await?;
            tx.tell_time().await?;
            runs::request_stop(tx, fence.as_ref(), run, cause).await
        })
    }
    fn reopen_run(
        &self,
        op: Op,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        ready_at: Timestamp,
    ) -> Answer<'_, RequestVerdict> {
        write!(self, Some(op), [only], |tx| {
            tx.lock_runs(&[run]).await?;
            tx.tell_time().await?;
            runs::reopen(tx, run, only, ready_at, None).await
        })
    }
    fn discard_shards(
        &self,
        op: Op,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        why: Discard,
    ) -> Answer<'_, RequestVerdict> {
        write!(self, Some(op), [only, why], |tx| {
            tx.lock_runs(&[run]).await?;
            tx.tell_time().await?;
            discards::discard(tx, run, only, &why).await
        })
    }
    fn list_late_runs(&self, partitions: Vec<u8>, limit: u32) -> Answer<'_, LateRuns> {
        glance!(self, [partitions], |read| runs::list_late(
            read,
            &partitions,
            limit
        )
        .await)
    }
    fn list_running(&self, run: RunId, limit: u32) -> Answer<'_, Vec<Shard>> {
        read!(self, [], |read| shards::list_running(read, run, limit)
            .await)
    }
    fn count_running_of_job(&self, job: JobUid) -> Answer<'_, u32> {
        read!(self, [], |read| leases::running_of_job(read, job).await)
    }
    fn settle_runs(&self, op: Op, fences: Vec<Fence>, limit: u32) -> Answer<'_, Vec<RunId>> {
        write!(self, Some(op), [fences], |tx| {
            tx.lock_duties(keys_of(&fences), true).await?;
            tx.tell_time().await?;
            runs::settle_complete(tx, &fences, limit).await
        })
    }
    fn create_backfill(&self, op: Op, new: NewBackfill) -> Answer<'_, NewVerdict> {
        write!(self, Some(op), [new], |tx| {
            tx.lock_jobs(vec![new.job.0]).await?;
            tx.tell_time().await?;
            backfills::create(tx, &new).await
        })
    }
    fn get_backfill(&self, id: BackfillId) -> Answer<'_, Option<Backfill>> {
        read!(self, [], |read| backfills::get(read, id).await)
    }
    fn list_backfills(&self, job: JobUid, page: Page<BackfillId>) -> Answer<'_, Vec<Backfill>> {
        read!(self, [page], |read| backfills::list(read, job, &page).await)
    }
    fn list_running_backfills(
        &self,
        partitions: Vec<u8>,
        page: Page<BackfillId>,
    ) -> Answer<'_, Vec<Backfill>> {
        glance!(self, [partitions, page], |read| backfills::list_running(
            read,
            &partitions,
            &page
        )
        .await)
    }
    fn turn_backfill(
        &self,
        op: Op,
        fence: Option<Fence>,
        id: BackfillId,
        turn: Turn,
        cause: String,
    ) -> Answer<'_, TurnVerdict> {
        write!(self, Some(op), [fence, cause], |tx| {
            tx.lock_duties(keys_of(fence.as_slice()), true).await?;
            backfills::lock(tx, id, Vec::new()).await?;
            tx.tell_time().await?;
            backfills::turn(tx, fence.as_ref(), id, turn, &cause).await
        })
    }
    fn advance_backfill(
        &self,
        op: Op,
        fence: Fence,
        advance: backfill::Advance,
    ) -> Answer<'_, StepVerdict> {
        write!(self, Some(op), [fence, advance], |tx| {
            tx.lock_duties(vec![fence.key.text()], true).await?;
            backfills::lock(tx, advance.id, backfills::reopens(&advance)).await?;
            tx.tell_time().await?;
            backfills::advance(tx, &fence, advance).await
        })
    }
    fn move_checks(&self, op: Op, fence: Fence, step: CheckStep) -> Answer<'_, CheckVerdict> {
        let moves = &step.moves;
        bounded!(moves);
        write!(self, Some(op), [fence, step], |tx| {
            checks::step(tx, &fence, step).await
        })
    }
    fn list_checks(
        &self,
        backfill: BackfillId,
        state: Option<CheckState>,
        page: Page<(RunId, u32)>,
    ) -> Answer<'_, Vec<Check>> {
        read!(self, [page], |read| checks::list(
            read, backfill, state, &page
        )
        .await)
    }
    fn list_instants(&self, job: JobUid, instants: Vec<Timestamp>) -> Answer<'_, Vec<Facts>> {
        bounded!(instants);
        read!(self, [instants], |read| backfills::list_instants(
            read, job, &instants
        )
        .await)
    }
    fn list_revisions(
        &self,
        job: JobUid,
        page: Page<Revision>,
    ) -> Answer<'_, Vec<(Revision, Option<Timestamp>)>> {
        read!(self, [page], |read| backfills::list_revisions(
            read, job, &page
        )
        .await)
    }
    fn list_ready(
        &self,
        pool: Name,
        after: Place,
        window: Window,
        per_run: u32,
    ) -> Answer<'_, Vec<ReadyHead>> {
        glance!(self, [pool], |read| leases::list_ready(
            read, &pool, after, window, per_run
        )
        .await)
    }
    fn next_ready_at(&self, pool: Name, after: Timestamp) -> Answer<'_, Option<Timestamp>> {
        glance!(self, [pool], |read| leases::next_ready_at(
            read, &pool, after
        )
        .await)
    }
    fn lease_shards(
        &self,
        op: Op,
        fence: Fence,
        grants: Vec<Grant>,
    ) -> Answer<'_, Vec<GrantVerdict>> {
        bounded!(grants);
        write!(self, Some(op), [fence, grants], |tx| {
            let limited = grants.iter().filter(|grant| grant.most_of_job.is_some());
            tx.lock(&Locks {
                duties: vec![fence.key.text()],
                limited: limited.map(|grant| grant.key.run).collect(),
                sessions: grants.iter().map(|grant| grant.session).collect(),
                ..Locks::of_shards(grants.iter().map(|grant| grant.key).collect())
            })
            .await?;
            leases::lease(tx, &fence, &grants).await
        })
    }
    fn list_overdue(
        &self,
        pool: Name,
        grace: SignedDuration,
        limit: u32,
    ) -> Answer<'_, Vec<Overdue>> {
        glance!(self, [pool], |read| leases::list_overdue(
            read, &pool, grace, limit
        )
        .await)
    }
    fn reap_shards(&self, op: Op, fence: Fence, reaps: Vec<Reap>) -> Answer<'_, Vec<ReapVerdict>> {
        bounded!(reaps);
        write!(self, Some(op), [fence, reaps], |tx| {
            tx.lock_duties(vec![fence.key.text()], true).await?;
            let locks = Locks::of_shards(reaps.iter().map(|reap| reap.key).collect());
            tx.lock_runs(&locks.runs).await?;
            let holders = tx.lock_shards(&locks.shards).await?;
            tx.lock_sessions(&holders).await?;
            tx.tell_time().await?;
            leases::reap(tx, &fence, reaps).await
        })
    }
    fn shorten_leases(&self, op: Op, fence: Fence, leases: Vec<Shorter>) -> Answer<'_, u32> {
        bounded!(leases);
        write!(self, Some(op), [fence, leases], |tx| {
            clock::shorten(tx, &fence, &leases).await
        })
    }
    fn register_session(&self, op: Op, register: Register) -> Answer<'_, RegisterVerdict> {
        write!(self, Some(op), [register], |tx| {
            tx.take_turn(kept::Turn::Register, &register.worker.uid)
                .await?;
            tx.lock_sessions_of_worker(&register.worker.uid).await?;
            tx.tell_time().await?;
            sessions::register(tx, &register).await
        })
    }
    fn renew_sessions(
        &self,
        sessions: Vec<SessionId>,
        ttl: SignedDuration,
    ) -> Answer<'_, Vec<RenewVerdict>> {
        bounded!(sessions);
        alone!(self, [sessions], |read| {
            sessions::renew(read, &sessions, ttl).await
        })
    }
    fn drain_session(&self, session: SessionId) -> Answer<'_, ()> {
        write!(self, None, [], |tx| {
            tx.tell_time().await?;
            tx.run(sql::DRAIN_SESSION, [int(session.0)]).await?;
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
        write!(self, Some(op), [fence, cause], |tx| {
            tx.lock_duties(keys_of(fence.as_slice()), true).await?;
            tx.lock_sessions(&[session]).await?;
            tx.tell_time().await?;
            sessions::end(tx, fence.as_ref(), session, &cause).await
        })
    }
    fn list_sessions(&self, pool: Option<Name>) -> Answer<'_, Vec<(Session, u32)>> {
        glance!(self, [pool], |read| sessions::list(read, pool.as_ref())
            .await)
    }
    fn get_session(&self, session: SessionId) -> Answer<'_, Option<Session>> {
        glance!(self, [], |read| read.session(session).await)
    }
    fn list_leases(&self, session: SessionId) -> Answer<'_, Vec<Shard>> {
        glance!(self, [], |read| sessions::leases(read, session).await)
    }
    fn get_shards(&self, keys: Vec<ShardKey>) -> Answer<'_, Vec<ShardFacts>> {
        bounded!(keys);
        read!(self, [keys], |read| shards::get(read, &keys).await)
    }
    fn finish_attempts(&self, op: Op, items: Vec<Finish>) -> Answer<'_, Vec<FinishVerdict>> {
        bounded!(items);
        write!(self, Some(op), [items], |tx| {
            let keys = items.iter().map(|item| item.key).collect();
            tx.lock(&Locks {
                closing: true,
                ..Locks::of_shards(keys)
            })
            .await?;
            shards::finish_all(tx, items).await
        })
    }
    fn save_checkpoints(
        &self,
        op: Op,
        items: Vec<SaveCheckpoint>,
    ) -> Answer<'_, Vec<CheckpointVerdict>> {
        bounded!(items);
        write!(self, Some(op), [items], |tx| {
            tx.lock(&Locks {
                shards: items.iter().map(|item| item.key).collect(),
                sessions: items.iter().map(|item| item.session).collect(),
                ..Locks::default()
            })
            .await?;
            shards::checkpoint_all(tx, &items).await
        })
    }
    fn list_shards(&self, run: RunId, page: Page<i32>) -> Answer<'_, Vec<Shard>> {
        read!(self, [page], |read| shards::list(read, run, &page).await)
    }
    fn list_events(&self, filter: EventFilter, page: Page<u64>) -> Answer<'_, Vec<Event>> {
        read!(self, [page], |read| history::list_events(
            read, filter, &page
        )
        .await)
    }
    fn get_last_event(&self) -> Answer<'_, u64> {
        read!(self, [], |read| overview::last_event(read).await)
    }
    fn get_overview(&self, now: Timestamp, span: Span) -> Answer<'_, Overview> {
        read!(self, [], |read| overview::get(read, now, span).await)
    }
    fn remove_history(
        &self,
        op: Op,
        fence: Fence,
        before: Timestamp,
        limit: u32,
    ) -> Answer<'_, u32> {
        write!(self, Some(op), [fence], |tx| {
            tx.lock_duties(vec![fence.key.text()], true).await?;
            tx.tell_time().await?;
            history::remove(tx, &fence, before, limit).await
        })
    }
    fn dump(&self) -> Answer<'_, Dump> {
        read!(self, [], |read| history::dump(read).await)
    }
}

/// The rows a page may have.
fn capped<K>(page: &Page<K>) -> u32 {
    page.limit.min(sichen_core::port::MAX_PAGE)
}
