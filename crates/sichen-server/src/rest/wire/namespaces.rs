//! Namespaces, as the API shows them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a namespace may have of the pools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Raised by each change; 0 if nothing was set.
    pub version: u32,
    /// Its part of a pool beside the other namespaces that have work for it: 100 if nothing was set.
    pub weight: u32,
    /// Shards that may run at once, in all pools together; left out if that is not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// Shards that run now; counted only where they are limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    /// Runs that may be queued at once: written, and nothing of them started; left out if that is not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_queued: Option<u32>,
    /// Runs that are queued now; counted only where they are limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<u32>,
}

/// Namespaces of which something was set, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamespacePage {
    /// The namespaces.
    pub items: Vec<Namespace>,
    /// `after` of the next page, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A change of what a namespace may have; what is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetNamespace {
    /// The weight, 1 to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Shards that may run at once; what runs beyond that goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// Takes the limit of running shards away.
    #[serde(default)]
    pub unlimited: bool,
    /// Runs that may be queued at once, 0 to 100,000; what is queued beyond that stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_queued: Option<u32>,
    /// Takes the limit of queued runs away.
    #[serde(default)]
    pub unlimited_queue: bool,
}
