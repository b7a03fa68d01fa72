//! Backfills on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A backfill that is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartBackfill {
    /// The first instant that may run.
    pub from: String,
    /// The end of the range, itself left out.
    pub to: String,
    /// `only_missing` (default): instants without a run get theirs. `only_failed`: failed and
    /// partial runs are retried. `all`: what has run gets a rerun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// `oldest` (default) or `newest` first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Runs of it that may be open at once, 1 to 1,000; 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<u32>,
    /// Runs that it may start in a minute, 1 to 60,000; no limit if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// A job that counts the business of each run that succeeds once more; none if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<BackfillVerify>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Makes the same request again find the same backfill; or the header `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How the runs of a backfill are checked: by a run of another job for each that succeeds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackfillVerify {
    /// The checking job, in the namespace of the backfill's job.
    pub job: String,
    /// Checks started in a minute, 1 to 60,000; 60 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
}

/// A backfill.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Backfill {
    /// Its number.
    pub id: u64,
    /// Namespace of the job.
    pub namespace: String,
    /// The job.
    pub job: String,
    /// The job's identity.
    pub job_uid: String,
    /// `running`, `paused`, `finished`, `cancelled`.
    pub state: String,
    /// Why it is paused, or over before its end.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// The first instant that may run.
    pub from: String,
    /// The end of the range, itself left out.
    pub to: String,
    /// `only_missing`, `only_failed`, `all`.
    pub mode: String,
    /// `oldest` or `newest` first.
    pub order: String,
    /// Runs of it that may be open at once.
    pub parallelism: u32,
    /// Runs that it may start in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// How its runs are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<BackfillVerify>,
    /// Why it was asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Who asked.
    pub actor: String,
    /// The key of the request.
    pub key: String,
    /// How far it has come.
    pub instants: BackfillInstants,
    /// What became of its runs; a retried one counts anew.
    pub runs: BackfillRuns,
    /// What became of the checks of its runs, if they are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<BackfillChecks>,
    /// With a rate: from when on the next start is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
    /// When it was asked for.
    pub created_at: String,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
}

/// What became of the instants of a backfill's range.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillInstants {
    /// Instants done: the five below together, without `filled`.
    pub done: u64,
    /// Runs written for instants that had none.
    pub created: u64,
    /// Those of them whose instant had been skipped.
    pub filled: u64,
    /// Runs retried.
    pub reopened: u64,
    /// Reruns written.
    pub reruns: u64,
    /// Instants left as they are.
    pub left: u64,
    /// Instants still to be done, as the job's schedules are now; not said in listings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<u64>,
}

/// What became of a backfill's runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillRuns {
    /// Not closed.
    pub open: u32,
    /// Succeeded.
    pub succeeded: u64,
    /// Failed or partial.
    pub failed: u64,
    /// Cancelled.
    pub cancelled: u64,
}

/// What became of the checks of a backfill's runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillChecks {
    /// Still to be started.
    pub due: u64,
    /// Started and not over.
    pub open: u32,
    /// As many were found as expected.
    pub agree: u64,
    /// Another number was found than expected.
    pub differ: u64,
    /// Nothing was counted.
    pub uncounted: u64,
}

/// The check of one round of a backfill's run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillCheck {
    /// The run that is checked.
    pub run: u64,
    /// Its round.
    pub round: u32,
    /// The planned time that it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_at: Option<String>,
    /// `due`, `open`, `agrees`, `differs`, `uncounted`.
    pub state: String,
    /// The run of the checking job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<u64>,
    /// How many it found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<u64>,
    /// How many there should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// Why it could not count.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Since when it is in its state.
    pub at: String,
}

/// A page of the checks of a backfill's runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillCheckPage {
    /// The checks, by run.
    pub items: Vec<BackfillCheck>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A page of backfills.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackfillPage {
    /// The backfills, newest first.
    pub items: Vec<Backfill>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What a backfill would do now: a page of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillPreview {
    /// All instants of the range.
    pub instants: u64,
    /// Those of them that are not decided yet: they wait until they are.
    pub waiting: u64,
    /// What becomes of each, in the order in which they would be taken.
    pub items: Vec<BackfillInstant>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What would become of an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillInstant {
    /// The instant.
    pub at: String,
    /// `create`, `rerun`, `reopen`, `leave`.
    pub action: String,
    /// Why it is left: `has_run`, `not_failed`, `open`, `covered`, `removed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its newest run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
    /// That run's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_state: Option<String>,
    /// Whether it was skipped, so that its record is filled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
}
