//! Workers, nodes and the server itself on the wire.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Shard;

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
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What its shards may take together, by name, as people write amounts: `cpu: 8`, `memory: 30Gi`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, String>,
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

/// A shard that a worker runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeldShard {
    /// Namespace of its job.
    pub namespace: String,
    /// Its job.
    pub job: String,
    /// The shard.
    pub shard: Shard,
}

/// The shards that a worker's session holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HeldShards {
    /// By run and number; none if the session is over.
    pub items: Vec<HeldShard>,
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
