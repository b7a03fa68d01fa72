//! Worker sessions: registered, renewed, ended.

use jiff::{SignedDuration, Timestamp};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::SessionId;
use sichen_core::lease::{has_expired, is_outdated};
use sichen_core::model::{DutyKey, Session};
use sichen_core::port::{Fence, Register, RegisterVerdict, Registered, RenewVerdict};
use sichen_core::zoo;

use super::state::{Happened, State, Tx};

pub(super) fn register(tx: &mut Tx<'_>, r: Register) -> RegisterVerdict {
    let sessions = tx.state.sessions.values();
    let of_worker = sessions.filter(|s| s.worker.uid == r.worker.uid);
    let newest = of_worker.map(|s| s.appearance).max();
    if let Some(newest) = newest.filter(|newest| is_outdated(r.appearance, Some(*newest)))
        && !zoo::is("hellos-unordered")
    {
        return RegisterVerdict::Outdated { newest };
    }
    let live: Vec<Session> = tx
        .state
        .sessions
        .values()
        .filter(|s| s.ended.is_none())
        .cloned()
        .collect();
    let mut superseded = Vec::new();
    let mut name_taken_by = None;
    for old in live {
        let same_worker = old.worker.uid == r.worker.uid;
        if same_worker
            && !zoo::is("no-incarnation")
            && old.worker.boot_id == r.worker.boot_id
            && r.old_trees_dead
        {
            end_now(tx, old.id, "superseded");
            superseded.push(old.id);
        } else if !same_worker
            && old.worker.name == r.worker.name
            && !has_expired(old.expires_at, tx.now)
        {
            name_taken_by = Some(old.id);
        }
    }
    if zoo::is("no-incarnation") {
        let same = |s: &&Session| s.ended.is_none() && s.worker.uid == r.worker.uid;
        if let Some(old) = tx.state.sessions.values().find(same) {
            return RegisterVerdict::Registered(Registered {
                session: old.id,
                expires_at: old.expires_at,
                superseded: Vec::new(),
                name_taken_by: None,
            });
        }
    }
    let id = SessionId(tx.state.next_id());
    let expires_at = tx.now + r.ttl;
    let data = serde_json::json!({
        "worker": r.worker.name.as_str(), "incarnation": r.worker.incarnation,
        "pool": r.pool.as_str(), "slots": r.slots,
    });
    let session = Session {
        id,
        ver: 1,
        worker: r.worker,
        appearance: r.appearance,
        pool: r.pool,
        slots: r.slots,
        handlers: r.handlers,
        offer: r.offer,
        draining: false,
        grant_seq: 0,
        registered_at: tx.now,
        expires_at,
        ended: None,
    };
    tx.state.sessions.insert(id, session);
    let happened = Happened {
        data,
        ..Happened::new(Kind::SessionRegistered, "", "live")
    };
    tx.event(Entity::Session(id), 1, happened);
    RegisterVerdict::Registered(Registered {
        session: id,
        expires_at,
        superseded,
        name_taken_by,
    })
}

pub(super) fn renew(
    state: &mut State,
    now: Timestamp,
    id: SessionId,
    ttl: SignedDuration,
) -> RenewVerdict {
    let Some(session) = state.sessions.get_mut(&id) else {
        return RenewVerdict::Lost;
    };
    match &session.ended {
        Some((_, cause)) if cause == "superseded" => return RenewVerdict::Superseded,
        Some(_) => return RenewVerdict::Lost,
        None if has_expired(session.expires_at, now) => return RenewVerdict::Lost,
        None => {}
    }
    session.expires_at = session.expires_at.max(now + ttl);
    RenewVerdict::Renewed {
        expires_at: session.expires_at,
    }
}

pub(super) fn end(tx: &mut Tx<'_>, fence: Option<&Fence>, id: SessionId, cause: &str) -> bool {
    let Some(session) = tx.state.sessions.get(&id) else {
        return false;
    };
    if session.ended.is_some() {
        return false;
    }
    if let Some(fence) = fence {
        let expired = has_expired(session.expires_at, tx.now);
        let right = fence.key == DutyKey::Pool(session.pool.clone());
        if !expired || !right || !tx.under(fence) {
            return false;
        }
    }
    end_now(tx, id, cause);
    true
}

fn end_now(tx: &mut Tx<'_>, id: SessionId, cause: &str) {
    let now = tx.now;
    let Some(session) = tx.state.sessions.get_mut(&id) else {
        return;
    };
    session.ended = Some((now, cause.to_owned()));
    session.ver += 1;
    let ver = session.ver;
    if zoo::is("session-ends-silently") {
        return;
    }
    let happened = Happened {
        cause,
        ..Happened::new(Kind::SessionEnded, "live", "ended")
    };
    tx.event(Entity::Session(id), ver, happened);
}
