//! The pool's duty: ready shards → plan → leases → workers.
//!
//! # Invariants
//! - Each pass reads anew; a refused grant is a result, and the next pass sees why.
//! - A grant is handed to the worker after its commit, never before.
//!
//! # Not here
//! The plan (`sichen_core::dispatch`), taking leases back ([`crate::reap`]).

mod born;
mod unknown;
mod yielding;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::capacity::Uses;
use sichen_core::dispatch::fair::Flow;
use sichen_core::dispatch::queue::Place;
use sichen_core::dispatch::{Candidate, Placement, Ready, ReadyRun};
use sichen_core::document::Document;
use sichen_core::ids::{JobUid, RunId, SessionId, ShardKey};
use sichen_core::lease::has_expired;
use sichen_core::model::{DutyKey, Run};
use sichen_core::name::Name;
use sichen_core::place::{Keyed, Strategy, Terms, hash_of};
use sichen_core::port::{
    Error, Fence, Grant, GrantRefused, GrantVerdict, Granted, MAX_BATCH, ReadyHead,
};

use crate::blocked::{Blocked, told};
use crate::capacities::{Capacities, Offer};
use crate::context::{Context, facts};
use crate::coordinator::Coordinator;
use crate::courier::{Courier, ToWorker};
use crate::documents::Documents;
use crate::driver::Wake;
use crate::heads::Looks;
use crate::room::{Room, Seat, Waiting};
use crate::shares::Fair;
use crate::signs::Signs;
use crate::work::Work;
use unknown::unknown_outcomes;

/// The longest time between two looks at the tables.
const SWEEP: SignedDuration = SignedDuration::from_secs(10);
/// The time between looks while it is not known what all sessions hold and shards ask for resources.
const ASK_AGAIN: SignedDuration = SignedDuration::from_millis(100);
/// The time to the next look where a slot came free while the last one was read.
const FREED_MEANWHILE: SignedDuration = SignedDuration::from_secs(1);

/// Dispatches the shards of every pool that this node owns.
pub struct Dispatcher {
    pub(crate) context: Context,
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) documents: Arc<Documents>,
    courier: Arc<dyn Courier>,
    /// Room as far as the last pass knows, for runs that are written now.
    room: Room,
    pub(crate) fair: Fair,
    looks: Looks,
    wake: Arc<Wake>,
    /// When the tables are to be read next.
    next_look: Mutex<Option<Timestamp>>,
    /// What workers' beats say of them.
    signs: Signs,
    /// Who waits for capacities.
    capacities: Capacities,
    /// Runs whose rows another program holds.
    pub(crate) blocked: Blocked<RunId>,
}

impl std::fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher").finish_non_exhaustive()
    }
}

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Leases granted.
    pub granted: usize,
    /// Grants that the store refused.
    pub refused: usize,
    /// When a waiting shard becomes ready, if that is known to matter.
    pub next_ready: Option<Timestamp>,
    /// Whether a run may have been given a deadline.
    pub limits_run: bool,
    /// The store's time, if it was before what the pass went by.
    pub told: Option<Timestamp>,
}

/// When the next shard of a pool becomes ready that is not ready now.
enum Next {
    /// As the look has seen; never if `None`.
    At(Option<Timestamp>),
    /// Not ready at this instant, which the look has seen: to be asked.
    After(Timestamp),
}

impl Dispatcher {
    /// A dispatcher that hands grants to `courier`.
    #[must_use]
    pub fn new(
        context: Context,
        coordinator: Arc<Coordinator>,
        documents: Arc<Documents>,
        courier: Arc<dyn Courier>,
        wake: Arc<Wake>,
    ) -> Self {
        Self {
            context,
            coordinator,
            documents,
            courier,
            room: Room::default(),
            fair: Fair::default(),
            looks: Looks::default(),
            wake,
            next_look: Mutex::default(),
            signs: Signs::default(),
            capacities: Capacities::default(),
            blocked: Blocked::default(),
        }
    }

    /// Says whether the worker of `session` can take work.
    pub fn set_able(&self, session: SessionId, able: bool) {
        self.signs.set_able(session, able);
        if !able {
            self.room.close(session);
        }
    }

    /// Says how busy the machine of `session`'s worker is: its load by its processors, in thousandths.
    pub fn set_busy(&self, session: SessionId, busy: u32) {
        self.signs.set_busy(session, busy);
    }

    /// A beat renewed `session` until then; until when the one before it had, if that was taken here.
    pub(crate) fn renewed(&self, session: SessionId, until: Timestamp) -> Option<Timestamp> {
        self.signs.renewed(session, until)
    }

    /// How busy the machine of `session`'s worker says that it is, in thousandths; 0 if it has not said.
    #[must_use]
    pub fn busy(&self, session: SessionId) -> u32 {
        self.signs.of(session).unwrap_or(0)
    }

    /// An attempt ended, failed or not; told before [`Dispatcher::freed`].
    pub(crate) fn judged(&self, shard: ShardKey, failed: bool) {
        self.fair.judged(shard, failed);
    }

    /// The attempts of these shards, which `session` held, have ended.
    pub fn freed(&self, session: SessionId, shards: &[ShardKey]) {
        self.room.freed(session, shards.len());
        self.fair.ended(shards);
    }

    /// Nothing was given for a slot that was taken.
    pub(crate) fn give_back(&self, seat: &Seat) {
        if self.room.give_back(seat) {
            self.wake.hand_out();
        }
    }

    fn forget(&self, pool: &Name) {
        self.room.forget(pool);
        self.fair.forget(pool);
        self.looks.forget(pool);
        self.capacities.forget(pool);
    }

    /// Whether the last look and what was granted since say that `session` holds nothing.
    #[must_use]
    pub fn holds_nothing(&self, session: SessionId) -> bool {
        // Only who grants for the pool knows of every grant.
        let owned = |pool: &Name| self.coordinator.owns(&DutyKey::Pool(pool.clone()));
        self.room
            .holds_nothing(session)
            .is_some_and(|pool| owned(&pool))
    }

    /// Whether the end of a run may let another one go: any that waits for its turn or its time was
    /// seen by the last look.
    #[must_use]
    pub fn something_comes_later(&self) -> bool {
        self.room.something_comes_later() || self.fair.has_limits()
    }

    /// Whether shards may be waiting that a free slot could take.
    #[must_use]
    pub fn something_waits(&self) -> bool {
        self.room.something_waits()
    }

    /// One pass over all pools; one whose rows are in the way does not stop the others.
    ///
    /// # Errors
    /// As the store. Leases granted before the error stay; the next beat of their worker finds them.
    pub async fn run_once(&self, now: Timestamp) -> Result<Pass, Error> {
        let (mut pass, mut failed) = (Pass::default(), None);
        for pool in self.coordinator.pools() {
            let Some(fence) = self.coordinator.fence(&DutyKey::Pool(pool.clone()), now) else {
                self.forget(&pool);
                continue;
            };
            match self.look(&pool, fence, now, &mut pass).await {
                Ok(next) => {
                    self.room.comes_later(&pool, next.is_some());
                    pass.next_ready = pass.next_ready.into_iter().chain(next).min();
                }
                Err(error) => first_of(&mut failed, error)?,
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        self.capacities.looked(now);
        let sweep = now.checked_add(SWEEP).ok();
        *self.lock_next() = pass.next_ready.into_iter().chain(sweep).min();
        Ok(pass)
    }

    /// Looks at one pool; when its next shard becomes ready.
    async fn look(
        &self,
        pool: &Name,
        fence: Fence,
        now: Timestamp,
        pass: &mut Pass,
    ) -> Result<Option<Timestamp>, Error> {
        match self.dispatch_pool(pool, fence, now, pass).await? {
            Next::At(next) => Ok(next),
            Next::After(read) => self.context.store.next_ready_at(pool.clone(), read).await,
        }
    }

    /// When the tables, or those of capacities alone, are to be read next, whatever happens.
    #[must_use]
    pub fn next_look(&self) -> Option<Timestamp> {
        let next = *self.lock_next();
        next.into_iter().chain(self.capacities.next_look()).min()
    }

    /// Whether it is time to read the tables.
    #[must_use]
    pub fn look_is_due(&self, now: Timestamp) -> bool {
        self.lock_next().is_none_or(|at| at <= now)
    }

    /// Whether anybody waits for a capacity.
    #[must_use]
    pub fn waits_for_capacity(&self) -> bool {
        self.capacities.next_look().is_some()
    }

    /// Whether it is time to read the rows of capacities.
    #[must_use]
    pub fn capacity_is_due(&self, now: Timestamp) -> bool {
        self.capacities.next_look().is_some_and(|at| at <= now)
    }

    fn lock_next(&self) -> MutexGuard<'_, Option<Timestamp>> {
        self.next_look
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills free slots with what is known to wait, without reading tables. What is not known is
    /// left to [`Dispatcher::run_once`].
    ///
    /// # Errors
    /// As the store.
    pub async fn hand_out(&self, now: Timestamp) -> Result<Pass, Error> {
        let (mut pass, mut failed) = (Pass::default(), None);
        for pool in self.coordinator.pools() {
            let Some(fence) = self.coordinator.fence(&DutyKey::Pool(pool.clone()), now) else {
                self.forget(&pool);
                continue;
            };
            if self.room.reads_first(&pool, now) {
                pass.next_ready = Some(now);
                continue;
            }
            if let Err(error) = self.fill(&pool, &fence, now, &mut pass).await {
                first_of(&mut failed, error)?;
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        self.capacities.looked(now);
        Ok(pass)
    }

    /// Fills free slots of one pool.
    async fn fill(
        &self,
        pool: &Name,
        fence: &Fence,
        now: Timestamp,
        pass: &mut Pass,
    ) -> Result<(), Error> {
        loop {
            let (candidates, ready) = self.room.snapshot(pool, MAX_BATCH);
            let placements = self.fair.plan(pool, &ready, &candidates, now);
            if placements.is_empty() {
                break;
            }
            let keys: Vec<ShardKey> = placements.iter().map(|p| p.key).collect();
            let documents = self.room.remove(pool, &keys);
            let grants = self.grant(pool, fence, now, placements, &documents, pass);
            if let Err(error) = grants.await {
                self.room.incomplete(pool);
                return Err(error);
            }
        }
        let store = &*self.context.store;
        if self.room.must_look(pool) || self.capacities.is_ripe(store, pool, now).await? {
            pass.next_ready = Some(now);
        }
        Ok(())
    }

    /// Grants what still holds, and hands it over.
    async fn grant(
        &self,
        pool: &Name,
        fence: &Fence,
        now: Timestamp,
        placements: Vec<Placement>,
        documents: &BTreeMap<RunId, Arc<Document>>,
        pass: &mut Pass,
    ) -> Result<BTreeSet<ShardKey>, Error> {
        let grants = placements.iter().filter_map(|p| {
            let document = documents.get(&p.key.run)?;
            let mut timeouts = document.timeouts();
            if p.key.no.is_plan() {
                // A query gives no signs while it runs.
                timeouts.stall = None;
            }
            Some(Grant {
                key: p.key,
                token: p.token,
                session: p.session,
                timeouts,
                most_of_job: document.spec.max_running_shards,
            })
        });
        let grants: Vec<Grant> = grants.collect();
        if grants.is_empty() {
            return Ok(BTreeSet::new());
        }
        let store = &*self.context.store;
        let lease = |grants| {
            let op = self.context.op(self.coordinator.actor());
            store.lease_shards(op, fence.clone(), grants)
        };
        let run = |grant: &Grant| grant.key.run;
        let verdicts = self
            .blocked
            .write(&grants, run, || told(now), lease)
            .await?;
        let mut granted = BTreeSet::new();
        // Each grant that was committed is handed over, whatever goes wrong with one before it.
        let mut failed = Ok(());
        for (grant, verdict) in grants.iter().zip(verdicts) {
            let (given, run) = match verdict {
                Some(GrantVerdict::Granted(given, run)) => (*given, run),
                None => {
                    // Another program holds the run's row: a look comes back to it.
                    let next = self.blocked.next(now);
                    pass.next_ready = pass.next_ready.into_iter().chain(next).min();
                    self.room.incomplete(pool);
                    continue;
                }
                Some(GrantVerdict::Refused(reason)) => {
                    tracing::debug!(shard = %grant.key, ?reason, "grant refused");
                    self.context.meter.refused(reason);
                    pass.refused += 1;
                    if matches!(reason, GrantRefused::Namespace | GrantRefused::Job) {
                        failed = failed.and(self.park(pool, grant.key.run, reason).await);
                        continue;
                    }
                    if reason == GrantRefused::Capacity {
                        self.room.incomplete(pool);
                    } else if reason != GrantRefused::NotReady {
                        // It still waits; who may have it is to be looked at anew.
                        self.room.incomplete(pool);
                        self.room.close(grant.session);
                    }
                    continue;
                }
            };
            self.context.meter.granted(pool, &given);
            if !run.terms.uses.is_empty() {
                self.context.meter.capacity_granted(&given);
            }
            granted.insert(grant.key);
            self.room.given(pool, grant.session);
            let document = documents.get(&grant.key.run);
            self.note_yielding(pool, &given, grant.session, &run, document);
            let terms = document.and_then(|document| terms(document, grant.key));
            self.fair
                .granted(pool, grant.key, grant.session, Flow::of(&run), terms, now);
            // A first grant may have set the run's deadline.
            pass.limits_run |= grant.timeouts.active.is_some();
            let Some(document) = document else {
                continue;
            };
            match self.work(given, run, document.clone(), None).await {
                Ok(work) => self.deliver(grant.session, work),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        pass.granted += granted.len();
        failed.map(|()| granted)
    }

    /// Leaves the namespace or the job of `run` alone until one of its shards ends or it is looked at
    /// anew.
    async fn park(&self, pool: &Name, run: RunId, full: GrantRefused) -> Result<(), Error> {
        self.room.incomplete(pool);
        match self.context.store.get_run(run).await? {
            Some((run, _)) if full == GrantRefused::Job => self.fair.full_job(pool, run.job),
            Some((run, _)) => self.fair.full(pool, &run.job_name.namespace),
            None => {}
        }
        Ok(())
    }

    async fn dispatch_pool(
        &self,
        pool: &Name,
        fence: Fence,
        now: Timestamp,
        pass: &mut Pass,
    ) -> Result<Next, Error> {
        self.room.reading(pool);
        let candidates = self.candidates(pool, now).await?;
        let free: u32 = candidates.iter().map(|c| c.slots - c.held).sum();
        if free == 0 {
            self.meet(pool, candidates, now, pass);
            // What waits was not read: the next free slot asks for it.
            self.room.unread(pool);
            return Ok(Next::After(now));
        }
        self.room.begin(pool, now);
        let first = self
            .context
            .store
            .next_ready_at(pool.clone(), Timestamp::MIN);
        let first = first.await?;
        if first.is_none_or(|at| at > now) {
            // Nothing is ready: an idle pool costs no more statements than this.
            self.capacities.forget(pool);
            self.meet(pool, candidates, now, pass);
            self.room
                .keep(pool, Vec::new(), BTreeSet::new(), true, false);
            return Ok(Next::At(first));
        }
        // What is ready is judged by the store's time. The node's may be ahead of it, and what becomes
        // ready between the two would be left to the sweep.
        let told = self.context.store.now().await?;
        if told < now {
            // Or what is ready between the two would be looked for again and again.
            pass.told = Some(told);
        }
        let read = told.min(now);
        let store = &*self.context.store;
        let found = self.looks.read(store, pool, free).await?;
        let (heads, deep, all) = (found.heads, found.per_run, found.all);
        let mut runs = Vec::with_capacity(heads.len());
        let mut known = BTreeMap::new();
        for head in &heads {
            let run = &head.run;
            if self.blocked.is_paused(run.id, now) {
                let next = self.blocked.next(now);
                pass.next_ready = pass.next_ready.into_iter().chain(next).min();
                continue;
            }
            if let Some(document) = self.documents.find(store, run.job, run.revision).await? {
                runs.extend(apart(ready_run(head, &document)));
                known.insert(run.id, document);
            }
        }
        self.fair.weigh(store, pool, now).await?;
        let uses = heads.iter().map(|head| (head.run.id, &head.run.terms.uses));
        let uses: BTreeMap<RunId, &Uses> = uses.filter(|(_, uses)| !uses.is_empty()).collect();
        let offer = Offer {
            candidates: &candidates,
            namespaces: self.fair.rooms(pool),
            jobs: self.fair.jobs(pool, &runs),
        };
        let admit = self
            .capacities
            .admit(&*self.context.store, pool, &uses, &mut runs, offer, now);
        let admission = admit.await?;
        let placements = self.fair.plan(pool, &runs, &candidates, now);
        if self.fair.asks(pool) {
            // What some sessions hold is to be read before they can be given what asks for resources.
            let soon = now.checked_add(ASK_AGAIN).ok();
            pass.next_ready = pass.next_ready.into_iter().chain(soon).min();
        }
        let placed: BTreeSet<ShardKey> = placements.iter().map(|p| p.key).collect();
        let proposed = placements.len();
        self.meet(pool, candidates, now, pass);
        let granted = self
            .grant(pool, &fence, now, placements, &known, pass)
            .await?;
        // What waits for capacities is not read again until they are free.
        let parked = admission.parked();
        let served = granted.iter().map(|key| key.run).collect();
        self.capacities.settle(pool, admission, &served, now);
        // What is limited by more than slots is read anew each time.
        let of_job = |run: &Run| {
            known
                .get(&run.id)
                .is_some_and(|document| limits_job(document))
        };
        let limited =
            |run: &Run| run.limits_parallelism() || !run.terms.uses.is_empty() || of_job(run);
        let left = |head: &&ReadyHead| {
            !parked.contains(&head.run.id)
                && head.shards.iter().any(|(key, _)| !placed.contains(key))
        };
        let cut = |head: &ReadyHead| head.shards.len() >= deep as usize;
        let kept = granted.len() == proposed
            && known.len() == heads.len()
            && !heads.iter().filter(left).any(|head| limited(&head.run));
        let complete = kept && all && !heads.iter().any(&cut);
        // Where all were taken up, one stands for each.
        let runs: BTreeMap<RunId, &ReadyRun> = runs.iter().map(|run| (run.run, run)).collect();
        let waiting = heads.iter().filter(left).filter_map(|head| {
            let ready = runs.get(&head.run.id)?;
            let shards = head.shards.iter().copied();
            Some(Waiting {
                place: Place::of(&head.run),
                flow: ready.flow.clone(),
                priority: ready.priority,
                since: ready.since,
                document: known.get(&ready.run)?.clone(),
                handler: ready.handler.clone(),
                terms: ready.terms.clone(),
                keys: ready.keys.clone(),
                more: cut(head),
                shards: shards.filter(|(key, _)| !placed.contains(key)).collect(),
            })
        });
        let waiting = if kept { waiting.collect() } else { Vec::new() };
        let spent = heads.iter().any(|head| cut(head) && !left(&head));
        let behind = if kept { found.behind } else { BTreeSet::new() };
        self.room.keep(pool, waiting, behind, complete, spent);
        if proposed == MAX_BATCH {
            // There may be more slots than one batch fills, and more was read than that.
            match kept {
                true => self.fill(pool, &fence, now, pass).await?,
                false => pass.next_ready = Some(now),
            }
        }
        Ok(Next::After(read))
    }

    /// Keeps what the look has found of sessions; looks again soon if a slot came free meanwhile.
    fn meet(&self, pool: &Name, candidates: Vec<Candidate>, now: Timestamp, pass: &mut Pass) {
        if !self.room.sessions(pool, candidates) {
            let soon = now.checked_add(FREED_MEANWHILE).ok();
            pass.next_ready = pass.next_ready.into_iter().chain(soon).min();
        }
    }

    /// The pool's sessions that work may be given to, full ones too.
    pub(crate) async fn candidates(
        &self,
        pool: &Name,
        now: Timestamp,
    ) -> Result<Vec<Candidate>, Error> {
        let store = &*self.context.store;
        let sessions = store.list_sessions(Some(pool.clone())).await?;
        let held = sessions.iter().map(|(s, held)| (s.id, *held)).collect();
        let documents = &self.documents;
        self.fair
            .compare(store, documents, pool, &held, now)
            .await?;
        let able = sessions
            .into_iter()
            .filter(|(s, held)| !s.draining && !has_expired(s.expires_at, now) && *held <= s.slots)
            .filter_map(|(s, held)| {
                Some(Candidate {
                    session: s.id,
                    worker: hash_of(s.worker.name.as_str().as_bytes()),
                    busy: self.signs.of(s.id)?,
                    handlers: s.handlers,
                    slots: s.slots,
                    held,
                    offer: Arc::new(s.offer),
                })
            });
        let able: Vec<Candidate> = able.collect();
        self.fair.meet(pool, &able);
        Ok(able)
    }

    /// Tells workers again what they were granted, in the order of their grant numbers.
    ///
    /// # Errors
    /// As the store.
    pub async fn hand_over(&self, granted: Vec<(SessionId, Granted)>) -> Result<(), Error> {
        if granted.is_empty() {
            return Ok(());
        }
        let store = &*self.context.store;
        let now = store.now().await?;
        let keys = granted.iter().map(|(_, g)| g.shard.key).collect();
        let facts = facts(store, keys).await?.into_iter();
        let runs: BTreeMap<RunId, Arc<Run>> = facts.map(|f| (f.run.id, Arc::new(f.run))).collect();
        for (session, granted) in granted {
            let Some(run) = runs.get(&granted.shard.key.run) else {
                continue;
            };
            let found = self.documents.find(store, run.job, run.revision).await?;
            if let Some(document) = found {
                let work = self.work(granted, run.clone(), document, Some(now)).await?;
                self.deliver(session, work);
            }
        }
        Ok(())
    }

    fn deliver(&self, session: SessionId, work: Work) {
        let key = work.shard.key;
        let message = ToWorker::Grant(Box::new(work));
        if !self.courier.deliver(session, message) {
            tracing::debug!(%session, shard = %key, "no stream for a grant; its beat will find it");
        }
    }

    /// Completes a grant with what its run and document say. `now` if the grant is not fresh.
    async fn work(
        &self,
        granted: Granted,
        run: Arc<Run>,
        document: Arc<Document>,
        now: Option<Timestamp>,
    ) -> Result<Work, Error> {
        let unknown_outcomes = unknown_outcomes(&*self.context.store, &granted).await?;
        let Granted { shard, grant_seq } = granted;
        // The store counts from the grant; the worker counts from what it is told here.
        let now = now.or(shard.started_at);
        let least = SignedDuration::from_millis(1);
        let left = |at: Timestamp| now.map(|now| at.duration_since(now).max(least));
        let since = now.zip(shard.started_at);
        let granted_ago = since.map(|(now, granted)| now.duration_since(granted));
        let attempt_timeout = shard.attempt_until.and_then(left);
        let run_timeout = run.terms.deadline.and_then(left);
        Ok(Work {
            shard,
            grant_seq,
            run,
            document,
            granted_ago: granted_ago.unwrap_or_default().max(SignedDuration::ZERO),
            attempt_timeout,
            run_timeout,
            unknown_outcomes,
            traced: self.context.traced,
        })
    }
}

/// Keeps the first error, where others may fare better; else it is answered at once.
pub(crate) fn first_of(failed: &mut Option<Error>, error: Error) -> Result<(), Error> {
    if !error.is_of_some_rows() {
        return Err(error);
    }
    failed.get_or_insert(error);
    Ok(())
}

/// Whether more than free slots decides how many shards of the job may run at once.
fn limits_job(document: &Document) -> bool {
    document.spec.max_running_shards.is_some() || document.is_broadcast()
}

/// The shards of a run that is broadcast, each by itself: none waits behind one whose worker is not there.
fn apart(run: ReadyRun) -> Vec<ReadyRun> {
    let terms = run.terms.as_ref();
    if terms.is_none_or(|terms| terms.strategy != Strategy::Broadcast) {
        return vec![run];
    }
    let alone = |ready: &Ready| ReadyRun {
        head: vec![ready.clone()],
        ..run.clone()
    };
    run.head.iter().map(alone).collect()
}

/// Where a shard may and should run, if its job says so: a plan step runs where its data source is.
pub(crate) fn terms(document: &Document, key: ShardKey) -> Option<Arc<Terms>> {
    document.placement().filter(|_| !key.no.is_plan())
}

fn keyed(terms: Option<&Terms>, job: JobUid, parameters: &str) -> Keyed {
    terms.map_or(Keyed::Same(0), |terms| terms.keyed(job, parameters))
}

pub(crate) fn ready_run(head: &ReadyHead, document: &Document) -> ReadyRun {
    let first = head.shards.first().map(|(key, _)| *key);
    let plans = first.is_some_and(|key| key.no.is_plan());
    let source = document.data_source().filter(|_| plans);
    let terms = first.and_then(|key| terms(document, key));
    ReadyRun {
        run: head.run.id,
        flow: Arc::new(Flow::of(&head.run)),
        priority: head.run.terms.priority,
        since: head.run.ready_since(),
        // A plan step runs where its data source is.
        handler: source
            .map_or_else(|| head.run.terms.handler.clone(), data_source_handler)
            .into(),
        keys: keyed(terms.as_deref(), head.run.job, &head.run.terms.parameters),
        terms,
        preempts: document.preempts(),
        yields: document.yields().is_some(),
        most_of_job: document.spec.max_running_shards.unwrap_or(u32::MAX),
        room: head.run.terms.parallelism.saturating_sub(head.running),
        head: head
            .shards
            .iter()
            .map(|(key, token)| Ready {
                key: *key,
                token: *token,
            })
            .collect(),
    }
}

/// The name under which a worker offers a data source among its handlers.
#[must_use]
pub fn data_source_handler(name: &str) -> String {
    format!("data-source/{name}")
}
