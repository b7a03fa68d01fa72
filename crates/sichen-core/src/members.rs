//! Which live server node should own which duty.
//!
//! Rendezvous hashing: each node has a score for each key, and the highest owns it. Every node that
//! sees the same members comes to the same answer without asking, and a node that comes or goes
//! moves its own share and nothing else.
//!
//! # Invariants
//! - A node counts by its address, so one that was restarted is wished its former share again.
//! - Of two nodes at one address the newer counts: the other is its past.
//! - What is wished gives no right: a duty is owned by its row alone, under a term.
//!
//! # Not here
//! Who is alive ([`crate::lease`]); taking and giving up (the coordinator of a node).

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{NodeId, Term};
use crate::layout::stable_hash;
use crate::model::{Duty, DutyKey, Node, PARTITIONS};
use crate::name::Name;

/// The nodes among which the duties are shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    by_address: BTreeMap<String, NodeId>,
}

impl Members {
    /// Of `nodes` the newest at each address.
    #[must_use]
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let mut by_address = BTreeMap::new();
        for node in nodes {
            let newest = by_address.entry(node.address.clone()).or_insert(node.id);
            *newest = node.id.max(*newest);
        }
        Self { by_address }
    }

    /// The address of a member.
    #[must_use]
    pub fn address(&self, id: NodeId) -> Option<&str> {
        let mut all = self.by_address.iter();
        all.find(|(_, node)| **node == id)
            .map(|(address, _)| address.as_str())
    }

    /// The member that should own `key`; `None` if there are no members.
    #[must_use]
    pub fn wished(&self, key: &DutyKey) -> Option<NodeId> {
        let text = key.text();
        let score = |address: &str| stable_hash(format!("{text}\0{address}").as_bytes());
        let all = self.by_address.iter();
        // The address decides between equal scores, so that all decide alike.
        let best = all.max_by_key(|(address, _)| (score(address), *address));
        best.map(|(_, node)| *node)
    }

    /// Whether only `id` is a member.
    #[must_use]
    pub fn is_alone(&self, id: NodeId) -> bool {
        self.by_address.values().all(|node| *node == id)
    }
}

/// Which of the nodes `live` would own `key` if `owner` did not live.
#[must_use]
pub fn successor(key: &DutyKey, live: &[Node], owner: NodeId) -> Option<NodeId> {
    Members::of(live.iter().filter(|node| node.id != owner)).wished(key)
}

/// What a node should do with its duties as it sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// To be taken: free, and its own by the members.
    pub take: Vec<DutyKey>,
    /// To be given up, and for whom.
    pub give: Vec<(DutyKey, Term, NodeId)>,
    /// Free, and another's by the members: whoever that is takes it at its next beat.
    pub awaited: Vec<DutyKey>,
}

/// What node `me` should take and give up.
///
/// `live` are the nodes whose lease lasts; `expected` those among which the duties are shared, which
/// may count some more that are about to come back. A key without any row was never owned: whoever
/// knows of it takes it, for nobody else may.
#[must_use]
pub fn wish(
    me: NodeId,
    live: &[Node],
    expected: &Members,
    duties: &[Duty],
    pools: &BTreeSet<Name>,
) -> Wish {
    let alive: BTreeSet<NodeId> = live.iter().map(|node| node.id).collect();
    let mut wish = Wish::default();
    let rows: BTreeMap<&DutyKey, &Duty> = duties.iter().map(|duty| (&duty.key, duty)).collect();
    for key in all_keys(duties, pools) {
        let wished = expected.wished(&key).unwrap_or(me);
        let row = rows.get(&key);
        let owner = row.and_then(|duty| duty.node);
        match (owner, row) {
            (Some(owner), Some(row)) if owner == me => {
                if wished != me && alive.contains(&wished) {
                    wish.give.push((key, row.term, wished));
                }
            }
            (Some(owner), _) if alive.contains(&owner) => {}
            (_, None) => wish.take.push(key),
            _ if wished == me => wish.take.push(key),
            _ => wish.awaited.push(key),
        }
    }
    wish
}

/// What of it is about the alerts, which are no node's share: they are taken by any that `can` send them,
/// since not every one may, and stay with whoever has them.
pub fn wish_alerts(wish: &mut Wish, live: &[Node], duties: &[Duty], can: bool) {
    wish.take.retain(|key| *key != DutyKey::Alerts);
    wish.awaited.retain(|key| *key != DutyKey::Alerts);
    wish.give.retain(|(key, ..)| *key != DutyKey::Alerts);
    let row = duties.iter().find(|duty| duty.key == DutyKey::Alerts);
    let owner = row.and_then(|duty| duty.node);
    let lives = |id: NodeId| live.iter().any(|node| node.id == id);
    if can && !owner.is_some_and(lives) {
        wish.take.push(DutyKey::Alerts);
    }
}

/// Every duty that there is: the fixed ones, and a pool's for each that is known.
#[must_use]
pub fn all_keys(duties: &[Duty], pools: &BTreeSet<Name>) -> BTreeSet<DutyKey> {
    let triggers = (0..PARTITIONS).map(DutyKey::Trigger);
    let pools = pools.iter().cloned().map(DutyKey::Pool);
    let rows = duties.iter().map(|duty| duty.key.clone());
    triggers
        .chain([DutyKey::Janitor])
        .chain(pools)
        .chain(rows)
        .collect()
}

#[cfg(test)]
mod tests;
