//! Capacities, as the API shows them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::Change;

/// What became of a capacity's document or limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppliedCapacity {
    /// The capacity's name, which all namespaces share.
    pub name: String,
    /// Its version now.
    pub version: u32,
    /// What was done.
    pub change: Change,
}

/// New limits of a capacity; what is left out stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizeCapacity {
    /// Units that may be held at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u32>,
    /// Tokens a second, minute, hour or day: `50/s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Tokens that gather.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

/// A capacity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Capacity {
    /// Its name.
    pub name: String,
    /// The version; every change raises it.
    pub version: u32,
    /// Units that may be held at once, if that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u32>,
    /// The rate, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Tokens that gather.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// Units held now; more than `units` if that was lowered.
    pub used: u64,
    /// By how many attempts.
    pub holds: u32,
    /// Tokens there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u32>,
    /// When this version was written.
    pub changed_at: String,
    /// The document; only of one that was asked for by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Value>,
    /// Who holds it, oldest first; only of one that was asked for by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holders: Vec<CapacityHolder>,
    /// Runs with ready shards that use it; only of one that was asked for by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiters: Vec<CapacityWaiter>,
}

/// An attempt that holds units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapacityHolder {
    /// The run.
    pub run: u64,
    /// The shard's number; −1 for the plan step.
    pub shard: i32,
    /// The attempt's token.
    pub token: u64,
    /// The session that it was given to.
    pub session: u64,
    /// Units.
    pub units: u32,
    /// Since when.
    pub since: String,
    /// If the attempt was lost: when its units are free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// A run whose ready shards use a capacity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapacityWaiter {
    /// The run.
    pub run: u64,
    /// The job's namespace.
    pub namespace: String,
    /// The job's name.
    pub name: String,
    /// The run's pool.
    pub pool: String,
    /// Units that each attempt needs.
    pub units: u32,
    /// Since when the first of its waiting shards has been ready.
    pub since: String,
}

/// A page of capacities.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapacityPage {
    /// The capacities, by name.
    pub items: Vec<Capacity>,
    /// What to give as `after` for the next page, if there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A capacity that was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletedCapacity {
    /// Its name.
    pub name: String,
}
