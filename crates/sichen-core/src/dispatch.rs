//! Who runs what: a pure plan over a snapshot.
//!
//! *Snapshot → order the ready shards → place each → the store grants what still holds.* The plan
//! is a proposal: every limit is checked again inside the granting transaction, so a stale snapshot
//! costs a refused grant and never a broken limit.
//!
//! # Invariants
//! - No namespace, job or run waits for ever behind another ([`fair`]).
//! - A plan never gives a session more than its free slots, or shards that its worker may not run.
//!
//! # Not here
//! Fetching the snapshot and applying the plan (engine); the truth of the limits (store).

pub mod fair;
pub mod preempt;
pub mod queue;
pub mod why;

use std::sync::Arc;

use jiff::Timestamp;

use crate::ids::{RunId, SessionId, ShardKey, Token};
use crate::place::{Keyed, Places, Seats, Terms};
use fair::{Flow, Order, Shares};

pub use crate::place::Candidate;

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
    /// Where they may and should run, if the job says so.
    pub terms: Option<Arc<Terms>>,
    /// By what they find their worker, where a hash decides.
    pub keys: Keyed,
    /// Whether it may ask those of lower priority for their slots.
    pub preempts: bool,
    /// Whether its own may be asked for: then it does not age while it holds any.
    pub yields: bool,
    /// How many more of its shards may run now.
    pub room: u32,
    /// How many shards of its job may run at once.
    pub most_of_job: u32,
    /// Its next shards, first ready first; a bounded head.
    pub head: Vec<Ready>,
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

/// Plans grants: each shard where its run's terms and [`crate::place`] put it, in the order that [`fair`]
/// gives.
///
/// At most `limit` grants. Shards that no session may ever take stay where they are, and count for
/// nothing.
#[must_use]
pub fn plan(
    runs: &[ReadyRun],
    candidates: &[Candidate],
    limit: usize,
    shares: &mut Shares,
    now: Timestamp,
) -> Vec<Placement> {
    let mut places = std::mem::take(&mut shares.places);
    let plan = placed(runs, candidates, limit, shares, &mut places, now);
    shares.places = places;
    plan
}

fn placed(
    runs: &[ReadyRun],
    candidates: &[Candidate],
    limit: usize,
    shares: &mut Shares,
    places: &mut Places,
    now: Timestamp,
) -> Vec<Placement> {
    let mut seats = Seats::of(candidates, places, now);
    let classes: Vec<Option<usize>> = runs.iter().map(|run| seats.class(run)).collect();
    seats.note_wanted();
    if classes.iter().all(Option::is_none) || seats.free == 0 {
        // Nothing is decided, so nobody loses a turn: a pass that knows of nothing is no sign that
        // nothing waits.
        return Vec::new();
    }
    let mut order = Order::of(shares, runs, |n| classes[n].is_some(), now);
    let mut taken = vec![0_usize; runs.len()];
    let mut plan = Vec::new();
    while plan.len() < limit && seats.free > 0 {
        let Some(next) = order.next() else {
            break;
        };
        let (run, taken) = (&runs[next.run], &mut taken[next.run]);
        let left = run.head.len().min(run.room as usize);
        let ready = run.head.get(*taken).filter(|_| *taken < left);
        let found = ready.zip(classes[next.run]).and_then(|(ready, class)| {
            let spread = || shares.held_of_run(run.run);
            let session = seats.take(class, run, ready.key.no.0, spread)?;
            Some((ready, session))
        });
        let Some((ready, session)) = found else {
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

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
