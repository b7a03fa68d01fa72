//! Which of several servers has which duty, as they say themselves.
//!
//! # Not here
//! Any judgement: it says whom a fault must be done to; what came of it the tasks tell.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::metrics;

/// The longest that an answer may take.
const LIMIT: Duration = Duration::from_secs(2);
/// The duty of handing out work to the workers of every drill.
pub const POOL: &str = "pool/default";

/// Nodes, and what is theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Members {
    nodes: Vec<Node>,
    duties: Vec<Duty>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Node {
    id: u64,
    address: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Duty {
    key: String,
    #[serde(default)]
    node: Option<u64>,
}

impl Members {
    /// As the server at `address` sees them; `None` if it does not say.
    pub(crate) async fn ask(address: &str, token_file: &Path) -> Option<Self> {
        let asked = metrics::get(address, "/api/v1/members", token_file);
        let text = tokio::time::timeout(LIMIT, asked).await.ok()?.ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Where the owner of a duty is reached.
    pub(crate) fn owner(&self, key: &str) -> Option<&str> {
        let owner = self.duties.iter().find(|duty| duty.key == key)?.node?;
        let node = self.nodes.iter().find(|node| node.id == owner);
        node.map(|node| node.address.as_str())
    }

    /// What the server at `address` has, in a few words: each pool, and how many trigger partitions.
    pub(crate) fn held(&self, address: &str) -> Vec<String> {
        let is_at = |id: u64| {
            let mut nodes = self.nodes.iter();
            nodes.any(|node| node.id == id && host(&node.address) == host(address))
        };
        let held = self.duties.iter().filter(|d| d.node.is_some_and(is_at));
        let (triggers, others): (Vec<&Duty>, Vec<&Duty>) =
            held.partition(|duty| duty.key.starts_with("trigger/"));
        let mut held: Vec<String> = others.into_iter().map(|duty| duty.key.clone()).collect();
        if !triggers.is_empty() {
            held.push(format!("{} trigger partitions", triggers.len()));
        }
        held
    }
}

/// An address without its scheme.
pub(crate) fn host(address: &str) -> &str {
    let host = address.split_once("://").map_or(address, |(_, host)| host);
    host.trim_end_matches('/')
}

#[cfg(test)]
mod tests;
