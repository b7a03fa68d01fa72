//! What runs of this node's pools may take of capacities now, and who waits for them.
//!
//! One look at the rows of the capacities that waiting runs use says how many shards of each run a plan
//! may place; a run that gets none has a place in the line ([`sichen_core::capacity::line`]) and is not
//! read again until something comes free. Hints only: the store takes what a grant uses under the
//! capacities' lock.
//!
//! # Invariants
//! - While anybody waits, the capacities waited for are looked at each second, whatever was or was not
//!   heard of an end: one row each.
//!
//! # Not here
//! Who gets a slot ([`sichen_core::dispatch`]); the truth (the store).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::capacity::line::Line;
use sichen_core::capacity::{Lack, Ledger, Short, Uses};
use sichen_core::dispatch::{Candidate, ReadyRun};
use sichen_core::ids::RunId;
use sichen_core::model::Standing;
use sichen_core::name::Name;
use sichen_core::port::{Error, MAX_BATCH, Store};

/// How often is looked while anybody waits: ends that other nodes take are not heard of here.
const PACE: SignedDuration = SignedDuration::from_secs(1);

/// Who waits for capacities, by pool.
#[derive(Debug, Default)]
pub(crate) struct Capacities(Mutex<BTreeMap<Name, Pool>>);

#[derive(Debug, Default)]
struct Pool {
    line: Line,
    /// When to look at the capacities again.
    next: Option<Timestamp>,
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
        candidates: &[Candidate],
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
        let wanted = wanted(uses, runs, candidates);
        let line = {
            let mut pools = self.lock();
            let pool = pools.entry(pool.clone()).or_default();
            pool.line.keep(&uses.keys().copied().collect());
            pool.line.clone()
        };
        let able = wanted.iter().map(|(run, rank, _)| (*run, *rank));
        let mut gate = line.gate(ledger, able, now);
        let mut rooms: BTreeMap<RunId, u32> = BTreeMap::new();
        let mut admitted = 0;
        loop {
            let before = admitted;
            for (run, rank, most) in &wanted {
                let room = rooms.entry(*run).or_default();
                if *room < *most && admitted < MAX_BATCH && gate.pass(*run, *rank, uses[run]) {
                    *room += 1;
                    admitted += 1;
                }
            }
            if admitted == before {
                break;
            }
        }
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
        let waits = !admission.parked.is_empty();
        for (run, short) in admission.parked {
            pool.line.park(run, short, now);
        }
        let soon = now.checked_add(PACE).ok();
        let tokens = pool.line.next_at();
        let next = soon.into_iter().chain(tokens).chain(admission.next_end);
        pool.next = next.min().filter(|_| waits);
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
            let waiting = pool.line.waiting().map(|place| place.short.clone());
            // Who stands behind another is looked at when that one is served.
            let first = waiting.filter(|s| !matches!(s.lack, Lack::Reserved { .. }));
            first.collect()
        };
        let names: BTreeSet<Name> = waiting.iter().map(|s| s.capacity.clone()).collect();
        let standings = standings(store, Vec::from_iter(names)).await?;
        let free = |short: &Short| {
            let of = standings.iter().find(|s| s.capacity.name == short.capacity);
            of.is_some_and(|s| s.account().check(short.needs, now).is_ok())
        };
        let ripe = waiting.iter().any(free);
        if let Some(pool) = self.lock().get_mut(pool) {
            pool.next = now.checked_add(PACE).ok();
        }
        Ok(ripe)
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

/// Runs that use capacities and could be given to a worker, in the order in which they are asked: their
/// ranks, and how many shards of each there are slots for.
fn wanted(
    uses: &BTreeMap<RunId, &Uses>,
    runs: &[ReadyRun],
    candidates: &[Candidate],
) -> Vec<(RunId, i32, u32)> {
    let mut free: BTreeMap<&str, u32> = BTreeMap::new();
    for c in candidates {
        for handler in &c.handlers {
            *free.entry(handler).or_default() += c.slots.saturating_sub(c.held);
        }
    }
    let wanted = runs.iter().filter(|run| uses.contains_key(&run.run));
    let wanted = wanted.filter_map(|run| {
        let slots = match run.terms.as_deref() {
            None => free.get(&*run.handler).copied().unwrap_or(0),
            // Who can go nowhere is not to hold a place in the line.
            terms => {
                let suits = candidates.iter().filter(|c| c.suits(&run.handler, terms));
                suits.map(|c| c.slots.saturating_sub(c.held)).sum()
            }
        };
        let head = u32::try_from(run.head.len()).unwrap_or(u32::MAX);
        let most = run.room.min(head).min(slots);
        (most > 0).then_some((run.run, run.priority.saturating_neg(), most))
    });
    let mut wanted: Vec<(RunId, i32, u32)> = wanted.collect();
    wanted.sort_by_key(|(run, rank, _)| (*rank, *run));
    wanted
}
