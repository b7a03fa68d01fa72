//! What a node remembers of itself, of its peers and of who owns what.
//!
//! # Invariants
//! - All of it was read from the store and could be read again.
//!
//! # Not here
//! When to read and what to write ([`super`]).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use sichen_core::beacon::NodeSign;
use sichen_core::ids::{NodeId, Term};
use sichen_core::members::Members;
use sichen_core::model::{Duty, DutyKey, Node};
use sichen_core::name::Name;
use sichen_core::port::{Fence, Holder};
use sichen_core::timekeeping::standstill::Standstill;
use tokio::time::Instant;

use super::{GRACE, Pass};

/// How long a duty is kept that was taken because the node that should have it did not.
const KEPT: SignedDuration = SignedDuration::from_secs(60);

/// The least time between two looks at a lease that seems to be over and is not by the store's time.
const AGAIN: SignedDuration = SignedDuration::from_millis(50);

/// A duty to be given up, and the node for which.
pub(super) type Given = (Fence, NodeId);

#[derive(Debug, Default)]
pub(super) struct State {
    pub node: Option<NodeId>,
    /// Until when fences may be used.
    pub valid_until: Option<Timestamp>,
    /// The same by this machine's clock, which counts in what was frozen.
    proved_until: Option<Instant>,
    /// Whether that is asked; where time is simulated it is not.
    pub by_machine: bool,
    /// Whether a fence of an owned duty was refused since, for want of that.
    pub refused: bool,
    /// Until when each duty is known to be in a live node's hands.
    pub held_until: Option<Timestamp>,
    /// The restore that was told of last.
    pub restored: Option<Timestamp>,
    pub owned: BTreeMap<DutyKey, Term>,
    /// Owned still, but used no more: to be given up at the next look.
    pub leaving: BTreeMap<DutyKey, Term>,
    pub pools: BTreeSet<Name>,
    /// Pools that a peer owns, and where it is reached.
    pub elsewhere: BTreeMap<Name, String>,
    /// Whether each duty was in live hands at the last look.
    pub whole: bool,
    /// Whether other nodes were live at the last look.
    pub peers: bool,
    /// A look is due whatever the time.
    pub look: bool,
    pub draining: bool,
    /// Of which the loop has not been told yet.
    pub news: Pass,
    /// The store's time as the last renewal told it.
    pub told: Option<Timestamp>,
    /// What was seen of leases since that stands still.
    pub standstill: Standstill<Holder>,
    looked_at: Option<Timestamp>,
    /// When the first lease ends that another node had at the last look, a peer or this one's past: what
    /// it owns is free then, unless it has renewed it.
    lease_ends: Option<Timestamp>,
    /// How many other nodes lived at the last look.
    others: u32,
    /// Peers whose sign was seen since the own one is out last, and since when theirs is out.
    signs: BTreeMap<NodeId, Option<Timestamp>>,
    /// The peers of the last look.
    seen: Vec<Node>,
    /// After an own outage: who was there before it counts as a member until this instant, so that
    /// each node takes its own again.
    sticky_until: Option<Timestamp>,
    /// Free duties that a peer should take, and since when they are free.
    awaited: BTreeMap<DutyKey, Timestamp>,
    /// Duties of others that are kept until these instants.
    kept: BTreeMap<DutyKey, Timestamp>,
}

impl State {
    /// Whether it is time to look who is there.
    pub fn must_look(&self, now: Timestamp, alone: SignedDuration) -> bool {
        self.look
            || self.peers
            || !self.leaving.is_empty()
            || self.lease_ends.is_some_and(|end| now >= end)
            || !self.looked_within(now, alone)
    }

    /// When to look at the latest, whatever the beat.
    pub fn next_look(&self) -> Option<Timestamp> {
        self.lease_ends.filter(|_| !self.draining)
    }

    /// A renewal told how many other nodes live: one that came or went is to be looked at.
    pub fn count(&mut self, others: u32) {
        self.look |= others != self.others;
    }

    /// The lease holds until `until`, or for longer as was known: a pass that waited for another may have
    /// begun earlier than that one, and no renewal shortens a lease. Until when it holds.
    pub fn proved(
        &mut self,
        until: Option<Timestamp>,
        by_machine: Option<Instant>,
    ) -> Option<Timestamp> {
        self.valid_until = self.valid_until.max(until);
        self.proved_until = self.proved_until.max(by_machine);
        // Whoever was refused a fence sleeps until its next look unless it hears of this.
        self.news.gained |= std::mem::take(&mut self.refused);
        self.valid_until
    }

    /// Whether the node's lease lasts at `now`, by this machine's clock too.
    pub fn lasts(&self, now: Timestamp) -> bool {
        let machine = || {
            self.proved_until
                .is_some_and(|until| crate::pulse::instant() < until)
        };
        self.valid_until.is_some_and(|until| now < until) && (!self.by_machine || machine())
    }

    pub fn looked_within(&self, now: Timestamp, length: SignedDuration) -> bool {
        let apart = self.looked_at.map(|at| now.duration_since(at).abs());
        apart.is_some_and(|apart| apart < length)
    }

    /// Forgets what went with the node's lease.
    pub fn forget(&mut self, now: Timestamp, sticky: SignedDuration) {
        if self.node.take().is_some() {
            self.sticky_until = now.checked_add(sticky).ok();
        }
        self.valid_until = None;
        self.proved_until = None;
        self.refused = false;
        self.held_until = None;
        self.owned.clear();
        self.leaving.clear();
        self.awaited.clear();
        self.kept.clear();
        self.forget_signs();
        self.lease_ends = None;
        self.look = true;
    }

    /// Takes in who is there and who owns what.
    ///
    /// No worker is sent to a node that may be gone (`doubtful`).
    pub fn see(
        &mut self,
        me: NodeId,
        at: &str,
        live: &[Node],
        duties: &[Duty],
        now: Timestamp,
        doubtful: &BTreeSet<NodeId>,
    ) {
        self.look = false;
        self.looked_at = Some(now);
        let leases = live.iter().filter(|node| node.id != me);
        self.others = u32::try_from(leases.clone().count()).unwrap_or(u32::MAX);
        let end = leases.map(|node| node.expires_at).min();
        self.lease_ends = end.map(|end| now.checked_add(AGAIN).map_or(end, |soon| end.max(soon)));
        let others = live.iter().filter(|node| node.address != at);
        self.peers = others.clone().next().is_some();
        if self.sticky_until.is_none_or(|until| now >= until) {
            self.sticky_until = None;
            self.seen = others.clone().cloned().collect();
        }
        let others = others.filter(|node| !doubtful.contains(&node.id));
        let peers: BTreeMap<NodeId, &Node> = others.map(|node| (node.id, node)).collect();
        let mut elsewhere = BTreeMap::new();
        let before = std::mem::take(&mut self.owned);
        self.leaving.retain(|key, term| {
            let row = duties.iter().find(|duty| duty.key == *key);
            row.is_some_and(|duty| duty.node == Some(me) && duty.term == *term)
        });
        for duty in duties {
            if duty.node == Some(me) && !self.leaving.contains_key(&duty.key) {
                self.news.gained |= before.get(&duty.key) != Some(&duty.term);
                self.owned.insert(duty.key.clone(), duty.term);
            }
            let DutyKey::Pool(pool) = &duty.key else {
                continue;
            };
            // Also of owners that are gone: their leases must be reaped although no worker of theirs
            // may ever come back.
            self.pools.insert(pool.clone());
            if let Some(peer) = duty.node.and_then(|owner| peers.get(&owner)) {
                elsewhere.insert(pool.clone(), peer.address.clone());
            }
        }
        for (pool, address) in &elsewhere {
            if self.elsewhere.get(pool) != Some(address) {
                self.news.moved.insert(pool.clone(), address.clone());
            }
        }
        self.elsewhere = elsewhere;
    }

    /// Whether the sign of one of `peers` is out that was seen before.
    pub fn misses(&self, peers: &[NodeId], shown: Option<&BTreeSet<NodeSign>>) -> bool {
        let is_out = |id: &NodeId| shown.is_some_and(|shown| !shown.contains(&NodeSign::of(*id)));
        peers
            .iter()
            .any(|id| self.signs.contains_key(id) && is_out(id))
    }

    /// Of `peers` those whose process is gone, and those of whom that may be so. Only a peer whose sign
    /// was seen before can be missed. `steady` is the time by the monotonic clock, where one is.
    pub fn judge_signs(
        &mut self,
        peers: &[NodeId],
        shown: Option<&BTreeSet<NodeSign>>,
        steady: Timestamp,
    ) -> (BTreeSet<NodeId>, BTreeSet<NodeId>) {
        let (mut gone, mut doubtful) = (BTreeSet::new(), BTreeSet::new());
        let Some(shown) = shown else {
            self.forget_signs();
            return (gone, doubtful);
        };
        self.signs.retain(|id, _| peers.contains(id));
        for id in peers {
            if shown.contains(&NodeSign::of(*id)) {
                self.signs.insert(*id, None);
                continue;
            }
            let Some(out) = self.signs.get_mut(id) else {
                continue;
            };
            let since = *out.get_or_insert(steady);
            if steady.duration_since(since) >= GRACE {
                gone.insert(*id);
            } else {
                doubtful.insert(*id);
            }
        }
        (gone, doubtful)
    }

    /// Nothing is known of anybody's sign any more.
    pub fn forget_signs(&mut self) {
        self.signs.clear();
    }

    /// Among whom the duties are shared: who lives, and for a while after an own outage those who
    /// lived before it.
    pub fn expected(&self, live: &[Node], now: Timestamp) -> Members {
        let sticky = self.sticky_until.is_some_and(|until| now < until);
        let former = self.seen.iter().filter(|_| sticky);
        Members::of(live.iter().chain(former))
    }

    /// Notes the free duties that are left to others; those that were left for too long.
    pub fn await_all(
        &mut self,
        keys: Vec<DutyKey>,
        now: Timestamp,
        patience: SignedDuration,
    ) -> Vec<DutyKey> {
        let before = std::mem::take(&mut self.awaited);
        let mut overdue = Vec::new();
        for key in keys {
            let since = before.get(&key).copied().unwrap_or(now);
            if now.duration_since(since) >= patience
                && let Ok(until) = now.checked_add(KEPT)
            {
                self.kept.insert(key.clone(), until);
                overdue.push(key.clone());
            }
            self.awaited.insert(key, since);
        }
        overdue
    }

    /// Whether a peer that lives should take `key` and has had less than `patience` for it.
    pub fn is_awaited_within(
        &self,
        key: &DutyKey,
        now: Timestamp,
        patience: SignedDuration,
    ) -> bool {
        let since = self.awaited.get(key);
        since.is_some_and(|since| now.duration_since(*since) < patience)
    }

    /// Uses what is to be given up no more; what has not been used since the last look can go.
    pub fn leave(&mut self, give: Vec<(DutyKey, Term, NodeId)>, now: Timestamp) -> Vec<Given> {
        self.kept.retain(|_, until| *until > now);
        let left = std::mem::take(&mut self.leaving);
        let mut ready = Vec::new();
        for (key, term, node) in give {
            if self.kept.contains_key(&key) {
                continue;
            }
            self.owned.remove(&key);
            if left.get(&key) == Some(&term) {
                ready.push((Fence { key, term }, node));
            } else {
                self.leaving.insert(key, term);
            }
        }
        // What need not go after all is used again.
        for (key, term) in left {
            let goes = ready.iter().any(|(fence, _)| fence.key == key);
            if !goes && !self.leaving.contains_key(&key) {
                self.owned.insert(key, term);
            }
        }
        ready
    }

    /// Duties were given up; the workers of pools among them follow.
    pub fn given(&mut self, given: Vec<Given>, members: &Members) {
        let Some(now) = self.looked_at else { return };
        for (Fence { key, .. }, node) in given {
            self.awaited.insert(key.clone(), now);
            if let (DutyKey::Pool(pool), Some(address)) = (key, members.address(node)) {
                self.news.moved.insert(pool.clone(), address.to_owned());
                self.elsewhere.insert(pool, address.to_owned());
            }
        }
    }

    /// Duties were taken.
    pub fn take(&mut self, taken: Vec<Fence>) {
        for Fence { key, term } in taken {
            self.awaited.remove(&key);
            if let DutyKey::Pool(pool) = &key {
                self.elsewhere.remove(pool);
                self.news.moved.remove(pool);
            }
            self.news.gained |= self.owned.insert(key, term) != Some(term);
        }
    }

    /// Of all pools that were given up the workers follow to whom is wished them among the peers.
    pub fn send_on<'a>(&mut self, keys: impl Iterator<Item = &'a DutyKey>) {
        let members = Members::of(&self.seen);
        for key in keys {
            let wished = members.wished(key).and_then(|node| members.address(node));
            if let (DutyKey::Pool(pool), Some(address)) = (key, wished) {
                self.elsewhere.insert(pool.clone(), address.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests;
