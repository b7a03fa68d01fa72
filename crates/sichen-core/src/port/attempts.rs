//! What the holders of shards say of their attempts.

use super::{Answer, CheckpointVerdict, Finish, FinishVerdict, Op, SaveCheckpoint, ShardFacts};
use crate::ids::ShardKey;

/// What the holders of shards say of their attempts. A part of [`Store`](super::Store).
pub trait AttemptStore: Send + Sync + 'static {
    /// Shards with their runs, for decisions; missing ones are left out.
    fn get_shards(&self, keys: Vec<ShardKey>) -> Answer<'_, Vec<ShardFacts>>;
    /// Ends attempts as their holders report. Accepted whenever the token is that of the running
    /// attempt, also after the session's expiry. Refused ones are recorded as `report_refused`.
    /// Several holders' ends may share the operation: each is judged by its own [`Finish::by`], and what
    /// follows from it bears its own [`Finish::author`].
    fn finish_attempts(&self, op: Op, items: Vec<Finish>) -> Answer<'_, Vec<FinishVerdict>>;
    /// Stores checkpoints and progress, each a sign that its attempt has not stalled. Stale ones are recorded as `report_refused`.
    /// The operation is recorded only where a checkpoint is among them ([`SaveCheckpoint::is_recorded`]).
    fn save_checkpoints(
        &self,
        op: Op,
        items: Vec<SaveCheckpoint>,
    ) -> Answer<'_, Vec<CheckpointVerdict>>;
}
