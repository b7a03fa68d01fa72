//! Running shards that are asked to give their slots up.

use sichen_core::dispatch::preempt::{Recall, RecallVerdict, Recalled};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{RunId, ShardKey, Token};
use sichen_core::lifecycle::{ShardState, told};
use sichen_core::model::DutyKey;
use sichen_core::port::Fence;

use super::state::{Happened, State, Tx};

pub(super) fn list(state: &State, run: RunId) -> impl Iterator<Item = &Recalled> {
    let (first, last) = (ShardKey::new(run, i32::MIN), ShardKey::new(run, i32::MAX));
    let of = state
        .recalls
        .range((first, Token(0))..=(last, Token(u64::MAX)));
    of.map(|(_, recalled)| recalled)
}

pub(super) fn write(tx: &mut Tx<'_>, fence: &Fence, recalls: Vec<Recall>) -> Vec<RecallVerdict> {
    let current = tx.under(fence);
    let one = |recall| write_one(tx, fence, current, recall);
    recalls.into_iter().map(one).collect()
}

fn write_one(tx: &mut Tx<'_>, fence: &Fence, current: bool, recall: Recall) -> RecallVerdict {
    let run = tx.state.runs.get(&recall.key.run);
    let right = run.is_some_and(|run| fence.key == DutyKey::Pool(run.terms.pool.clone()));
    if !current || !right {
        return RecallVerdict::OldTerm;
    }
    let of_run: Vec<Recalled> = list(tx.state, recall.key.run).copied().collect();
    let row = tx.state.shards.get_mut(&recall.key);
    let verdict = recall.judge(row.as_ref().map(|row| &row.shard), &of_run);
    let (Some(row), RecallVerdict::Recalled) = (row, verdict) else {
        return verdict;
    };
    row.shard.ver += 1;
    let (ver, attempt) = (row.shard.ver, row.shard.attempt);
    let recalled = recall.recorded(tx.now);
    tx.state
        .recalls
        .insert((recall.key, recall.token), recalled);
    let state = ShardState::Running.word();
    let happened = Happened {
        attempt: Some(attempt),
        token: Some(recall.token),
        data: told::attempt_recalled(&recall, of_run.len() + 1),
        ..Happened::new(Kind::AttemptRecalled, state, state)
    };
    tx.event(Entity::Shard(recall.key), ver, happened);
    verdict
}
