//! The documents that a user writes: jobs, calendars, and capacities.
//!
//! `apiVersion: sichen/v1, kind: Job`, `Calendar` or `Capacity`. This is the only part of core that is serialized:
//! it is a promise to users. Alternatives are externally tagged (`range: {…}`), so that an error can point
//! at the line. Unknown fields are refused.
//!
//! # Not here
//! Reading YAML with lines and columns (`sichen-server`), the rules for schedules
//! ([`crate::schedule`]).

mod calendar;
mod capacity;
mod check;
mod difference;
mod duration;
mod parameters;
mod placement;
mod preemption;
mod resolve;
mod retry;
mod schema;
mod timing;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use calendar::{
    CalendarDocument, CalendarSpec, Calendars, DaySpec, DaysSpec, MAX_DAY_NAME, Weekday, named_in,
};
pub use capacity::{CapacityDocument, CapacityMetadata, CapacitySpec, PACE, check_use, pace_of};
pub use check::{Problem, check};
pub use difference::{Difference, differences, differences_of};
pub use duration::{Duration, MAX_LENGTH};
pub use parameters::{MAX_PARAMETERS_BYTES, NUL};
pub use placement::{
    LabelsSpec, PlacementKeySpec, PlacementSpec, Quantity, StrategySpec, ValuesSpec, is_label_name,
    is_resource_name,
};
pub use preemption::{PreemptionSpec, YieldsSpec};
pub use resolve::{PROCESS_HANDLER, Request, new_run};
pub use retry::{
    ActionSpec, BackoffSpec, EndSpec, ExitCodesSpec, ExponentialSpec, RetryRuleSpec, RetrySpec,
};
pub use schema::{calendar_schema, capacity_schema, schema};
pub use timing::{
    CalendarUse, CatchUpPolicySpec, CatchUpSpec, Close, ContinuousSpec, OnResumeSpec, OverlapSpec,
    PeriodSpec, QueueSpec, ScheduleSpec, Timing,
};

/// The only `apiVersion`.
pub const API_VERSION: &str = "sichen/v1";

/// A whole document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Document {
    /// `sichen/v1`.
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: String,
    /// `Job`.
    #[schemars(extend("const" = "Job"))]
    pub kind: String,
    /// Name and labels.
    pub metadata: Metadata,
    /// What to run, when and how.
    pub spec: Spec,
}

/// Name and labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Metadata {
    /// The job's name in its namespace: lower-case letters, digits and `-`, at most 63.
    pub name: String,
    /// The tenant; `default` if left out.
    #[serde(default = "default_name")]
    pub namespace: String,
    /// Free text for people, at most 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Labels for searching.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

fn default_name() -> String {
    "default".to_owned()
}

/// What to run, when and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Spec {
    /// When; none means only on request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<ScheduleSpec>,
    /// IANA zone of the schedules; `UTC` if left out.
    #[serde(default = "default_zone")]
    pub time_zone: String,
    /// The handler that workers offer, or the process they start.
    pub run: RunSpec,
    /// Pool whose workers run it; `default` if left out.
    #[serde(default = "default_name")]
    pub pool: String,
    /// Parameters handed to every shard.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub parameters: serde_json::Map<String, serde_json::Value>,
    /// How the input is cut; one shard if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<ShardsSpec>,
    /// Shards of one run that may run at once; all workers' slots if left out.
    #[schemars(range(min = 1, max = 100_000))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<u32>,
    /// Shards of all runs of the job together that may run at once; no limit if left out.
    #[schemars(range(min = 1, max = 100_000))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running_shards: Option<u32>,
    /// Shards of all runs of the job together that may start in a second, minute, hour or day: `50/s`,
    /// `100/m`, `1000/h`, `5000/d`; evenly, not all at once. No limit if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Higher goes first, −1,000 to 1,000; 0 if left out.
    #[schemars(range(min = -1000, max = 1000))]
    #[serde(default)]
    pub priority: i32,
    /// Whether the job asks others for their slots, and gives up its own to those of higher priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemption: Option<PreemptionSpec>,
    /// Capacities, and how many units of each every attempt of a shard holds while it runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub uses: BTreeMap<String, u32>,
    /// Which of the pool's workers run it: by label, by resources, and how one is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementSpec>,
    /// When a failed shard is tried again.
    #[serde(default)]
    pub retry: RetrySpec,
    /// Limits on time.
    #[serde(default)]
    pub timeouts: TimeoutsSpec,
    /// What happens when a planned time comes while a run is active.
    #[serde(default)]
    pub overlap: OverlapSpec,
    /// How many runs of the job may be active before `overlap` says what happens; 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_active_runs: Option<u32>,
    /// What happens to planned times that were missed.
    #[serde(default)]
    pub catch_up: CatchUpSpec,
    /// What a resume does with the planned times that fell into the pause.
    #[serde(default, skip_serializing_if = "OnResumeSpec::is_default")]
    pub on_resume: OnResumeSpec,
    /// Runs start up to this much after their planned time, each by its own fixed share; at most
    /// 24 h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Duration>,
    /// What a run's period reaches over.
    #[serde(default, skip_serializing_if = "PeriodSpec::is_default")]
    pub period: PeriodSpec,
    /// Whether a run whose done and expected counts differ fails.
    #[serde(default)]
    pub counts_must_match: bool,
}

fn default_zone() -> String {
    "UTC".to_owned()
}

/// What a shard's attempt starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RunSpec {
    /// A handler registered in a worker program under this name.
    Handler(String),
    /// A process that the worker's configuration allows.
    Process(ProcessSpec),
}

/// A process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ProcessSpec {
    /// Program and arguments, never a shell line.
    pub argv: Vec<String>,
    /// Environment variables beside the `SICHEN_…` ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// How the input is cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ShardsSpec {
    /// This many shards, told apart by index and total.
    Count(u32),
    /// A range of keys.
    Range(RangeSpec),
    /// A list of items, one shard each.
    Items(ItemsSpec),
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct RangeSpec {
    /// Integers (default), or instants.
    #[serde(default)]
    pub keys: KeysSpec,
    /// Where the range begins and ends.
    pub bounds: BoundsSpec,
    /// Cut into this many shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Cut into shards of this many keys (time: of this length).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<SizeSpec>,
}

/// What the keys of a range are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum KeysSpec {
    /// 64-bit integers.
    #[default]
    Integer,
    /// Instants, RFC 3339 in the document, microseconds inside.
    Time,
}

/// Size of a shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SizeSpec {
    /// Keys.
    Keys(u64),
    /// Length of time.
    Length(Duration),
}

/// Where a range begins and ends; half open, fixed once per run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BoundsSpec {
    /// Given here.
    Literal(LiteralBounds),
    /// Named parameters of the run.
    Parameters(ParameterBounds),
    /// The run's own period (time keys).
    Period,
    /// Read once per run by a worker: one row with the least and greatest key.
    Query(QueryBounds),
}

/// Bounds given in the document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LiteralBounds {
    /// First key.
    pub from: KeySpec,
    /// First key outside.
    pub to: KeySpec,
}

/// A key: an integer, or an RFC 3339 instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum KeySpec {
    /// An integer.
    Integer(i64),
    /// An instant.
    Instant(String),
}

/// Bounds taken from the run's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ParameterBounds {
    /// Name of the parameter with the first key.
    pub from: String,
    /// Name of the parameter with the first key outside.
    pub to: String,
}

/// Bounds read by a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct QueryBounds {
    /// Name of a data source in the worker's configuration.
    pub data_source: String,
    /// A query with one row and two integer columns: least and greatest key, or two NULLs.
    pub sql: String,
}

/// A list of items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ItemsSpec {
    /// Given here.
    Values(Vec<String>),
    /// A parameter of the run that is a list of strings.
    Parameter(String),
}

/// Limits on time; none if left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct TimeoutsSpec {
    /// Of one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Duration>,
    /// Between two signs of progress of one attempt: checkpoints, or progress that is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall: Option<Duration>,
    /// Of the whole run, from its creation, waiting included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Duration>,
    /// Of the whole run, from the first attempt of any of its shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline: Option<Duration>,
    /// From asking an attempt to stop to killing it, 100ms to 10m; what its worker is configured to
    /// (10 s) if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Duration>,
}
