//! What a job says of the workers that its shards go to.
//!
//! # Not here
//! The document's form of it (`crate::document`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Resources;
use crate::ids::JobUid;

/// How a worker is chosen among those that can take a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strategy {
    /// The one with the least load.
    #[default]
    LeastLoaded,
    /// One after the other.
    RoundRobin,
    /// The one that the shard's key stands for, while its load is near the others'.
    ConsistentHash,
    /// The fullest one.
    Binpack,
    /// The one with the fewest shards of the run.
    Spread,
    /// The one that the shard is for: each worker that was there when the run was made has one.
    Broadcast,
}

/// The parameter that has the names of the workers to which a run is broadcast, in the order of their shards.
pub const BROADCAST_TO: &str = "sichen_workers";
/// The most workers to which one run is broadcast.
pub const MAX_BROADCAST: usize = 1_000;

/// The workers to which a run with these parameters is broadcast, by number.
#[must_use]
pub fn broadcast_to(parameters: &str) -> Vec<String> {
    let parameters: Option<Value> = serde_json::from_str(parameters).ok();
    let names = parameters.as_ref().and_then(|all| all.get(BROADCAST_TO));
    let names = names.and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What a consistent hash is taken of.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The job and the shard's number.
    #[default]
    Shard,
    /// The job.
    Job,
    /// The value of this parameter of the run. Of one that is a list: of the shard's own item.
    Parameter(String),
}

/// A label and the values of it that are meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// The label.
    pub label: String,
    /// Any of these.
    pub values: Vec<String>,
}

impl Wanted {
    /// Whether these labels have it.
    #[must_use]
    pub fn is_in(&self, labels: &BTreeMap<String, String>) -> bool {
        labels
            .get(&self.label)
            .is_some_and(|value| self.values.contains(value))
    }
}

/// `zone=a`, `zone=a|b`.
impl std::fmt::Display for Wanted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.label, self.values.join("|"))
    }
}

/// Where the shards of a job may run, and where they should.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Terms {
    /// How one is chosen.
    pub strategy: Strategy,
    /// Of what the hash is taken, where there is one.
    pub key: Key,
    /// Labels that a worker must have, all of them.
    pub require: Vec<Wanted>,
    /// Labels that speak for a worker.
    pub prefer: Vec<Wanted>,
    /// Labels that speak against one.
    pub avoid: Vec<Wanted>,
    /// What each attempt takes of its worker's resources, kinds counted for the whole.
    pub needs: Resources,
}

impl Terms {
    /// Whether a worker with these labels has all that it must have.
    #[must_use]
    pub fn is_met_by(&self, labels: &BTreeMap<String, String>) -> bool {
        self.require.iter().all(|wanted| wanted.is_in(labels))
    }

    /// How many of the job's wishes a worker with these labels leaves open.
    #[must_use]
    pub fn against(&self, labels: &BTreeMap<String, String>) -> usize {
        let missing = self.prefer.iter().filter(|wanted| !wanted.is_in(labels));
        let unwanted = self.avoid.iter().filter(|wanted| wanted.is_in(labels));
        missing.count() + unwanted.count()
    }

    /// The keys of a run's shards; its parameters are a JSON object.
    #[must_use]
    pub fn keyed(&self, job: JobUid, parameters: &str) -> Keyed {
        match self.strategy {
            Strategy::ConsistentHash => {}
            Strategy::Broadcast => {
                let names = broadcast_to(parameters).into_iter();
                return Keyed::Each(names.map(|name| hash_of(name.as_bytes())).collect());
            }
            Strategy::LeastLoaded | Strategy::RoundRobin | Strategy::Binpack | Strategy::Spread => {
                return Keyed::Same(0);
            }
        }
        let of_job = hash_of(job.0.as_bytes());
        match &self.key {
            Key::Shard => Keyed::Numbered(of_job),
            Key::Job => Keyed::Same(of_job),
            Key::Parameter(name) => {
                let parameters: Option<Value> = serde_json::from_str(parameters).ok();
                let value = parameters.as_ref().and_then(|all| all.get(name));
                match value {
                    Some(Value::Array(items)) => Keyed::Each(items.iter().map(of_value).collect()),
                    Some(value) => Keyed::Same(of_value(value)),
                    None => Keyed::Same(of_job),
                }
            }
        }
    }
}

fn of_value(value: &Value) -> u64 {
    match value.as_str() {
        Some(text) => hash_of(text.as_bytes()),
        None => hash_of(value.to_string().as_bytes()),
    }
}

/// The keys of a run's shards, as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keyed {
    /// All have the same.
    Same(u64),
    /// Of each number another, from this one on.
    Numbered(u64),
    /// These, by number.
    Each(Arc<[u64]>),
}

impl Keyed {
    /// The key of the shard of this number.
    #[must_use]
    pub fn of(&self, no: i32) -> u64 {
        let number = u64::try_from(no).unwrap_or(0);
        match self {
            Keyed::Same(key) => *key,
            Keyed::Numbered(base) => mixed(base ^ mixed(number)),
            Keyed::Each(keys) => {
                let at = usize::try_from(number).unwrap_or(usize::MAX);
                keys.get(at).copied().unwrap_or(number)
            }
        }
    }
}

/// A number of a text that is the same in every release: who goes where depends on it.
///
/// FNV-1a (Fowler, Noll, Vo), then mixed so that its high bits depend on all of the text.
#[must_use]
pub fn hash_of(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    mixed(bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood, 2014).
pub(super) fn mixed(mut n: u64) -> u64 {
    n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
