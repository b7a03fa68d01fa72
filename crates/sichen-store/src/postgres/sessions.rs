//! Worker sessions: registered, renewed, ended.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::SessionId;
use sichen_core::lease::{has_expired, is_outdated};
use sichen_core::model::{DutyKey, Session, Shard};
use sichen_core::name::Name;
use sichen_core::port::{Error, Fence, Register, RegisterVerdict, Registered, RenewVerdict};

use super::duties::{micros, until};
use super::param::params;
use super::row::{Row, at, int};
use super::sql;
use super::tx::{Happened, Read, Result, Tx};

pub(super) async fn register(tx: &mut Tx, r: &Register) -> Result<RegisterVerdict> {
    if let Some(id) = tx.first_result().await? {
        return registered_before(tx, SessionId(id)).await;
    }
    let newest = tx
        .one(sql::GET_APPEARANCE, [r.worker.uid.as_str()], |row| {
            row.appearance(0)
        })
        .await?;
    if let Some(newest) = newest.filter(|newest| is_outdated(r.appearance, Some(*newest))) {
        return Ok(RegisterVerdict::Outdated { newest });
    }
    let mut superseded = Vec::new();
    let mut name_taken_by = None;
    for old in tx
        .all(
            sql::LIST_SESSIONS_OF_WORKER,
            [r.worker.uid.as_str()],
            |row| row.session(),
        )
        .await?
    {
        if old.worker.boot_id == r.worker.boot_id && r.old_trees_dead {
            end_now(tx, &old, "superseded").await?;
            superseded.push(old.id);
        }
    }
    for old in tx
        .all(
            sql::LIST_SESSIONS_OF_NAME,
            [r.worker.name.as_str()],
            |row| row.session(),
        )
        .await?
    {
        if old.worker.uid != r.worker.uid && !has_expired(old.expires_at, tx.now) {
            name_taken_by = Some(old.id);
        }
    }
    let id = SessionId(tx.next_id().await?);
    tx.keep_result(id.0).await?;
    let expires_at = until(tx, r.ttl);
    let handlers = serde_json::Value::from(r.handlers.clone()).to_string();
    let params = params![
        int(id.0),
        r.worker.name.as_str(),
        r.worker.uid.as_str(),
        r.worker.boot_id.as_str(),
        r.worker.incarnation.as_str(),
        r.pool.as_str(),
        r.slots,
        handlers,
        at(tx.now),
        at(expires_at),
        int(r.appearance.start),
        int(r.appearance.registration),
        r.offer.text(),
    ];
    tx.must(sql::INSERT_SESSION, params).await?;
    let data = serde_json::json!({
        "worker": r.worker.name.as_str(), "incarnation": r.worker.incarnation,
        "pool": r.pool.as_str(), "slots": r.slots,
    });
    let happened = Happened {
        data,
        ..Happened::new(Kind::SessionRegistered, "", "live")
    };
    tx.event(&Entity::Session(id), 1, &happened)?;
    Ok(RegisterVerdict::Registered(Registered {
        session: id,
        expires_at,
        superseded,
        name_taken_by,
    }))
}

/// The answer to a registration that was committed before and is repeated.
async fn registered_before(read: &Read, id: SessionId) -> Result<RegisterVerdict> {
    let session = read.session(id).await?;
    let session = session.ok_or_else(|| Error::Corrupt(format!("session {id} is gone")))?;
    Ok(RegisterVerdict::Registered(Registered {
        session: id,
        expires_at: session.expires_at,
        superseded: Vec::new(),
        name_taken_by: None,
    }))
}

/// Takes the beats of sessions.
pub(super) async fn renew(
    read: &Read,
    ids: &[SessionId],
    ttl: SignedDuration,
) -> Result<Vec<RenewVerdict>> {
    let all: Vec<i64> = ids.iter().map(|id| int(id.0)).collect();
    let params = (all, micros(ttl), read.clock());
    let renewed: BTreeMap<_, _> = read
        .all(sql::RENEW_SESSION, params, |row| {
            Ok((SessionId(row.u64(0)?), row.at(1)?))
        })
        .await?
        .into_iter()
        .collect();
    let mut verdicts = Vec::with_capacity(ids.len());
    for id in ids {
        if let Some(expires_at) = renewed.get(id).copied() {
            verdicts.push(RenewVerdict::Renewed { expires_at });
            continue;
        }
        let ended = read.session(*id).await?.and_then(|s| s.ended);
        verdicts.push(match ended {
            Some((_, cause)) if cause == "superseded" => RenewVerdict::Superseded,
            _ => RenewVerdict::Lost,
        });
    }
    Ok(verdicts)
}

pub(super) async fn end(
    tx: &mut Tx,
    fence: Option<&Fence>,
    id: SessionId,
    cause: &str,
) -> Result<bool> {
    let Some(session) = tx.session(id).await?.filter(|s| s.ended.is_none()) else {
        return Ok(false);
    };
    if let Some(fence) = fence {
        let expired = has_expired(session.expires_at, tx.now);
        let right = fence.key == DutyKey::Pool(session.pool.clone());
        if !expired || !right || !tx.under(fence).await? {
            return Ok(false);
        }
    }
    end_now(tx, &session, cause).await?;
    Ok(true)
}

async fn end_now(tx: &mut Tx, session: &Session, cause: &str) -> Result<()> {
    tx.must(sql::END_SESSION, (int(session.id.0), at(tx.now), cause))
        .await?;
    tx.session_changed(session.id);
    let happened = Happened {
        cause,
        ..Happened::new(Kind::SessionEnded, "live", "ended")
    };
    tx.event(&Entity::Session(session.id), session.ver + 1, &happened)
}

pub(super) async fn list(read: &Read, pool: Option<&Name>) -> Result<Vec<(Session, u32)>> {
    let held = |row: Row<'_>| row.counted_session();
    match pool {
        Some(pool) => {
            let params = [pool.as_str()];
            read.sound(sql::LIST_SESSIONS_OF_POOL, params, held).await
        }
        None => read.sound(sql::LIST_SESSIONS, (), held).await,
    }
}

/// The shards that a session holds: all of them are of its pool.
pub(super) async fn leases(read: &Read, id: SessionId) -> Result<Vec<Shard>> {
    let Some(session) = read.session(id).await? else {
        return Ok(Vec::new());
    };
    let params = (int(id.0), session.pool.as_str());
    read.all(sql::LIST_LEASES, params, |row| Ok(row.shard()?.shard))
        .await
}
