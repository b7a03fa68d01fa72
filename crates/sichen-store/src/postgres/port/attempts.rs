//! What the holders of shards say of their attempts.

use sichen_core::ids::ShardKey;
use sichen_core::port::{
    Answer, AttemptStore, CheckpointVerdict, Finish, FinishVerdict, Op, SaveCheckpoint, ShardFacts,
};

use super::super::kept::Locks;
use super::super::{PostgresStore, shards};

impl AttemptStore for PostgresStore {
    fn get_shards(&self, keys: Vec<ShardKey>) -> Answer<'_, Vec<ShardFacts>> {
        bounded!(keys);
        read!(self, [keys], |read| shards::get(read, &keys).await)
    }
    fn finish_attempts(&self, op: Op, items: Vec<Finish>) -> Answer<'_, Vec<FinishVerdict>> {
        bounded!(items);
        write!(self, Some(op), [items], |tx| {
            let keys = items.iter().map(|item| item.key).collect();
            tx.lock(&Locks {
                closing: true,
                ..Locks::of_shards(keys)
            })
            .await?;
            shards::finish_all(tx, items).await
        })
    }
    fn save_checkpoints(
        &self,
        op: Op,
        items: Vec<SaveCheckpoint>,
    ) -> Answer<'_, Vec<CheckpointVerdict>> {
        bounded!(items);
        let recorded = items.iter().any(SaveCheckpoint::is_recorded);
        write!(self, recorded.then(|| op.clone()), [op, items], |tx| {
            tx.named(op);
            tx.lock(&Locks {
                shards: items.iter().map(|item| item.key).collect(),
                sessions: items.iter().map(|item| item.session).collect(),
                ..Locks::default()
            })
            .await?;
            shards::checkpoint_all(tx, &items).await
        })
    }
}
