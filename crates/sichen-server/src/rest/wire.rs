//! What requests and answers of the REST API look like.
//!
//! # Invariants
//! - These are promises to other programs: fields are added, never taken away or given another
//!   meaning. Readers pass over fields that they do not know; requests with unknown fields are
//!   refused.
//! - Instants are RFC 3339 with an offset: that of the job's zone for planned instants and periods,
//!   `Z` for everything else. Lengths of time are seconds, with that in the name.
//! - A page's `next` is opaque: it goes back as `after`; absent, there is no more now.
//!
//! # Not here
//! How they come from rows (`convert`), the job document (`sichen_core::document`).

mod backfills;
mod calendars;
mod clock;
mod dead_letters;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sichen_core::document::OverlapSpec;
use utoipa::ToSchema;

pub use backfills::{
    Backfill, BackfillInstant, BackfillInstants, BackfillPage, BackfillPreview, BackfillRuns,
    StartBackfill,
};
pub use calendars::{
    AppliedCalendar, Calendar, CalendarChange, CalendarComparison, CalendarPage, CalendarUser,
    DeletedCalendar, LeftJob, MovedJob,
};
pub use clock::Clock;
pub use dead_letters::{DeadLetter, DeadLetterPage, DiscardRun};

/// The media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request was not carried out (RFC 9457).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:sichen:error:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened, to what, and what to do.
    pub detail: String,
    /// `SCnnnn`; docs/errors.md has a section for each.
    pub code: String,
    /// Every single problem of a document or request; empty if there is only one thing to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ProblemAt>,
}

/// One thing that is wrong, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemAt {
    /// Line of the text, from 1, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Column in characters, from 1, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// Where in the document, such as `spec.retry.maxAttempts`; empty for the text as a whole.
    #[serde(default)]
    pub path: String,
    /// What is wrong and what to write instead, with its code.
    pub message: String,
}

// -- jobs --

/// The answer to `POST /jobs:apply`, in the order of the documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Applied {
    /// One for each job.
    pub documents: Vec<AppliedDocument>,
    /// One for each calendar: they were applied before the jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<AppliedCalendar>,
}

/// What became of one document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppliedDocument {
    /// The job's namespace.
    pub namespace: String,
    /// The job's name.
    pub name: String,
    /// The job's identity.
    pub uid: String,
    /// Its revision now.
    pub revision: u32,
    /// What was done.
    pub change: Change,
    /// Whether its schedules are paused.
    #[serde(default)]
    pub paused: bool,
    /// Its next planned instant, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
}

/// What an apply, a pause or a resume did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The job is new.
    Created,
    /// The job was changed.
    Updated,
    /// It was like this already.
    Unchanged,
}

/// The answer to `POST /jobs:validate`: nothing is wrong with these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Validated {
    /// One for each job.
    pub documents: Vec<ValidDocument>,
    /// One for each calendar.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<ValidDocument>,
}

/// A document without problems.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ValidDocument {
    /// The job's namespace.
    pub namespace: String,
    /// The job's name.
    pub name: String,
    /// Line at which the document begins, from 1.
    pub line: u64,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its identity.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The title that its document gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Version of the document.
    pub revision: u32,
    /// Whether its schedules are paused.
    pub paused: bool,
    /// The zone in which its instants are shown.
    pub time_zone: String,
    /// Instants up to here are decided.
    pub decided_until: String,
    /// The next planned instant, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
    /// The instant that follows its last run, where a schedule is `after` or `continuous`; left out
    /// while the end of an open run has yet to make it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub following_at: Option<String>,
    /// Runs that are not closed.
    pub active_runs: u32,
    /// Those of them that wait for others of the job.
    pub waiting_runs: u32,
    /// When it was created.
    pub created_at: String,
    /// The document in force. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub document: Option<Value>,
}

/// One revision of a job's document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobRevision {
    /// The job's identity.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The revision, from 1.
    pub revision: u32,
    /// Whether it is the one in force.
    pub current: bool,
    /// The document.
    #[schema(value_type = Object)]
    pub document: Value,
}

/// A page of jobs, by namespace and name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobPage {
    /// The jobs.
    pub items: Vec<Job>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The answer to a deletion: the name is free again, open runs go on, history stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletedJob {
    /// The identity that the job had.
    pub uid: String,
}

/// Planned instants of a job from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NextInstants {
    /// The job's zone.
    pub time_zone: String,
    /// Whether the job is paused, and none of these will run before it is resumed.
    pub paused: bool,
    /// Ascending; fewer than asked for if the schedules end.
    pub items: Vec<String>,
}

/// The record that planned instants were not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    /// First instant.
    pub from: String,
    /// Last instant, included.
    pub to: String,
    /// How many instants.
    pub count: u64,
    /// Why: `overlap`, `deadline`, `paused`, `catch_up`, `coalesced`, `gap`, …
    pub reason: String,
    /// What it refers to, such as the run that blocked it; empty if nothing.
    pub reference: String,
    /// How many of its instants have got their run since.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub filled: u64,
    /// The run that did so last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled_by: Option<u64>,
}

/// A page of decisions, oldest first. Its `next` goes back as `from`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecisionPage {
    /// The decisions.
    pub items: Vec<Decision>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

// -- runs --

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

// -- shards --

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
}

/// The attempts of a shard, oldest first, as its events tell them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempts {
    /// The attempts.
    pub items: Vec<Attempt>,
}

/// Why a run is where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The run's number.
    pub id: u64,
    /// The run's key.
    pub key: String,
    /// The run's state.
    pub state: String,
    /// The nearest cause first; never empty.
    pub reasons: Vec<Why>,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// `closed`, `stopping`, `running`, `backoff`, `not_yet`, `no_owner`, `parallelism`,
    /// `no_worker`, `no_handler`, `draining`, `no_slot`, `dispatching` or `settling`.
    pub word: String,
    /// For people.
    pub text: String,
}

// -- events, workers, members --

/// One row of the event log; the same form as a line of an export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Its place in the log.
    pub seq: u64,
    /// What it is about: `job`, `run`, `shard`, `session`, `node` or `duty`.
    pub entity: String,
    /// Which one: uid, number, `run/no`, or duty key.
    pub id: String,
    /// The entity's version after it, or 0 if it changed nothing.
    pub ver: u32,
    /// The store's clock in the deciding transaction.
    pub at: String,
    /// The operation that wrote it.
    pub op: String,
    /// Who caused it.
    pub actor: String,
    /// The duty under which it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duty: Option<String>,
    /// That duty's term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
    /// What happened; docs/events.md lists them.
    pub kind: String,
    /// State before; empty where there is none.
    pub from: String,
    /// State after; empty where there is none.
    pub to: String,
    /// The attempt that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The shard's token after it (for a refused report: the token refused).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// A short reason.
    pub cause: String,
    /// More, by kind.
    #[schema(value_type = Object)]
    pub data: Value,
}

/// A page of events, oldest first. `next` is there even on the last page, so that a reader can ask
/// again later for what is new; it is absent only if there is no event at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// The events.
    pub items: Vec<Event>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A worker's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// The session's number.
    pub session: u64,
    /// The worker's name.
    pub name: String,
    /// Kept in its data directory.
    pub uid: String,
    /// New at each start of its process.
    pub incarnation: String,
    /// Its pool.
    pub pool: String,
    /// Shards that it runs at once.
    pub slots: u32,
    /// Shards that it holds.
    pub held: u32,
    /// Handlers that it offers.
    pub handlers: Vec<String>,
    /// Whether it takes no new work.
    pub draining: bool,
    /// When it registered.
    pub registered_at: String,
    /// When its session ends unless renewed.
    pub expires_at: String,
}

/// All workers whose session is not over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Workers {
    /// By session number.
    pub items: Vec<Worker>,
}

/// Server nodes and their duties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Members {
    /// The node that answers, once it has registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub this_node: Option<u64>,
    /// Nodes whose lease lasts.
    pub nodes: Vec<Node>,
    /// All duties.
    pub duties: Vec<Duty>,
}

/// A server node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Node {
    /// Its number.
    pub id: u64,
    /// Where peers and workers reach it.
    pub address: String,
    /// When its lease ends unless renewed.
    pub expires_at: String,
}

/// What exactly one node may do at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Duty {
    /// `trigger/7`, `pool/default`, `janitor`.
    pub key: String,
    /// Raised at every change of owner.
    pub term: u64,
    /// The owner, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u64>,
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerStatus {
    /// The release.
    pub version: String,
    /// The store's clock.
    pub now: String,
    /// Why it can't do its work now; absent if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<String>,
    /// `sqlite` or `postgres`.
    pub store: String,
    /// What the store's server said of itself when this one started.
    pub store_settings: BTreeMap<String, String>,
    /// Transactions in the store's database that are open for so long that they hold it up, the oldest
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub old_transactions: Vec<OldTransaction>,
    /// The server's data directory.
    pub data: String,
    /// The disk that it is on, if it can be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
}

/// A transaction of anybody's that has been open for long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OldTransaction {
    /// The database's process for its session; 0 for a prepared one, which has none.
    pub pid: i32,
    /// How long it has been open, if the server may know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<i64>,
    /// Whose it is.
    pub what: String,
}

/// Room on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    /// Free for this server's user.
    pub free_bytes: u64,
    /// In all.
    pub total_bytes: u64,
}

/// The answer of `/healthz` and `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, or why not.
    pub status: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}
