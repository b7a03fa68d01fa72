//! Worker sessions: registered, renewed, ended.

use jiff::SignedDuration;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::SessionId;
use sichen_core::lease::{has_expired, is_outdated};
use sichen_core::model::{DutyKey, Session};
use sichen_core::name::Name;
use sichen_core::port::{Error, Fence, Register, RegisterVerdict, Registered, RenewVerdict};

use super::duties::until;
use super::row::{at, int};
use super::sql;
use super::tx::{Happened, Read, Result, Tx};

pub(super) fn register(tx: &mut Tx<'_>, r: &Register) -> Result<RegisterVerdict> {
    if let Some(id) = tx.first_result()? {
        return registered_before(tx, SessionId(id));
    }
    let newest = tx.one(sql::GET_APPEARANCE, [r.worker.uid.as_str()], |row| {
        row.appearance(0)
    })?;
    if let Some(newest) = newest.filter(|newest| is_outdated(r.appearance, Some(*newest))) {
        return Ok(RegisterVerdict::Outdated { newest });
    }
    let mut superseded = Vec::new();
    let mut name_taken_by = None;
    for old in tx.all(
        sql::LIST_SESSIONS_OF_WORKER,
        [r.worker.uid.as_str()],
        |row| row.session(),
    )? {
        if old.worker.boot_id == r.worker.boot_id && r.old_trees_dead {
            end_now(tx, &old, "superseded")?;
            superseded.push(old.id);
        }
    }
    for old in tx.all(
        sql::LIST_SESSIONS_OF_NAME,
        [r.worker.name.as_str()],
        |row| row.session(),
    )? {
        if old.worker.uid != r.worker.uid && !has_expired(old.expires_at, tx.now) {
            name_taken_by = Some(old.id);
        }
    }
    let id = SessionId(tx.next_id());
    tx.keep_result(id.0)?;
    let expires_at = until(tx, r.ttl);
    let handlers = serde_json::Value::from(r.handlers.clone()).to_string();
    let params = (
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
    );
    tx.must(sql::INSERT_SESSION, params)?;
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
fn registered_before(read: &Read<'_>, id: SessionId) -> Result<RegisterVerdict> {
    let session = read.session(id)?;
    let session = session.ok_or_else(|| Error::Corrupt(format!("session {id} is gone")))?;
    Ok(RegisterVerdict::Registered(Registered {
        session: id,
        expires_at: session.expires_at,
        superseded: Vec::new(),
        name_taken_by: None,
    }))
}

pub(super) fn renew(tx: &mut Tx<'_>, id: SessionId, ttl: SignedDuration) -> Result<RenewVerdict> {
    if tx.run_one(
        sql::RENEW_SESSION,
        (int(id.0), at(until(tx, ttl)), at(tx.now)),
    )? {
        let session = tx.session(id)?;
        let expires_at = session.map_or(tx.now, |s| s.expires_at);
        return Ok(RenewVerdict::Renewed { expires_at });
    }
    let ended = tx.session(id)?.and_then(|s| s.ended);
    Ok(match ended {
        Some((_, cause)) if cause == "superseded" => RenewVerdict::Superseded,
        _ => RenewVerdict::Lost,
    })
}

pub(super) fn end(
    tx: &mut Tx<'_>,
    fence: Option<&Fence>,
    id: SessionId,
    cause: &str,
) -> Result<bool> {
    let Some(session) = tx.session(id)?.filter(|s| s.ended.is_none()) else {
        return Ok(false);
    };
    if let Some(fence) = fence {
        let expired = has_expired(session.expires_at, tx.now);
        let right = fence.key == DutyKey::Pool(session.pool.clone());
        if !expired || !right || !tx.under(fence)? {
            return Ok(false);
        }
    }
    end_now(tx, &session, cause)?;
    Ok(true)
}

fn end_now(tx: &mut Tx<'_>, session: &Session, cause: &str) -> Result<()> {
    tx.must(sql::END_SESSION, (int(session.id.0), at(tx.now), cause))?;
    let happened = Happened {
        cause,
        ..Happened::new(Kind::SessionEnded, "live", "ended")
    };
    tx.event(&Entity::Session(session.id), session.ver + 1, &happened)
}

pub(super) fn list(read: &Read<'_>, pool: Option<&Name>) -> Result<Vec<(Session, u32)>> {
    let sessions = match pool {
        Some(pool) => read.sound(sql::LIST_SESSIONS_OF_POOL, [pool.as_str()], |row| {
            row.session()
        }),
        None => read.sound(sql::LIST_SESSIONS, [], |row| row.session()),
    };
    let counted = sessions?.into_iter().map(|session| {
        let held = read.count(sql::COUNT_HELD, [int(session.id.0)])?;
        Ok((session, held))
    });
    counted.collect()
}
