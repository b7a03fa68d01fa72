//! The readable specification of the store port, in memory.
//!
//! Each use case is a plain function over [`state::Tx`], in the order of the port. The simulator
//! runs on it, and the other stores are compared with it call by call.
//!
//! # Invariants
//! - A call holds the one lock from its first read to its last write, so calls are serial.
//! - A use case that answers an error has changed nothing.
//!
//! # Not here
//! Speed with large tables; durability.

mod access;
mod backfills;
mod calendars;
mod capacities;
mod chains;
mod checks;
mod clock;
mod discards;
mod duties;
mod history;
mod jobs;
mod leases;
mod namespaces;
mod overview;
mod restore;
mod runs;
mod sessions;
mod shards;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
use sichen_core::timekeeping::{Kept, Told};

use crate::clock::{Clock, Keeper};
use state::{State, Tx};

/// A store that lives as long as the process.
#[derive(Debug)]
pub struct MemoryStore {
    keeper: Keeper,
    state: Mutex<State>,
}

impl MemoryStore {
    /// An empty store that decides by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            keeper: Keeper::new(clock, Kept::default()),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> (MutexGuard<'_, State>, Timestamp) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let told = self.keeper.read();
        state.held = told.held;
        (state, told.now)
    }

    fn read<'a, T: Send + 'a>(
        &'a self,
        f: impl FnOnce(&State, Timestamp) -> T + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let (state, now) = self.lock();
            Ok(f(&state, now))
        })
    }

    fn write<'a, T: Send + 'a>(
        &'a self,
        op: Op,
        f: impl FnOnce(&mut Tx<'_>) -> T + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            let (mut state, now) = self.lock();
            state.ops.insert(op.id);
            Ok(f(&mut Tx {
                state: &mut state,
                now,
                op,
                duty: None,
            }))
        })
    }
}

fn capped<K>(page: &Page<K>) -> usize {
    page.limit.min(sichen_core::port::MAX_PAGE) as usize
}

impl Store for MemoryStore {
    fn now(&self) -> Answer<'_, Timestamp> {
        self.read(|_, now| now)
    }
    fn clock(&self) -> Answer<'_, Told> {
        Box::pin(async move { Ok(self.keeper.read()) })
    }
    fn accept_clock(&self, op: Op) -> Answer<'_, Option<SignedDuration>> {
        Box::pin(async move {
            let (mut state, now) = self.lock();
            state.ops.insert(op.id);
            let told = self.keeper.read();
            if !told.held {
                return Ok(None);
            }
            let step = told.wall.duration_since(now);
            clock::shift(&mut state, now, step);
            self.keeper.accept(self.keeper.kept().accepts + 1);
            Ok(Some(step))
        })
    }
    fn get_restore(&self) -> Answer<'_, Option<Restore>> {
        self.read(|s, _| s.restore)
    }
    fn begin_restore(&self, op: Op, known: u32) -> Answer<'_, Restore> {
        self.write(op, move |tx| restore::begin(tx, known))
    }
    fn decide_restore(&self, op: Op, decided: Decided) -> Answer<'_, Verdict> {
        self.write(op, move |tx| restore::decide(tx, decided))
    }
    fn find_op(&self, op: OpId) -> Answer<'_, bool> {
        self.read(move |s, _| s.ops.contains(&op))
    }
    fn register_node(&self, op: Op, address: String, ttl: SignedDuration) -> Answer<'_, NodeId> {
        self.write(op, move |tx| duties::register_node(tx, address, ttl))
    }
    fn renew_node(&self, node: NodeId, ttl: SignedDuration) -> Answer<'_, Option<Timestamp>> {
        Box::pin(async move {
            let (mut state, now) = self.lock();
            Ok(duties::renew_node(&mut state, now, node, ttl))
        })
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
        self.read(move |s, _| s.live_job(&name).map(|j| j.job.clone()))
    }
    fn get_job_by_uid(&self, uid: JobUid) -> Answer<'_, Option<Job>> {
        self.read(move |s, _| s.jobs.get(&uid).map(|j| j.job.clone()))
    }
    fn get_revision(&self, job: JobUid, revision: Revision) -> Answer<'_, Option<String>> {
        self.read(move |s, _| s.jobs.get(&job)?.revisions.get(&revision).cloned())
    }
    fn list_jobs(&self, page: Page<JobName>) -> Answer<'_, Vec<Job>> {
        self.read(move |s, _| jobs::list(s, &page))
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
        self.read(move |s, _| jobs::list_due(s, &partitions, until, limit as usize))
    }
    fn list_outdated_jobs(
        &self,
        partitions: Vec<u8>,
        data: String,
        limit: u32,
    ) -> Answer<'_, Vec<Job>> {
        self.read(move |s, _| jobs::list_outdated(s, &partitions, &data, limit as usize))
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
        self.read(move |s, _| {
            let of_job = s
                .decisions
                .iter()
                .filter(|(uid, d)| *uid == job && d.to >= from);
            let mut decisions: Vec<Decision> = of_job.map(|(_, d)| d.clone()).collect();
            decisions.sort_by_key(|d| (d.to, d.from));
            decisions.truncate(limit as usize);
            decisions
        })
    }
    fn apply_calendar(
        &self,
        op: Op,
        name: JobName,
        document: String,
        expected: Option<u32>,
    ) -> Answer<'_, CalendarVerdict> {
        self.write(op, move |tx| calendars::apply(tx, name, document, expected))
    }
    fn get_calendar(&self, name: JobName, version: Option<u32>) -> Answer<'_, Option<Calendar>> {
        self.read(move |s, _| calendars::get(s, &name, version))
    }
    fn list_calendars(&self, page: Page<JobName>) -> Answer<'_, Vec<Calendar>> {
        self.read(move |s, _| calendars::list(s, &page))
    }
    fn delete_calendar(&self, op: Op, name: JobName) -> Answer<'_, CalendarDeleted> {
        self.write(op, move |tx| calendars::delete(tx, name))
    }
    fn list_calendar_users(
        &self,
        name: Option<JobName>,
        page: Page<JobUid>,
    ) -> Answer<'_, Vec<CalendarUser>> {
        self.read(move |s, _| calendars::users(s, name.as_ref(), &page))
    }
    fn create_access_token(&self, op: Op, new: NewAccessToken) -> Answer<'_, TokenCreated> {
        self.write(op, move |tx| access::create(tx, new))
    }
    fn revoke_access_token(&self, op: Op, name: Name) -> Answer<'_, TokenRevoked> {
        self.write(op, move |tx| access::revoke(tx, name))
    }
    fn list_access_tokens(&self, page: Page<Name>) -> Answer<'_, Vec<AccessToken>> {
        self.read(move |s, _| access::list(s, &page))
    }
    fn note_access_tokens(&self, names: Vec<Name>) -> Answer<'_, ()> {
        Box::pin(async move {
            sichen_core::port::within_batch(&names)?;
            let (mut state, now) = self.lock();
            access::note(&mut state, now, &names);
            Ok(())
        })
    }
    fn apply_capacity(&self, op: Op, apply: ApplyCapacity) -> Answer<'_, CapacityVerdict> {
        self.write(op, move |tx| capacities::apply(tx, apply))
    }
    fn delete_capacity(&self, op: Op, name: Name) -> Answer<'_, CapacityDeleted> {
        self.write(op, move |tx| capacities::delete(tx, name))
    }
    fn get_capacities(&self, names: Vec<Name>) -> Answer<'_, Vec<Standing>> {
        bounded!(names);
        self.read(move |s, now| capacities::get(s, &names, now))
    }
    fn list_capacities(&self, page: Page<Name>) -> Answer<'_, Vec<Standing>> {
        self.read(move |s, now| capacities::list(s, &page, now))
    }
    fn list_holds(&self, capacity: Name, limit: u32) -> Answer<'_, Vec<Hold>> {
        self.read(move |s, now| capacities::holds(s, &capacity, now, limit as usize))
    }
    fn list_waiters(&self, capacity: Name, limit: u32) -> Answer<'_, Vec<Waiter>> {
        self.read(move |s, now| capacities::waiters(s, &capacity, now, limit as usize))
    }
    fn set_namespace(&self, op: Op, name: Name, change: NamespaceChange) -> Answer<'_, Namespace> {
        self.write(op, move |tx| namespaces::set(tx, name, &change))
    }
    fn list_namespaces(&self, page: Page<Name>) -> Answer<'_, Vec<(Namespace, Option<u32>)>> {
        self.read(move |s, _| namespaces::list(s, &page))
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
        self.read(move |s, _| Some((s.runs.get(&run)?.clone(), runs::progress(s, run))))
    }
    fn find_run(&self, job: JobUid, occasion: Occasion) -> Answer<'_, Option<RunId>> {
        self.read(move |s, _| s.occasions.get(&(job, occasion.key())).copied())
    }
    fn list_runs(&self, filter: RunFilter, page: Page<RunId>) -> Answer<'_, Vec<Run>> {
        self.read(move |s, _| runs::list(s, &filter, &page))
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
        self.write(op, move |tx| {
            runs::reopen(tx, run, only.as_deref(), ready_at, None)
        })
    }
    fn discard_shards(
        &self,
        op: Op,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        why: Discard,
    ) -> Answer<'_, RequestVerdict> {
        self.write(op, move |tx| {
            discards::discard(tx, run, only.as_deref(), &why)
        })
    }
    fn list_late_runs(&self, partitions: Vec<u8>, limit: u32) -> Answer<'_, LateRuns> {
        self.read(move |s, now| runs::list_late(s, now, &partitions, limit as usize))
    }
    fn list_running(&self, run: RunId, limit: u32) -> Answer<'_, Vec<Shard>> {
        self.read(move |s, _| runs::list_running(s, run, limit as usize))
    }
    fn count_running_of_job(&self, job: JobUid) -> Answer<'_, u32> {
        self.read(move |s, _| leases::running_of_job(s, job))
    }
    fn settle_runs(&self, op: Op, fences: Vec<Fence>, limit: u32) -> Answer<'_, Vec<RunId>> {
        self.write(op, move |tx| {
            runs::settle_complete(tx, &fences, limit as usize)
        })
    }
    fn create_backfill(&self, op: Op, new: NewBackfill) -> Answer<'_, NewVerdict> {
        self.write(op, move |tx| backfills::create(tx, new))
    }
    fn get_backfill(&self, id: BackfillId) -> Answer<'_, Option<Backfill>> {
        self.read(move |s, _| s.backfills.get(&id).cloned())
    }
    fn list_backfills(&self, job: JobUid, page: Page<BackfillId>) -> Answer<'_, Vec<Backfill>> {
        self.read(move |s, _| backfills::list(s, job, &page))
    }
    fn list_running_backfills(
        &self,
        partitions: Vec<u8>,
        page: Page<BackfillId>,
    ) -> Answer<'_, Vec<Backfill>> {
        self.read(move |s, _| backfills::list_running(s, &partitions, &page))
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
        self.read(move |s, _| checks::list(s, backfill, state, &page))
    }
    fn list_instants(&self, job: JobUid, instants: Vec<Timestamp>) -> Answer<'_, Vec<Facts>> {
        bounded!(instants);
        self.read(move |s, _| backfills::list_instants(s, job, &instants))
    }
    fn list_revisions(
        &self,
        job: JobUid,
        page: Page<Revision>,
    ) -> Answer<'_, Vec<(Revision, Option<Timestamp>)>> {
        self.read(move |s, _| jobs::list_revisions(s, job, &page))
    }
    fn list_ready(
        &self,
        pool: Name,
        after: Place,
        window: Window,
        per_run: u32,
    ) -> Answer<'_, Vec<ReadyHead>> {
        self.read(move |s, now| leases::list_ready(s, now, &pool, after, window, per_run as usize))
    }
    fn next_ready_at(&self, pool: Name, after: Timestamp) -> Answer<'_, Option<Timestamp>> {
        self.read(move |s, _| leases::next_ready_at(s, after, &pool))
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
        self.read(move |s, now| leases::list_overdue(s, now, &pool, grace, limit as usize))
    }
    fn reap_shards(&self, op: Op, fence: Fence, reaps: Vec<Reap>) -> Answer<'_, Vec<ReapVerdict>> {
        bounded!(reaps);
        self.write(op, move |tx| leases::reap(tx, &fence, reaps))
    }
    fn shorten_leases(&self, op: Op, fence: Fence, leases: Vec<Shorter>) -> Answer<'_, u32> {
        bounded!(leases);
        let behind = clock::is_behind(&self.keeper.read());
        self.write(op, move |tx| clock::shorten(tx, &fence, &leases, behind))
    }
    fn register_session(&self, op: Op, register: Register) -> Answer<'_, RegisterVerdict> {
        self.write(op, move |tx| sessions::register(tx, register))
    }
    fn renew_sessions(
        &self,
        sessions: Vec<SessionId>,
        ttl: SignedDuration,
    ) -> Answer<'_, Vec<RenewVerdict>> {
        bounded!(sessions);
        Box::pin(async move {
            let (mut state, now) = self.lock();
            Ok(sessions
                .iter()
                .map(|id| sessions::renew(&mut state, now, *id, ttl))
                .collect())
        })
    }
    fn drain_session(&self, session: SessionId) -> Answer<'_, ()> {
        Box::pin(async move {
            let (mut state, _) = self.lock();
            if let Some(session) = state.sessions.get_mut(&session) {
                session.draining = true;
            }
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
        self.read(move |s, _| {
            let wanted = |x: &&Session| {
                x.ended.is_none() && pool.as_ref().is_none_or(|pool| *pool == x.pool)
            };
            let held = |id| u32::try_from(s.held_by(id).count()).unwrap_or(u32::MAX);
            let live = s.sessions.values().filter(wanted);
            live.map(|session| (session.clone(), held(session.id)))
                .collect()
        })
    }
    fn get_session(&self, session: SessionId) -> Answer<'_, Option<Session>> {
        self.read(move |s, _| s.sessions.get(&session).cloned())
    }
    fn list_leases(&self, session: SessionId) -> Answer<'_, Vec<Shard>> {
        self.read(move |s, _| s.held_by(session).cloned().collect())
    }
    fn get_shards(&self, keys: Vec<ShardKey>) -> Answer<'_, Vec<ShardFacts>> {
        bounded!(keys);
        self.read(move |s, _| {
            let facts = |key: &ShardKey| {
                let shard = s.shards.get(key)?.shard.clone();
                Some(ShardFacts {
                    shard,
                    run: s.runs.get(&key.run)?.clone(),
                })
            };
            keys.iter().filter_map(facts).collect()
        })
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
            items
                .into_iter()
                .map(|c| shards::checkpoint(tx, c))
                .collect()
        })
    }
    fn list_shards(&self, run: RunId, page: Page<i32>) -> Answer<'_, Vec<Shard>> {
        self.read(move |s, _| {
            let after = page.after.unwrap_or(i32::MIN);
            let rows = s.shards_of(run).filter(|row| row.shard.key.no.0 > after);
            rows.take(capped(&page))
                .map(|row| row.shard.clone())
                .collect()
        })
    }
    fn list_events(&self, filter: EventFilter, page: Page<u64>) -> Answer<'_, Vec<Event>> {
        self.read(move |s, _| history::list_events(s, filter, &page))
    }
    fn get_last_event(&self) -> Answer<'_, u64> {
        self.read(|s, _| s.events.last().map_or(0, |e| e.seq))
    }
    fn get_overview(&self, now: Timestamp, span: Span) -> Answer<'_, Overview> {
        self.read(move |s, _| overview::get(s, now, span))
    }
    fn remove_history(
        &self,
        op: Op,
        fence: Fence,
        before: Timestamp,
        limit: u32,
    ) -> Answer<'_, u32> {
        Box::pin(async move {
            let (mut state, now) = self.lock();
            state.ops.insert(op.id);
            let mut tx = Tx {
                state: &mut state,
                now,
                op,
                duty: None,
            };
            history::remove(&mut tx, &fence, before, limit as usize)
        })
    }
    fn dump(&self) -> Answer<'_, Dump> {
        self.read(|s, _| history::dump(s))
    }
}

/// An error for a call that a duty's old owner made and that has no verdict of its own.
fn old_term(fence: &Fence) -> Error {
    Error::Busy(format!(
        "duty {} has a newer owner than term {}",
        fence.key.text(),
        fence.term
    ))
}
