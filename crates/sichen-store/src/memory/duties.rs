//! Server nodes and the duties they own.

use jiff::{SignedDuration, Timestamp};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{NodeId, Term};
use sichen_core::lease::has_expired;
use sichen_core::model::{Duty, DutyKey, Node};
use sichen_core::port::{Fence, RenewedNode};
use sichen_core::zoo;

use super::state::{DutyRow, Happened, State, Tx};

pub(super) fn register_node(tx: &mut Tx<'_>, address: String, ttl: SignedDuration) -> NodeId {
    let id = NodeId(tx.state.next_id());
    let data = serde_json::json!({ "address": address });
    tx.state.nodes.insert(
        id,
        Node {
            id,
            address,
            expires_at: tx.now + ttl,
        },
    );
    tx.event(
        Entity::Node(id),
        1,
        Happened {
            data,
            ..Happened::new(Kind::NodeRegistered, "", "live")
        },
    );
    id
}

pub(super) fn renew_node(
    state: &mut State,
    now: Timestamp,
    node: NodeId,
    ttl: SignedDuration,
) -> Option<RenewedNode> {
    let live = |node: &&Node| !has_expired(node.expires_at, now);
    let others = state.nodes.values().filter(live).count();
    let node = state.nodes.get_mut(&node).filter(|node| live(&&**node))?;
    node.expires_at = now + ttl;
    Some(RenewedNode {
        expires_at: node.expires_at,
        others: u32::try_from(others - 1).unwrap_or(u32::MAX),
    })
}

pub(super) fn end_node(tx: &mut Tx<'_>, id: NodeId, cause: &str) -> bool {
    let now = tx.now;
    let Some(node) = tx.state.nodes.get_mut(&id) else {
        return false;
    };
    if has_expired(node.expires_at, now) {
        return false;
    }
    node.expires_at = now;
    tx.event(
        Entity::Node(id),
        2,
        Happened {
            cause,
            ..Happened::new(Kind::NodeEnded, "live", "ended")
        },
    );
    true
}

pub(super) fn claim(tx: &mut Tx<'_>, node: NodeId, keys: Vec<DutyKey>) -> Vec<Fence> {
    let now = tx.now;
    let alive = |state: &State, id: NodeId| {
        state
            .nodes
            .get(&id)
            .is_some_and(|n| !has_expired(n.expires_at, now))
    };
    if !alive(tx.state, node) || tx.state.restore.is_some() {
        return Vec::new();
    }
    let mut owned = Vec::new();
    for key in keys {
        let row = tx.state.duties.get(&key);
        let owner = row.and_then(|r| r.duty.node);
        let term = row.map_or(Term(0), |r| r.duty.term);
        if owner == Some(node) {
            owned.push(Fence { key, term });
            continue;
        }
        let lease_end = owner
            .and_then(|other| tx.state.nodes.get(&other))
            .map(|n| n.expires_at);
        let evidence = match owner {
            None if term == Term(0) => "first",
            None => "released",
            Some(other) if !alive(tx.state, other) => "expired",
            Some(_) => continue,
        };
        let ver = row.map_or(1, |r| r.ver + 1);
        let term = Term(term.0 + u64::from(!zoo::is("takeover-keeps-term") || owner.is_none()));
        let duty = Duty {
            key: key.clone(),
            term,
            node: Some(node),
        };
        tx.state.duties.insert(key.clone(), DutyRow { duty, ver });
        let mut data = serde_json::json!({ "node": node.0, "term": term.0 });
        if evidence == "expired" {
            data["lease_end"] = lease_end.map(jiff::Timestamp::as_microsecond).into();
        }
        let happened = Happened {
            cause: evidence,
            data,
            ..Happened::new(Kind::DutyAcquired, "", "owned")
        };
        tx.event(Entity::Duty(key.text()), ver, happened);
        owned.push(Fence { key, term });
    }
    owned
}

pub(super) fn release(tx: &mut Tx<'_>, fences: &[Fence]) {
    for fence in fences {
        if !tx.state.is_current(fence) {
            continue;
        }
        let Some(row) = tx.state.duties.get_mut(&fence.key) else {
            continue;
        };
        row.duty.node = None;
        row.ver += 1;
        let ver = row.ver;
        let data = serde_json::json!({ "term": fence.term.0 });
        let happened = Happened {
            data,
            ..Happened::new(Kind::DutyReleased, "owned", "free")
        };
        tx.event(Entity::Duty(fence.key.text()), ver, happened);
    }
}

pub(super) fn list(state: &State, now: Timestamp) -> (Vec<Node>, Vec<Duty>) {
    let live = state
        .nodes
        .values()
        .filter(|n| !has_expired(n.expires_at, now));
    (
        live.cloned().collect(),
        state.duties.values().map(|r| r.duty.clone()).collect(),
    )
}
