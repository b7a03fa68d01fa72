//! The way from a node to the store: every call takes time, and may be lost on either way.
//!
//! A call leaves, is executed in one instant at the store, and its answer comes back: between these
//! other nodes act, so a duty's snapshot grows old as it does in life. While a node is cut off its
//! calls end as `Unavailable` (not executed) or `Unknown` (executed, answer lost).
//!
//! # Not here
//! What a call does (`sichen-store`); whose turn it is ([`crate::sim`]).

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use jiff::{SignedDuration, Timestamp};
use sichen_core::access::{AccessToken, NewAccessToken, TokenCreated, TokenRevoked};
use sichen_core::alert::Alert;
use sichen_core::alert::notice::{Notice, Tried};
use sichen_core::backfill::check::{Check, CheckState, CheckStep, CheckVerdict};
use sichen_core::backfill::{
    self, AdvanceVerdict as StepVerdict, Backfill, Facts, NewBackfill, NewVerdict, Turn,
    TurnVerdict,
};
use sichen_core::dispatch::preempt::{Recall, RecallVerdict, Recalled};
use sichen_core::dispatch::queue::{Place, Window};
use sichen_core::event::Event;
use sichen_core::ids::{
    BackfillId, JobUid, NodeId, Occasion, OpId, Revision, RunId, SessionId, ShardKey,
};
use sichen_core::keys::{ClaimKey, Digest, KeptAnswer, KeyVerdict};
use sichen_core::lifecycle::StopCause;
use sichen_core::model::{
    Calendar, CalendarUser, Decision, Dump, Duty, DutyKey, Hold, Job, Namespace, NamespaceChange,
    NamespaceUse, Node, Progress, Run, Session, Shard, Standing, Waiter,
};
use sichen_core::name::{JobName, Name};
use sichen_core::port::{
    Advance, AdvanceVerdict, Answer, ApplyCapacity, ApplyJob, ApplyVerdict, Believed,
    CalendarDeleted, CalendarVerdict, CapacityDeleted, CapacityVerdict, CheckpointVerdict,
    CreateVerdict, Discard, Error, EventFilter, Fence, Finish, FinishVerdict, Grant, GrantVerdict,
    LateRuns, NewRun, Op, Overdue, Overview, Page, ReadyHead, Reap, ReapVerdict, Register,
    RegisterVerdict, Removed, RenewVerdict, RenewedNode, RequestVerdict, RunFilter, SaveAlerts,
    SaveCheckpoint, ShardFacts, Shorter, Span, Store,
};
use sichen_core::port::{
    AlertStore, AttemptStore, BackfillStore, CalendarStore, CapacityStore, ChangeUser,
    HistoryStore, JobStore, KeyStore, LeaseStore, MemberStore, NamespaceStore, RestoreStore,
    RunStore, SessionStore, TimeStore, TokenStore, UserChanged, UserCreated, UserStore,
};
use sichen_core::restore::{Decided, Restore, Verdict};
use sichen_core::timekeeping::Told;
use sichen_core::user::{NewUser, User};
use uuid::Uuid;

use crate::rng::Rng;

/// How long a cut-off call waits before it gives up.
const TIMEOUT_US: i64 = 1_000_000;

/// A broken way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Broken {
    /// The fault that broke it, by its number; 0 if it is a part of another one.
    pub fault: u64,
    /// Whether it has cost a write.
    pub hit: bool,
}

impl Broken {
    /// By this fault.
    #[must_use]
    pub fn by(fault: u64) -> Self {
        Self { fault, hit: false }
    }
}

/// What all calls share: the time, chance, and who is cut off.
#[derive(Debug)]
pub struct Gate {
    /// The present, in microseconds of the simulation.
    pub now_us: i64,
    /// The activity being polled now.
    pub current: u64,
    /// Activities to poll again, and when.
    pub wakes: Vec<(u64, i64)>,
    /// Set when a call that writes has been sent.
    pub write_sent: bool,
    /// Set when one that registers a worker has been sent.
    pub hello_sent: bool,
    /// Nodes that can't reach the store.
    pub cut: BTreeMap<usize, Broken>,
    /// Nodes that the store's answers do not reach.
    pub deaf: BTreeMap<usize, Broken>,
    /// Faults that some call has met, in this order.
    pub felt: Vec<u64>,
    /// Writes of each node that were sent and are not answered.
    pub open: BTreeMap<usize, u64>,
    /// Faults of the way that hit such a write.
    pub hits: u64,
    /// Per mille of answers lost after the commit.
    pub lost_commits: u64,
    /// Calls made, answers lost, calls refused while cut off.
    pub calls: u64,
    /// Answers that were lost after the call was executed.
    pub lost: u64,
    /// Those of them that no broken way took.
    pub lost_by_chance: u64,
    rng: Rng,
}

impl Gate {
    /// A gate at time 0 with nobody cut off.
    #[must_use]
    pub fn new(rng: Rng) -> Self {
        Self {
            now_us: 0,
            current: 0,
            wakes: Vec::new(),
            write_sent: false,
            hello_sent: false,
            cut: BTreeMap::new(),
            deaf: BTreeMap::new(),
            felt: Vec::new(),
            open: BTreeMap::new(),
            hits: 0,
            lost_commits: 0,
            calls: 0,
            lost: 0,
            lost_by_chance: 0,
            rng,
        }
    }

    /// Whether the way there, or `back`, is broken for `node`; notes that it cost a write.
    fn is_broken(&mut self, node: usize, back: bool, writes: bool) -> bool {
        let deaf = if back { self.deaf.get_mut(&node) } else { None };
        let Some(broken) = self.cut.get_mut(&node).or(deaf) else {
            return false;
        };
        self.hits += u64::from(writes && !broken.hit);
        broken.hit |= writes;
        self.felt.push(broken.fault);
        true
    }
}

/// A write that was sent and is not answered; it ends with its call, or with its node.
struct OpenWrite {
    gate: Arc<Mutex<Gate>>,
    node: usize,
}

impl OpenWrite {
    fn new(gate: &Arc<Mutex<Gate>>, node: usize) -> Self {
        *lock(gate).open.entry(node).or_default() += 1;
        let gate = gate.clone();
        Self { gate, node }
    }
}

impl Drop for OpenWrite {
    fn drop(&mut self) {
        let mut gate = lock(&self.gate);
        let open = gate.open.entry(self.node).or_default();
        *open = open.saturating_sub(1);
    }
}

/// A node's way to the store.
#[derive(Clone)]
pub struct Link {
    inner: Arc<dyn Store>,
    gate: Arc<Mutex<Gate>>,
    node: usize,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// Waits until the simulation has reached an instant.
struct Until {
    gate: Arc<Mutex<Gate>>,
    wait_us: i64,
    due: Option<i64>,
}

impl Future for Until {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let gate = self.gate.clone();
        let mut gate = lock(&gate);
        match self.due {
            Some(due) if gate.now_us >= due => Poll::Ready(()),
            Some(_) => Poll::Pending,
            None => {
                let due = gate.now_us + self.wait_us;
                let current = gate.current;
                gate.wakes.push((current, due));
                self.due = Some(due);
                Poll::Pending
            }
        }
    }
}

fn lock(gate: &Mutex<Gate>) -> MutexGuard<'_, Gate> {
    gate.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    /// The way of `node` to `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, gate: Arc<Mutex<Gate>>, node: usize) -> Self {
        Self { inner, gate, node }
    }

    fn until(&self, wait_us: i64) -> Until {
        Until {
            gate: self.gate.clone(),
            wait_us,
            due: None,
        }
    }

    fn call<'a, T: Send + 'a>(&'a self, op: Option<OpId>, execute: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let (there, back, lose) = {
                let mut gate = lock(&self.gate);
                gate.calls += 1;
                gate.write_sent |= op.is_some();
                let there = gate.rng.between(100, 2_000);
                let back = gate.rng.between(100, 2_000);
                let per_mille = gate.lost_commits;
                (there, back, gate.rng.chance(per_mille))
            };
            let writes = op.is_some();
            let _open = writes.then(|| OpenWrite::new(&self.gate, self.node));
            self.until(there).await;
            let broken = |back| lock(&self.gate).is_broken(self.node, back, writes);
            if broken(false) {
                self.until(TIMEOUT_US).await;
                return Err(Error::Unavailable("the store does not answer".to_owned()));
            }
            let answer = execute.await;
            self.until(back).await;
            let broken = broken(true);
            if lose || broken {
                {
                    let mut gate = lock(&self.gate);
                    gate.lost += 1;
                    gate.lost_by_chance += u64::from(!broken);
                    gate.hits += u64::from(writes && !broken);
                }
                self.until(TIMEOUT_US).await;
                let reason = "the answer was lost".to_owned();
                return Err(match op {
                    Some(op) => Error::Unknown { op, reason },
                    None => Error::Unavailable(reason),
                });
            }
            answer
        })
    }
}

macro_rules! reads {
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
        $(fn $name(&self, $($arg: $type),*) -> Answer<'_, $out> {
            self.call(None, self.inner.$name($($arg),*))
        })*
    };
}

macro_rules! writes {
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
        $(fn $name(&self, op: Op, $($arg: $type),*) -> Answer<'_, $out> {
            let id = op.id;
            self.call(Some(id), self.inner.$name(op, $($arg),*))
        })*
    };
}

impl TimeStore for Link {
    reads! {
        now() -> Timestamp;
        clock() -> Told;
    }
    writes! {
        accept_clock() -> Option<SignedDuration>;
        shorten_leases(fence: Fence, leases: Vec<Shorter>) -> u32;
    }
}

impl RestoreStore for Link {
    reads! {
        get_restore() -> Option<Restore>;
    }
    writes! {
        begin_restore(known: u32) -> Restore;
        decide_restore(decided: Decided) -> Verdict;
    }
}

impl MemberStore for Link {
    reads! {
        renew_node(node: NodeId, ttl: SignedDuration) -> Option<RenewedNode>;
        list_members() -> (Vec<Node>, Vec<Duty>);
    }
    writes! {
        register_node(address: String, ttl: SignedDuration) -> NodeId;
        end_node(node: NodeId, cause: String) -> bool;
        claim_duties(node: NodeId, keys: Vec<DutyKey>) -> Vec<Fence>;
        release_duties(fences: Vec<Fence>) -> ();
    }
}

impl JobStore for Link {
    reads! {
        get_job(name: JobName) -> Option<Job>;
        get_job_by_uid(uid: JobUid) -> Option<Job>;
        get_revision(job: JobUid, revision: Revision) -> Option<String>;
        list_jobs(page: Page<JobName>) -> Vec<Job>;
        list_due_jobs(partitions: Vec<u8>, until: Timestamp, limit: u32) -> Vec<Job>;
        list_outdated_jobs(partitions: Vec<u8>, data: String, limit: u32) -> Vec<Job>;
        list_decisions(job: JobUid, from: Timestamp, limit: u32) -> Vec<Decision>;
    }
    writes! {
        apply_job(job: ApplyJob) -> ApplyVerdict;
        set_job_paused(paused: bool, closing: Advance, expected_ver: u32) -> ApplyVerdict;
        delete_job(job: JobUid, closing: Option<Advance>, expected_ver: u32) -> bool;
        advance_schedules(fences: Vec<Fence>, items: Vec<Advance>) -> Vec<AdvanceVerdict>;
    }
}

impl CalendarStore for Link {
    reads! {
        get_calendar(name: JobName, version: Option<u32>) -> Option<Calendar>;
        list_calendars(page: Page<JobName>) -> Vec<Calendar>;
        list_calendar_users(name: Option<JobName>, page: Page<JobUid>) -> Vec<CalendarUser>;
    }
    writes! {
        apply_calendar(name: JobName, document: String, expected: Option<u32>) -> CalendarVerdict;
        delete_calendar(name: JobName) -> CalendarDeleted;
    }
}

impl TokenStore for Link {
    reads! {
        list_access_tokens(page: Page<Name>) -> Vec<AccessToken>;
        list_believed() -> Believed;
        note_access_tokens(names: Vec<Name>) -> ();
    }
    writes! {
        create_access_token(new: NewAccessToken) -> TokenCreated;
        revoke_access_token(name: Name) -> TokenRevoked;
    }
}

impl UserStore for Link {
    reads! {
        get_user(name: Name) -> Option<User>;
        list_users(page: Page<Name>) -> Vec<User>;
        note_logins(logins: Vec<(Name, String)>) -> ();
    }
    writes! {
        create_user(new: NewUser) -> UserCreated;
        change_user(asked: ChangeUser) -> UserChanged;
    }
}

impl KeyStore for Link {
    reads! {
        claim_key(claim: ClaimKey) -> KeyVerdict;
        answer_key(key: Digest, holder: Uuid, answer: Option<KeptAnswer>) -> bool;
    }
}

impl CapacityStore for Link {
    reads! {
        get_capacities(names: Vec<Name>) -> Vec<Standing>;
        list_capacities(page: Page<Name>) -> Vec<Standing>;
        list_holds(capacity: Name, limit: u32) -> Vec<Hold>;
        list_waiters(capacity: Name, limit: u32) -> Vec<Waiter>;
    }
    writes! {
        apply_capacity(apply: ApplyCapacity) -> CapacityVerdict;
        delete_capacity(name: Name) -> CapacityDeleted;
    }
}

impl RunStore for Link {
    reads! {
        get_run(run: RunId) -> Option<(Run, Progress)>;
        find_run(job: JobUid, occasion: Occasion) -> Option<RunId>;
        list_runs(filter: RunFilter, page: Page<RunId>) -> Vec<Run>;
        list_late_runs(partitions: Vec<u8>, limit: u32) -> LateRuns;
        list_running(run: RunId, limit: u32) -> Vec<Shard>;
        count_running_of_job(job: JobUid) -> u32;
        count_open_runs(jobs: Vec<JobUid>) -> Vec<u32>;
    }
    writes! {
        create_runs(fences: Vec<Fence>, runs: Vec<NewRun>) -> Vec<CreateVerdict>;
        request_stop(fence: Option<Fence>, run: RunId, cause: StopCause) -> RequestVerdict;
        reopen_run(run: RunId, only: Option<Vec<ShardKey>>, ready_at: Timestamp) -> RequestVerdict;
        discard_shards(run: RunId, only: Option<Vec<ShardKey>>, why: Discard) -> RequestVerdict;
        settle_runs(fences: Vec<Fence>, limit: u32) -> Vec<RunId>;
    }
}

impl BackfillStore for Link {
    reads! {
        get_backfill(id: BackfillId) -> Option<Backfill>;
        list_backfills(job: JobUid, page: Page<BackfillId>) -> Vec<Backfill>;
        list_running_backfills(partitions: Vec<u8>, page: Page<BackfillId>) -> Vec<Backfill>;
        list_checks(backfill: BackfillId, state: Option<CheckState>, page: Page<(RunId, u32)>) -> Vec<Check>;
        list_instants(job: JobUid, instants: Vec<Timestamp>) -> Vec<Facts>;
        list_revisions(job: JobUid, page: Page<Revision>) -> Vec<(Revision, Option<Timestamp>)>;
    }
    writes! {
        create_backfill(new: NewBackfill) -> NewVerdict;
        turn_backfill(fence: Option<Fence>, id: BackfillId, turn: Turn, cause: String) -> TurnVerdict;
        advance_backfill(fence: Fence, advance: backfill::Advance) -> StepVerdict;
        move_checks(fence: Fence, step: CheckStep) -> CheckVerdict;
    }
}

impl NamespaceStore for Link {
    reads! {
        list_namespaces(page: Page<Name>) -> Vec<(Namespace, NamespaceUse)>;
    }
    writes! {
        set_namespace(name: Name, change: NamespaceChange) -> Namespace;
    }
}

impl LeaseStore for Link {
    reads! {
        list_ready(pool: Name, after: Place, window: Window, per_run: u32) -> Vec<ReadyHead>;
        next_ready_at(pool: Name, after: Timestamp) -> Option<Timestamp>;
        list_overdue(pool: Name, grace: SignedDuration, limit: u32) -> Vec<Overdue>;
        list_leases(session: SessionId) -> Vec<Shard>;
        list_recalls(runs: Vec<RunId>) -> Vec<Recalled>;
        list_recalls_for(by: RunId, limit: u32) -> Vec<Recalled>;
    }
    writes! {
        recall_shards(fence: Fence, recalls: Vec<Recall>) -> Vec<RecallVerdict>;
        lease_shards(fence: Fence, grants: Vec<Grant>) -> Vec<GrantVerdict>;
        reap_shards(fence: Fence, reaps: Vec<Reap>) -> Vec<ReapVerdict>;
    }
}

impl SessionStore for Link {
    fn register_session(&self, op: Op, register: Register) -> Answer<'_, RegisterVerdict> {
        lock(&self.gate).hello_sent = true;
        let id = op.id;
        self.call(Some(id), self.inner.register_session(op, register))
    }
    reads! {
        renew_sessions(sessions: Vec<SessionId>, ttl: SignedDuration) -> Vec<RenewVerdict>;
        drain_session(session: SessionId) -> ();
        list_sessions(pool: Option<Name>) -> Vec<(Session, u32)>;
        get_session(session: SessionId) -> Option<Session>;
    }
    writes! {
        end_session(fence: Option<Fence>, session: SessionId, cause: String) -> bool;
    }
}

impl AttemptStore for Link {
    reads! {
        get_shards(keys: Vec<ShardKey>) -> Vec<ShardFacts>;
    }
    writes! {
        finish_attempts(items: Vec<Finish>) -> Vec<FinishVerdict>;
        save_checkpoints(items: Vec<SaveCheckpoint>) -> Vec<CheckpointVerdict>;
    }
}

impl HistoryStore for Link {
    reads! {
        find_op(op: OpId) -> bool;
        list_shards(run: RunId, page: Page<i32>) -> Vec<Shard>;
        list_events(filter: EventFilter, page: Page<u64>) -> Vec<Event>;
        list_ended_runs(until: Timestamp, page: Page<(Timestamp, RunId)>) -> Vec<Run>;
        get_last_event() -> u64;
        get_overview(now: Timestamp, span: Span) -> Overview;
        dump() -> Dump;
    }
    writes! {
        remove_history(fence: Fence, before: Timestamp, limit: u32) -> Removed;
    }
}

impl AlertStore for Link {
    reads! {
        list_alerts() -> Vec<Alert>;
        list_notices(by: Timestamp, limit: u32) -> Vec<Notice>;
        count_notices() -> Vec<(String, u32)>;
        list_unsuccessful_runs(since: Timestamp, limit: u32) -> Vec<Run>;
    }
    writes! {
        save_alerts(fence: Fence, save: SaveAlerts) -> ();
        end_notices(fence: Fence, tried: Vec<(Uuid, Tried)>) -> ();
    }
}
