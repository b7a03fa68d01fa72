//! What was seen to happen in a demo, as the report tells it.

use serde::Serialize;

/// A shard that went on under another worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Takeover {
    pub shard: i32,
    pub attempt: u32,
    pub token: u64,
    pub worker: String,
    pub pid: u32,
    /// Where it went on: behind this id.
    pub resumed_after: i64,
    /// What the business database held.
    pub checkpoint: Option<i64>,
    /// What Sichen's copy said at the grant; may be older.
    pub display: Option<i64>,
}

/// A write that the business database refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedWrite {
    pub worker: String,
    pub pid: u32,
    pub shard: i32,
    pub token: u64,
    /// Last id of the batch; absent for a refused `open`.
    pub last_id: Option<i64>,
    /// The database's own error.
    pub database: String,
}

/// A worker that was killed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Killed {
    pub worker: String,
    pub pid: u32,
    pub shard: i32,
    /// Committed in the business database when it was killed.
    pub checkpoint: Option<i64>,
    /// What Sichen knew of it.
    pub display: Option<i64>,
}

/// A worker that was frozen between reading a batch and committing it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frozen {
    pub worker: String,
    pub pid: u32,
    pub shard: i32,
    pub token: u64,
    pub last_id: i64,
    /// From SIGSTOP to SIGCONT.
    pub frozen_ms: u64,
    /// The token that had opened the fence meanwhile.
    pub taken_over_by: u64,
    /// Whether its commit was accepted after all: must be false, unless nobody had opened the
    /// fence since.
    pub committed_late: bool,
}

/// One run, as it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunFacts {
    pub key: String,
    pub state: String,
    pub shards: u32,
    pub first_id: i64,
    pub last_id: i64,
    pub took_ms: u64,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Facts {
    pub runs: Vec<RunFacts>,
    pub killed: Option<Killed>,
    pub frozen: Option<Frozen>,
    pub takeovers: Vec<Takeover>,
    pub refused_writes: Vec<RefusedWrite>,
    /// Ids of the entries that came while the first run was at work.
    pub late_entries: Vec<i64>,
    /// The one among them with an id that the run had passed already.
    pub late_low_id: Option<i64>,
}
