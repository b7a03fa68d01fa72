//! The parts of an event's data that the checker reads; everything else is passed over.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use sichen_core::event::Event;
use sichen_core::schedule::zones::Zones;

/// All fields any kind may have; absent ones stay empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Fields {
    pub session: Option<u64>,
    /// What a worker registered with.
    pub slots: Option<u64>,
    pub node: Option<u64>,
    pub seq: Option<u64>,
    /// The checkpoint that a grant starts from.
    pub checkpoint_seq: Option<u64>,
    /// Of who asks for a shard's slot, and the shard's own.
    pub priority: Option<i64>,
    pub own: Option<i64>,
    pub end: Option<String>,
    pub stop: Option<String>,
    pub job: Option<String>,
    pub occasion: Option<String>,
    pub total: Option<u32>,
    pub plan: Option<bool>,
    /// What a run waits for, and beside how many of its job it may start.
    pub waits: Option<String>,
    pub most: Option<u64>,
    pub backfill: Option<u64>,
    pub round: Option<u32>,
    pub revision: Option<u32>,
    #[serde(deserialize_with = "instant")]
    pub from: Option<Timestamp>,
    #[serde(deserialize_with = "instant")]
    pub to: Option<Timestamp>,
    #[serde(deserialize_with = "instant")]
    pub high_water: Option<Timestamp>,
    #[serde(deserialize_with = "instant")]
    pub at: Option<Timestamp>,
    pub run: Option<u64>,
    pub term: Option<u64>,
    /// When the lease ended of who had a duty before.
    #[serde(deserialize_with = "instant")]
    pub lease_end: Option<Timestamp>,
    pub counts_match: Option<bool>,
    /// Occasions that a step of the mark wrote runs for.
    pub runs: Vec<String>,
    pub decisions: Vec<Decided>,
    /// The record before the step, as it makes it longer.
    pub lengthens: Option<Decided>,
    /// What a job's zones were taken for.
    pub zones: Option<Zones>,
    /// Runs that a step of a backfill wrote and retried, and instants that it left.
    pub written: Vec<u64>,
    pub reopened: Vec<u64>,
    pub left: Option<u64>,
    /// Where the checks of a backfill's runs have come.
    pub checks: Vec<CheckAt>,
    /// What an attempt holds of capacities, and until when what it held counts on.
    pub uses: BTreeMap<String, u64>,
    #[serde(deserialize_with = "instant")]
    pub held_until: Option<Timestamp>,
    /// A capacity's limits.
    pub units: Option<u64>,
    #[serde(deserialize_with = "rate")]
    pub rate: Option<Rate>,
}

/// A check of a backfill's run, as the step that moved it says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct CheckAt {
    pub run: u64,
    pub round: u32,
    pub state: String,
}

/// A capacity's rate: so many tokens in so many microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Rate {
    pub count: u64,
    pub per_us: u64,
    pub burst: u64,
}

/// A backfill's rate is a number, and of no concern here.
fn rate<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Rate>, D::Error> {
    let value = serde_json::Value::deserialize(d)?;
    Ok(serde_json::from_value(value).ok())
}

/// A decision as the step of the mark that took it says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) struct Decided {
    #[serde(deserialize_with = "instant_here")]
    pub from: Timestamp,
    #[serde(deserialize_with = "instant_here")]
    pub to: Timestamp,
    pub count: u64,
    pub reason: String,
}

impl Fields {
    pub(crate) fn of(event: &Event) -> Result<Self, serde_json::Error> {
        if event.data.is_empty() || event.data == "{}" {
            return Ok(Self::default());
        }
        serde_json::from_str(&event.data)
    }
}

/// Microseconds since 1970, or RFC 3339.
fn instant<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Timestamp>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Micros(i64),
        Text(String),
    }
    let Some(form) = Option::<Form>::deserialize(d)? else {
        return Ok(None);
    };
    let instant = match form {
        Form::Micros(us) => Timestamp::from_microsecond(us),
        Form::Text(text) => text.parse(),
    };
    instant.map(Some).map_err(D::Error::custom)
}

fn instant_here<'de, D: Deserializer<'de>>(d: D) -> Result<Timestamp, D::Error> {
    instant(d)?.ok_or_else(|| D::Error::custom("an instant is missing"))
}
