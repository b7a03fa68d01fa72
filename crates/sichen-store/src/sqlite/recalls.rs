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

pub(super) fn list(read: &Read<'_>, runs: &[RunId]) -> Result<Vec<Recalled>> {
    let mut found = Vec::new();
    for run in runs {
        found.extend(read.all(sql::LIST_RECALLS, [int(run.0)], |row| row.recalled())?);
    }
    Ok(found)
}

pub(super) fn write(
    tx: &mut Tx<'_>,
    fence: &Fence,
    recalls: &[Recall],
) -> Result<Vec<RecallVerdict>> {
    let current = tx.under(fence)?;
    let mut verdicts = Vec::with_capacity(recalls.len());
    for recall in recalls {
        let right = match tx.run_row(recall.key.run)? {
            Some(run) => fence.key == DutyKey::Pool(run.terms.pool),
            None => false,
        };
        verdicts.push(if current && right {
            write_one(tx, recall)?
        } else {
            RecallVerdict::OldTerm
        });
    }
    Ok(verdicts)
}

fn write_one(tx: &mut Tx<'_>, recall: &Recall) -> Result<RecallVerdict> {
    let of_run = list(tx, &[recall.key.run])?;
    let row = tx.shard(recall.key)?;
    let verdict = recall.judge(row.as_ref().map(|row| &row.shard), &of_run);
    let (Some(row), RecallVerdict::Recalled) = (row, verdict) else {
        return Ok(verdict);
    };
    let (run, no, token) = (int(recall.key.run.0), recall.key.no.0, int(recall.token.0));
    tx.must(sql::NOTE_RECALL, (run, no, token))?;
    let recalled = recall.recorded(tx.now);
    let (by, since) = (int(recalled.by.0), at(recalled.at));
    tx.must(
        sql::INSERT_RECALL,
        (run, no, token, by, recalled.priority, since),
    )?;
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
