//! Workers' sessions.

use jiff::SignedDuration;
use sichen_core::ids::SessionId;
use sichen_core::model::Session;
use sichen_core::name::Name;
use sichen_core::port::{Answer, Fence, Op, Register, RegisterVerdict, RenewVerdict, SessionStore};

use super::super::{MemoryStore, sessions};

impl SessionStore for MemoryStore {
    fn register_session(&self, op: Op, register: Register) -> Answer<'_, RegisterVerdict> {
        self.write(op, move |tx| sessions::register(tx, register))
    }
    fn renew_sessions(
        &self,
        sessions: Vec<SessionId>,
        ttl: SignedDuration,
    ) -> Answer<'_, Vec<RenewVerdict>> {
        bounded!(sessions);
        Box::pin(async move {
            let (mut state, now) = self.lock();
            Ok(sessions
                .iter()
                .map(|id| sessions::renew(&mut state, now, *id, ttl))
                .collect())
        })
    }
    fn drain_session(&self, session: SessionId) -> Answer<'_, ()> {
        Box::pin(async move {
            let (mut state, _) = self.lock();
            if let Some(session) = state.sessions.get_mut(&session) {
                session.draining = true;
            }
            Ok(())
        })
    }
    fn end_session(
        &self,
        op: Op,
        fence: Option<Fence>,
        session: SessionId,
        cause: String,
    ) -> Answer<'_, bool> {
        self.write(op, move |tx| {
            sessions::end(tx, fence.as_ref(), session, &cause)
        })
    }
    fn list_sessions(&self, pool: Option<Name>) -> Answer<'_, Vec<(Session, u32)>> {
        self.read(move |s, _| {
            let wanted = |x: &&Session| {
                x.ended.is_none() && pool.as_ref().is_none_or(|pool| *pool == x.pool)
            };
            let held = |id| u32::try_from(s.held_by(id).count()).unwrap_or(u32::MAX);
            let live = s.sessions.values().filter(wanted);
            live.map(|session| (session.clone(), held(session.id)))
                .collect()
        })
    }
    fn get_session(&self, session: SessionId) -> Answer<'_, Option<Session>> {
        self.read(move |s, _| s.sessions.get(&session).cloned())
    }
}
