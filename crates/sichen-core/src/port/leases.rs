//! Shards on their way to a worker and, if it is lost, back.

use jiff::{SignedDuration, Timestamp};

use super::{Answer, Fence, Grant, GrantVerdict, Op, Overdue, ReadyHead, Reap, ReapVerdict};
use crate::dispatch::preempt::{Recall, RecallVerdict, Recalled};
use crate::dispatch::queue::{Place, Window};
use crate::ids::{RunId, SessionId};
use crate::model::Shard;
use crate::name::Name;

/// Shards on their way to a worker and, if it is lost, back. A part of [`Store`](super::Store).
pub trait LeaseStore: Send + Sync + 'static {
    /// For open runs of the pool that are not being stopped, in the order of their places behind
    /// `after`, as many as `window` shows ([`crate::dispatch::queue`]): the first `per_run` ready
    /// shards. Only those with ready shards.
    fn list_ready(
        &self,
        pool: Name,
        after: Place,
        window: Window,
        per_run: u32,
    ) -> Answer<'_, Vec<ReadyHead>>;
    /// When the first waiting shard of the pool that is not ready at `after` becomes ready. To be asked
    /// with the instant before the ready ones were listed, so that none falls between.
    fn next_ready_at(&self, pool: Name, after: Timestamp) -> Answer<'_, Option<Timestamp>>;
    /// Grants what still holds.
    fn lease_shards(
        &self,
        op: Op,
        fence: Fence,
        grants: Vec<Grant>,
    ) -> Answer<'_, Vec<GrantVerdict>>;
    /// Running shards of the pool whose session is over or whose timeout passed `grace` ago.
    fn list_overdue(
        &self,
        pool: Name,
        grace: SignedDuration,
        limit: u32,
    ) -> Answer<'_, Vec<Overdue>>;
    /// Ends attempts from outside and raises their tokens.
    fn reap_shards(&self, op: Op, fence: Fence, reaps: Vec<Reap>) -> Answer<'_, Vec<ReapVerdict>>;
    /// Records that running shards of the fence's pool are asked to give their slots up
    /// ([`Recall::judge`]); the attempts go on. Each is on record once an attempt, so that a second call is
    /// [`RecallVerdict::Already`].
    fn recall_shards(
        &self,
        op: Op,
        fence: Fence,
        recalls: Vec<Recall>,
    ) -> Answer<'_, Vec<RecallVerdict>>;
    /// What is on record of those that were asked, of these runs.
    fn list_recalls(&self, runs: Vec<RunId>) -> Answer<'_, Vec<Recalled>>;
    /// What is on record of those that were asked for this run, by shard, at most `limit`.
    fn list_recalls_for(&self, by: RunId, limit: u32) -> Answer<'_, Vec<Recalled>>;
    /// Shards that a session holds.
    fn list_leases(&self, session: SessionId) -> Answer<'_, Vec<Shard>>;
}
