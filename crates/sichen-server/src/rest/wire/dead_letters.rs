//! Dead letters on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Shard;

/// A shard that failed for good, or used up its attempts, in a run that ended `failed` or `partial`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeadLetter {
    /// Its run.
    pub run: u64,
    /// The run's key.
    pub key: String,
    /// Namespace of the job.
    pub namespace: String,
    /// The job.
    pub job: String,
    /// How the run ended: `failed` or `partial`.
    pub run_state: String,
    /// How many shards of the run failed.
    pub run_failed: u32,
    /// How many shards of the run were cancelled because of that; a retry of the whole run takes
    /// them too.
    pub run_cancelled: u32,
    /// The shard, with its last failure, its attempts, its checkpoint and when it was closed.
    pub shard: Shard,
}

/// A page of dead letters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeadLetterPage {
    /// The dead letters: the newest run's first, those of one run by number. A page may be short,
    /// even empty, before the end.
    pub items: Vec<DeadLetter>,
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The body of `POST /runs/{id}/discard`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DiscardRun {
    /// These shards alone, 1 to 500; all dead letters of the run if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Vec<i32>>,
    /// Why, 1 to 1,024 bytes; it is in the history.
    #[serde(default)]
    pub reason: String,
    /// Who says so, at most 128 bytes; recorded, not proved.
    #[serde(default)]
    pub by: String,
}
