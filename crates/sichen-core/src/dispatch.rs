//! Who runs what: a pure plan over a snapshot.
//!
//! *Snapshot → order the ready shards → place each → the store grants what still holds.* The plan
//! is a proposal: every limit is checked again inside the granting transaction, so a stale snapshot
//! costs a refused grant and never a broken limit.
//!
//! # Invariants
//! - No namespace, job or run waits for ever behind another ([`fair`]).
//! - A plan never gives a session more than its free slots.
//!
//! # Not here
//! Fetching the snapshot and applying the plan (engine); the truth of the limits (store).

pub mod fair;
pub mod queue;
pub mod why;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use jiff::Timestamp;

use crate::ids::{RunId, SessionId, ShardKey, Token};
use fair::{Flow, Order, Shares};

/// A shard that waits for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Which.
    pub key: ShardKey,
    /// The token on which the plan is based.
    pub token: Token,
}

/// A run with shards to grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyRun {
    /// Which.
    pub run: RunId,
    /// Under whose names it is counted.
    pub flow: Arc<Flow>,
    /// Higher goes first.
    pub priority: i32,
    /// Since when it could have been served.
    pub since: Timestamp,
    /// Handler its shards need.
    pub handler: Arc<str>,
    /// How many more of its shards may run now.
    pub room: u32,
    /// Its next shards, first ready first; a bounded head.
    pub head: Vec<Ready>,
}

/// A session that can take shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub session: SessionId,
    /// Handlers it offers.
    pub handlers: Vec<String>,
    /// Its slots.
    pub slots: u32,
    /// Shards it holds.
    pub held: u32,
}

/// One proposed grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The shard.
    pub key: ShardKey,
    /// Its token in the snapshot.
    pub token: Token,
    /// Who gets it.
    pub session: SessionId,
}

/// How good a session is for a shard; the least is chosen. The field order is the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// Share of its slots that is taken, in thousandths.
    load: u32,
    /// Shards held, so that equal shares go to the smaller crowd.
    held: u32,
    /// Only to make the choice definite.
    session: SessionId,
}

/// Plans grants: least-loaded placement, in the order that [`fair`] gives.
///
/// At most `limit` grants. Shards for which no session offers the handler stay where they are, and count
/// for nothing.
#[must_use]
pub fn plan(
    runs: &[ReadyRun],
    candidates: &[Candidate],
    limit: usize,
    shares: &mut Shares,
    now: Timestamp,
) -> Vec<Placement> {
    let mut seats = Seats::of(candidates);
    let offered: Vec<ReadyRun>;
    let runs = if runs.iter().all(|run| seats.offer(&run.handler)) {
        runs
    } else {
        let kept = runs.iter().filter(|run| seats.offer(&run.handler));
        offered = kept.cloned().collect();
        &offered
    };
    if runs.is_empty() || seats.free == 0 {
        // Nothing is decided, so nobody loses a turn: a pass that knows of nothing is no sign that
        // nothing waits.
        return Vec::new();
    }
    let mut order = Order::of(shares, runs, now);
    let mut taken = vec![0_usize; runs.len()];
    let mut plan = Vec::new();
    while plan.len() < limit && seats.free > 0 {
        let Some(next) = order.next() else {
            break;
        };
        let (run, taken) = (&runs[next.run], &mut taken[next.run]);
        let left = run.head.len().min(run.room as usize);
        let session = match run.head.get(*taken) {
            Some(_) if *taken < left => seats.take(&run.handler),
            Some(_) | None => None,
        };
        let (Some(session), Some(ready)) = (session, run.head.get(*taken)) else {
            order.pass_over(next, now);
            continue;
        };
        plan.push(Placement {
            key: ready.key,
            token: ready.token,
            session,
        });
        *taken += 1;
        order.served(next, *taken < left, now);
    }
    plan
}

/// Free slots, by what they are good for.
struct Seats<'a> {
    /// By session: its slots and what it holds.
    held: BTreeMap<SessionId, (u32, u32)>,
    /// Sessions by score. One that was given a shard under another handler stands there with its old
    /// score until it comes up.
    by_handler: BTreeMap<&'a str, BinaryHeap<Reverse<Score>>>,
    free: u64,
}

impl<'a> Seats<'a> {
    fn of(candidates: &'a [Candidate]) -> Self {
        let mut seats = Self {
            held: BTreeMap::new(),
            by_handler: BTreeMap::new(),
            free: 0,
        };
        for c in candidates {
            seats.held.insert(c.session, (c.slots, c.held));
            seats.free += u64::from(c.slots.saturating_sub(c.held));
            for handler in &c.handlers {
                let sessions = seats.by_handler.entry(handler).or_default();
                if c.held < c.slots {
                    sessions.push(Reverse(score(c.session, c.slots, c.held)));
                }
            }
        }
        seats
    }

    /// Whether any session offers the handler, free or not.
    fn offer(&self, handler: &str) -> bool {
        self.by_handler.contains_key(handler)
    }

    /// A slot of the session with the least load.
    fn take(&mut self, handler: &str) -> Option<SessionId> {
        let sessions = self.by_handler.get_mut(handler)?;
        while let Some(Reverse(found)) = sessions.pop() {
            let Some((slots, held)) = self.held.get_mut(&found.session) else {
                continue;
            };
            if *held >= *slots {
                continue;
            }
            if *held == found.held {
                *held += 1;
                self.free = self.free.saturating_sub(1);
                if *held < *slots {
                    sessions.push(Reverse(score(found.session, *slots, *held)));
                }
                return Some(found.session);
            }
            sessions.push(Reverse(score(found.session, *slots, *held)));
        }
        None
    }
}

fn score(session: SessionId, slots: u32, held: u32) -> Score {
    let load = u64::from(held) * 1000 / u64::from(slots.max(1));
    Score {
        load: u32::try_from(load).unwrap_or(u32::MAX),
        held,
        session,
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
