//! Who is asked to give a slot up, so that what is of higher priority can start.
//!
//! A job says that its waiting shards may ask, another that its running shards may be asked
//! ([`crate::document::PreemptionSpec`]); without both nobody is. Whoever is asked saves how far it has come and
//! ends `released`: that is no failure and uses no attempt up, and the shard goes on later from its checkpoint.
//!
//! Slots are freed in thought first: the plan that [`super::plan`] makes once the shards in question wait again
//! must give their slots to those for whom they are asked. Where it would give them to anybody else (another
//! namespace whose share it is, one who has waited long, or those very shards), nobody is asked.
//!
//! # Invariants
//! - Only shards that yield are asked, each once an attempt, after its least time, within its run's number of
//!   times, and only by a run of the same namespace whose own priority is strictly higher. Ageing lends nobody
//!   that right, so no two runs can ask each other.
//! - Nobody is asked in vain, as things stand: each shard asked is one more that starts of the run for which it
//!   is, beside all that are on their way out already, and nobody else starts instead.
//! - Pure: the accounts it plans with are copies.
//!
//! # Not here
//! Counting the times and recording who was asked for whom (the store), telling the worker (engine).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::fair::Shares;
use super::{Candidate, Ready, ReadyRun, plan};
use crate::ids::{RunId, SessionId, ShardKey, Token};
use crate::lifecycle::ShardState;
use crate::model::Shard;

/// Shards of one pool that are asked in one pass.
pub const MAX_RECALLS: usize = 100;
/// How often shards of one run may be asked for their slots, all together.
pub const MAX_YIELDS: u32 = 1_000;
/// The shortest time for which an attempt runs before it may be asked.
pub const MIN_YIELD_AFTER: SignedDuration = SignedDuration::from_secs(1);
/// The longest time for which an attempt may be kept from being asked.
pub const MAX_YIELD_AFTER: SignedDuration = SignedDuration::from_hours(24);
/// Grants that are planned in thought.
const PLANNED: usize = 10_000;

/// When the running shards of a job may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Yields {
    /// Not before the attempt has run for so long.
    pub after: SignedDuration,
    /// How often shards of one run may be asked, all together.
    pub times: u32,
}

/// A running shard that yields.
#[derive(Clone, Debug)]
pub struct Held {
    /// Which.
    pub key: ShardKey,
    /// Its attempt.
    pub token: Token,
    /// Who has it.
    pub session: SessionId,
    /// Since when.
    pub since: Timestamp,
    /// When it may be asked.
    pub yields: Yields,
    /// How often shards of its run were asked already.
    pub times: u32,
    /// Whether it has been asked: its slot counts as free, for those for whom it was.
    pub asked: bool,
    /// Its run as it would wait: without shards, and without room for any.
    pub run: Arc<ReadyRun>,
}

/// A running shard is asked to give its slot up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall {
    /// Which.
    pub key: ShardKey,
    /// Its attempt.
    pub token: Token,
    /// For which run.
    pub by: RunId,
    /// That run's priority.
    pub priority: i32,
    /// The shard's own, which is lower.
    pub own: i32,
    /// How often shards of its run may be asked, all together.
    pub most: u32,
}

/// What became of a [`Recall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallVerdict {
    /// It is on record: to be told to its worker.
    Recalled,
    /// This attempt was asked before.
    Already,
    /// Shards of its run were asked as often as they may.
    UsedUp,
    /// The attempt has ended.
    Gone,
    /// The caller no longer owns the pool.
    OldTerm,
}

/// A shard that was asked for its slot, as it is on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recalled {
    /// Which.
    pub key: ShardKey,
    /// The attempt that was asked.
    pub token: Token,
    /// For which run.
    pub by: RunId,
    /// That run's priority.
    pub priority: i32,
    /// When.
    pub at: Timestamp,
}

impl Recall {
    /// Whether it may be written, with the shard and the records of its run as they are under lock.
    #[must_use]
    pub fn judge(&self, shard: Option<&Shard>, of_run: &[Recalled]) -> RecallVerdict {
        let runs = |s: &&Shard| s.state == ShardState::Running && s.token == self.token;
        if shard.filter(runs).is_none() {
            return RecallVerdict::Gone;
        }
        let asked = |r: &Recalled| (r.key, r.token) == (self.key, self.token);
        if of_run.iter().any(asked) {
            return RecallVerdict::Already;
        }
        if of_run.len() >= self.most as usize {
            return RecallVerdict::UsedUp;
        }
        RecallVerdict::Recalled
    }

    /// Its record.
    #[must_use]
    pub fn recorded(&self, at: Timestamp) -> Recalled {
        Recalled {
            key: self.key,
            token: self.token,
            by: self.by,
            priority: self.priority,
            at,
        }
    }
}

/// Who goes first among those who may be asked; the order of the fields is the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// The lowest priority.
    priority: i32,
    /// Of those, whose run was asked least.
    times: u32,
    /// Of those, who began last and so has the least to lose.
    since: Reverse<Timestamp>,
    key: ShardKey,
}

/// One shard that might be asked, and for which of the waiting runs.
#[derive(Clone, Copy)]
struct Pair<'a> {
    held: &'a Held,
    run: &'a ReadyRun,
}

/// Who is asked now, of `held` and for whom of `waiting`.
///
/// `candidates` and `shares` are what [`super::plan`] would be called with; neither is changed.
#[must_use]
pub fn recalls(
    waiting: &[ReadyRun],
    held: &[Held],
    candidates: &[Candidate],
    shares: &Shares,
    now: Timestamp,
) -> Vec<Recall> {
    let may = |held: &&Held| {
        let ran = now.duration_since(held.since);
        !held.asked && ran >= held.yields.after && held.times < held.yields.times
    };
    let mut victims: Vec<&Held> = held.iter().filter(may).collect();
    if victims.is_empty() || !waiting.iter().any(|run| run.preempts) {
        return Vec::new();
    }
    victims.sort_by_key(|held| Rank {
        priority: held.run.priority,
        times: held.times,
        since: Reverse(held.since),
        key: held.key,
    });
    let world = World {
        waiting,
        candidates,
        shares,
        now,
    };
    let asked: Vec<&Held> = held.iter().filter(|held| held.asked).collect();
    let before = world.starts(asked.iter().copied());
    let mut pairs = world.pairs(&victims, &before);
    while !pairs.is_empty() {
        let given = pairs.iter().map(|pair| pair.held);
        let after = world.starts(asked.iter().copied().chain(given));
        let all = pairs.len();
        keep_what_helps(&mut pairs, &before, &after);
        if pairs.len() == all {
            break;
        }
    }
    let recall = |pair: Pair<'_>| Recall {
        key: pair.held.key,
        token: pair.held.token,
        by: pair.run.run,
        priority: pair.run.priority,
        own: pair.held.run.priority,
        most: pair.held.yields.times,
    };
    pairs.into_iter().map(recall).collect()
}

/// Leaves out those whose slot would not start one more shard of the run for which they are asked.
fn keep_what_helps(
    pairs: &mut Vec<Pair<'_>>,
    before: &BTreeMap<RunId, usize>,
    after: &BTreeMap<RunId, usize>,
) {
    let of = |starts: &BTreeMap<RunId, usize>, run| starts.get(&run).copied().unwrap_or(0);
    let wanted = |run: &RunId| pairs.iter().any(|pair| pair.run.run == *run);
    let mut others = after.keys().filter(|run| !wanted(run));
    if others.any(|run| of(after, *run) > of(before, *run)) {
        // Somebody else would start: fewer may still help.
        let half = pairs.len() / 2;
        pairs.truncate(half);
        return;
    }
    let mut gained: BTreeMap<RunId, usize> = BTreeMap::new();
    pairs.retain(|pair| {
        let run = pair.run.run;
        let more = of(after, run).saturating_sub(of(before, run));
        let left = gained.entry(run).or_insert(more);
        let helps = *left > 0;
        *left = left.saturating_sub(1);
        helps
    });
}

/// What plans are made of.
struct World<'a> {
    waiting: &'a [ReadyRun],
    candidates: &'a [Candidate],
    shares: &'a Shares,
    now: Timestamp,
}

impl<'a> World<'a> {
    /// How many shards of each run would start if `given` waited again.
    fn starts<'h>(&self, given: impl Iterator<Item = &'h Held>) -> BTreeMap<RunId, usize> {
        let mut shares = self.shares.clone();
        let mut runs = self.waiting.to_vec();
        let places = runs.iter().enumerate().map(|(n, run)| (run.run, n));
        let mut places: BTreeMap<RunId, usize> = places.collect();
        let mut free: BTreeMap<SessionId, u32> = BTreeMap::new();
        for held in given {
            shares.ended(held.key, self.now);
            *free.entry(held.session).or_default() += 1;
            let place = *places.entry(held.key.run).or_insert_with(|| {
                runs.push(ReadyRun::clone(&held.run));
                runs.len() - 1
            });
            let run = &mut runs[place];
            run.room = run.room.saturating_add(1);
            run.head.push(Ready {
                key: held.key,
                token: held.token,
            });
        }
        let mut candidates = self.candidates.to_vec();
        for candidate in &mut candidates {
            let free = free.get(&candidate.session).copied().unwrap_or(0);
            candidate.held = candidate.held.saturating_sub(free);
        }
        let mut starts = BTreeMap::new();
        for placed in plan(&runs, &candidates, PLANNED, &mut shares, self.now) {
            *starts.entry(placed.key.run).or_default() += 1;
        }
        starts
    }

    /// Who might be asked for whom: for each shard that asks and would not start (`before`), the first of
    /// `victims` that it may ask and on whose worker it could run.
    fn pairs<'h>(&self, victims: &[&'h Held], before: &BTreeMap<RunId, usize>) -> Vec<Pair<'h>>
    where
        'a: 'h,
    {
        let mut asking: Vec<&'a ReadyRun> = self.waiting.iter().filter(|r| r.preempts).collect();
        asking.sort_by_key(|run| (Reverse(run.priority), run.since, run.run));
        let workers = self.candidates.iter().map(|c| (c.session, c));
        let workers: BTreeMap<SessionId, &Candidate> = workers.collect();
        let mut left: Vec<&'h Held> = victims.to_vec();
        let mut times: BTreeMap<RunId, u32> = BTreeMap::new();
        let mut pairs = Vec::new();
        for run in asking {
            let shards = run.head.len().min(run.room as usize);
            let lacking = shards.saturating_sub(before.get(&run.run).copied().unwrap_or(0));
            for _ in 0..lacking {
                let may = |held: &&Held| {
                    let more = times.get(&held.key.run).copied().unwrap_or(0);
                    let suits = |c: &&Candidate| c.suits(&run.handler, run.terms.as_deref());
                    held.run.priority < run.priority
                        && held.run.flow.namespace == run.flow.namespace
                        && held.times + more < held.yields.times
                        && workers.get(&held.session).is_some_and(suits)
                };
                let Some(at) = left.iter().position(may) else {
                    break;
                };
                if pairs.len() == MAX_RECALLS {
                    return pairs;
                }
                let held = left.remove(at);
                *times.entry(held.key.run).or_default() += 1;
                pairs.push(Pair { held, run });
            }
        }
        pairs
    }
}

#[cfg(test)]
#[path = "preempt_tests.rs"]
mod tests;
