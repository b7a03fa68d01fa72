//! Who runs what: a pure plan over a snapshot.
//!
//! *Snapshot → order the ready shards → place each → the store grants what still holds.* The plan
//! is a proposal: every limit is checked again inside the granting transaction, so a stale snapshot
//! costs a refused grant and never a broken limit.
//!
//! # Invariants
//! - No run waits for ever behind another: runs of one priority take turns, one shard each.
//! - A plan never gives a session more than its free slots.
//!
//! # Not here
//! Fetching the snapshot and applying the plan (engine); the truth of the limits (store).

use std::collections::BTreeMap;

use crate::ids::{RunId, SessionId, ShardKey, Token};

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
    /// Higher goes first.
    pub priority: i32,
    /// Handler its shards need.
    pub handler: String,
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

/// Plans grants: least-loaded placement, runs in turns within a priority.
///
/// At most `limit` grants. Shards for which no session offers the handler stay where they are.
#[must_use]
pub fn plan(runs: &[ReadyRun], candidates: &[Candidate], limit: usize) -> Vec<Placement> {
    let mut held: BTreeMap<SessionId, u32> =
        candidates.iter().map(|c| (c.session, c.held)).collect();
    let mut order: Vec<(&ReadyRun, usize)> = runs.iter().map(|r| (r, 0)).collect();
    order.sort_by_key(|(r, _)| (std::cmp::Reverse(r.priority), r.run));
    let mut plan = Vec::new();
    let mut start = 0;
    while start < order.len() {
        let priority = order[start].0.priority;
        let end = order[start..]
            .iter()
            .position(|(r, _)| r.priority != priority);
        let end = end.map_or(order.len(), |n| start + n);
        // Turns: each pass gives every run of this priority at most one shard.
        loop {
            let before = plan.len();
            for (run, taken) in &mut order[start..end] {
                if plan.len() >= limit {
                    return plan;
                }
                if *taken >= run.room as usize {
                    continue;
                }
                let Some(ready) = run.head.get(*taken) else {
                    continue;
                };
                let Some(session) = place(&run.handler, candidates, &held) else {
                    continue;
                };
                if let Some(held) = held.get_mut(&session) {
                    *held += 1;
                }
                plan.push(Placement {
                    key: ready.key,
                    token: ready.token,
                    session,
                });
                *taken += 1;
            }
            if plan.len() == before {
                break;
            }
        }
        start = end;
    }
    plan
}

fn place(
    handler: &str,
    candidates: &[Candidate],
    held: &BTreeMap<SessionId, u32>,
) -> Option<SessionId> {
    candidates
        .iter()
        .filter(|c| c.handlers.iter().any(|h| h == handler))
        .filter_map(|c| {
            let held = *held.get(&c.session)?;
            if held >= c.slots {
                return None;
            }
            let load = u64::from(held) * 1000 / u64::from(c.slots.max(1));
            let load = u32::try_from(load).unwrap_or(u32::MAX);
            Some(Score {
                load,
                held,
                session: c.session,
            })
        })
        .min()
        .map(|score| score.session)
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
