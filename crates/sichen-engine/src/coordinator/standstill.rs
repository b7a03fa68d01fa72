//! Leases while the store's time stands still, since its clock was set back.
//!
//! # Invariants
//! - One node does it: the janitor.
//! - It asks for the clock only while the time that renewals tell does not move.
//!
//! # Not here
//! What is taken off which lease (`sichen_core::timekeeping::standstill`).

use jiff::Timestamp;
use sichen_core::model::DutyKey;
use sichen_core::port::{Error, Holder, MAX_BATCH, Shorter};
use sichen_core::timekeeping::standstill::Standstill;

use super::Coordinator;

impl Coordinator {
    /// Lets leases that nobody renews run out although time stands still. `told`: the time as this
    /// pass's renewal told it.
    pub(super) async fn wear_leases(
        &self,
        now: Timestamp,
        told: Option<Timestamp>,
    ) -> Result<(), Error> {
        let (stands, before) = {
            let mut state = self.lock();
            let before = std::mem::replace(&mut state.told, told);
            (told.is_some() && told <= before, state.standstill.clone())
        };
        let fence = self.fence(&DutyKey::Janitor, now).filter(|_| stands);
        let Some(fence) = fence else {
            self.lock().standstill = Standstill::default();
            return Ok(());
        };
        let store = &*self.context.store;
        let mut standstill = before;
        let clock = store.clock().await?;
        let sessions = store.list_sessions(None).await?;
        let (nodes, _) = store.list_members().await?;
        let mut live: Vec<(Holder, Timestamp)> = Vec::with_capacity(sessions.len() + nodes.len());
        for (session, _) in sessions {
            live.push((Holder::Session(session.id), session.expires_at));
        }
        for node in nodes {
            live.push((Holder::Node(node.id), node.expires_at));
        }
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
}
