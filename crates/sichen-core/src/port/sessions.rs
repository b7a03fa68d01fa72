//! Workers' sessions.

use jiff::SignedDuration;

use super::{Answer, Fence, Op, Register, RegisterVerdict, RenewVerdict};
use crate::ids::SessionId;
use crate::model::Session;
use crate::name::Name;

/// Workers' sessions. A part of [`Store`](super::Store).
pub trait SessionStore: Send + Sync + 'static {
    /// Registers a worker (see [`Register`]), unless it has registered since it asked: then
    /// nothing is changed. Sessions that ended count as well ([`crate::lease::is_outdated`]).
    fn register_session(&self, op: Op, register: Register) -> Answer<'_, RegisterVerdict>;
    /// Takes beats; a session that has expired is never renewed.
    fn renew_sessions(
        &self,
        sessions: Vec<SessionId>,
        ttl: SignedDuration,
    ) -> Answer<'_, Vec<RenewVerdict>>;
    /// A session takes no new work from now on.
    fn drain_session(&self, session: SessionId) -> Answer<'_, ()>;
    /// Ends a session (`drained`, or `expired` by the reaper under `fence`, which must then be
    /// past its expiry). False if it was over already, or is not.
    fn end_session(
        &self,
        op: Op,
        fence: Option<Fence>,
        session: SessionId,
        cause: String,
    ) -> Answer<'_, bool>;
    /// Sessions of a pool (or all) that are not ended, with the number of shards each holds
    /// (counted from the shards, never a counter of its own).
    fn list_sessions(&self, pool: Option<Name>) -> Answer<'_, Vec<(Session, u32)>>;
    /// A session, ended or not.
    fn get_session(&self, session: SessionId) -> Answer<'_, Option<Session>>;
}
