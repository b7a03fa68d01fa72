//! How many shards wait for what, in the pools that this node owns.
//!
//! # Invariants
//! - Each shard is counted under one reason, by the rule that explains it
//!   ([`sichen_core::dispatch::why`]).
//! - A count costs the same however many wait: at most [`MAX_RUNS`] runs and [`MAX_SHARDS`] shards of a
//!   pool are looked at.
//!
//! # Not here
//! Words for people (`crate::control`); shards whose time has not come, or whose run waits for others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use sichen_core::dispatch::queue::{Place, Window};
use sichen_core::dispatch::why::{self, Reason, why};
use sichen_core::ids::JobUid;
use sichen_core::lease::has_expired;
use sichen_core::model::{DutyKey, Standing};
use sichen_core::name::Name;
use sichen_core::place::{Resources, hash_of};
use sichen_core::port::{Error, MAX_BATCH, ReadyHead, Store};

use crate::dispatch::{Dispatcher, ready_run};

/// Runs with waiting shards that are looked at of one pool.
pub const MAX_RUNS: u32 = 2_000;
/// Shards that are counted of one pool.
pub const MAX_SHARDS: u32 = 10_000;

impl Dispatcher {
    /// Shards whose time has come and that are not granted, by what they wait for. The sum over all nodes
    /// is the cluster's.
    ///
    /// # Errors
    /// As the store.
    pub async fn census(&self, now: Timestamp) -> Result<BTreeMap<Reason, u64>, Error> {
        let mut sums = BTreeMap::new();
        for (reason, n) in self.census_by_pool(now).await?.into_values().flatten() {
            *sums.entry(reason).or_default() += n;
        }
        Ok(sums)
    }

    /// [`Dispatcher::census`] of each pool that this node owns.
    ///
    /// # Errors
    /// As the store.
    pub async fn census_by_pool(
        &self,
        now: Timestamp,
    ) -> Result<BTreeMap<Name, BTreeMap<Reason, u64>>, Error> {
        let mut pools = BTreeMap::new();
        for pool in self.coordinator.pools() {
            if self.coordinator.owns(&DutyKey::Pool(pool.clone())) {
                let mut counts = BTreeMap::new();
                self.count(&pool, now, &mut counts).await?;
                pools.insert(pool, counts);
            }
        }
        Ok(pools)
    }

    async fn count(
        &self,
        pool: &Name,
        now: Timestamp,
        counts: &mut BTreeMap<Reason, u64>,
    ) -> Result<(), Error> {
        let store = &*self.context.store;
        let heads = waiting(store, pool).await?;
        if heads.is_empty() {
            return Ok(());
        }
        // A limit that was set a moment ago is a reason already.
        self.fair.read_anew();
        self.fair.weigh(store, pool, now).await?;
        let limits = self.fair.limits();
        let standings = standings(store, &heads).await?;
        let mut facts = self.facts(pool, now).await?;
        let mut jobs: BTreeMap<JobUid, u32> = BTreeMap::new();
        for head in &heads {
            let run = &head.run;
            let found = self.documents.find(store, run.job, run.revision).await?;
            let Some(document) = found else {
                continue;
            };
            let ready = ready_run(head, &document);
            let account = |name: &Name| standings.get(name).map(Standing::account);
            let short = |(name, needs): (&Name, u32)| {
                account(name).is_none_or(|account| account.check(needs, now).is_err())
            };
            facts.stopping = run.stop.is_some();
            facts.waits = run.waits.map(|waits| waits.what);
            facts.running = (head.running, run.terms.parallelism);
            facts.job = None;
            if let Some(most) = document.spec.max_running_shards {
                let running = match jobs.get(&run.job) {
                    Some(running) => *running,
                    None => store.count_running_of_job(run.job).await?,
                };
                jobs.insert(run.job, running);
                facts.job = Some((running, most));
            }
            facts.namespace = limits.get(&run.job_name.namespace).copied();
            facts.capacity = run.terms.uses.iter().any(short);
            let mut shard = why::Waiting {
                // The store has judged that their time has come.
                ready_at: Timestamp::MIN,
                retries: false,
                handler: &ready.handler,
                terms: ready.terms.as_deref(),
                worker: None,
            };
            if document.is_broadcast() {
                for (key, _) in &head.shards {
                    shard.worker = Some(ready.keys.of(key.no.0));
                    *counts.entry(why(&shard, &facts)).or_default() += 1;
                }
                continue;
            }
            let n = u64::try_from(head.shards.len()).unwrap_or(u64::MAX);
            *counts.entry(why(&shard, &facts)).or_default() += n;
        }
        Ok(())
    }

    /// What is the same for all runs of the pool.
    async fn facts(&self, pool: &Name, now: Timestamp) -> Result<why::Facts, Error> {
        let sessions = self.context.store.list_sessions(Some(pool.clone())).await?;
        let restore = self.context.store.get_restore().await?.is_some();
        let uses = self.fair.uses(pool);
        let live = sessions
            .into_iter()
            .filter(|(s, _)| !has_expired(s.expires_at, now));
        let workers = live.map(|(s, held)| why::Worker {
            number: hash_of(s.worker.name.as_str().as_bytes()),
            used: uses.get(&s.id).cloned().unwrap_or_else(Resources::default),
            handlers: s.handlers,
            slots: s.slots,
            held,
            draining: s.draining,
            offer: Arc::new(s.offer),
        });
        Ok(why::Facts {
            stopping: false,
            waits: None,
            running: (0, 0),
            job: None,
            namespace: None,
            capacity: false,
            restore,
            owned: true,
            workers: workers.collect(),
            now,
        })
    }
}

/// The first runs with ready shards, by lane and job, and of each its part of what is counted.
async fn waiting(store: &dyn Store, pool: &Name) -> Result<Vec<ReadyHead>, Error> {
    let window = Window {
        total: MAX_RUNS,
        lane: MAX_RUNS,
        job: MAX_RUNS,
    };
    let first = store
        .list_ready(pool.clone(), Place::FIRST, window, 1)
        .await?;
    let runs = u32::try_from(first.len()).unwrap_or(u32::MAX);
    let each = MAX_SHARDS / runs.max(1);
    if runs == 0 || each <= 1 {
        return Ok(first);
    }
    store
        .list_ready(pool.clone(), Place::FIRST, window, each)
        .await
}

async fn standings(
    store: &dyn Store,
    heads: &[ReadyHead],
) -> Result<BTreeMap<Name, Standing>, Error> {
    let names = heads.iter().flat_map(|head| head.run.terms.uses.names());
    let names: Vec<Name> = names
        .cloned()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut standings = BTreeMap::new();
    for names in names.chunks(MAX_BATCH) {
        for standing in store.get_capacities(names.to_vec()).await? {
            standings.insert(standing.capacity.name.clone(), standing);
        }
    }
    Ok(standings)
}
