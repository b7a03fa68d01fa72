//! The pool's third duty: running shards that yield are asked to give their slots to what goes before them.
//!
//! Whoever is asked saves how far it has come and ends its attempt as released; the dispatcher then gives the slot
//! away as it does any other. That somebody was asked is on record before its worker hears of it, so that a new
//! owner of the pool asks nobody else in its place.
//!
//! # Invariants
//! - A pool in which nothing that yields runs costs nothing here.
//! - Nothing depends on a message arriving: as long as somebody waits for the slot, who was asked is told again
//!   with each pass.
//!
//! # Not here
//! Who is asked ([`sichen_core::dispatch::preempt`]), the record (the store), the grant ([`crate::dispatch`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sichen_core::dispatch::ReadyRun;
use sichen_core::dispatch::preempt::{Held, Recall, RecallVerdict, Recalled, Yields};
use sichen_core::document::Document;
use sichen_core::ids::{RunId, SessionId, ShardKey, Token};
use sichen_core::model::{DutyKey, Run};
use sichen_core::name::Name;
use sichen_core::port::{Error, Fence, Granted, MAX_BATCH, ReadyHead};

use crate::blocked::{Blocked, told};
use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::courier::{Courier, StopReason, ToWorker};
use crate::dispatch::{Dispatcher, first_of, ready_run};
use crate::documents::Documents;
use crate::heads::Looks;
use crate::work::GRACE;

/// How often is looked while anything that yields runs.
const PACE: SignedDuration = SignedDuration::from_secs(1);

/// A running shard that yields, as the pool's owner knows it.
#[derive(Clone, Debug)]
pub(crate) struct Yielding {
    pub token: Token,
    pub session: SessionId,
    pub since: Timestamp,
    pub yields: Yields,
    pub run: Arc<Run>,
    pub document: Arc<Document>,
}

impl Yielding {
    /// Of a shard that `session` was granted; `None` if it does not yield.
    pub fn of(
        granted: &Granted,
        session: SessionId,
        run: &Arc<Run>,
        document: &Arc<Document>,
    ) -> Option<Self> {
        let shard = &granted.shard;
        let yields = document.yields().filter(|_| !shard.key.no.is_plan())?;
        Some(Self {
            token: shard.token,
            session,
            since: shard.started_at?,
            yields,
            run: run.clone(),
            document: document.clone(),
        })
    }

    fn held(&self, key: ShardKey, of_run: &[Recalled]) -> Held {
        let head = ReadyHead {
            run: self.run.clone(),
            running: 0,
            shards: vec![(key, self.token)],
        };
        let run = ReadyRun {
            room: 0,
            head: Vec::new(),
            ..ready_run(&head, &self.document)
        };
        let asked = |r: &&Recalled| r.key.run == key.run;
        let times = of_run.iter().filter(asked).count();
        Held {
            key,
            token: self.token,
            session: self.session,
            since: self.since,
            yields: self.yields,
            times: u32::try_from(times).unwrap_or(u32::MAX),
            asked: of_run.iter().any(|r| (r.key, r.token) == (key, self.token)),
            run: Arc::new(run),
        }
    }
}

/// Asks shards that yield for their slots.
pub struct Preempter {
    context: Context,
    coordinator: Arc<Coordinator>,
    documents: Arc<Documents>,
    dispatcher: Arc<Dispatcher>,
    courier: Arc<dyn Courier>,
    looks: Looks,
    /// Runs whose rows another program holds.
    blocked: Blocked<RunId>,
}

impl std::fmt::Debug for Preempter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Preempter").finish_non_exhaustive()
    }
}

impl Preempter {
    /// One that asks for slots which `dispatcher` gives away.
    #[must_use]
    pub fn new(
        context: Context,
        coordinator: Arc<Coordinator>,
        documents: Arc<Documents>,
        dispatcher: Arc<Dispatcher>,
        courier: Arc<dyn Courier>,
    ) -> Self {
        Self {
            context,
            coordinator,
            documents,
            dispatcher,
            courier,
            looks: Looks::default(),
            blocked: Blocked::default(),
        }
    }

    /// One pass over all pools; when to look again, if anything that yields runs.
    ///
    /// # Errors
    /// As the store.
    pub async fn run_once(&self, now: Timestamp) -> Result<Option<Timestamp>, Error> {
        let (mut next, mut failed) = (None, None);
        for pool in self.coordinator.pools() {
            let yielding = self.dispatcher.fair.yielding(&pool, now);
            if yielding.is_empty() {
                continue;
            }
            let Some(fence) = self.coordinator.fence(&DutyKey::Pool(pool.clone()), now) else {
                self.looks.forget(&pool);
                continue;
            };
            next = now.checked_add(PACE).ok();
            if let Err(error) = self.pass(&pool, &fence, yielding, now).await {
                first_of(&mut failed, error)?;
            }
        }
        failed.map_or(Ok(next), Err)
    }

    async fn pass(
        &self,
        pool: &Name,
        fence: &Fence,
        yielding: BTreeMap<ShardKey, Yielding>,
        now: Timestamp,
    ) -> Result<(), Error> {
        if !self.dispatcher.something_waits_in(pool) {
            return Ok(());
        }
        let store = &*self.context.store;
        let most = u32::try_from(yielding.len()).unwrap_or(u32::MAX);
        let found = self.looks.read(store, pool, most).await?;
        let waiting = self.waiting(&found.heads, now).await?;
        if !waiting.iter().any(|run| run.preempts) {
            return Ok(());
        }
        let held = self.held(&yielding).await?;
        self.dispatcher.fair.weigh(store, pool, now).await?;
        let candidates = self.dispatcher.candidates(pool, now).await?;
        let fair = &self.dispatcher.fair;
        let recalls = fair.recalls(pool, &waiting, &held, &candidates, now);
        let recalled = self.record(pool, fence, recalls, now).await?;
        let asked = held.iter().filter(|held| held.asked).map(|held| held.key);
        for key in asked.chain(recalled) {
            if let Some(yielding) = yielding.get(&key) {
                self.ask(key, yielding);
            }
        }
        Ok(())
    }

    /// What waits, without what waits for capacities: no slot helps it.
    async fn waiting(&self, heads: &[ReadyHead], now: Timestamp) -> Result<Vec<ReadyRun>, Error> {
        let store = &*self.context.store;
        let uses = heads.iter().flat_map(|head| head.run.terms.uses.names());
        let names: BTreeSet<Name> = uses.cloned().collect();
        let mut standings = BTreeMap::new();
        if !names.is_empty() {
            let found = store.get_capacities(names.into_iter().collect()).await?;
            standings.extend(found.into_iter().map(|s| (s.capacity.name.clone(), s)));
        }
        let mut runs = Vec::with_capacity(heads.len());
        for head in heads {
            let (run, mut uses) = (&head.run, head.run.terms.uses.iter());
            let is_there = |(name, needs): (&Name, u32)| {
                let standing = standings.get(name);
                standing.is_some_and(|s| s.account().check(needs, now).is_ok())
            };
            if !uses.all(is_there) {
                continue;
            }
            if let Some(document) = self.documents.find(store, run.job, run.revision).await? {
                let mut ready = ready_run(head, &document);
                if !run.terms.uses.is_empty() {
                    // That there is enough for one is known.
                    ready.room = ready.room.min(1);
                }
                runs.push(ready);
            }
        }
        Ok(runs)
    }

    /// What may be asked, with what is on record of it.
    async fn held(&self, yielding: &BTreeMap<ShardKey, Yielding>) -> Result<Vec<Held>, Error> {
        let runs: BTreeSet<RunId> = yielding.keys().map(|key| key.run).collect();
        let runs: Vec<RunId> = runs.into_iter().collect();
        let mut recalls: BTreeMap<RunId, Vec<Recalled>> = BTreeMap::new();
        for part in runs.chunks(MAX_BATCH) {
            for recalled in self.context.store.list_recalls(part.to_vec()).await? {
                recalls.entry(recalled.key.run).or_default().push(recalled);
            }
        }
        let of = |run: RunId| recalls.get(&run).map_or(&[][..], Vec::as_slice);
        let held = yielding.iter();
        Ok(held.map(|(key, y)| y.held(*key, of(key.run))).collect())
    }

    /// Puts on record who is asked; those that may be told.
    async fn record(
        &self,
        pool: &Name,
        fence: &Fence,
        recalls: Vec<Recall>,
        now: Timestamp,
    ) -> Result<Vec<ShardKey>, Error> {
        if recalls.is_empty() {
            return Ok(Vec::new());
        }
        let store = &*self.context.store;
        let write = |recalls| {
            let op = self.context.op(self.coordinator.actor());
            store.recall_shards(op, fence.clone(), recalls)
        };
        let run = |recall: &Recall| recall.key.run;
        let written = self.blocked.write(&recalls, run, || told(now), write);
        let verdicts = written.await?;
        // What comes free is for whoever goes first among all, not for what was read before.
        self.dispatcher.read_first(pool);
        let mut recalled = Vec::new();
        for (recall, verdict) in recalls.iter().zip(verdicts) {
            match verdict {
                Some(RecallVerdict::Recalled) => {
                    self.context.meter.recalled(pool);
                    tracing::info!(
                        shard = %recall.key, by = %recall.by, priority = recall.priority, own = recall.own,
                        "a shard is asked to give its slot to a run of higher priority"
                    );
                    recalled.push(recall.key);
                }
                Some(RecallVerdict::Already) => recalled.push(recall.key),
                Some(RecallVerdict::UsedUp | RecallVerdict::Gone | RecallVerdict::OldTerm)
                | None => {
                    tracing::debug!(shard = %recall.key, ?verdict, "a shard was not asked for its slot");
                }
            }
        }
        Ok(recalled)
    }

    /// Asks the worker; one that was asked before hears nothing new.
    fn ask(&self, key: ShardKey, yielding: &Yielding) {
        let message = ToWorker::Cancel {
            key,
            token: yielding.token,
            reason: StopReason::Preempted,
            grace: yielding.document.grace().unwrap_or(GRACE),
        };
        let session = yielding.session;
        if !self.courier.deliver(session, message) {
            tracing::debug!(%session, shard = %key, "no stream to ask for a slot; it is asked again");
        }
    }
}
