//! Runs on the wire.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sichen_core::document::OverlapSpec;
use utoipa::ToSchema;

use super::{Decision, Problem, Progress};

/// The body of `POST /jobs/{namespace}/{name}/runs`. Exactly one of `planned_at` and `key` (or the
/// header `Idempotency-Key`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    /// A planned instant of the past or present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_at: Option<String>,
    /// Idempotency key, 1 to 128 bytes: the same key again finds the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Parameters that take the place of the document's.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub parameters: Map<String, Value>,
    /// The period that the run stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// What happens if as many runs of the job are active as may be; it starts beside them if left
    /// out. As in a document: `forbid` (refused, 409), `replace`, `queue: {limit}`, `allow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    pub overlap: Option<OverlapSpec>,
    /// Not to start before this instant (RFC 3339); at once if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
}

/// Many runs of one job that are to be started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartRuns {
    /// Each by its planned instant or key; 1 to 1,000.
    pub runs: Vec<StartRun>,
}

/// The answers to [`StartRuns`], in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartedRuns {
    /// One for each: the run, or why there is none.
    pub runs: Vec<StartedOrProblem>,
}

/// What became of one of many wanted runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum StartedOrProblem {
    /// It is there.
    Started(StartedRun),
    /// It is not; its neighbours are not touched by this.
    Problem(Problem),
}

/// What a pause or a resume would do now. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Preview {
    /// Whether the job is paused: then it is a resume that is shown.
    pub paused: bool,
    /// Planned times that would get a run, oldest first, at most 1,000.
    pub runs: Vec<String>,
    /// How many they are.
    pub run_count: u64,
    /// What would be recorded as not run, oldest first, at most 1,000.
    pub decisions: Vec<Decision>,
    /// How many planned times that is.
    pub skip_count: u64,
    /// The next planned time after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
}

/// A planned period, half open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Period {
    /// Start, included.
    pub start: String,
    /// End, not included.
    pub end: String,
}

/// The answer to a started run: 201 if it was written now, 200 if it was there already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartedRun {
    /// The run's number.
    pub id: u64,
    /// The run's key, such as `daily-settlement:2026-08-30T00:00:00+08:00`.
    pub key: String,
    /// Whether it was written now.
    pub created: bool,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    /// Its number.
    pub id: u64,
    /// Its key, such as `daily-settlement:2026-08-30T00:00:00+08:00`.
    pub key: String,
    /// Its trace id (W3C Trace Context): what its attempts get as `TRACEPARENT` begins with it.
    #[serde(default)]
    pub trace_id: String,
    /// Its job's identity.
    pub job_uid: String,
    /// Its job's namespace.
    pub namespace: String,
    /// Its job's name.
    pub job: String,
    /// The job's revision that it uses.
    pub revision: u32,
    /// The planned instant, unless it was started by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_at: Option<String>,
    /// The period that it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// What it stands for in the words of its schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal: Option<Nominal>,
    /// The backfill in whose lane it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backfill: Option<u64>,
    /// What it waits for before it may start: `queue` (its place) or `replaced` (the end of those
    /// that it replaces).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// `scheduled`, `running`, `succeeded`, `partial`, `failed` or `cancelled`.
    pub state: String,
    /// Why it has this outcome, if it is closed and that is not plain.
    pub reason: String,
    /// Raised by each explicit retry, from 1.
    pub round: u32,
    /// Its pool.
    pub pool: String,
    /// Its handler.
    pub handler: String,
    /// Higher goes first.
    pub priority: i32,
    /// Shards that may run at once.
    pub parallelism: u32,
    /// Its parameters.
    #[schema(value_type = Object)]
    pub parameters: Value,
    /// Shard counts.
    pub shards: ShardCounts,
    /// Failed attempts of this round that count against `retry.maxFailures`; 0 if the job has none.
    #[serde(default)]
    pub failures: u32,
    /// The sums over its shards. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Why and since when it is being stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// When the whole run must have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The latest instant of its first grant; later than that it is cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_by: Option<String>,
    /// When it was written.
    pub created_at: String,
    /// When its first shard was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it was settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
}

/// What a planned run stands for in the words of its schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Nominal {
    /// The wall-clock time that the schedule names.
    pub civil: String,
    /// The schedule's zone.
    pub zone: String,
    /// Version of the zone data that it was planned with.
    pub zone_data: String,
    /// The first civil day of its period.
    pub first_day: String,
    /// The civil day with which its period ends.
    pub end_day: String,
    /// How many planned instants it stands for.
    pub covers: u64,
}

/// How many shards of a run are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ShardCounts {
    /// In all; 0 while the plan step has not been answered.
    pub total: u32,
    /// Not closed (the plan step included).
    pub open: u32,
    /// Succeeded.
    pub succeeded: u32,
    /// Failed.
    pub failed: u32,
    /// Stopped.
    pub cancelled: u32,
}

/// Why a run is being stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stop {
    /// `cancel`, `deadline` or `fatal`.
    pub cause: String,
    /// What it is due to beyond that, such as the run that takes its place; empty if nothing.
    #[serde(default)]
    pub detail: String,
    /// Since when.
    pub at: String,
}

/// A page of runs, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunPage {
    /// The runs.
    pub items: Vec<Run>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The body of `POST /runs/{id}/retry`; may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryRun {
    /// These shards alone; all that failed or were cancelled if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Vec<i32>>,
}
