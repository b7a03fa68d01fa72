//! What the events of a run carry beside its states.
//!
//! One place, because the checker, the exports and a person's timeline read these fields whichever
//! store wrote them.
//!
//! # Not here
//! The kinds ([`crate::event::Kind`]) and their meaning (`docs/events.md`).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Birth, Settled};
use crate::ids::{BackfillId, RunId, ShardNo};
use crate::lifecycle::StopCause;
use crate::model::Run;
use crate::port::NewRun;

/// It was written.
#[must_use]
pub fn created(new: &NewRun, birth: &Birth) -> Value {
    json!({
        "job": new.job.to_string(), "occasion": new.occasion.key(), "revision": new.revision.0,
        "total": birth.total, "plan": birth.first == ShardNo::PLAN.0,
        "waits": birth.waits.map(|waits| waits.what.word()),
        "backfill": new.backfill.map(|id| id.0),
    })
}

/// Its turn has come: it may start from `ready_at` on, now that `after` has closed.
#[must_use]
pub fn released(ready_at: Timestamp, after: Option<RunId>) -> Value {
    json!({ "ready_at": ready_at.as_microsecond(), "after": after.map(|run| run.0) })
}

/// It is to stop.
#[must_use]
pub fn stop_requested(cause: StopCause, detail: &str) -> Value {
    json!({ "stop": cause.word(), "detail": detail })
}

/// Nothing of it is open any more.
#[must_use]
pub fn settled(run: &Run, settled: &Settled) -> Value {
    let c = &run.counters;
    json!({
        "total": c.total, "succeeded": c.succeeded, "failed": c.failed, "cancelled": c.cancelled,
        "counts_match": settled.counts_match,
    })
}

/// So many of its shards run again, in this round and lane.
#[must_use]
pub fn reopened(round: u32, shards: usize, lane: Option<BackfillId>) -> Value {
    json!({ "round": round, "shards": shards, "backfill": lane.map(|id| id.0) })
}
