//! Documents and jobs on the wire.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{AppliedCalendar, AppliedCapacity};

/// The answer to `POST /jobs:apply`, in the order of the documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Applied {
    /// One for each job.
    pub documents: Vec<AppliedDocument>,
    /// One for each calendar: they were applied before the jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<AppliedCalendar>,
    /// One for each capacity: they were applied before the jobs too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacities: Vec<AppliedCapacity>,
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
    /// One for each capacity, without a namespace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacities: Vec<ValidDocument>,
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
    /// Runs that are not closed; of a job whose row does not count them 10,000 stands for more, too.
    pub active_runs: u32,
    /// Those of them that wait for others of the job.
    pub waiting_runs: u32,
    /// When it was created.
    pub created_at: String,
    /// The document in force. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub document: Option<Value>,
    /// What the zones of its schedules were taken for when `decided_until` was set, for who works its
    /// instants out as the server does. Left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub zones: Option<Value>,
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
    /// The cron expressions of its schedules, in words.
    #[serde(default)]
    pub cron: Vec<CronInWords>,
}

/// A cron expression, and what it means by the rules that plan the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CronInWords {
    /// As it stands in the document.
    pub cron: String,
    /// In English.
    pub en: String,
    /// In Chinese.
    pub zh: String,
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

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}
