//! Who may write: this node's lease, and the duties it owns under which terms.
//!
//! # Invariants
//! - A fence is handed out only while this node's own lease lasts, counted from before it was
//!   renewed; the store refuses an old one in any case.
//! - A node whose lease was lost registers anew and starts with no duty.
//! - One pass at a time: what an older one has seen never replaces what a newer one was given.
//! - A duty that a peer should own is first no longer used here, and given up a moment later, when
//!   the steps under way have ended.
//!
//! # Not here
//! The duties themselves; which node should own what ([`sichen_core::members`]).

mod standstill;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use sichen_core::beacon::{Beacon, Heard, Hint};
use sichen_core::ids::{NodeId, Term};
use sichen_core::lease::Rhythm;
use sichen_core::members::{Members, all_keys, wish, wish_alerts};
use sichen_core::model::{Duty, DutyKey, Node, PARTITIONS};
use sichen_core::name::Name;
use sichen_core::port::{Error, Fence, MAX_BATCH};
use tokio::sync::Notify;

use crate::context::Context;
use state::State;

/// Pools of one store. Each has a duty that is looked after for good, since its terms must never begin
/// anew; a worker that names one more is refused.
pub const MAX_POOLS: usize = 1_000;

/// How often a node that is alone looks whether it still is, although no renewal told it of another.
const LOOK_ALONE: SignedDuration = SignedDuration::from_secs(30);
/// From the last use of a duty to its being given up.
const LEAVING: SignedDuration = SignedDuration::from_millis(100);
/// From a claim that did not get all to the next one.
const CLAIM_AGAIN: SignedDuration = SignedDuration::from_millis(200);
/// How long a peer's sign may be out before its process counts as gone.
const GRACE: SignedDuration = SignedDuration::from_millis(500);
/// Who asks for the owner of a pool within this time of a look is answered from it.
const FRESH: SignedDuration = SignedDuration::from_millis(200);

/// This node's membership.
#[derive(Debug)]
pub struct Coordinator {
    context: Context,
    address: String,
    rhythm: Rhythm,
    beacon: Arc<dyn Beacon>,
    /// Whether this node can send alerts.
    sends_alerts: bool,
    state: Mutex<State>,
    /// Held by the pass that is going on.
    passing: tokio::sync::Mutex<()>,
    /// There is something for the loop to see to.
    woken: Notify,
}

/// What a pass, and those before it of which nobody was told, came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Whether the node was given a duty that it did not have, or may use again what it was refused while
    /// its lease had not proved to be its own.
    pub gained: bool,
    /// The store's time as the renewal told it, or as it was read before the node registered anew.
    pub told: Option<Timestamp>,
    /// When to pass again at the latest, if that is before the next beat.
    pub next: Option<Timestamp>,
    /// Pools that have gone to a peer, and where that is reached: their workers are to follow.
    pub moved: BTreeMap<Name, String>,
}

impl Coordinator {
    /// A node that others reach at `address` and that has not registered yet.
    #[must_use]
    pub fn new(context: Context, address: String, rhythm: Rhythm, beacon: Arc<dyn Beacon>) -> Self {
        Self {
            context,
            address,
            rhythm,
            beacon,
            sends_alerts: false,
            state: Mutex::default(),
            passing: tokio::sync::Mutex::default(),
            woken: Notify::new(),
        }
    }

    /// A node that takes the alerts where nobody has them.
    #[must_use]
    pub fn sending_alerts(mut self, can: bool) -> Self {
        self.sends_alerts = can;
        self
    }

    /// Renews the node's lease (or registers it), takes the duties that it should own and that are
    /// free, and gives up those that a peer should own.
    ///
    /// # Errors
    /// As the store; the duties stay usable until the lease would have ended.
    pub async fn run_once(&self, now: Timestamp) -> Result<Pass, Error> {
        let alone = self.passing.lock().await;
        let told = self.pass(now).await?;
        drop(alone);
        let mut state = self.lock();
        let news = std::mem::take(&mut state.news);
        Ok(Pass {
            told,
            next: news.next.into_iter().chain(state.next_look()).min(),
            ..news
        })
    }

    /// From now on the node's lease lasts no longer than it would by this machine's own clock either: a node
    /// that stood still finds the store's time where it was, if that stands still as well.
    pub(crate) fn go_by_machine(&self) {
        self.lock().by_machine = true;
    }

    /// Notified when a pass is due before the next beat.
    #[must_use]
    pub fn woken(&self) -> &Notify {
        &self.woken
    }

    /// To be called while `passing` is held.
    async fn pass(&self, now: Timestamp) -> Result<Option<Timestamp>, Error> {
        if self.lock().draining {
            return Ok(None);
        }
        let sent = crate::pulse::instant();
        let (node, now, told) = self.renew(now).await?;
        // Counted from before the renewal was sent, less the margin; and from what the store said if that is
        // less, for between two readings a pulse counts on while the store's time stands still.
        let lasts = self.rhythm.ttl - self.rhythm.margin();
        let from = told.map_or(now, |told| told.min(now));
        let until = from.checked_add(lasts).ok();
        let by_machine = Duration::try_from(lasts)
            .ok()
            .and_then(|lasts| sent.checked_add(lasts));
        let until = {
            let mut state = self.lock();
            state.node = Some(node);
            if state.draining {
                return Ok(None);
            }
            state.proved(until, by_machine)
        };
        self.wear_leases(node, now, told).await?;
        {
            let mut state = self.lock();
            if !state.must_look(now, LOOK_ALONE) {
                state.held_until = until.filter(|_| state.whole);
                return Ok(told);
            }
        }
        self.look(node, now, until).await?;
        Ok(told)
    }

    /// Renews the node's lease, or registers the node anew; from when on the lease counts, and the
    /// store's time if it was told.
    async fn renew(&self, now: Timestamp) -> Result<(NodeId, Timestamp, Option<Timestamp>), Error> {
        let store = &*self.context.store;
        if let Some(node) = self.node()
            && let Some(renewed) = store.renew_node(node, self.rhythm.ttl).await?
        {
            self.lock().count(renewed.others);
            let told = renewed.expires_at.checked_sub(self.rhythm.ttl).ok();
            return Ok((node, now, told));
        }
        // What this pass began with may be of before the very step of time in which the lease ended: a
        // lease counted from there would be over at once, and duties that are given now left alone until
        // somebody looks by chance.
        let now = store.now().await?;
        self.lock().forget(now, self.rhythm.beat * 2);
        let op = self.context.op(format!("node {}", self.address));
        let address = self.address.clone();
        let node = store.register_node(op, address, self.rhythm.ttl).await?;
        self.beacon.show(Some(node));
        self.beacon.tell(Hint::Members);
        Ok((node, now, Some(now)))
    }

    /// Sees who is there and who owns what; takes, and gives up.
    async fn look(
        &self,
        me: NodeId,
        now: Timestamp,
        until: Option<Timestamp>,
    ) -> Result<(), Error> {
        let store = &*self.context.store;
        let (mut live, duties) = store.list_members().await?;
        let doubtful = self.look_for_signs(me, now, &mut live).await?;
        let (give, take) = {
            let mut state = self.lock();
            if state.draining {
                return Ok(());
            }
            state.see(me, &self.address, &live, &duties, now, &doubtful);
            let expected = state.expected(&live, now);
            let mut wish = wish(me, &live, &expected, &duties, &state.pools);
            wish_alerts(&mut wish, &live, &duties, self.sends_alerts);
            let overdue = state.await_all(wish.awaited, now, self.rhythm.ttl);
            let give = state.leave(wish.give, now);
            if !state.leaving.is_empty() {
                state.news.next = now.checked_add(LEAVING).ok();
                self.woken.notify_one();
            }
            (
                give,
                wish.take.into_iter().chain(overdue).collect::<Vec<_>>(),
            )
        };
        if !give.is_empty() {
            self.release(give.iter().map(|(fence, _)| fence.clone()))
                .await?;
            self.beacon.tell(Hint::Members);
            let members = Members::of(&live);
            self.lock().given(give, &members);
        }
        if !take.is_empty() {
            let asked = take.len();
            let mut taken = Vec::new();
            for some in take.chunks(MAX_BATCH) {
                let op = self.context.op(self.actor());
                taken.extend(store.claim_duties(op, me, some.to_vec()).await?);
            }
            let restored = taken.is_empty() && self.say_if_restored().await?;
            if taken.len() < asked && !restored {
                // Another was first, or somebody writes under it yet.
                let mut state = self.lock();
                state.look = true;
                let soon = now.checked_add(CLAIM_AGAIN).ok();
                state.news.next = state.news.next.into_iter().chain(soon).min();
                self.woken.notify_one();
            }
            let mut state = self.lock();
            if state.node != Some(me) || state.draining {
                return Ok(());
            }
            self.context.meter.duties_taken(taken.len());
            state.take(taken);
        }
        self.judge(&live, &duties, now, until);
        Ok(())
    }

    async fn release(&self, fences: impl Iterator<Item = Fence>) -> Result<(), Error> {
        let fences: Vec<Fence> = fences.collect();
        for some in fences.chunks(MAX_BATCH) {
            let op = self.context.op(self.actor());
            let store = &*self.context.store;
            store.release_duties(op, some.to_vec()).await?;
        }
        Ok(())
    }

    /// Says it loudly, once, where a restore keeps the duties from everybody, and looks on. Whether one does.
    async fn say_if_restored(&self) -> Result<bool, Error> {
        let Some(restore) = self.context.store.get_restore().await? else {
            return Ok(false);
        };
        let told = {
            let mut state = self.lock();
            // A node that is alone looks seldom; when it is decided, its duties are to be taken at once.
            state.look = true;
            state.restored.replace(restore.at)
        };
        if told != Some(restore.at) {
            tracing::error!(
                mark = %restore.mark,
                epoch = restore.epoch,
                "SC4030: the store went back: nothing fires and nothing is granted until it is decided what becomes \
                 of the time since then (sichen restore show)"
            );
        }
        Ok(true)
    }

    /// Ends the leases of peers whose sign is out for longer than the grace, and leaves them out of
    /// `live`; those whose sign is out but who may be back yet.
    async fn look_for_signs(
        &self,
        me: NodeId,
        now: Timestamp,
        live: &mut Vec<Node>,
    ) -> Result<BTreeSet<NodeId>, Error> {
        let peers: Vec<NodeId> = live.iter().map(|n| n.id).filter(|id| *id != me).collect();
        if peers.is_empty() {
            return Ok(BTreeSet::new());
        }
        // A hint: whatever goes wrong with it, leases decide.
        let shown = self.beacon.look().await.unwrap_or_default();
        let missed = self.lock().misses(&peers, shown.as_ref());
        // The grace passes also while the store's time stands still.
        let steady = match missed {
            true => self.context.store.clock().await?.steady,
            false => now,
        };
        let (gone, doubtful) = self.lock().judge_signs(&peers, shown.as_ref(), steady);
        for id in gone {
            let op = self.context.op(self.actor());
            let cause = "gone".to_owned();
            if self.context.store.end_node(op, id, cause).await? {
                let address = live.iter().find(|n| n.id == id).map(|n| &*n.address);
                tracing::info!(node = %id, address, "a peer's process is gone; its duties are shared out");
            }
            live.retain(|node| node.id != id);
        }
        if !doubtful.is_empty() {
            self.lock().news.next = now.checked_add(GRACE).ok();
            self.woken.notify_one();
        }
        Ok(doubtful)
    }

    /// A peer says that members or their duties have changed.
    pub fn look_again(&self) {
        self.lock().look = true;
        self.woken.notify_one();
    }

    /// The own sign went out: peers may take this node for dead, so it writes nothing until its lease
    /// has proved to be its own still. Theirs are not known until they have been seen again.
    pub fn sign_is_out(&self) {
        let mut state = self.lock();
        state.valid_until = None;
        state.forget_signs();
        state.look = true;
        self.woken.notify_one();
    }

    /// Tells peers, if there are any.
    pub fn tell(&self, hint: Hint) {
        if self.has_peers() {
            self.beacon.tell(hint);
        }
    }

    /// Tells whoever has the duty of `pool` that shards wait there, if that is another.
    pub fn tell_owner(&self, pool: &Name) {
        if !self.owns(&DutyKey::Pool(pool.clone())) {
            self.tell(Hint::Pool(pool.clone()));
        }
    }

    /// What is heard next from beside the store.
    pub async fn hear(&self) -> Heard {
        self.beacon.hear().await
    }

    /// Whether each duty is in live hands, or will be at a peer's next beat.
    fn judge(&self, live: &[Node], duties: &[Duty], now: Timestamp, until: Option<Timestamp>) {
        let mut state = self.lock();
        // A node that was reached at this very address is this one's past, and no peer.
        let peers = live.iter().filter(|node| node.address != self.address);
        let peers: BTreeSet<NodeId> = peers.map(|node| node.id).collect();
        let theirs = |duty: &&Duty| duty.node.is_some_and(|owner| peers.contains(&owner));
        let theirs: BTreeSet<&DutyKey> = duties.iter().filter(theirs).map(|d| &d.key).collect();
        let patience = self.rhythm.beat * 2;
        state.whole = all_keys(duties, &state.pools).iter().all(|key| {
            // Nobody waits for them, and perhaps no node can send any more.
            *key == DutyKey::Alerts
                || theirs.contains(key)
                || state.owned.contains_key(key)
                || state.leaving.contains_key(key)
                || state.is_awaited_within(key, now, patience)
        });
        state.held_until = until.filter(|_| state.whole);
    }

    /// Whether other nodes are live, as far as is known: what they write, nobody here hears of.
    #[must_use]
    pub fn has_peers(&self) -> bool {
        self.lock().peers
    }

    /// The address of the peer that owns `pool`, looked up anew unless that was done just now;
    /// `None` if this node owns it, or nobody does, or nobody here could say.
    ///
    /// # Errors
    /// As the store.
    pub async fn owner_elsewhere(
        &self,
        pool: &Name,
        now: Timestamp,
    ) -> Result<Option<String>, Error> {
        let new = self.add_pool(pool);
        let key = DutyKey::Pool(pool.clone());
        if self.fence(&key, now).is_some() {
            return Ok(None);
        }
        let fresh = || !new && self.lock().looked_within(now, FRESH);
        if !fresh() {
            let _alone = self.passing.lock().await;
            // Of many who ask at once, the first looks for all.
            if !fresh() {
                self.lock().look = true;
                self.pass(now).await?;
                self.woken.notify_one();
            }
        }
        Ok(self.seen_elsewhere(pool))
    }

    /// The address of the peer that owned `pool` at the last look.
    #[must_use]
    pub fn seen_elsewhere(&self, pool: &Name) -> Option<String> {
        self.lock().elsewhere.get(pool).cloned()
    }

    /// The right to write for `key` at `now`, if this node has it.
    #[must_use]
    pub fn fence(&self, key: &DutyKey, now: Timestamp) -> Option<Fence> {
        let mut state = self.lock();
        if !state.lasts(now) {
            state.refused |= state.owned.contains_key(key);
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

    /// Whether a worker may be of `pool`: one that is known, or one of as many as there may be.
    #[must_use]
    pub fn takes_pool(&self, pool: &Name) -> bool {
        let state = self.lock();
        state.pools.len() < MAX_POOLS || state.pools.contains(pool)
    }

    /// Makes the node see to the duty of `pool` as well; true if it did not know it.
    pub fn add_pool(&self, pool: &Name) -> bool {
        let mut state = self.lock();
        let new = state.pools.insert(pool.clone());
        state.look |= new;
        new
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
        self.lock().lasts(now)
    }

    /// Whether each duty is in a live node's hands at `now`, this one's or a peer's.
    #[must_use]
    pub fn is_ready(&self, now: Timestamp) -> bool {
        let state = self.lock();
        state.lasts(now) && state.held_until.is_some_and(|until| now < until)
    }

    /// Gives all duties up and ends this node's lease, so that peers need not wait for its end.
    ///
    /// # Errors
    /// As the store; a peer then waits for the lease to end.
    pub async fn hand_over(&self) -> Result<(), Error> {
        let fences = {
            let mut state = self.lock();
            state.draining = true;
            state.valid_until = None;
            let mut owned = std::mem::take(&mut state.owned);
            owned.extend(std::mem::take(&mut state.leaving));
            fences_of(owned)
        };
        let _alone = self.passing.lock().await;
        // Known only now: the pass that was under way may have registered the node.
        let node = self.node();
        let store = &*self.context.store;
        self.release(fences.iter().cloned()).await?;
        if let Some(node) = node {
            let op = self.context.op(self.actor());
            store.end_node(op, node, "stopped".to_owned()).await?;
        }
        self.beacon.tell(Hint::Members);
        self.lock().send_on(fences.iter().map(|fence| &fence.key));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fences_of(owned: BTreeMap<DutyKey, Term>) -> Vec<Fence> {
    let fence = |(key, term)| Fence { key, term };
    owned.into_iter().map(fence).collect()
}
