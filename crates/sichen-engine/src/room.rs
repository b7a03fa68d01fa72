//! What a pool's owner knows from its last look: the room its sessions have, and the shards that wait.
//!
//! With it a new run is given to a worker in the transaction that writes it, and a slot that comes free
//! is filled without reading tables. Hints only: the store checks each grant, its session, its slots
//! and the pool's term again, and what is not known here is found by the next look.
//!
//! # Invariants
//! - While anything waits, no new run goes past it: `take` gives nothing then.
//! - What a session was given is counted at once, so that two callers don't take one slot.
//! - Everything is bounded: beyond [`MAX_WAITING`] shards or [`MAX_WAITING_RUNS`] runs only
//!   the store knows them.
//!
//! # Not here
//! The choice among many shards ([`sichen_core::dispatch`]), the truth (the store).

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sichen_core::dispatch::fair::Flow;
use sichen_core::dispatch::{Candidate, Ready, ReadyRun};
use sichen_core::document::Document;
use sichen_core::ids::{RunId, SessionId, ShardKey, Token};
use sichen_core::name::Name;

/// Waiting shards that a pool's owner keeps in memory; more are read from the store when these are
/// gone.
pub const MAX_WAITING: usize = 200_000;
/// Runs with waiting shards that it keeps in memory.
pub const MAX_WAITING_RUNS: usize = 20_000;
/// Runs offered to one plan.
const HEADS: usize = 1_000;

/// What is known of every pool.
#[derive(Debug, Default)]
pub struct Room(Mutex<BTreeMap<Name, Pool>>);

#[derive(Debug, Default)]
struct Pool {
    /// Whether all that waits is among `waiting`.
    complete: bool,
    /// Whether anything waits for its time, or for its run's turn.
    later: bool,
    /// Whether a run has more shards and none of them here any more.
    spent: bool,
    /// Whether something did not find room here: until the next look all that is new is left to the
    /// store, behind it.
    full: bool,
    sessions: BTreeMap<SessionId, Candidate>,
    /// By negated priority, then run: the order of the plan.
    waiting: BTreeMap<(i32, RunId), Waiting>,
    /// Where each of them stands there: thousands may wait, and a plan names a few.
    ranks: BTreeMap<RunId, i32>,
    shards: usize,
}

/// A run with shards that wait and need nothing but a slot.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The run: whoever grants its shards is told the rest of it then.
    pub run: RunId,
    /// Its priority.
    pub priority: i32,
    /// Its document.
    pub document: Arc<Document>,
    /// The handler that a worker must offer.
    pub handler: Arc<str>,
    /// The shards, first ready first, with the tokens they have.
    pub shards: VecDeque<(ShardKey, Token)>,
    /// Whether only the store knows all of them: when these are gone the tables are read, so that the
    /// run keeps its turn.
    pub more: bool,
}

impl Pool {
    fn add(&mut self, waiting: Waiting) {
        let rank = waiting.priority.saturating_neg();
        self.full |= self.shards + waiting.shards.len() > MAX_WAITING
            || self.waiting.len() >= MAX_WAITING_RUNS;
        if self.full {
            self.complete = false;
            // What goes before others is not to wait behind them.
            let last = self.waiting.keys().next_back();
            self.spent |= last.is_none_or(|(kept, _)| rank < *kept);
            return;
        }
        self.shards += waiting.shards.len();
        self.ranks.insert(waiting.run, rank);
        let kept = self.waiting.entry((rank, waiting.run));
        kept.and_modify(|kept| {
            kept.shards.extend(&waiting.shards);
            kept.more |= waiting.more;
        })
        .or_insert(waiting);
    }

    fn is_idle(&self) -> bool {
        self.complete && self.waiting.is_empty()
    }
}

impl Room {
    /// A look begins: what is written from now on may not be among what it finds.
    pub fn begin(&self, pool: &Name) {
        let mut pools = self.lock();
        let pool = pools.entry(pool.clone()).or_default();
        pool.complete = false;
        (pool.spent, pool.full) = (false, false);
        pool.waiting.clear();
        pool.ranks.clear();
        pool.shards = 0;
    }

    /// The look has found these sessions, with what they hold.
    pub fn sessions(&self, pool: &Name, candidates: Vec<Candidate>) {
        let mut pools = self.lock();
        let pool = pools.entry(pool.clone()).or_default();
        pool.sessions = candidates.into_iter().map(|c| (c.session, c)).collect();
    }

    /// What the look found and could not be given away; whether that is all that waits, and whether
    /// all that was found of a run that has more was given away.
    pub fn keep(&self, pool: &Name, waiting: Vec<Waiting>, complete: bool, spent: bool) {
        let mut pools = self.lock();
        let pool = pools.entry(pool.clone()).or_default();
        pool.complete = complete;
        pool.spent = spent;
        for waiting in waiting {
            pool.add(waiting);
        }
    }

    /// More runs wait behind those that were kept: what is new waits behind them.
    pub fn more_behind(&self, pool: &Name) {
        if let Some(pool) = self.lock().get_mut(pool) {
            pool.full = true;
        }
    }

    /// Shards were written in `pool` that wait.
    pub fn add(&self, pool: &Name, waiting: Waiting) {
        if let Some(pool) = self.lock().get_mut(pool) {
            pool.add(waiting);
        }
    }

    /// Something waits that is not known here.
    pub fn incomplete(&self, pool: &Name) {
        if let Some(pool) = self.lock().get_mut(pool) {
            pool.complete = false;
            pool.later = true;
        }
    }

    /// Whether anything in `pool` waits for its time, or for its run's turn.
    pub fn comes_later(&self, pool: &Name, later: bool) {
        if let Some(pool) = self.lock().get_mut(pool) {
            pool.later = later;
        }
    }

    /// Whether anything does, in any pool; a pool that was not looked at may have such.
    #[must_use]
    pub fn something_comes_later(&self) -> bool {
        let pools = self.lock();
        pools.is_empty() || pools.values().any(|pool| pool.later)
    }

    /// Whether shards may be waiting in any pool.
    #[must_use]
    pub fn something_waits(&self) -> bool {
        self.lock().values().any(|pool| !pool.is_idle())
    }

    /// Whether what waits in `pool` must be read from the store.
    #[must_use]
    pub fn must_look(&self, pool: &Name) -> bool {
        let pools = self.lock();
        pools
            .get(pool)
            .is_none_or(|pool| pool.spent || (!pool.complete && pool.waiting.is_empty()))
    }

    /// Takes a slot for one shard, if there is one and nothing waits: of the session with the
    /// smallest load.
    pub fn take(&self, pool: &Name, handler: &str) -> Option<SessionId> {
        let mut pools = self.lock();
        let pool = pools.get_mut(pool).filter(|pool| pool.is_idle())?;
        let fits = |c: &&mut Candidate| c.held < c.slots && c.handlers.iter().any(|h| h == handler);
        let load = |c: &Candidate| u64::from(c.held) * 1_000 / u64::from(c.slots.max(1));
        let free = pool.sessions.values_mut().filter(fits);
        let chosen = free.min_by_key(|c| (load(c), c.held, c.session))?;
        chosen.held += 1;
        Some(chosen.session)
    }

    /// The sessions of `pool`, and the first of what waits in it, for a plan.
    #[must_use]
    pub fn snapshot(&self, pool: &Name, per_run: usize) -> (Vec<Candidate>, Vec<ReadyRun>) {
        let pools = self.lock();
        let Some(pool) = pools.get(pool) else {
            return (Vec::new(), Vec::new());
        };
        let offered = |w: &&Waiting| {
            (pool.sessions.values()).any(|c| c.handlers.iter().any(|h| **h == *w.handler))
        };
        let ready = pool.waiting.values().filter(offered).take(HEADS);
        let ready = ready.map(|w| ReadyRun {
            run: w.run,
            flow: w.flow.clone(),
            priority: w.priority,
            since: w.since,
            handler: w.handler.clone(),
            room: u32::MAX,
            head: w
                .shards
                .iter()
                .take(per_run)
                .map(|(key, token)| Ready {
                    key: *key,
                    token: *token,
                })
                .collect(),
        });
        (pool.sessions.values().cloned().collect(), ready.collect())
    }

    /// Takes shards out of what waits, for they are about to be granted; the documents of their runs.
    pub fn remove(&self, pool: &Name, keys: &[ShardKey]) -> BTreeMap<RunId, Arc<Document>> {
        let mut found = BTreeMap::new();
        let mut pools = self.lock();
        let Some(pool) = pools.get_mut(pool) else {
            return found;
        };
        for key in keys {
            let Some(rank) = pool.ranks.get(&key.run) else {
                continue;
            };
            let place = (*rank, key.run);
            let Some(waiting) = pool.waiting.get_mut(&place) else {
                continue;
            };
            found.insert(key.run, waiting.document.clone());
            // A plan takes them from the front.
            if let Some(at) = waiting.shards.iter().position(|(k, _)| k == key) {
                waiting.shards.remove(at);
                pool.shards = pool.shards.saturating_sub(1);
            }
            if waiting.shards.is_empty() {
                pool.spent |= waiting.more;
                pool.waiting.remove(&place);
                pool.ranks.remove(&key.run);
            }
        }
        found
    }

    /// Counts grants that are about to be made.
    pub fn given(&self, pool: &Name, session: SessionId) {
        if let Some(pool) = self.lock().get_mut(pool)
            && let Some(c) = pool.sessions.get_mut(&session)
        {
            c.held += 1;
        }
    }

    /// A session has `n` slots free again.
    pub fn freed(&self, session: SessionId, n: usize) {
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        for pool in self.lock().values_mut() {
            if let Some(c) = pool.sessions.get_mut(&session) {
                c.held = c.held.saturating_sub(n);
            }
        }
    }

    /// The pool of a session that is known to hold nothing.
    #[must_use]
    pub fn holds_nothing(&self, session: SessionId) -> Option<Name> {
        let pools = self.lock();
        let empty = |pool: &Pool| pool.sessions.get(&session).is_some_and(|c| c.held == 0);
        let found = pools.iter().find(|(_, pool)| empty(pool));
        found.map(|(name, _)| name.clone())
    }

    /// Another node owns the pool: what was known of it is past.
    pub fn forget(&self, pool: &Name) {
        self.lock().remove(pool);
    }

    /// A session takes nothing for now.
    pub fn close(&self, session: SessionId) {
        for pool in self.lock().values_mut() {
            pool.sessions.remove(&session);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Pool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
