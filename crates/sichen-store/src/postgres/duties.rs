//! Server nodes and the duties they own.

use jiff::{SignedDuration, Timestamp};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{NodeId, Term};
use sichen_core::lease::has_expired;
use sichen_core::model::{Duty, DutyKey, Node};
use sichen_core::port::{Fence, RenewedNode};
use sichen_core::timekeeping::Kept;

use super::row::{at, int};
use super::tx::{Happened, Read, Result, Tx};
use super::{restored, sql};

/// The instant `ttl` from now.
pub(super) fn until(read: &Read, ttl: SignedDuration) -> Timestamp {
    read.now.checked_add(ttl).unwrap_or(Timestamp::MAX)
}

pub(super) async fn register_node(
    tx: &mut Tx,
    address: &str,
    ttl: SignedDuration,
) -> Result<NodeId> {
    if let Some(id) = tx.first_result().await? {
        return Ok(NodeId(id));
    }
    let id = NodeId(tx.next_id().await?);
    tx.keep_result(id.0).await?;
    tx.must(sql::INSERT_NODE, (int(id.0), address, at(until(tx, ttl))))
        .await?;
    let data = serde_json::json!({ "address": address });
    let happened = Happened {
        data,
        ..Happened::new(Kind::NodeRegistered, "", "live")
    };
    tx.event(&Entity::Node(id), 1, &happened)?;
    Ok(id)
}

pub(super) async fn renew_node(
    read: &Read,
    node: NodeId,
    ttl: SignedDuration,
) -> Result<Option<RenewedNode>> {
    let params = (int(node.0), micros(ttl), read.clock());
    let renewed = read.one(sql::RENEW_NODE, params, |row| {
        let kept = Kept {
            mark: row.at(2)?,
            held: row.flag(3)?,
            accepts: row.u32(4)?,
        };
        let renewed = RenewedNode {
            expires_at: row.at(0)?,
            others: row.u32(5)?,
        };
        Ok((renewed, row.at(1)?, kept))
    });
    Ok(renewed.await?.map(|(renewed, wall, kept)| {
        read.hear(wall, &kept);
        renewed
    }))
}

pub(super) async fn end_node(tx: &mut Tx, id: NodeId, cause: &str) -> Result<bool> {
    if !tx.run_one(sql::END_NODE, (int(id.0), at(tx.now))).await? {
        return Ok(false);
    }
    let happened = Happened {
        cause,
        ..Happened::new(Kind::NodeEnded, "live", "ended")
    };
    tx.event(&Entity::Node(id), 2, &happened)?;
    Ok(true)
}

/// A length of time as statements take it.
pub(super) fn micros(length: SignedDuration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

pub(super) async fn is_alive(read: &Read, id: NodeId) -> Result<bool> {
    let end = lease_end(read, id).await?;
    Ok(end.is_some_and(|end| !has_expired(end, read.now)))
}

/// Until when a node's lease runs, or ran.
async fn lease_end(read: &Read, id: NodeId) -> Result<Option<Timestamp>> {
    let node = read.one(sql::GET_NODE, [int(id.0)], |row| row.node());
    Ok(node.await?.map(|node| node.expires_at))
}

/// Takes free duties. One that somebody writes under is left for the next time: that may be an owner who
/// stands still. What has no row is locked by the turn ([`Turn::Claim`](super::kept::Turn)).
pub(super) async fn claim(tx: &mut Tx, node: NodeId, keys: Vec<DutyKey>) -> Result<Vec<Fence>> {
    let mut owned = Vec::new();
    if !is_alive(tx, node).await? || restored::get(tx).await?.is_some() {
        return Ok(owned);
    }
    for key in keys {
        let text = key.text();
        let locked = tx.kept(|kept| kept.duties.contains_key(&text));
        let row = tx.duty(&text).await?;
        let (term, owner) = row
            .as_ref()
            .map_or((Term(0), None), |r| (r.duty.term, r.duty.node));
        if owner == Some(node) {
            owned.push(Fence { key, term });
            continue;
        }
        if row.is_some() && !locked {
            continue;
        }
        let lease_end = match owner {
            Some(other) => lease_end(tx, other).await?,
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
        )
        .await?;
        tx.duty_changed(&text);
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

pub(super) async fn release(tx: &mut Tx, fences: &[Fence]) -> Result<()> {
    for fence in fences {
        let text = fence.key.text();
        let Some(row) = tx.duty(&text).await? else {
            continue;
        };
        if !tx
            .run_one(sql::RELEASE_DUTY, (text.as_str(), int(fence.term.0)))
            .await?
        {
            continue;
        }
        tx.duty_changed(&text);
        let data = serde_json::json!({ "term": fence.term.0 });
        let happened = Happened {
            data,
            ..Happened::new(Kind::DutyReleased, "owned", "free")
        };
        tx.event(&Entity::Duty(text), row.ver + 1, &happened)?;
    }
    Ok(())
}

pub(super) async fn list(read: &Read) -> Result<(Vec<Node>, Vec<Duty>)> {
    // The nodes first: a duty that changes hands in between is then nobody's rather than a dead one's.
    let nodes = read
        .all(sql::LIST_NODES, [read.clock()], |row| row.node())
        .await?;
    let mut duties = read
        .sound(sql::LIST_DUTIES, (), |row| Ok(row.duty()?.duty))
        .await?;
    duties.sort_by(|a, b| a.key.cmp(&b.key));
    Ok((nodes, duties))
}
