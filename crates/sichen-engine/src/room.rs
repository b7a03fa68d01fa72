//! What a pool's owner knows from its last look: the room its sessions have, and the shards that wait.
//!
//! With it a new run is given to a worker in the transaction that writes it, and a slot that comes free
//! is filled without reading tables. Hints only: the store checks each grant, its session, its slots
//! and the pool's term again, and what is not known here is found by the next look.
//!
//! # Invariants
//! - While anything waits, no new run goes past it: `take` gives nothing then.
//! - A slot that `take` gives is counted at once, so that two callers don't take one; what a plan gives
//!   is counted when the store has granted it.
//! - Everything is bounded: beyond [`MAX_WAITING`] shards or [`MAX_WAITING_RUNS`] runs only
//!   the store knows them.
//!
//! # Not here
//! The choice among many shards ([`sichen_core::dispatch`]), the truth (the store).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::dispatch::fair::Flow;
use sichen_core::dispatch::queue::{Place, Seen, Walk, Window};
use sichen_core::dispatch::{Candidate, Ready, ReadyRun};
use sichen_core::document::Document;
use sichen_core::ids::{RunId, SessionId, ShardKey, Token};
use sichen_core::name::Name;
use sichen_core::place::{Keyed, Terms};

/// Waiting shards that a pool's owner keeps in memory; more are read from the store when these are
/// gone.
pub const MAX_WAITING: usize = 200_000;
/// Runs with waiting shards that it keeps in memory.
pub const MAX_WAITING_RUNS: usize = 20_000;
/// The least time between looks that only a full pool's news asks for.
const LOOK_AGAIN: SignedDuration = SignedDuration::from_millis(200);
/// Runs offered to one plan.
const HEADS: u32 = 1_500;

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
    /// Whether a look found no free slot and so read nothing: what came since is not known here.
    unread: bool,
    /// When the last look began that read.
    looked: Option<Timestamp>,
    /// How often its sessions were read.
    reads: u64,
    /// Sessions that slots came free of since the reading under way began.
    freed: BTreeSet<SessionId>,
    sessions: BTreeMap<SessionId, Candidate>,
    /// In the order of the windows that a plan is shown. Boxed, since a tree that grows at its end is
    /// half empty, and there may be many.
    waiting: BTreeMap<Place, Box<Waiting>>,
    /// Where each of them stands there: thousands may wait, and a plan names a few.
    places: BTreeMap<RunId, Place>,
    shards: usize,
    /// Jobs, by queue and turn, that have more runs than are here, and how many of them have none left.
    behind: BTreeSet<(i64, i64)>,
    dry: usize,
    /// What the last plan's window met, how many there were, and where the last round ended.
    seen: Seen,
    plans: u32,
    round: Option<Place>,
}

/// A slot that was taken for a run that is being written.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Of this session.
    pub session: SessionId,
    pool: Name,
    /// The reading of the sessions that it was counted on.
    read: u64,
}

/// A run with shards that wait and need nothing but a slot.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Where the run waits: whoever grants its shards is told the rest of it then.
    pub place: Place,
    /// Under whose names it is counted.
    pub flow: Arc<Flow>,
    /// Its priority.
    pub priority: i32,
    /// Since when it could have been served.
    pub since: Timestamp,
    /// Its document.
    pub document: Arc<Document>,
    /// The handler that a worker must offer.
    pub handler: Arc<str>,
    /// Where its shards may and should run, if the job says so.
    pub terms: Option<Arc<Terms>>,
    /// Their keys, where a hash decides.
    pub keys: Keyed,
    /// The shards, first ready first, with the tokens they have.
    pub shards: VecDeque<(ShardKey, Token)>,
    /// Whether only the store knows all of them: when these are gone the tables are read, so that the
    /// run keeps its turn.
    pub more: bool,
}

/// What `walk` finds.
fn walked_along<'a>(
    walk: Walk,
    waiting: &'a BTreeMap<Place, Box<Waiting>>,
    offered: &impl Fn(&Waiting) -> bool,
) -> (Vec<&'a Waiting>, Walk) {
    let (found, walked) = walk.along(waiting, |waiting| offered(waiting));
    (
        found.into_iter().map(|waiting| &**waiting).collect(),
        walked,
    )
}

/// What the window that follows from `seen` shows; of a job no more than there are free slots.
fn shown<'a>(
    seen: Seen,
    free: u32,
    waiting: &'a BTreeMap<Place, Box<Waiting>>,
    offered: &impl Fn(&Waiting) -> bool,
) -> (Vec<&'a Waiting>, Walk) {
    let window = seen.window(HEADS);
    let job = window.job.min(free);
    let walk = Walk::new(Window { job, ..window }, Place::FIRST);
    walked_along(walk, waiting, offered)
}

impl Waiting {
    fn run(&self) -> RunId {
        self.place.run
    }

    fn ready(&self, most: usize) -> ReadyRun {
        let ready = |(key, token): &(ShardKey, Token)| Ready {
            key: *key,
            token: *token,
        };
        ReadyRun {
            run: self.run(),
            flow: self.flow.clone(),
            priority: self.priority,
            since: self.since,
            handler: self.handler.clone(),
            terms: self.terms.clone(),
            keys: self.keys.clone(),
            preempts: self.document.preempts(),
            yields: self.document.yields().is_some(),
            room: u32::MAX,
            // Of limited jobs nothing is kept here.
            most_of_job: u32::MAX,
            head: self.shards.iter().take(most).map(ready).collect(),
        }
    }
}

impl Pool {
    fn add(&mut self, waiting: Waiting) {
        let place = waiting.place;
        if self.shards + waiting.shards.len() > MAX_WAITING
            || self.waiting.len() >= MAX_WAITING_RUNS
        {
            self.complete = false;
            // What stands beside no others is not to wait behind them.
            self.spent |= !self.stands_beside(place);
            return;
        }
        self.shards += waiting.shards.len();
        self.places.insert(waiting.run(), place);
        let kept = self.waiting.entry(place);
        kept.and_modify(|kept| {
            kept.shards.extend(&waiting.shards);
            kept.more |= waiting.more;
        })
        .or_insert_with(|| Box::new(waiting));
    }

    /// Adds what was written just now: behind those of its job that only the store knows.
    fn add_new(&mut self, waiting: Waiting) {
        let place = waiting.place;
        if self.behind.contains(&(place.queue, place.turn)) {
            self.complete = false;
        } else {
            self.add(waiting);
        }
    }

    /// Whether a run of the same lane and priority is here.
    fn stands_beside(&self, place: Place) -> bool {
        let first = Place {
            turn: -1,
            run: RunId(0),
            ..place
        };
        let next = self.waiting.range(first..).next();
        next.is_some_and(|(kept, _)| kept.queue == place.queue)
    }

    fn has_of_job(&self, place: Place) -> bool {
        let first = Place {
            run: RunId(0),
            ..place
        };
        let next = self.waiting.range(first..).next();
        next.is_some_and(|(kept, _)| (kept.queue, kept.turn) == (place.queue, place.turn))
    }

    /// What a plan for so many free slots is shown.
    fn window(&mut self, free: u32, offered: impl Fn(&Waiting) -> bool) -> Vec<&Waiting> {
        let (mut found, mut walked) = shown(self.seen, free, &self.waiting, &offered);
        if self.seen.note(&walked) {
            (found, walked) = shown(self.seen, free, &self.waiting, &offered);
            self.seen.note(&walked);
        }
        self.plans = self.plans.wrapping_add(1);
        if walked.is_cut() && self.plans.is_multiple_of(Window::ROUND_EACH) {
            let after = self.round.take().unwrap_or(Place::FIRST);
            let walk = Walk::new(Window::ROUND, after);
            let (more, walked) = walked_along(walk, &self.waiting, &offered);
            self.round = walked.is_full().then_some(walked.at());
            let known: BTreeSet<RunId> = found.iter().map(|w| w.run()).collect();
            found.extend(more.into_iter().filter(|w| !known.contains(&w.run())));
        }
        found
    }

    fn is_idle(&self) -> bool {
        self.complete && self.waiting.is_empty()
    }
}

impl Room {
    /// A look begins: what is written from now on may not be among what it finds.
    pub fn begin(&self, pool: &Name, now: Timestamp) {
        let mut pools = self.lock();
        let pool = pools.entry(pool.clone()).or_default();
        pool.complete = false;
        (pool.spent, pool.unread, pool.looked) = (false, false, Some(now));
        pool.waiting.clear();
        pool.places.clear();
        pool.behind.clear();
        pool.dry = 0;
        pool.shards = 0;
    }

    /// The sessions are about to be read: what comes free from now on may be counted as held there.
    pub fn reading(&self, pool: &Name) {
        let mut pools = self.lock();
        pools.entry(pool.clone()).or_default().freed.clear();
    }

    /// The look has found these sessions, with what they hold. False if one stands as full that a slot
    /// came free of since [`Room::reading`]: nobody can say whether the reading has seen that.
    pub fn sessions(&self, pool: &Name, candidates: Vec<Candidate>) -> bool {
        let mut pools = self.lock();
        let pool = pools.entry(pool.clone()).or_default();
        pool.reads += 1;
        pool.sessions = candidates.into_iter().map(|c| (c.session, c)).collect();
        let freed = std::mem::take(&mut pool.freed);
        let mut now = freed.iter().filter_map(|id| pool.sessions.get(id));
        !now.any(|c| c.held >= c.slots)
    }

    /// What the look found and could not be given away; whether that is all that waits, and whether
    /// all that was found of a run that has more was given away.
    /// `behind`: jobs of which more waits than was found.
    pub fn keep(
        &self,
        pool: &Name,
        waiting: Vec<Waiting>,
        behind: BTreeSet<(i64, i64)>,
        complete: bool,
        spent: bool,
    ) {
        let mut pools = self.lock();
        let pool = pools.entry(pool.clone()).or_default();
        pool.behind = behind;
        pool.complete = complete;
        pool.spent = spent;
        for waiting in waiting {
            pool.add(waiting);
        }
        let all_given = |(queue, turn): &&(i64, i64)| {
            let (queue, turn, run) = (*queue, *turn, RunId(0));
            !pool.has_of_job(Place { queue, turn, run })
        };
        pool.dry = pool.behind.iter().filter(all_given).count();
    }

    /// Shards were written in `pool` that wait.
    pub fn add(&self, pool: &Name, waiting: Waiting) {
        if let Some(pool) = self.lock().get_mut(pool) {
            pool.add_new(waiting);
        }
    }

    /// Something waits that is not known here.
    pub fn incomplete(&self, pool: &Name) {
        if let Some(pool) = self.lock().get_mut(pool) {
            pool.complete = false;
            pool.later = true;
        }
    }

    /// A look found no free slot in `pool` and read nothing: what waits may be others than those known
    /// here, and the next free slot is for whoever goes first among all.
    pub fn unread(&self, pool: &Name) {
        self.incomplete(pool);
        if let Some(pool) = self.lock().get_mut(pool) {
            pool.unread = true;
        }
    }

    /// Whether nothing is to be given away before the tables were read; not so soon after the last look.
    #[must_use]
    pub fn reads_first(&self, pool: &Name, now: Timestamp) -> bool {
        let pools = self.lock();
        let soon = |looked| now.duration_since(looked) < LOOK_AGAIN;
        let unread = |pool: &Pool| pool.unread && !pool.looked.is_some_and(soon);
        pools.get(pool).is_some_and(unread)
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

    /// Whether shards may be waiting in `pool`.
    #[must_use]
    pub fn something_waits_in(&self, pool: &Name) -> bool {
        self.lock().get(pool).is_none_or(|pool| !pool.is_idle())
    }

    /// Whether what waits in `pool` must be read from the store.
    #[must_use]
    pub fn must_look(&self, pool: &Name) -> bool {
        let pools = self.lock();
        pools.get(pool).is_none_or(|pool| {
            // Each job is to keep its turn; but not each of a thousand asks for a look of its own.
            let dry = pool.dry * 4 > pool.behind.len();
            pool.spent || dry || (!pool.complete && pool.waiting.is_empty())
        })
    }

    /// Takes a slot for one shard, if there is one and nothing waits: of the session with the
    /// smallest load.
    pub fn take(&self, name: &Name, handler: &str) -> Option<Seat> {
        let mut pools = self.lock();
        let pool = pools.get_mut(name).filter(|pool| pool.is_idle())?;
        let fits = |c: &&mut Candidate| c.held < c.slots && c.handlers.iter().any(|h| h == handler);
        let load = |c: &Candidate| u64::from(c.held) * 1_000 / u64::from(c.slots.max(1));
        let free = pool.sessions.values_mut().filter(fits);
        let chosen = free.min_by_key(|c| (load(c), c.held, c.session))?;
        chosen.held += 1;
        Some(Seat {
            session: chosen.session,
            pool: name.clone(),
            read: pool.reads,
        })
    }

    /// Nothing was given for this slot; whether anything may wait for it. Where the sessions were read
    /// anew meanwhile it is not counted any more.
    pub fn give_back(&self, seat: &Seat) -> bool {
        let mut pools = self.lock();
        let Some(pool) = pools.get_mut(&seat.pool) else {
            return false;
        };
        if pool.reads == seat.read
            && let Some(c) = pool.sessions.get_mut(&seat.session)
        {
            c.held = c.held.saturating_sub(1);
        }
        !pool.is_idle()
    }

    /// The sessions of `pool`, and the first of what waits in it by lane and job, for a plan.
    #[must_use]
    pub fn snapshot(&self, pool: &Name, per_run: usize) -> (Vec<Candidate>, Vec<ReadyRun>) {
        let mut pools = self.lock();
        let Some(pool) = pools.get_mut(pool) else {
            return (Vec::new(), Vec::new());
        };
        let sessions: Vec<Candidate> = pool.sessions.values().cloned().collect();
        let free: u32 = sessions
            .iter()
            .map(|c| c.slots.saturating_sub(c.held))
            .sum();
        if free == 0 {
            return (sessions, Vec::new());
        }
        let handlers: BTreeSet<&str> = sessions
            .iter()
            .flat_map(|c| c.handlers.iter().map(String::as_str))
            .collect();
        // Few kinds of terms among many runs.
        let met = RefCell::new(BTreeMap::new());
        let offered = |w: &Waiting| match &w.terms {
            None => handlers.contains(&*w.handler),
            Some(terms) => {
                let suits = |c: &Candidate| c.suits(&w.handler, Some(terms));
                let key = (w.handler.clone(), terms.clone());
                let mut met = met.borrow_mut();
                *met.entry(key).or_insert_with(|| sessions.iter().any(suits))
            }
        };
        let found = pool.window(free, offered);
        let per_run = per_run.min(free as usize);
        let ready = found.into_iter().map(|w| w.ready(per_run)).collect();
        (sessions, ready)
    }

    /// Takes shards out of what waits, for they are about to be granted; the documents of their runs.
    pub fn remove(&self, pool: &Name, keys: &[ShardKey]) -> BTreeMap<RunId, Arc<Document>> {
        let mut found = BTreeMap::new();
        let mut pools = self.lock();
        let Some(pool) = pools.get_mut(pool) else {
            return found;
        };
        for key in keys {
            let Some(place) = pool.places.get(&key.run).copied() else {
                continue;
            };
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
                pool.places.remove(&key.run);
                let job = (place.queue, place.turn);
                if pool.behind.contains(&job) && !pool.has_of_job(place) {
                    pool.dry += 1;
                }
            }
        }
        found
    }

    /// Counts a grant that the store has made.
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
                pool.freed.insert(session);
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

#[cfg(test)]
mod tests;
