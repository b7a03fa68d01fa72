//! Workers' sessions.

use jiff::SignedDuration;
use sichen_core::ids::SessionId;
use sichen_core::model::Session;
use sichen_core::name::Name;
use sichen_core::port::{Answer, Fence, Op, Register, RegisterVerdict, RenewVerdict, SessionStore};

use super::super::row::int;
use super::super::{PostgresStore, kept, keys_of, sessions, sql};

impl SessionStore for PostgresStore {
    fn register_session(&self, op: Op, register: Register) -> Answer<'_, RegisterVerdict> {
        write!(self, Some(op), [register], |tx| {
            tx.take_turn(kept::Turn::Register, &register.worker.uid)
                .await?;
            tx.lock_sessions_of_worker(&register.worker.uid).await?;
            tx.tell_time().await?;
            sessions::register(tx, &register).await
        })
    }
    fn renew_sessions(
        &self,
        sessions: Vec<SessionId>,
        ttl: SignedDuration,
    ) -> Answer<'_, Vec<RenewVerdict>> {
        bounded!(sessions);
        alone!(self, [sessions], |read| {
            sessions::renew(read, &sessions, ttl).await
        })
    }
    fn drain_session(&self, session: SessionId) -> Answer<'_, ()> {
        write!(self, None, [], |tx| {
            tx.tell_time().await?;
            tx.run(sql::DRAIN_SESSION, [int(session.0)]).await?;
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
        write!(self, Some(op), [fence, cause], |tx| {
            tx.lock_duties(keys_of(fence.as_slice()), true).await?;
            tx.lock_sessions(&[session]).await?;
            tx.tell_time().await?;
            sessions::end(tx, fence.as_ref(), session, &cause).await
        })
    }
    fn list_sessions(&self, pool: Option<Name>) -> Answer<'_, Vec<(Session, u32)>> {
        glance!(self, [pool], |read| sessions::list(read, pool.as_ref())
            .await)
    }
    fn get_session(&self, session: SessionId) -> Answer<'_, Option<Session>> {
        glance!(self, [], |read| read.session(session).await)
    }
}
