//! Shards and their attempts on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Progress as workers count it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Items done so far, over all attempts.
    pub done: u64,
    /// Items expected in all, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// Items per second, times 1,000.
    pub rate_milli: u64,
    /// What is waited on, such as `mysql-main`; empty if nothing.
    pub waiting_on: String,
}

/// A shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Shard {
    /// Its run.
    pub run: u64,
    /// Its number, from 0; −1 is the plan step.
    pub no: i32,
    /// What it has to do.
    pub part: Part,
    /// `scheduled`, `running`, `retry`, `succeeded`, `failed` or `cancelled`.
    pub state: String,
    /// Its fencing token; 0 before the first grant.
    pub token: u64,
    /// Attempts started so far.
    pub attempt: u32,
    /// Attempts that began after an earlier one was lost.
    pub takeovers: u32,
    /// Not to be granted before.
    pub ready_at: String,
    /// The session that holds it, while running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// When the running attempt must have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_at: Option<String>,
    /// Newest checkpoint that was reported. For display: where it lives with the data, that one is
    /// the truth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
    /// Newest progress.
    pub progress: Progress,
    /// The last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Start of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// When it was struck off the dead letters, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded_at: Option<String>,
}

/// What a shard has to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// All of it.
    Whole,
    /// Its share by number.
    Index,
    /// Keys `from <= key < to`; instants in microseconds since 1970.
    Range {
        /// First key.
        from: i64,
        /// First key outside.
        to: i64,
    },
    /// One named item.
    Item(String),
    /// The plan step: one query for the bounds.
    Plan {
        /// A data source of the worker's configuration.
        data_source: String,
        /// The query.
        sql: String,
    },
}

/// Up to where a shard is reliably complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Checkpoint {
    /// Its number, from 1.
    pub seq: u64,
    /// The position, opaque here.
    pub position: String,
}

/// Why an attempt did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    /// A short code, such as `exit-1`, `panic`, `session-over`; retry rules go by it.
    pub code: String,
    /// For people.
    pub message: String,
}

/// A page of shards, by number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ShardPage {
    /// The shards.
    pub items: Vec<Shard>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One try of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// Counted from 1.
    pub number: u32,
    /// The fencing token that it held.
    pub token: u64,
    /// The session that held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// The worker's name.
    pub worker: String,
    /// `succeeded`, `failed`, `timed_out`, `lost`, `cancelled` or `released`; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The number of the checkpoint that it started from; 0 for none.
    pub from_checkpoint: u64,
    /// The number of its newest checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<u64>,
    /// Items done at that checkpoint, over all attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Reports of it that were refused, because its token was old by then.
    pub refused_reports: u32,
    /// When it was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// What it returned: JSON, as the worker wrote it, at most 4,096 bytes. Absent if it returned nothing, or
    /// more than that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// How many bytes it returned, where they were too many to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
}

/// The attempts of a shard, oldest first, as its events tell them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempts {
    /// The attempts.
    pub items: Vec<Attempt>,
}

/// Why a run, or one of its shards, is where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The run's number.
    pub id: u64,
    /// The run's key.
    pub key: String,
    /// The run's state, or that of the shard that was asked about.
    pub state: String,
    /// The nearest cause first; never empty.
    pub reasons: Vec<Why>,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// `closed`, `stopping`, `running`, `backoff`, `not_yet`, `restore`, `no_owner`, `absent`, `parallelism`,
    /// `job`, `namespace`, `no_worker`, `no_handler`, `no_label`, `too_large`, `draining`, `no_slot`, `resources`,
    /// `dispatching`, `settling`, `preempted` or `preempting`.
    pub word: String,
    /// For people.
    pub text: String,
    /// How many shards it is the reason of; 0 if it is the run's alone.
    #[serde(default)]
    pub shards: u32,
    /// Since when the first of those has waited, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What ends the wait.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ends: String,
}
