//! What the events of runs, shards and backfills carry beside their states.
//!
//! One place, because the checker, the exports and a person's timeline read these fields whichever
//! store wrote them.
//!
//! # Not here
//! The kinds ([`crate::event::Kind`]) and their meaning (`docs/events.md`).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::StopCause;
use super::run::{Birth, Settled};
use super::shard::Committed;
use crate::backfill::Wanted;
use crate::backfill::check::Check;
use crate::capacity::Uses;
use crate::dispatch::preempt::Recall;
use crate::ids::{BackfillId, JobUid, RunId, SessionId, ShardNo};
use crate::model::{Checkpoint, Failure, Progress, Run};
use crate::port::{NewRun, Returned};

/// A run was written.
#[must_use]
pub fn created(new: &NewRun, birth: &Birth) -> Value {
    json!({
        "job": new.job.to_string(), "occasion": new.occasion.key(), "revision": new.revision.0,
        "total": birth.total, "plan": birth.first == ShardNo::PLAN.0,
        "waits": birth.waits.map(|waits| waits.what.word()),
        "most": birth.waits.map(|waits| waits.most),
        "backfill": new.backfill.map(|id| id.0),
    })
}

/// Its turn has come: the run may start from `ready_at` on, now that `after` has closed.
#[must_use]
pub fn released(ready_at: Timestamp, after: Option<RunId>) -> Value {
    json!({ "ready_at": ready_at.as_microsecond(), "after": after.map(|run| run.0) })
}

/// The run is to stop.
#[must_use]
pub fn stop_requested(cause: StopCause, detail: &str) -> Value {
    json!({ "stop": cause.word(), "detail": detail })
}

/// Nothing of the run is open any more.
#[must_use]
pub fn settled(run: &Run, settled: &Settled) -> Value {
    let c = &run.counters;
    json!({
        "total": c.total, "succeeded": c.succeeded, "failed": c.failed, "cancelled": c.cancelled,
        "counts_match": settled.counts_match,
    })
}

/// So many of the run's shards run again, in this round and lane.
#[must_use]
pub fn reopened(round: u32, shards: usize, lane: Option<BackfillId>) -> Value {
    json!({ "round": round, "shards": shards, "backfill": lane.map(|id| id.0) })
}

/// A backfill was asked for.
#[must_use]
pub fn backfill_created(job: JobUid, wanted: &Wanted) -> Value {
    let verify = wanted.verify.as_ref();
    json!({
        "job": job.to_string(),
        "from": wanted.from.as_microsecond(), "to": wanted.to.as_microsecond(),
        "mode": wanted.mode.word(), "order": wanted.order.word(),
        "parallelism": wanted.parallelism, "rate": wanted.rate,
        "verify": verify.map(|verify| json!({ "job": verify.job.as_str(), "rate": verify.rate })),
        "reason": wanted.reason,
    })
}

/// Checks of a backfill's runs have come to these states.
#[must_use]
pub fn checked(checks: &[Check]) -> Value {
    let told = checks.iter().map(|check| {
        let (found, expected) = check.counts.unzip();
        json!({
            "run": check.run.0, "round": check.round, "state": check.state.word(),
            "by": check.by.map(|run| run.0), "found": found, "expected": expected,
        })
    });
    json!({ "checks": told.collect::<Vec<_>>() })
}

/// The plan step has told the run's shards.
#[must_use]
pub fn expanded(total: u32) -> Value {
    json!({ "total": total })
}

/// A shard was leased: to whom, the checkpoint that the attempt begins with, and what it uses.
#[must_use]
pub fn attempt_granted(
    session: SessionId,
    worker: &str,
    checkpoint_seq: u64,
    uses: &Uses,
) -> Value {
    let mut told =
        json!({ "session": session.0, "worker": worker, "checkpoint_seq": checkpoint_seq });
    if !uses.is_empty() {
        told["uses"] = uses.told();
    }
    told
}

/// How much of a checkpoint's position its event tells, in bytes; the shard's row has all of it.
pub const MAX_TOLD_POSITION_BYTES: usize = 256;

/// A shard has come so far.
///
/// The log keeps each checkpoint for as long as the run, up to one a second and shard: of a long position
/// it has the beginning, and its length.
#[must_use]
pub fn checkpoint_saved(checkpoint: &Checkpoint, progress: &Progress) -> Value {
    let position = checkpoint.position.as_str();
    let told = &position[..position.floor_char_boundary(MAX_TOLD_POSITION_BYTES)];
    let mut event = json!({ "seq": checkpoint.seq, "position": told, "done": progress.done });
    if told.len() < position.len() {
        event["bytes"] = json!(position.len());
    }
    event
}

/// An attempt was asked to give its slot up: the `n`th of its run.
#[must_use]
pub fn attempt_recalled(recall: &Recall, n: usize) -> Value {
    json!({
        "by": recall.by.0, "priority": recall.priority, "own": recall.own, "n": n,
        "most": recall.most,
    })
}

/// An attempt of a shard has ended; what it used of capacities counts on until `held_until`, if given.
#[must_use]
pub fn attempt_ended(
    ended: &Committed,
    failure: Option<&Failure>,
    held_until: Option<Timestamp>,
    returned: &Returned,
) -> Value {
    let (code, message) = failure.map_or(("", ""), |f| (f.code.as_str(), f.message.as_str()));
    let end = ended.transition.end.word();
    let mut told = json!({ "end": end, "code": code, "message": message });
    if let Some(failures) = ended.failures {
        // The run's failed attempts, and how many it may have.
        told["budget"] = json!([failures, ended.transition.max_failures]);
    }
    if let Some(until) = held_until {
        told["held_until"] = json!(until.as_microsecond());
    }
    match returned {
        Returned::Nothing => {}
        Returned::Json(text) => told["result"] = json!(text),
        Returned::TooLong(bytes) => told["result_bytes"] = json!(bytes),
    }
    told
}
