//! A store that went back, on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Run, Token};

/// What a restore asks to be decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Restore {
    /// Whether there is something to decide: until then nothing fires and nothing is granted.
    pub undecided: bool,
    /// The epoch that it has brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u32>,
    /// When it was done or noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// When the newest event that is left was written: what came after is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// Jobs with planned times since then.
    pub jobs: Vec<RestoredJob>,
    /// Runs that were open then.
    pub runs: Vec<Run>,
    /// Reports under tokens that the store does not know: what surely ran after the mark.
    pub lost: Vec<LostReport>,
    /// Access tokens of before that are live: one that was revoked in the lost time is valid again.
    pub tokens: Vec<Token>,
    /// Whether there are more jobs, runs or reports than these.
    pub more: bool,
}

/// A job's planned times since its mark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RestoredJob {
    /// `name`, or `namespace/name`.
    pub job: String,
    /// The first of them.
    pub first: String,
    /// The last of them.
    pub last: String,
    /// How many.
    pub count: u64,
}

/// What a worker had to report of the lost time; it was refused, and nothing was changed by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostReport {
    /// The shard, by the number of its run.
    pub shard: String,
    /// The run as it was called when it was given out; nothing if the worker does not know it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_key: Option<String>,
    /// How the attempt ended; nothing if it was a checkpoint that was reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// The token, which this store has not given out.
    pub token: u64,
    /// Who reported it.
    pub by: String,
    /// When it was refused.
    pub at: String,
}

/// What is decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecideRestore {
    /// About this job's planned times alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// About this run alone. Without job and run: about all that is left, and everything goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// `again`: by the job's catch-up policy, or from the run's checkpoints; `done`: it was done and does not
    /// run; `leave`: it stays undone.
    #[serde(rename = "as")]
    pub how: String,
    /// Why.
    pub reason: String,
    /// What shows that it was done.
    #[serde(default)]
    pub evidence: String,
}

/// What a decision came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DecidedRestore {
    /// Jobs and runs that were decided one by one.
    pub decided: u64,
    /// Whether there is something left to decide.
    pub undecided: bool,
}
