//! Server nodes and their duties.

use jiff::SignedDuration;
use sichen_core::ids::NodeId;
use sichen_core::model::{Duty, DutyKey, Node};
use sichen_core::port::{Answer, Fence, MemberStore, Op, RenewedNode};

use super::super::{PostgresStore, duties, kept, keys_of};

impl MemberStore for PostgresStore {
    fn register_node(&self, op: Op, address: String, ttl: SignedDuration) -> Answer<'_, NodeId> {
        write!(self, Some(op), [address], |tx| {
            tx.tell_time().await?;
            duties::register_node(tx, &address, ttl).await
        })
    }
    fn renew_node(&self, node: NodeId, ttl: SignedDuration) -> Answer<'_, Option<RenewedNode>> {
        // Said twice it is what it is said once: no operation is recorded.
        alone!(self, [], |read| duties::renew_node(read, node, ttl).await)
    }
    fn end_node(&self, op: Op, node: NodeId, cause: String) -> Answer<'_, bool> {
        write!(self, Some(op), [cause], |tx| {
            tx.lock_nodes(Vec::new(), node).await?;
            tx.tell_time().await?;
            duties::end_node(tx, node, &cause).await
        })
    }
    fn claim_duties(&self, op: Op, node: NodeId, keys: Vec<DutyKey>) -> Answer<'_, Vec<Fence>> {
        bounded!(keys);
        write!(self, Some(op), [keys], |tx| {
            tx.take_turn(kept::Turn::Claim, "").await?;
            let texts: Vec<String> = keys.iter().map(DutyKey::text).collect();
            tx.lock_free_duties(texts.clone()).await?;
            tx.lock_nodes(texts, node).await?;
            tx.tell_time().await?;
            duties::claim(tx, node, keys).await
        })
    }
    fn release_duties(&self, op: Op, fences: Vec<Fence>) -> Answer<'_, ()> {
        bounded!(fences);
        write!(self, Some(op), [fences], |tx| {
            tx.lock_duties(keys_of(&fences), false).await?;
            tx.tell_time().await?;
            duties::release(tx, &fences).await
        })
    }
    fn list_members(&self) -> Answer<'_, (Vec<Node>, Vec<Duty>)> {
        glance!(self, [], |read| duties::list(read).await)
    }
}
