//! Server nodes and the duties they own.

use jiff::{SignedDuration, Timestamp};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{NodeId, Term};
use sichen_core::lease::has_expired;
use sichen_core::model::{Duty, DutyKey, Node};
use sichen_core::port::{Fence, RenewedNode};

use super::row::{at, int};
use super::tx::{Happened, Read, Result, Tx};
use super::{restored, sql};

/// The instant `ttl` from now.
pub(super) fn until(read: &Read<'_>, ttl: SignedDuration) -> Timestamp {
    read.now.checked_add(ttl).unwrap_or(Timestamp::MAX)
}

pub(super) fn register_node(tx: &mut Tx<'_>, address: &str, ttl: SignedDuration) -> Result<NodeId> {
    if let Some(id) = tx.first_result()? {
        return Ok(NodeId(id));
    }
    let id = NodeId(tx.next_id());
    tx.keep_result(id.0)?;
    tx.must(sql::INSERT_NODE, (int(id.0), address, at(until(tx, ttl))))?;
    let data = serde_json::json!({ "address": address });
    let happened = Happened {
        data,
        ..Happened::new(Kind::NodeRegistered, "", "live")
    };
    tx.event(&Entity::Node(id), 1, &happened)?;
    Ok(id)
}

pub(super) fn renew_node(
    tx: &mut Tx<'_>,
    node: NodeId,
    ttl: SignedDuration,
) -> Result<Option<RenewedNode>> {
    let expires_at = until(tx, ttl);
    if !tx.run_one(sql::RENEW_NODE, (int(node.0), at(expires_at), at(tx.now)))? {
        return Ok(None);
    }
    let live = tx.all(sql::LIST_NODES, [at(tx.now)], |row| row.node())?;
    let others = live.iter().filter(|live| live.id != node).count();
    Ok(Some(RenewedNode {
        expires_at,
        others: u32::try_from(others).unwrap_or(u32::MAX),
    }))
}

pub(super) fn end_node(tx: &mut Tx<'_>, id: NodeId, cause: &str) -> Result<bool> {
    if !tx.run_one(sql::END_NODE, (int(id.0), at(tx.now)))? {
        return Ok(false);
    }
    let happened = Happened {
        cause,
        ..Happened::new(Kind::NodeEnded, "live", "ended")
    };
    tx.event(&Entity::Node(id), 2, &happened)?;
    Ok(true)
}

pub(super) fn is_alive(read: &Read<'_>, id: NodeId) -> Result<bool> {
    let end = lease_end(read, id)?;
    Ok(end.is_some_and(|end| !has_expired(end, read.now)))
}

/// Until when a node's lease runs, or ran.
fn lease_end(read: &Read<'_>, id: NodeId) -> Result<Option<Timestamp>> {
    let node = read.one(sql::GET_NODE, [int(id.0)], |row| row.node())?;
    Ok(node.map(|node| node.expires_at))
}

pub(super) fn claim(tx: &mut Tx<'_>, node: NodeId, keys: Vec<DutyKey>) -> Result<Vec<Fence>> {
    let mut owned = Vec::new();
    if !is_alive(tx, node)? || restored::get(tx)?.is_some() {
        return Ok(owned);
    }
    for key in keys {
        let text = key.text();
        let row = tx.duty(&text)?;
        let (term, owner) = row
            .as_ref()
            .map_or((Term(0), None), |r| (r.duty.term, r.duty.node));
        if owner == Some(node) {
            owned.push(Fence { key, term });
            continue;
        }
        let lease_end = match owner {
            Some(other) => lease_end(tx, other)?,
            None => None,
        };
        let evidence = match owner {
            None if term == Term(0) => "first",
            None => "released",
            Some(_) if lease_end.is_none_or(|end| has_expired(end, tx.now)) => "expired",
            Some(_) => continue,
        };
        let ver = row.map_or(1, |r| r.ver + 1);
        let term = Term(term.0 + 1);
        tx.must(
            sql::PUT_DUTY,
            (text.as_str(), int(term.0), int(node.0), ver),
        )?;
        let mut data = serde_json::json!({ "node": node.0, "term": term.0 });
        if evidence == "expired" {
            data["lease_end"] = lease_end.map(Timestamp::as_microsecond).into();
        }
        let happened = Happened {
            cause: evidence,
            data,
            ..Happened::new(Kind::DutyAcquired, "", "owned")
        };
        tx.event(&Entity::Duty(text), ver, &happened)?;
        owned.push(Fence { key, term });
    }
    Ok(owned)
}

pub(super) fn release(tx: &mut Tx<'_>, fences: &[Fence]) -> Result<()> {
    for fence in fences {
        let text = fence.key.text();
        let Some(row) = tx.duty(&text)? else { continue };
        if !tx.run_one(sql::RELEASE_DUTY, (text.as_str(), int(fence.term.0)))? {
            continue;
        }
        let data = serde_json::json!({ "term": fence.term.0 });
        let happened = Happened {
            data,
            ..Happened::new(Kind::DutyReleased, "owned", "free")
        };
        tx.event(&Entity::Duty(text), row.ver + 1, &happened)?;
    }
    Ok(())
}

pub(super) fn list(read: &Read<'_>) -> Result<(Vec<Node>, Vec<Duty>)> {
    let nodes = read.all(sql::LIST_NODES, [at(read.now)], |row| row.node())?;
    let mut duties = read.sound(sql::LIST_DUTIES, [], |row| Ok(row.duty()?.duty))?;
    duties.sort_by(|a, b| a.key.cmp(&b.key));
    Ok((nodes, duties))
}
