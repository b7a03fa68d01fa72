//! Leases while the store's time stands still, since its clock was set back.
//!
//! # Invariants
//! - One node does it: the janitor, of all leases but its own node's. That one is worn by whoever would be the
//!   janitor without it. Where two nodes think so for a moment, each takes what the other did for a renewal, and
//!   the lease lasts longer (or, if their marks meet, is shorter by one look until it is renewed).
//! - They ask for the clock only while the time that renewals tell does not move.
//!
//! # Not here
//! What is taken off which lease (`sichen_core::timekeeping::standstill`).

use jiff::Timestamp;
use sichen_core::ids::NodeId;
use sichen_core::members::successor;
use sichen_core::model::{DutyKey, Node};
use sichen_core::port::{Error, Fence, Holder, MAX_BATCH, Shorter};
use sichen_core::timekeeping::standstill::Standstill;

use super::Coordinator;

/// Leases with their ends, and under which duty they are worn.
type Worn = (Fence, Vec<(Holder, Timestamp)>);

impl Coordinator {
    /// Lets leases that nobody renews run out although time stands still. `told`: the time as this
    /// pass's renewal told it.
    pub(super) async fn wear_leases(
        &self,
        me: NodeId,
        now: Timestamp,
        told: Option<Timestamp>,
    ) -> Result<(), Error> {
        let (stands, before) = {
            let mut state = self.lock();
            let before = std::mem::replace(&mut state.told, told);
            (told.is_some() && told <= before, state.standstill.clone())
        };
        let store = &*self.context.store;
        let mut standstill = before;
        let worn = if stands {
            let clock = store.clock().await?;
            self.worn(me, now).await?.map(|worn| (clock, worn))
        } else {
            None
        };
        let Some((clock, (fence, live))) = worn else {
            self.lock().standstill = Standstill::default();
            return Ok(());
        };
        let shorter = standstill.look(&clock, &live);
        for shorter in shorter.chunks(MAX_BATCH) {
            let leases = shorter.iter();
            let leases = leases.map(|(of, from, to)| Shorter {
                of: *of,
                from: *from,
                to: *to,
            });
            let op = self.context.op(self.actor());
            store
                .shorten_leases(op, fence.clone(), leases.collect())
                .await?;
        }
        standstill.written(&store.clock().await?);
        self.lock().standstill = standstill;
        Ok(())
    }

    /// What this node has to wear, listed after the clock was told.
    async fn worn(&self, me: NodeId, now: Timestamp) -> Result<Option<Worn>, Error> {
        let store = &*self.context.store;
        let lease = |node: &Node| (Holder::Node(node.id), node.expires_at);
        let (nodes, duties) = store.list_members().await?;
        if let Some(fence) = self.fence(&DutyKey::Janitor, now) {
            let sessions = store.list_sessions(None).await?;
            let sessions = sessions.into_iter().map(|(session, _)| session);
            let sessions = sessions.map(|s| (Holder::Session(s.id), s.expires_at));
            let others = nodes.iter().filter(|node| node.id != me);
            return Ok(Some((fence, sessions.chain(others.map(lease)).collect())));
        }
        let janitor = duties.iter().find(|duty| duty.key == DutyKey::Janitor);
        let janitor = janitor.and_then(|duty| nodes.iter().find(|n| Some(n.id) == duty.node));
        let janitor = janitor.filter(|node| {
            let next = successor(&DutyKey::Janitor, &nodes, node.id);
            node.id != me && next == Some(me)
        });
        let fence = self.trigger_fences(now).into_iter().next();
        Ok(fence.zip(janitor.map(|node| vec![lease(node)])))
    }
}
