//! What holders report about their shards: ends and checkpoints.

use jiff::Timestamp;
use sichen_core::capacity::held_until;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{ShardKey, Token};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Transition;
use sichen_core::lifecycle::{RunState, ShardState, told};
use sichen_core::model::{Failure, Progress};
use sichen_core::port::{CheckpointVerdict, Finish, FinishVerdict, Returned, SaveCheckpoint};
use sichen_core::timeouts;
use sichen_core::zoo;

use super::state::{Happened, Tx};
use super::{capacities, runs};
use crate::happened;

pub(super) fn finish(tx: &mut Tx<'_>, f: Finish) -> FinishVerdict {
    tx.author.clone_from(&f.author);
    let Some(row) = tx.state.shards.get(&f.key) else {
        if tx.state.restore.is_some() {
            let lost = happened::not_current("", &f, Token(0));
            tx.event(Entity::Shard(f.key), 0, lost);
        }
        return FinishVerdict::Missing;
    };
    let shard = &row.shard;
    let current = shard.token;
    if f.token != current && !zoo::is("stale-finish-accepted") {
        let refused = happened::not_current(shard.state.word(), &f, current);
        tx.event(Entity::Shard(f.key), 0, refused);
        return FinishVerdict::Stale { current };
    }
    let again = zoo::is("finish-not-idempotent") && shard.digest == f.digest;
    if shard.state != ShardState::Running && !again {
        if shard.digest.is_empty() {
            refuse(tx, f.key, f.token, "not_running");
            return FinishVerdict::NotRunning;
        }
        if shard.digest == f.digest {
            return FinishVerdict::Duplicate;
        }
        refuse(tx, f.key, f.token, "contradicts");
        return FinishVerdict::Contradicts;
    }
    if let Some(holder) = f.held_in(shard)
        && !zoo::is("stale-finish-accepted")
        && f.is_foreign(tx.state.sessions.get(&holder))
    {
        refuse(tx, f.key, f.token, "foreign");
        return FinishVerdict::Foreign;
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
    FinishVerdict::Accepted(end_attempt(tx, f.key, ended))
}

/// Records a report that changes nothing.
pub(super) fn refuse(tx: &mut Tx<'_>, key: ShardKey, token: Token, cause: &str) {
    let shard = tx.state.shards.get(&key);
    let state = shard.map_or("", |row| row.shard.state.word());
    let refused = happened::refused(state, token, cause);
    tx.event(Entity::Shard(key), 0, refused);
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

/// Ends the running attempt of `key`; returns the run's outcome if that settled it.
pub(super) fn end_attempt(tx: &mut Tx<'_>, key: ShardKey, ended: Ended) -> Option<RunState> {
    let now = tx.now;
    let run = tx.state.runs.get_mut(&key.run)?;
    run.dead_by = run.dead_by.max(ended.dead_by);
    let committed = ended.transition.committed(run);
    let transition = committed.transition;
    run.failures = committed.failures.unwrap_or(run.failures);
    let uses = run.terms.uses.clone();
    let to = transition.to;
    let row = tx.state.shards.get_mut(&key)?;
    row.last_end = Some(transition.end);
    let shard = &mut row.shard;
    let holder = shard.session.take();
    shard.state = to;
    shard.ver += 1;
    (shard.timeout_at, shard.attempt_until, shard.stall) = (None, None, None);
    shard.digest = ended.digest;
    let held_under = shard.token;
    if ended.raise_token {
        shard.token = shard.token.next(tx.state.epoch);
    }
    if transition.refund {
        shard.used = shard.used.saturating_sub(1);
    }
    if let Some(ready_at) = transition.ready_at {
        shard.ready_at = ready_at;
    }
    if let Some(progress) = ended.progress {
        shard.progress = progress;
    }
    shard.failure = ended.failure;
    if to.is_closed() {
        shard.ended_at = Some(now);
    }
    let (ver, attempt, token) = (shard.ver, shard.attempt, shard.token);
    let failure = shard.failure.clone();
    if let Some(held) = holder.and_then(|s| tx.state.holders.get_mut(&s)) {
        held.remove(&key);
    }
    let until = held_until(&uses, ended.dead_by, now);
    let data = told::attempt_ended(&committed, failure.as_ref(), until, &ended.returned);
    capacities::end(tx, key, held_under, &uses, until);
    let happened = Happened {
        attempt: Some(attempt),
        token: Some(token),
        cause: transition.end.word(),
        data,
        ..Happened::new(Kind::AttemptEnded, ShardState::Running.word(), to.word())
    };
    tx.event(Entity::Shard(key), ver, happened);
    if to.is_closed() {
        count_closed(tx, key, to);
    }
    if to == ShardState::Succeeded
        && let Some(descriptors) = ended.expand
    {
        expand(tx, key, descriptors);
    }
    if let Some((cause, detail)) = committed.stops_run {
        return runs::stop(tx, key.run, cause, detail);
    }
    runs::settle_if_complete(tx, key.run)
}

fn count_closed(tx: &mut Tx<'_>, key: ShardKey, to: ShardState) {
    let Some(run) = tx.state.runs.get_mut(&key.run) else {
        return;
    };
    let c = &mut run.counters;
    // A count below none is caught at once, by a panic that names no seed.
    let counted = !zoo::is("finish-not-idempotent") || c.open > 0;
    c.open -= u32::from(counted);
    match to {
        // The plan step is no shard of the input: its success counts nothing.
        ShardState::Succeeded => c.succeeded += u32::from(!key.no.is_plan()),
        ShardState::Failed => c.failed += 1,
        ShardState::Cancelled => c.cancelled += 1,
        ShardState::Scheduled | ShardState::Running | ShardState::Retry => {}
    }
}

/// Writes the shards that a plan step found.
fn expand(tx: &mut Tx<'_>, plan: ShardKey, descriptors: Vec<Descriptor>) {
    let total = u32::try_from(descriptors.len()).unwrap_or(u32::MAX);
    let now = tx.now;
    let Some(run) = tx.state.runs.get_mut(&plan.run) else {
        return;
    };
    run.counters.total = total;
    run.counters.open += total;
    run.ver += 1;
    let (ver, state, stop) = (run.ver, run.state.word(), run.stop);
    let data = told::expanded(total);
    let happened = Happened {
        data,
        ..Happened::new(Kind::RunExpanded, state, state)
    };
    tx.event(Entity::Run(plan.run), ver, happened);
    runs::insert_shards(tx, plan.run, 0, &descriptors, now);
    if let Some((cause, _)) = stop {
        runs::stop_waiting(tx, plan.run, cause);
    }
}

pub(super) fn checkpoint(tx: &mut Tx<'_>, c: SaveCheckpoint) -> CheckpointVerdict {
    let Some(row) = tx.state.shards.get(&c.key) else {
        return CheckpointVerdict::Stale { current: Token(0) };
    };
    let current = row.shard.token;
    if c.token != current || row.shard.state != ShardState::Running {
        refuse(tx, c.key, c.token, c.token.refused_as(current));
        return CheckpointVerdict::Stale { current };
    }
    let over = row.shard.session != Some(c.session) || tx.state.session_over(c.session, tx.now);
    if over {
        refuse(tx, c.key, c.token, "session_over");
        return CheckpointVerdict::SessionOver;
    }
    let Some(row) = tx.state.shards.get_mut(&c.key) else {
        return CheckpointVerdict::Stale { current };
    };
    let shard = &mut row.shard;
    let sign = timeouts::after_sign(shard, c.idle, tx.now);
    let Some(checkpoint) = c.checkpoint else {
        shard.progress = c.progress;
        shard.timeout_at = sign;
        return CheckpointVerdict::Saved;
    };
    if checkpoint.seq <= shard.checkpoint.seq && !zoo::is("checkpoint-moves-back") {
        return CheckpointVerdict::Old;
    }
    shard.progress = c.progress;
    shard.timeout_at = sign;
    shard.checkpoint = checkpoint;
    shard.ver += 1;
    let (ver, attempt) = (shard.ver, shard.attempt);
    let data = told::checkpoint_saved(&shard.checkpoint, &shard.progress);
    let state = ShardState::Running.word();
    let happened = Happened {
        attempt: Some(attempt),
        token: Some(current),
        data,
        ..Happened::new(Kind::CheckpointSaved, state, state)
    };
    tx.event(Entity::Shard(c.key), ver, happened);
    CheckpointVerdict::Saved
}
