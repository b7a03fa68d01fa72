//! Server nodes and their duties.

use jiff::SignedDuration;

use super::{Answer, Fence, Op, RenewedNode};
use crate::ids::NodeId;
use crate::model::{Duty, DutyKey, Node};

/// Server nodes and their duties. A part of [`Store`](super::Store).
pub trait MemberStore: Send + Sync + 'static {
    /// Registers a server node for `ttl`.
    fn register_node(&self, op: Op, address: String, ttl: SignedDuration) -> Answer<'_, NodeId>;
    /// Renews a node's lease; `None` if it has expired, and then it never comes back.
    fn renew_node(&self, node: NodeId, ttl: SignedDuration) -> Answer<'_, Option<RenewedNode>>;
    /// Ends a node's lease before its time, so that its duties are free: it stops, or its process is
    /// gone. False if the lease had ended. A node that lives after all finds out when it renews.
    fn end_node(&self, op: Op, node: NodeId, cause: String) -> Answer<'_, bool>;
    /// Takes those of `keys` that are free: never owned, released, owned by an expired node, or
    /// by `node` itself (same term). Returns what `node` owns of them. None while a restore is not decided.
    /// A duty that somebody writes under at this moment may be left for the next time.
    fn claim_duties(&self, op: Op, node: NodeId, keys: Vec<DutyKey>) -> Answer<'_, Vec<Fence>>;
    /// Gives duties up; those no longer owned under the given term are passed over.
    fn release_duties(&self, op: Op, fences: Vec<Fence>) -> Answer<'_, ()>;
    /// Live nodes, and all duties.
    fn list_members(&self) -> Answer<'_, (Vec<Node>, Vec<Duty>)>;
}
