//! What the holders of shards say of their attempts.

use sichen_core::ids::ShardKey;
use sichen_core::port::{
    Answer, AttemptStore, CheckpointVerdict, Finish, FinishVerdict, Op, SaveCheckpoint, ShardFacts,
};

use super::super::{SqliteStore, shards};

impl AttemptStore for SqliteStore {
    fn get_shards(&self, keys: Vec<ShardKey>) -> Answer<'_, Vec<ShardFacts>> {
        bounded!(keys);
        self.read(move |r| shards::get(r, &keys))
    }
    fn finish_attempts(&self, op: Op, items: Vec<Finish>) -> Answer<'_, Vec<FinishVerdict>> {
        bounded!(items);
        self.write(op, move |tx| {
            items.into_iter().map(|f| shards::finish(tx, f)).collect()
        })
    }
    fn save_checkpoints(
        &self,
        op: Op,
        items: Vec<SaveCheckpoint>,
    ) -> Answer<'_, Vec<CheckpointVerdict>> {
        bounded!(items);
        let recorded = items.iter().any(SaveCheckpoint::is_recorded);
        self.engine.write(recorded.then(|| op.clone()), move |tx| {
            tx.named(op);
            items.iter().map(|c| shards::checkpoint(tx, c)).collect()
        })
    }
}
