//! What each pool's owner remembers of who has used how much of it.
//!
//! Memory of the owner alone: a new owner begins with what is held now, which it asks the store for. No
//! limit depends on it.
//!
//! # Invariants
//! - What is known to be held is compared with the store's count at each look, and read anew where it
//!   differs for long.
//!
//! # Not here
//! The rule ([`sichen_core::dispatch::fair`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::dispatch::fair::{Flow, Shares};
use sichen_core::dispatch::preempt::{self, Held, Recall};
use sichen_core::dispatch::{Candidate, Placement, ReadyRun, plan};
use sichen_core::ids::{JobUid, SessionId, ShardKey};
use sichen_core::model::{Namespace, NamespaceUse};
use sichen_core::name::Name;
use sichen_core::place::{Resources, Terms};
use sichen_core::port::{Error, Granted, MAX_BATCH, MAX_PAGE, Page, Store};

use crate::dispatch::terms;
use crate::documents::Documents;
use crate::preempt::Yielding;

/// The least time between two readings of what sessions hold.
const RESYNC: SignedDuration = SignedDuration::from_secs(5);
/// How long what namespaces may have is gone by while none of them is limited.
const REREAD: SignedDuration = SignedDuration::from_secs(1);
/// Sessions read at once; the others at the next look.
const SESSIONS: usize = 16;
/// Ends that are remembered until the next plan: as many as reports between two of them.
const MAX_ENDED: usize = 100_000;

/// The accounts of the pools that this node owns.
#[derive(Debug, Default)]
pub(crate) struct Fair(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    pools: BTreeMap<Name, Pool>,
    /// What namespaces may have, as it was read last.
    namespaces: Vec<(Namespace, NamespaceUse)>,
    read: Option<Timestamp>,
    /// Shards that are held no longer, and attempts that failed or did not, to be counted when the time
    /// is known.
    ended: Vec<ShardKey>,
    judged: Vec<(ShardKey, bool)>,
}

#[derive(Debug, Default)]
struct Pool {
    shares: Shares,
    /// What runs and yields.
    yielding: BTreeMap<ShardKey, Yielding>,
    read: Option<Timestamp>,
}

impl Fair {
    /// A plan for `pool`, as [`plan`].
    pub fn plan(
        &self,
        pool: &Name,
        runs: &[ReadyRun],
        candidates: &[Candidate],
        now: Timestamp,
    ) -> Vec<Placement> {
        let mut state = self.lock();
        state.settle(now);
        let shares = &mut state.pools.entry(pool.clone()).or_default().shares;
        plan(runs, candidates, MAX_BATCH, shares, now)
    }

    /// A shard was granted.
    pub fn granted(
        &self,
        pool: &Name,
        key: ShardKey,
        session: SessionId,
        flow: Flow,
        terms: Option<Arc<Terms>>,
        now: Timestamp,
    ) {
        let mut state = self.lock();
        state.settle(now);
        if let Some(pool) = state.pools.get_mut(pool) {
            pool.shares.granted(key, session, Arc::new(flow), now);
            if let Some(terms) = terms {
                pool.shares.places.granted(key, session, &terms);
            }
        }
    }

    /// A shard was granted that yields.
    pub fn yields(&self, pool: &Name, key: ShardKey, yielding: Yielding, now: Timestamp) {
        let mut state = self.lock();
        // What was held before ended before.
        state.settle(now);
        if let Some(pool) = state.pools.get_mut(pool) {
            pool.yielding.insert(key, yielding);
        }
    }

    /// What runs in `pool` and yields.
    #[must_use]
    pub fn yielding(&self, pool: &Name, now: Timestamp) -> BTreeMap<ShardKey, Yielding> {
        let mut state = self.lock();
        state.settle(now);
        let pool = state.pools.get(pool);
        pool.map(|pool| pool.yielding.clone()).unwrap_or_default()
    }

    /// Who is to be asked for slots, as [`preempt::recalls`].
    pub fn recalls(
        &self,
        pool: &Name,
        waiting: &[ReadyRun],
        held: &[Held],
        candidates: &[Candidate],
        now: Timestamp,
    ) -> Vec<Recall> {
        let mut state = self.lock();
        state.settle(now);
        let Some(pool) = state.pools.get(pool) else {
            return Vec::new();
        };
        preempt::recalls(waiting, held, candidates, &pool.shares, now)
    }

    /// An attempt ended, failed or not; told before [`Fair::ended`].
    pub fn judged(&self, key: ShardKey, failed: bool) {
        let mut state = self.lock();
        let blames = |pool: &Pool| !pool.shares.places.is_blameless();
        let counts = failed || state.pools.values().any(blames);
        if counts && state.judged.len() < MAX_ENDED {
            state.judged.push((key, failed));
        }
    }

    /// Whether a job has failed anywhere in the pool of late.
    #[must_use]
    pub fn is_blamed(&self, pool: &Name, job: JobUid) -> bool {
        let state = self.lock();
        let pool = state.pools.get(pool);
        pool.is_some_and(|pool| pool.shares.places.is_blamed(job))
    }

    /// These sessions are there now.
    pub fn meet(&self, pool: &Name, candidates: &[Candidate]) {
        if let Some(pool) = self.lock().pools.get_mut(pool) {
            pool.shares.places.meet(candidates);
        }
    }

    /// How many shards namespaces have running, and how many they may, where that is limited.
    #[must_use]
    pub fn limits(&self) -> BTreeMap<Name, (u32, u32)> {
        let state = self.lock();
        let limited = state.namespaces.iter();
        let limited =
            limited.filter_map(|(n, has)| Some((n.name.clone(), (has.running?, n.max_running?))));
        limited.collect()
    }

    /// What is used of sessions' resources.
    #[must_use]
    pub fn uses(&self, pool: &Name) -> BTreeMap<SessionId, Resources> {
        let state = self.lock();
        let pool = state.pools.get(pool);
        pool.map_or_else(BTreeMap::new, |pool| pool.shares.places.uses().clone())
    }

    /// Whether it must be known what some sessions hold, for shards that ask for resources.
    #[must_use]
    pub fn asks(&self, pool: &Name) -> bool {
        let state = self.lock();
        let pool = state.pools.get(pool);
        pool.is_some_and(|pool| !pool.shares.places.asks_of().is_empty())
    }

    /// Shards are held no longer.
    pub fn ended(&self, keys: &[ShardKey]) {
        let mut state = self.lock();
        if !state.pools.is_empty() && state.ended.len() + keys.len() <= MAX_ENDED {
            state.ended.extend(keys);
        }
    }

    /// Another node owns the pool.
    pub fn forget(&self, pool: &Name) {
        self.lock().pools.remove(pool);
    }

    /// A namespace may have no more shards running, as the store has just said.
    pub fn full(&self, pool: &Name, namespace: &Name) {
        if let Some(pool) = self.lock().pools.get_mut(pool) {
            pool.shares.close(namespace);
        }
    }

    /// A job may have no more shards running, as the store has just said.
    pub fn full_job(&self, pool: &Name, job: JobUid) {
        if let Some(pool) = self.lock().pools.get_mut(pool) {
            pool.shares.close_job(job);
        }
    }

    /// How many more shards of `pool` the namespace may have; `None` if no limit of it is known.
    #[must_use]
    pub fn room(&self, pool: &Name, namespace: &Name) -> Option<u32> {
        self.lock().pools.get(pool)?.shares.room(namespace)
    }

    /// The same of each namespace that is limited.
    pub fn rooms(&self, pool: &Name) -> BTreeMap<Name, u32> {
        let state = self.lock();
        let pool = state.pools.get(pool);
        pool.map(|pool| pool.shares.rooms()).unwrap_or_default()
    }

    /// How many more shards each job of `runs` that is limited may have.
    pub fn jobs(&self, pool: &Name, runs: &[ReadyRun]) -> BTreeMap<JobUid, u32> {
        let state = self.lock();
        let Some(pool) = state.pools.get(pool) else {
            return BTreeMap::new();
        };
        let limited = runs.iter().filter(|run| run.most_of_job < u32::MAX);
        let left = |run: &ReadyRun| pool.shares.left_of_job(&run.flow, run.most_of_job);
        limited.map(|run| (run.flow.job, left(run))).collect()
    }

    /// Whether a limit of a namespace is known, so that the end of an attempt may make room in any
    /// pool.
    #[must_use]
    pub fn has_limits(&self) -> bool {
        self.lock().pools.values().any(|p| p.shares.has_caps())
    }

    /// What namespaces may have is to be read anew, however short ago it was.
    pub fn read_anew(&self) {
        self.lock().read = None;
    }

    /// Reads what namespaces may have: each time if any is limited, else now and then.
    ///
    /// # Errors
    /// As the store.
    pub async fn weigh(&self, store: &dyn Store, pool: &Name, now: Timestamp) -> Result<(), Error> {
        let due = {
            let state = self.lock();
            let limited = state
                .namespaces
                .iter()
                .any(|(_, has)| has.running.is_some());
            let since = state.read.map(|read| now.duration_since(read));
            limited || since.is_none_or(|since| since >= REREAD || since.is_negative())
        };
        if due {
            let mut found: Vec<(Namespace, NamespaceUse)> = Vec::new();
            loop {
                let after = found.last().map(|(namespace, _)| namespace.name.clone());
                let limit = MAX_PAGE;
                let page = store.list_namespaces(Page { after, limit }).await?;
                let full = page.len() == limit as usize;
                found.extend(page);
                if !full {
                    break;
                }
            }
            let mut state = self.lock();
            (state.namespaces, state.read) = (found, Some(now));
        }
        let mut state = self.lock();
        state.settle(now);
        let State {
            pools, namespaces, ..
        } = &mut *state;
        let shares = &mut pools.entry(pool.clone()).or_default().shares;
        let weights = namespaces.iter().map(|(n, _)| (n.name.clone(), n.weight));
        shares.weigh(weights.collect(), now);
        // What is held elsewhere is taken from the limit; what ends here makes room here.
        let caps = namespaces.iter().filter_map(|(n, has)| {
            let elsewhere = has.running?.saturating_sub(shares.held_by(&n.name));
            let most = n.max_running?.saturating_sub(elsewhere);
            Some((n.name.clone(), most))
        });
        let caps = caps.collect();
        shares.cap(caps);
        Ok(())
    }

    /// Compares what is known with the store's counts, and reads what differs.
    ///
    /// # Errors
    /// As the store.
    pub async fn compare(
        &self,
        store: &dyn Store,
        documents: &Documents,
        pool: &Name,
        sessions: &BTreeMap<SessionId, u32>,
        now: Timestamp,
    ) -> Result<(), Error> {
        let differing = {
            let mut state = self.lock();
            state.settle(now);
            let pool = state.pools.entry(pool.clone()).or_default();
            let mut differing = pool.shares.sessions(sessions, now);
            let since = pool.read.map(|read| now.duration_since(read));
            if since.is_some_and(|since| since < RESYNC) {
                // Shards wait for what these say.
                differing = pool.shares.places.asks_of();
            }
            if differing.is_empty() {
                return Ok(());
            }
            pool.read = Some(now);
            differing.truncate(SESSIONS);
            differing
        };
        for session in differing {
            let held = store.list_leases(session).await?;
            let mut flows = Vec::with_capacity(held.len());
            let mut placed = Vec::new();
            let mut yielding = Vec::new();
            for part in held.chunks(MAX_BATCH) {
                let keys = part.iter().map(|shard| shard.key).collect();
                for facts in store.get_shards(keys).await? {
                    let (key, run) = (facts.shard.key, facts.run);
                    let document = documents.find(store, run.job, run.revision).await?;
                    let granted = Granted {
                        grant_seq: facts.shard.grant_seq,
                        shard: facts.shard,
                    };
                    let run = Arc::new(run);
                    let of = document.as_ref();
                    let of = of.and_then(|d| Yielding::of(&granted, session, &run, d));
                    yielding.extend(of.map(|of| (key, of)));
                    let terms = document.and_then(|document| terms(&document, key));
                    placed.extend(terms.map(|terms| (key, terms)));
                    flows.push((key, Flow::of(&run)));
                }
            }
            if let Some(pool) = self.lock().pools.get_mut(pool) {
                pool.shares.holds(session, flows, now);
                pool.yielding.retain(|_, y| y.session != session);
                pool.yielding.extend(yielding);
                for (key, terms) in placed {
                    pool.shares.places.granted(key, session, &terms);
                }
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn settle(&mut self, now: Timestamp) {
        for (key, failed) in std::mem::take(&mut self.judged) {
            for pool in self.pools.values_mut() {
                pool.shares.judged(key, failed, now);
            }
        }
        for key in std::mem::take(&mut self.ended) {
            for pool in self.pools.values_mut() {
                pool.shares.ended(key, now);
                pool.yielding.remove(&key);
            }
        }
    }
}
