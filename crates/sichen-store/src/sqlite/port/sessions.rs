//! Workers' sessions.

use jiff::SignedDuration;
use sichen_core::ids::SessionId;
use sichen_core::model::Session;
use sichen_core::name::Name;
use sichen_core::port::{Answer, Fence, Op, Register, RegisterVerdict, RenewVerdict, SessionStore};

use super::super::{SqliteStore, row, sessions, sql};

impl SessionStore for SqliteStore {
    fn register_session(&self, op: Op, register: Register) -> Answer<'_, RegisterVerdict> {
        self.write(op, move |tx| sessions::register(tx, &register))
    }
    fn renew_sessions(
        &self,
        sessions: Vec<SessionId>,
        ttl: SignedDuration,
    ) -> Answer<'_, Vec<RenewVerdict>> {
        bounded!(sessions);
        self.engine.write(None, move |tx| {
            sessions
                .into_iter()
                .map(|id| sessions::renew(tx, id, ttl))
                .collect()
        })
    }
    fn drain_session(&self, session: SessionId) -> Answer<'_, ()> {
        self.engine.write(None, move |tx| {
            tx.run_one(sql::DRAIN_SESSION, [row::int(session.0)])?;
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
        self.read(move |r| sessions::list(r, pool.as_ref()))
    }
    fn get_session(&self, session: SessionId) -> Answer<'_, Option<Session>> {
        self.read(move |r| r.session(session))
    }
}
