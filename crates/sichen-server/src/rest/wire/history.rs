//! Events on the wire.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

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

/// Something that somebody asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChangeMade {
    /// The event that wrote it down.
    pub event: Event,
    /// The namespace of the job that it is about, if it is about one that is there still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// That job's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// A page of changes, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChangePage {
    /// The changes.
    pub items: Vec<ChangeMade>,
    /// What to give as `after` for earlier ones; absent if the log was read to its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
