//! Server nodes and their duties.

use jiff::SignedDuration;
use sichen_core::ids::NodeId;
use sichen_core::model::{Duty, DutyKey, Node};
use sichen_core::port::{Answer, Fence, MemberStore, Op, RenewedNode};

use super::super::{SqliteStore, duties};

impl MemberStore for SqliteStore {
    fn register_node(&self, op: Op, address: String, ttl: SignedDuration) -> Answer<'_, NodeId> {
        self.write(op, move |tx| duties::register_node(tx, &address, ttl))
    }
    fn renew_node(&self, node: NodeId, ttl: SignedDuration) -> Answer<'_, Option<RenewedNode>> {
        self.engine
            .write(None, move |tx| duties::renew_node(tx, node, ttl))
    }
    fn end_node(&self, op: Op, node: NodeId, cause: String) -> Answer<'_, bool> {
        self.write(op, move |tx| duties::end_node(tx, node, &cause))
    }
    fn claim_duties(&self, op: Op, node: NodeId, keys: Vec<DutyKey>) -> Answer<'_, Vec<Fence>> {
        bounded!(keys);
        self.write(op, move |tx| duties::claim(tx, node, keys))
    }
    fn release_duties(&self, op: Op, fences: Vec<Fence>) -> Answer<'_, ()> {
        bounded!(fences);
        self.write(op, move |tx| duties::release(tx, &fences))
    }
    fn list_members(&self) -> Answer<'_, (Vec<Node>, Vec<Duty>)> {
        self.read(duties::list)
    }
}
