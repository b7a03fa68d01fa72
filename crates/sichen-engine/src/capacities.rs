//! What runs of this node's pools may take of capacities now, and who waits for them.
//!
//! One look at the rows of the capacities that waiting runs use says how many shards of each run a plan
//! may place; a run that gets none has a place in the line ([`sichen_core::capacity::line`]) and is not
//! read again until something comes free. Hints only: the store takes what a grant uses under the
//! capacities' lock.
//!
//! # Invariants
//! - While anybody waits, the capacities waited for are looked at each second at the latest, whatever was
//!   or was not heard of an end: one row each. Where no worker has a slot free, only the sessions are.
//! - The next look is after the last one: what could not be served then is no reason for another at once.
//!
//! # Not here
//! Who gets a slot ([`sichen_core::dispatch`]); the truth (the store).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::capacity::line::{Gate, Line};
use sichen_core::capacity::{Lack, Ledger, Short, Uses};
use sichen_core::dispatch::{Candidate, ReadyRun};
use sichen_core::ids::{JobUid, RunId};
use sichen_core::model::Standing;
use sichen_core::name::Name;
use sichen_core::port::{Error, MAX_BATCH, Store};

/// How often is looked while anybody waits: ends that other nodes take are not heard of here.
const PACE: SignedDuration = SignedDuration::from_secs(1);
/// The least time between two looks that tokens or ends ask for.
const STEP: SignedDuration = SignedDuration::from_millis(1);

/// Who waits for capacities, by pool.
#[derive(Debug, Default)]
pub(crate) struct Capacities(Mutex<BTreeMap<Name, Pool>>);

#[derive(Debug, Default)]
struct Pool {
    line: Line,
    /// What the last look found too short for those who could be served else.
    short: Vec<Short>,
    /// When to look at the capacities again.
    next: Option<Timestamp>,
}

/// What there is for a plan besides capacities.
#[derive(Debug)]
pub(crate) struct Offer<'a> {
    /// The sessions.
    pub candidates: &'a [Candidate],
    /// How many more shards limited namespaces may have.
    pub namespaces: BTreeMap<Name, u32>,
    /// The same of jobs.
    pub jobs: BTreeMap<JobUid, u32>,
}

/// What one plan may place of runs that use capacities.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    /// Shards by run; runs that use nothing are not here.
    rooms: BTreeMap<RunId, u32>,
    parked: Vec<(RunId, Short)>,
    next_end: Option<Timestamp>,
}

impl Admission {
    /// The runs that wait for capacities: more of them could be placed.
    pub fn parked(&self) -> BTreeSet<RunId> {
        self.parked.iter().map(|(run, _)| *run).collect()
    }
}

impl Capacities {
    /// Leaves each of `runs` no more room than its capacities have, and takes out those for which
    /// there is none.
    ///
    /// # Errors
    /// As the store.
    pub async fn admit(
        &self,
        store: &dyn Store,
        pool: &Name,
        uses: &BTreeMap<RunId, &Uses>,
        runs: &mut Vec<ReadyRun>,
        offer: Offer<'_>,
        now: Timestamp,
    ) -> Result<Admission, Error> {
        let names: BTreeSet<&Name> = uses.values().flat_map(|uses| uses.names()).collect();
        if names.is_empty() {
            self.forget(pool);
            return Ok(Admission::default());
        }
        let standings = standings(store, names.into_iter().cloned().collect()).await?;
        let accounts = standings
            .iter()
            .map(|s| (s.capacity.name.clone(), s.account()));
        let ledger = Ledger::open(accounts);
        let wanted = wanted(uses, runs, &offer);
        let line = {
            let mut pools = self.lock();
            let pool = pools.entry(pool.clone()).or_default();
            pool.line.keep(&uses.keys().copied().collect());
            pool.line.clone()
        };
        let able = wanted.iter().map(|w| (w.run, w.rank));
        let mut gate = line.gate(ledger, able, now);
        let rooms = passed(&mut gate, &wanted, uses, offer.namespaces);
        runs.retain_mut(|run| {
            if uses.contains_key(&run.run) {
                run.room = run.room.min(rooms.get(&run.run).copied().unwrap_or(0));
            }
            run.room > 0
        });
        Ok(Admission {
            rooms,
            parked: gate.parked(),
            next_end: standings.iter().filter_map(|s| s.next_end).min(),
        })
    }

    /// The plan has been carried out: `served` got shards, the others keep their places.
    pub fn settle(
        &self,
        pool: &Name,
        admission: Admission,
        served: &BTreeSet<RunId>,
        now: Timestamp,
    ) {
        let mut pools = self.lock();
        let Some(pool) = pools.get_mut(pool) else {
            return;
        };
        for run in admission.rooms.keys().filter(|run| served.contains(run)) {
            pool.line.served(*run);
        }
        pool.short = admission.parked.iter().map(|(_, s)| s.clone()).collect();
        for (run, short) in admission.parked {
            pool.line.park(run, short, now);
        }
        let tokens = pool.short.iter().filter_map(|short| short.lack.ends_at());
        let next = next(now, tokens.chain(admission.next_end));
        pool.next = next.filter(|_| !pool.short.is_empty());
    }

    /// Whether somebody of the pool waits and could be served as the capacities stand now.
    ///
    /// # Errors
    /// As the store.
    pub async fn is_ripe(
        &self,
        store: &dyn Store,
        pool: &Name,
        now: Timestamp,
    ) -> Result<bool, Error> {
        let waiting: Vec<Short> = {
            let pools = self.lock();
            let Some(pool) = pools.get(pool).filter(|pool| pool.next.is_some()) else {
                return Ok(false);
            };
            // Who stands behind another is looked at when that one is served.
            let behind = |short: &&Short| matches!(short.lack, Lack::Reserved { .. });
            let waiting = pool.short.iter().filter(|short| !behind(short));
            waiting.cloned().collect()
        };
        let names: BTreeSet<Name> = waiting.iter().map(|s| s.capacity.clone()).collect();
        let standings = standings(store, Vec::from_iter(names)).await?;
        let mut ripe = false;
        let mut come: Vec<Timestamp> = standings.iter().filter_map(|s| s.next_end).collect();
        for short in &waiting {
            let of = standings.iter().find(|s| s.capacity.name == short.capacity);
            match of.map(|s| s.account().check(short.needs, now)) {
                Some(Ok(())) => ripe = true,
                Some(Err(lack)) => come.extend(lack.ends_at()),
                None => {}
            }
        }
        if let Some(pool) = self.lock().get_mut(pool)
            && let Some(before) = pool.next
        {
            // A look that an end asked for puts off none that was planned.
            let planned = Some(before).filter(|at| *at > now);
            pool.next = next(now, come.into_iter().chain(planned));
        }
        Ok(ripe)
    }

    /// A look has been made: none that was due by `now` is left.
    pub fn looked(&self, now: Timestamp) {
        for pool in self.lock().values_mut() {
            if pool.next.is_some_and(|at| at <= now) {
                pool.next = now.checked_add(PACE).ok();
            }
        }
    }

    /// When to look at the capacities again, if anybody waits.
    pub fn next_look(&self) -> Option<Timestamp> {
        self.lock().values().filter_map(|pool| pool.next).min()
    }

    /// Another node owns the pool, or nobody of it uses anything.
    pub fn forget(&self, pool: &Name) {
        self.lock().remove(pool);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Pool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How these capacities stand.
async fn standings(store: &dyn Store, names: Vec<Name>) -> Result<Vec<Standing>, Error> {
    let mut found = Vec::new();
    for names in names.chunks(MAX_BATCH) {
        found.extend(store.get_capacities(names.to_vec()).await?);
    }
    Ok(found)
}

/// The next look after one at `now`: at the pace, or when something comes.
fn next(now: Timestamp, come: impl Iterator<Item = Timestamp>) -> Option<Timestamp> {
    let soon = now.checked_add(PACE).ok()?;
    let step = now.checked_add(STEP).ok()?;
    Some(come.fold(soon, Timestamp::min).max(step))
}

/// A run that could be given to a worker, if its capacities allow.
struct Wanted<'a> {
    run: RunId,
    rank: i32,
    namespace: &'a Name,
    /// How many of its shards there are slots for.
    most: u32,
}

/// How many shards of each run may be placed; `namespaces`: how many of those that are limited.
fn passed(
    gate: &mut Gate,
    wanted: &[Wanted<'_>],
    uses: &BTreeMap<RunId, &Uses>,
    mut namespaces: BTreeMap<Name, u32>,
) -> BTreeMap<RunId, u32> {
    let mut rooms: BTreeMap<RunId, u32> = BTreeMap::new();
    let mut admitted = 0;
    loop {
        let before = admitted;
        for w in wanted {
            let room = rooms.entry(w.run).or_default();
            let mut left = namespaces.get_mut(w.namespace);
            if *room >= w.most || admitted >= MAX_BATCH || left.as_deref() == Some(&0) {
                continue;
            }
            if !gate.pass(w.run, w.rank, uses[&w.run]) {
                continue;
            }
            *room += 1;
            admitted += 1;
            if let Some(left) = &mut left {
                **left -= 1;
            }
            if left.as_deref() == Some(&0) {
                // The rest of the namespace waits for that, and stands in nobody's way.
                let rest = wanted.iter().filter(|o| o.namespace == w.namespace);
                rest.for_each(|other| gate.step_aside(other.run));
            }
        }
        if admitted == before {
            return rooms;
        }
    }
}

/// Runs that use capacities and could be given to a worker, in the order in which they are asked.
fn wanted<'a>(
    uses: &BTreeMap<RunId, &Uses>,
    runs: &'a [ReadyRun],
    offer: &Offer<'_>,
) -> Vec<Wanted<'a>> {
    let mut free: BTreeMap<&str, u32> = BTreeMap::new();
    for c in offer.candidates {
        for handler in &c.handlers {
            *free.entry(handler).or_default() += c.slots.saturating_sub(c.held);
        }
    }
    let wanted = runs.iter().filter(|run| uses.contains_key(&run.run));
    let wanted = wanted.filter_map(|run| {
        let namespace = &run.flow.namespace;
        let slots = match run.terms.as_deref() {
            None => free.get(&*run.handler).copied().unwrap_or(0),
            // Who can go nowhere is not to hold a place in the line.
            terms => {
                let suits = offer
                    .candidates
                    .iter()
                    .filter(|c| c.suits(&run.handler, terms));
                suits.map(|c| c.slots.saturating_sub(c.held)).sum()
            }
        };
        let head = u32::try_from(run.head.len()).unwrap_or(u32::MAX);
        let limits = [
            offer.namespaces.get(namespace),
            offer.jobs.get(&run.flow.job),
        ];
        let may = limits.into_iter().flatten().min().copied();
        let most = run.room.min(head).min(slots).min(may.unwrap_or(u32::MAX));
        (most > 0).then_some(Wanted {
            run: run.run,
            rank: run.priority.saturating_neg(),
            namespace,
            most,
        })
    });
    let mut wanted: Vec<Wanted<'_>> = wanted.collect();
    wanted.sort_by_key(|w| (w.rank, w.run));
    wanted
}
