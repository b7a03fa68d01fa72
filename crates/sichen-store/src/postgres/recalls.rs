//! Running shards that are asked to give their slots up.

use sichen_core::dispatch::preempt::{Recall, RecallVerdict, Recalled};
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::RunId;
use sichen_core::lifecycle::{ShardState, told};
use sichen_core::model::DutyKey;
use sichen_core::port::Fence;

use super::row::{at, int};
use super::sql;
use super::tx::{Happened, Read, Result, Tx};

pub(super) async fn list(read: &Read, runs: &[RunId]) -> Result<Vec<Recalled>> {
    let runs: Vec<i64> = runs.iter().map(|run| int(run.0)).collect();
    read.all(sql::LIST_RECALLS, [runs], |row| row.recalled())
        .await
}

pub(super) async fn list_for(read: &Read, by: RunId, limit: u32) -> Result<Vec<Recalled>> {
    let params = (int(by.0), limit);
    read.all(sql::LIST_RECALLS_FOR, params, |row| row.recalled())
        .await
}

pub(super) async fn write(
    tx: &mut Tx,
    fence: &Fence,
    recalls: &[Recall],
) -> Result<Vec<RecallVerdict>> {
    let current = tx.under(fence).await?;
    let mut verdicts = Vec::with_capacity(recalls.len());
    for recall in recalls {
        let right = match tx.run_row(recall.key.run).await? {
            Some(run) => fence.key == DutyKey::Pool(run.terms.pool.clone()),
            None => false,
        };
        verdicts.push(if current && right {
            write_one(tx, recall).await?
        } else {
            RecallVerdict::OldTerm
        });
        tx.step().await?;
    }
    Ok(verdicts)
}

async fn write_one(tx: &mut Tx, recall: &Recall) -> Result<RecallVerdict> {
    let of_run = list(tx, &[recall.key.run]).await?;
    let row = tx.shard(recall.key).await?;
    let verdict = recall.judge(row.as_ref().map(|row| &row.shard), &of_run);
    let (Some(row), RecallVerdict::Recalled) = (row, verdict) else {
        return Ok(verdict);
    };
    let (run, no, token) = (int(recall.key.run.0), recall.key.no.0, int(recall.token.0));
    tx.must(sql::NOTE_RECALL, (run, no, token)).await?;
    tx.shard_changed(recall.key);
    let recalled = recall.recorded(tx.now);
    let (by, since) = (int(recalled.by.0), at(recalled.at));
    let params = (run, no, token, by, recalled.priority, since);
    tx.must(sql::INSERT_RECALL, params).await?;
    let state = ShardState::Running.word();
    let happened = Happened {
        attempt: Some(row.shard.attempt),
        token: Some(recall.token),
        data: told::attempt_recalled(recall, of_run.len() + 1),
        ..Happened::new(Kind::AttemptRecalled, state, state)
    };
    tx.event(&Entity::Shard(recall.key), row.shard.ver + 1, &happened)?;
    Ok(verdict)
}
