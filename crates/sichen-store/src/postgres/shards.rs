//! What holders report about their shards: ends and checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join;
use jiff::Timestamp;
use sichen_core::capacity::held_until;
use sichen_core::dispatch::queue::Place;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{RunId, ShardKey, Token};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Transition;
use sichen_core::lifecycle::{RunState, ShardState, told};
use sichen_core::model::{Failure, Progress, Run, Shard};
use sichen_core::port::{
    CheckpointVerdict, Error, Finish, FinishVerdict, Page, Returned, SaveCheckpoint, ShardFacts,
};
use sichen_core::timeouts;

use super::batch::Batched;
use super::param::params;
use super::row::{ShardRow, at, int, not_before, opt_at, opt_int};
use super::tx::{Happened, Read, Result, Tx};
use super::{capacities, capped, restored, runs, sql};
use crate::happened;

pub(super) async fn get(read: &Read, keys: &[ShardKey]) -> Result<Vec<ShardFacts>> {
    let wanted: BTreeSet<i64> = keys.iter().map(|key| int(key.run.0)).collect();
    let of = keys.iter().map(|key| int(key.run.0)).collect();
    let numbers = keys.iter().map(|key| i64::from(key.no.0)).collect();
    let columns: (Vec<i64>, Vec<i64>) = (of, numbers);
    let shards = read.all(sql::READ_SHARDS, columns, |row| Ok(row.shard()?.shard));
    let wanted = [Vec::from_iter(wanted)];
    let runs = read.all(sql::READ_RUNS, wanted, |row| row.run());
    let (shards, runs) = try_join(shards, runs).await?;
    let shards: BTreeMap<ShardKey, Shard> = shards.into_iter().map(|s| (s.key, s)).collect();
    let runs: BTreeMap<RunId, Run> = runs.into_iter().map(|run| (run.id, run)).collect();
    let facts = keys.iter().filter_map(|key| {
        let shard = shards.get(key)?.clone();
        let run = runs.get(&key.run)?.clone();
        Some(ShardFacts { shard, run })
    });
    Ok(facts.collect())
}

pub(super) async fn list(read: &Read, run: RunId, page: &Page<i32>) -> Result<Vec<Shard>> {
    let after = page.after.unwrap_or(i32::MIN);
    let params = (int(run.0), after, capped(page));
    read.all(sql::LIST_SHARDS, params, |row| Ok(row.shard()?.shard))
        .await
}

pub(super) async fn list_running(read: &Read, run: RunId, limit: u32) -> Result<Vec<Shard>> {
    let Some(row) = read.run_row(run).await? else {
        return Ok(Vec::new());
    };
    let place = Place::of(&row);
    let params = (int(run.0), limit, place.queue, place.turn);
    read.all(sql::LIST_RUNNING, params, |row| Ok(row.shard()?.shard))
        .await
}

pub(super) async fn finish_all(tx: &mut Tx, items: Vec<Finish>) -> Result<Vec<FinishVerdict>> {
    let mut verdicts = Vec::with_capacity(items.len());
    for item in items {
        verdicts.push(finish(tx, item).await?);
        tx.step().await?;
    }
    Ok(verdicts)
}

pub(super) async fn checkpoint_all(
    tx: &mut Tx,
    items: &[SaveCheckpoint],
) -> Result<Vec<CheckpointVerdict>> {
    let mut verdicts = Vec::with_capacity(items.len());
    for item in items {
        verdicts.push(checkpoint(tx, item).await?);
    }
    Ok(verdicts)
}

async fn finish(tx: &mut Tx, f: Finish) -> Result<FinishVerdict> {
    tx.writes_as(f.author.clone());
    let Some(row) = tx.shard(f.key).await? else {
        if restored::get(tx).await?.is_some() {
            let lost = happened::not_current("", &f, Token(0));
            tx.event(&Entity::Shard(f.key), 0, &lost)?;
        }
        return Ok(FinishVerdict::Missing);
    };
    let shard = &row.shard;
    let current = shard.token;
    if f.token != current {
        let refused = happened::not_current(shard.state.word(), &f, current);
        tx.event(&Entity::Shard(f.key), 0, &refused)?;
        return Ok(FinishVerdict::Stale { current });
    }
    if shard.state != ShardState::Running {
        if shard.digest.is_empty() {
            refuse(tx, shard, f.token, "not_running")?;
            return Ok(FinishVerdict::NotRunning);
        }
        if shard.digest == f.digest {
            return Ok(FinishVerdict::Duplicate);
        }
        refuse(tx, shard, f.token, "contradicts")?;
        return Ok(FinishVerdict::Contradicts);
    }
    if let Some(holder) = f.held_in(shard)
        && f.is_foreign(tx.session(holder).await?.as_ref())
    {
        refuse(tx, shard, f.token, "foreign")?;
        return Ok(FinishVerdict::Foreign);
    }
    let ended = Ended {
        transition: f.transition,
        digest: f.digest,
        progress: f.progress,
        failure: f.failure,
        raise_token: false,
        dead_by: None,
        expand: f.expand,
        returned: f.said.returned,
    };
    Ok(FinishVerdict::Accepted(end_attempt(tx, row, ended).await?))
}

/// Records a report that changes nothing.
fn refuse(tx: &mut Tx, shard: &Shard, token: Token, cause: &str) -> Result<()> {
    let refused = happened::refused(shard.state.word(), token, cause);
    tx.event(&Entity::Shard(shard.key), 0, &refused)
}

/// The end of the running attempt of a shard.
pub(super) struct Ended {
    pub transition: Transition,
    pub digest: String,
    pub progress: Option<Progress>,
    pub failure: Option<Failure>,
    pub raise_token: bool,
    /// When its task tree is surely gone; `None` if its worker has confirmed that.
    pub dead_by: Option<Timestamp>,
    pub expand: Option<Vec<Descriptor>>,
    pub returned: Returned,
}

/// Ends the running attempt of a shard; returns the run's outcome if that settled it.
pub(super) async fn end_attempt(
    tx: &mut Tx,
    row: ShardRow,
    ended: Ended,
) -> Result<Option<RunState>> {
    let shard = row.shard;
    let key = shard.key;
    let Some(run) = tx.run_row(key.run).await? else {
        return Err(Error::Corrupt(format!("shard {key} has no run")));
    };
    if let Some(dead_by) = ended.dead_by {
        runs::note_dead_by(tx, key.run, dead_by).await?;
    }
    let committed = ended.transition.committed(&run);
    let transition = committed.transition;
    if let Some(failures) = committed.failures {
        tx.must(sql::COUNT_FAILURE, (int(key.run.0), failures))
            .await?;
        tx.run_changed(key.run);
    }
    let to = transition.to;
    let token = if ended.raise_token {
        shard.token.next(tx.epoch)
    } else {
        shard.token
    };
    let used = shard.used.saturating_sub(u32::from(transition.refund));
    let ready_at = transition.ready_at.unwrap_or(shard.ready_at);
    let progress = ended.progress.unwrap_or(shard.progress);
    let failure = ended.failure.as_ref();
    let ended_at = if to.is_closed() {
        Some(tx.now)
    } else {
        shard.ended_at
    };
    let params = params![
        int(key.run.0),
        key.no.0,
        int(shard.token.0),
        to.word(),
        int(token.0),
        used,
        not_before(ready_at),
        ended.digest,
        int(progress.done),
        opt_int(progress.expected),
        int(progress.rate_milli),
        progress.waiting_on,
        failure.map(|f| f.code.as_str()),
        failure.map(|f| f.message.as_str()),
        ended_at.map(at),
        transition.end.word(),
        tx.is_later(ready_at),
    ];
    tx.gathered(|gathered| gathered.add(Batched::EndAttempt, params));
    tx.shard_changed(key);
    let uses = &run.terms.uses;
    let until = held_until(uses, ended.dead_by, tx.now);
    let data = told::attempt_ended(&committed, failure, until, &ended.returned);
    capacities::end(tx, key, shard.token, uses, until);
    let happened = Happened {
        attempt: Some(shard.attempt),
        token: Some(token),
        cause: transition.end.word(),
        data,
        ..Happened::new(Kind::AttemptEnded, ShardState::Running.word(), to.word())
    };
    tx.event(&Entity::Shard(key), shard.ver + 1, &happened)?;
    if to.is_closed() {
        count_closed(tx, key, to);
    }
    if to == ShardState::Succeeded
        && let Some(descriptors) = ended.expand
    {
        expand(tx, &run, &descriptors).await?;
    }
    if let Some((cause, detail)) = committed.stops_run {
        return runs::stop(tx, key.run, cause, detail).await;
    }
    if !to.is_closed() || run.counters.open > 1 {
        // Something is open still, so there is nothing to settle.
        return Ok(None);
    }
    runs::settle_if_complete(tx, key.run).await
}

fn count_closed(tx: &Tx, key: ShardKey, to: ShardState) {
    // The plan step is no shard of the input: its success counts nothing.
    let succeeded = i64::from(to == ShardState::Succeeded && !key.no.is_plan());
    let failed = i64::from(to == ShardState::Failed);
    let cancelled = i64::from(to == ShardState::Cancelled);
    tx.count_run(key.run, [-1, succeeded, failed, cancelled]);
}

/// Writes the shards that a plan step found.
async fn expand(tx: &mut Tx, run: &Run, descriptors: &[Descriptor]) -> Result<()> {
    let total = u32::try_from(descriptors.len()).unwrap_or(u32::MAX);
    tx.must(sql::EXPAND_RUN, (int(run.id.0), total)).await?;
    tx.run_changed(run.id);
    let data = told::expanded(total);
    let state = run.state.word();
    let happened = Happened {
        data,
        ..Happened::new(Kind::RunExpanded, state, state)
    };
    tx.event(&Entity::Run(run.id), run.ver + 1, &happened)?;
    let place = Place::of(run);
    runs::insert_shards(tx, place, &run.terms.pool, 0, descriptors, tx.now).await?;
    if let Some((cause, _)) = run.stop {
        runs::stop_waiting(tx, run, cause).await?;
    }
    Ok(())
}

async fn checkpoint(tx: &mut Tx, c: &SaveCheckpoint) -> Result<CheckpointVerdict> {
    let Some(row) = tx.shard(c.key).await? else {
        return Ok(CheckpointVerdict::Stale { current: Token(0) });
    };
    let shard = row.shard;
    let current = shard.token;
    if c.token != current || shard.state != ShardState::Running {
        refuse(tx, &shard, c.token, c.token.refused_as(current))?;
        return Ok(CheckpointVerdict::Stale { current });
    }
    if shard.session != Some(c.session) || tx.session_over(c.session).await? {
        refuse(tx, &shard, c.token, "session_over")?;
        return Ok(CheckpointVerdict::SessionOver);
    }
    let (run, no, token) = (int(c.key.run.0), c.key.no.0, int(current.0));
    let p = &c.progress;
    let (done, expected, rate) = (int(p.done), opt_int(p.expected), int(p.rate_milli));
    let waiting_on = p.waiting_on.as_str();
    let sign = opt_at(timeouts::after_sign(&shard, c.idle, tx.now));
    let Some(checkpoint) = &c.checkpoint else {
        let params = (run, no, token, done, expected, rate, waiting_on, sign);
        tx.must(sql::SAVE_PROGRESS, params).await?;
        tx.shard_changed(c.key);
        return Ok(CheckpointVerdict::Saved);
    };
    if int(checkpoint.seq) <= int(shard.checkpoint.seq) {
        return Ok(CheckpointVerdict::Old);
    }
    let position = checkpoint.position.as_str();
    let seq = int(checkpoint.seq);
    let params = (
        run, no, token, seq, position, done, expected, rate, waiting_on, sign,
    );
    tx.must(sql::SAVE_CHECKPOINT, params).await?;
    tx.shard_changed(c.key);
    let data = told::checkpoint_saved(checkpoint, p);
    let state = ShardState::Running.word();
    let happened = Happened {
        attempt: Some(shard.attempt),
        token: Some(current),
        data,
        ..Happened::new(Kind::CheckpointSaved, state, state)
    };
    tx.event(&Entity::Shard(c.key), shard.ver + 1, &happened)?;
    Ok(CheckpointVerdict::Saved)
}
