//! What the holders of shards say of their attempts.

use sichen_core::ids::ShardKey;
use sichen_core::port::{
    Answer, AttemptStore, CheckpointVerdict, Finish, FinishVerdict, Op, SaveCheckpoint, ShardFacts,
};

use super::super::state::Tx;
use super::super::{MemoryStore, shards};

impl AttemptStore for MemoryStore {
    fn get_shards(&self, keys: Vec<ShardKey>) -> Answer<'_, Vec<ShardFacts>> {
        bounded!(keys);
        self.read(move |s, _| {
            let facts = |key: &ShardKey| {
                let shard = s.shards.get(key)?.shard.clone();
                Some(ShardFacts {
                    shard,
                    run: s.runs.get(&key.run)?.clone(),
                })
            };
            keys.iter().filter_map(facts).collect()
        })
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
        Box::pin(async move {
            let (mut state, now) = self.lock();
            if recorded {
                state.ops.insert(op.id);
            }
            let mut tx = Tx {
                state: &mut state,
                now,
                op,
                author: None,
                duty: None,
            };
            let saved = items.into_iter().map(|c| shards::checkpoint(&mut tx, c));
            Ok(saved.collect())
        })
    }
}
