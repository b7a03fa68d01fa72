//! Who may write: this node's lease, and the duties it owns under which terms.
//!
//! # Invariants
//! - A fence is handed out only while this node's own lease lasts, counted from before it was
//!   renewed; the store refuses an old one in any case.
//! - A node whose lease was lost registers anew and starts with no duty.
//! - One pass at a time: what an older one has seen never replaces what a newer one was given.
//!
//! # Not here
//! The duties themselves; which node should own what when there are many (each takes what is free).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::ids::{NodeId, Term};
use sichen_core::lease::Rhythm;
use sichen_core::model::{DutyKey, PARTITIONS};
use sichen_core::name::Name;
use sichen_core::port::{Error, Fence};

use crate::context::Context;

/// How often a node that owns all it wants looks whether it still does. A write under an old term is
/// refused in any case.
const CLAIM_AGAIN: SignedDuration = SignedDuration::from_secs(60);
/// How often a node that owns all it wants looks for peers.
const LOOK_FOR_PEERS: SignedDuration = SignedDuration::from_secs(10);

/// This node's membership.
#[derive(Debug)]
pub struct Coordinator {
    context: Context,
    address: String,
    rhythm: Rhythm,
    state: Mutex<State>,
    /// Held by the pass that is going on.
    passing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    node: Option<NodeId>,
    /// Until when fences may be used.
    valid_until: Option<Timestamp>,
    /// Until when each duty is known to be in a live node's hands.
    held_until: Option<Timestamp>,
    owned: BTreeMap<DutyKey, Term>,
    pools: BTreeSet<Name>,
    /// When the duties were last claimed.
    claimed_at: Option<Timestamp>,
    /// Whether other nodes were live at the last look, and when that was.
    peers: bool,
    looked_at: Option<Timestamp>,
    draining: bool,
}

impl Coordinator {
    /// A node that others reach at `address` and that has not registered yet.
    #[must_use]
    pub fn new(context: Context, address: String, rhythm: Rhythm) -> Self {
        Self {
            context,
            address,
            rhythm,
            state: Mutex::default(),
            passing: tokio::sync::Mutex::default(),
        }
    }

    /// Renews the node's lease (or registers it) and takes the duties that are free. Answers whether it
    /// was given one that it did not have, and the store's time as the renewal told it.
    ///
    /// # Errors
    /// As the store; the duties stay usable until the lease would have ended.
    pub async fn run_once(&self, now: Timestamp) -> Result<(bool, Option<Timestamp>), Error> {
        let _alone = self.passing.lock().await;
        let done = self.pass(now).await?;
        // Only paces: a renewal that was made counts whatever becomes of this.
        if let Err(error) = self.look_for_peers(now).await {
            tracing::debug!(%error, "peers could not be looked for");
        }
        Ok(done)
    }

    async fn pass(&self, now: Timestamp) -> Result<(bool, Option<Timestamp>), Error> {
        let (node, told) = self.renew().await?;
        // Counted from before the renewal was sent, less the margin.
        let until = now.checked_add(self.rhythm.ttl - self.rhythm.margin()).ok();
        let wanted = {
            let mut state = self.lock();
            state.node = Some(node);
            state.valid_until = until;
            let wanted = wanted(&state);
            let all = wanted.iter().all(|key| state.owned.contains_key(key));
            let looked = state
                .claimed_at
                .is_some_and(|at| now.duration_since(at) < CLAIM_AGAIN);
            if all && looked {
                state.held_until = until;
            }
            if state.draining || (all && looked) {
                return Ok((false, told));
            }
            state.claimed_at = Some(now);
            wanted
        };
        let op = self.context.op(self.actor());
        let store = &*self.context.store;
        let owned = store.claim_duties(op, node, wanted.clone()).await?;
        let owned: BTreeMap<DutyKey, Term> = owned.into_iter().map(|f| (f.key, f.term)).collect();
        let left: Vec<&DutyKey> = wanted.iter().filter(|k| !owned.contains_key(k)).collect();
        let held = left.is_empty() || self.are_peers_duties(&left).await?;
        let mut state = self.lock();
        if state.node != Some(node) || state.draining {
            return Ok((false, told));
        }
        let gained = owned.keys().any(|key| !state.owned.contains_key(key));
        state.owned = owned;
        state.held_until = until.filter(|_| held);
        Ok((gained, told))
    }

    /// Renews the node's lease, or registers the node anew; the store's time if it was renewed.
    async fn renew(&self) -> Result<(NodeId, Option<Timestamp>), Error> {
        let store = &*self.context.store;
        if let Some(node) = self.node()
            && let Some(end) = store.renew_node(node, self.rhythm.ttl).await?
        {
            return Ok((node, end.checked_sub(self.rhythm.ttl).ok()));
        }
        self.forget();
        // Pools that earlier owners served: their leases must be reaped although no worker of
        // theirs may ever come back.
        for duty in store.list_members().await?.1 {
            if let DutyKey::Pool(pool) = duty.key {
                self.add_pool(&pool);
            }
        }
        let op = self.context.op(format!("node {}", self.address));
        let address = self.address.clone();
        let node = store.register_node(op, address, self.rhythm.ttl).await?;
        Ok((node, None))
    }

    async fn look_for_peers(&self, now: Timestamp) -> Result<(), Error> {
        let looked_at = self.lock().looked_at;
        if looked_at.is_some_and(|at| now.duration_since(at) < LOOK_FOR_PEERS) {
            return Ok(());
        }
        let (nodes, _) = self.context.store.list_members().await?;
        let mut state = self.lock();
        state.peers = nodes.iter().any(|node| node.address != self.address);
        state.looked_at = Some(now);
        Ok(())
    }

    /// Whether other nodes are live, as far as is known: what they write, nobody here hears of.
    #[must_use]
    pub fn has_peers(&self) -> bool {
        self.lock().peers
    }

    /// Whether live peers own all of these. A node that was reached at this very address is this
    /// one's past, and no peer.
    async fn are_peers_duties(&self, keys: &[&DutyKey]) -> Result<bool, Error> {
        let (nodes, duties) = self.context.store.list_members().await?;
        let peers: BTreeSet<NodeId> = nodes
            .into_iter()
            .filter(|node| node.address != self.address)
            .map(|node| node.id)
            .collect();
        let peers_duties: BTreeSet<DutyKey> = duties
            .into_iter()
            .filter(|duty| duty.node.is_some_and(|owner| peers.contains(&owner)))
            .map(|duty| duty.key)
            .collect();
        Ok(keys.iter().all(|key| peers_duties.contains(key)))
    }

    /// The right to write for `key` at `now`, if this node has it.
    #[must_use]
    pub fn fence(&self, key: &DutyKey, now: Timestamp) -> Option<Fence> {
        let state = self.lock();
        if state.valid_until.is_none_or(|until| now >= until) {
            return None;
        }
        state.owned.get(key).map(|term| Fence {
            key: key.clone(),
            term: *term,
        })
    }

    /// Whether this node took `key` and has not lost it as far as it knows.
    #[must_use]
    pub fn owns(&self, key: &DutyKey) -> bool {
        self.lock().owned.contains_key(key)
    }

    /// The fences of all trigger partitions that this node owns at `now`.
    #[must_use]
    pub fn trigger_fences(&self, now: Timestamp) -> Vec<Fence> {
        (0..PARTITIONS)
            .filter_map(|p| self.fence(&DutyKey::Trigger(p), now))
            .collect()
    }

    /// The pools that this node knows of.
    #[must_use]
    pub fn pools(&self) -> Vec<Name> {
        self.lock().pools.iter().cloned().collect()
    }

    /// Makes the node want the duty of `pool` as well; true if it did not know it.
    pub fn add_pool(&self, pool: &Name) -> bool {
        self.lock().pools.insert(pool.clone())
    }

    /// `node 3`, for events.
    #[must_use]
    pub fn actor(&self) -> String {
        match self.lock().node {
            Some(node) => format!("node {node}"),
            None => format!("node {}", self.address),
        }
    }

    /// Where peers and workers reach this node.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The node's id, once registered.
    #[must_use]
    pub fn node(&self) -> Option<NodeId> {
        self.lock().node
    }

    /// Whether the node's lease lasts at `now`.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.lock().valid_until.is_some_and(|until| now < until)
    }

    /// Whether each duty is in a live node's hands at `now`, this one's or a peer's.
    #[must_use]
    pub fn is_ready(&self, now: Timestamp) -> bool {
        let state = self.lock();
        let lasts = |until: Option<Timestamp>| until.is_some_and(|until| now < until);
        lasts(state.valid_until) && lasts(state.held_until)
    }

    /// Gives all duties up, so that a peer need not wait for the lease to end.
    ///
    /// # Errors
    /// As the store; a peer then waits for the lease to end.
    pub async fn hand_over(&self) -> Result<(), Error> {
        let fences: Vec<Fence> = {
            let mut state = self.lock();
            state.draining = true;
            let owned = std::mem::take(&mut state.owned);
            owned
                .into_iter()
                .map(|(key, term)| Fence { key, term })
                .collect()
        };
        if fences.is_empty() {
            return Ok(());
        }
        let op = self.context.op(self.actor());
        self.context.store.release_duties(op, fences).await
    }

    fn forget(&self) {
        let mut state = self.lock();
        state.node = None;
        state.valid_until = None;
        state.held_until = None;
        state.owned.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wanted(state: &State) -> Vec<DutyKey> {
    let triggers = (0..PARTITIONS).map(DutyKey::Trigger);
    let pools = state.pools.iter().cloned().map(DutyKey::Pool);
    triggers.chain([DutyKey::Janitor]).chain(pools).collect()
}
