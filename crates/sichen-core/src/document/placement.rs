//! Where a job's shards run, as a user writes it.
//!
//! # Not here
//! The choice itself ([`crate::place`]).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::check::Problems;
use super::{BoundsSpec, Document, ItemsSpec, RangeSpec, ShardsSpec, Spec};
use crate::name::nearest;
use crate::place::{
    BROADCAST_TO, Key, MAX_LABELS, MAX_RESOURCES, Resources, Strategy, Terms, Wanted, quantity,
};

/// Where shards run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PlacementSpec {
    /// How a worker is chosen among those that can take a shard; `leastLoaded` if left out.
    #[serde(default, skip_serializing_if = "StrategySpec::is_default")]
    pub strategy: StrategySpec,
    /// For `consistentHash`: what the hash is taken of; `shard` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PlacementKeySpec>,
    /// By workers' labels.
    #[serde(default, skip_serializing_if = "LabelsSpec::is_empty")]
    pub labels: LabelsSpec,
    /// What each attempt takes of its worker's resources: `cpu: 2`, `memory: 4Gi`, `gpu/a100: 1`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, Quantity>,
}

/// How a worker is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StrategySpec {
    /// The one with the least load.
    #[default]
    LeastLoaded,
    /// One after the other.
    RoundRobin,
    /// The one that the key stands for, while its load is near the others'.
    ConsistentHash,
    /// The fullest one, so that others stay empty.
    Binpack,
    /// The one with the fewest shards of the same run.
    Spread,
    /// Each worker of the pool that can take it when the run is made gets one shard, and nobody else does.
    Broadcast,
}

impl StrategySpec {
    fn is_default(&self) -> bool {
        *self == Self::LeastLoaded
    }
}

/// What a consistent hash is taken of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PlacementKeySpec {
    /// The job and the shard's number.
    #[default]
    Shard,
    /// The job: all of its shards together.
    Job,
    /// The value of this parameter of the run; of one that is a list, the shard's own item.
    Parameter(String),
}

/// Labels of workers: each with a value, or a list of which any will do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LabelsSpec {
    /// A worker must have all of these.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub require: BTreeMap<String, ValuesSpec>,
    /// Those with these go first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prefer: BTreeMap<String, ValuesSpec>,
    /// Those with these go last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub avoid: BTreeMap<String, ValuesSpec>,
}

impl LabelsSpec {
    fn is_empty(&self) -> bool {
        self.require.is_empty() && self.prefer.is_empty() && self.avoid.is_empty()
    }
}

/// One value or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ValuesSpec {
    /// This one.
    One(String),
    /// Any of these.
    Any(Vec<String>),
}

/// An amount of a resource, in thousandths; written as a number or a text: `2`, `0.5`, `500m`, `4Gi`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(pub u64);

impl Serialize for Quantity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&quantity::text("", self.0))
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Amount;
        impl serde::de::Visitor<'_> for Amount {
            type Value = Quantity;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an amount such as 2, 0.5, 500m or 4Gi")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Quantity, E> {
                let amount = quantity::parse(text).map(Quantity);
                amount.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
            fn visit_u64<E: serde::de::Error>(self, n: u64) -> Result<Quantity, E> {
                self.visit_str(&n.to_string())
            }
            fn visit_f64<E: serde::de::Error>(self, n: f64) -> Result<Quantity, E> {
                self.visit_str(&n.to_string())
            }
        }
        deserializer.deserialize_any(Amount)
    }
}

impl JsonSchema for Quantity {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An amount: 2, 0.5, 500m, 4Gi.",
            "anyOf": [
                { "type": "number", "minimum": 0 },
                { "type": "string" },
            ],
        })
    }
}

impl Document {
    /// Where the shards of the job may and should run, if it says so.
    #[must_use]
    pub fn placement(&self) -> Option<Arc<Terms>> {
        let spec = self.spec.placement.as_ref()?;
        let wanted = |labels: &BTreeMap<String, ValuesSpec>| -> Vec<Wanted> {
            let wanted = labels.iter().map(|(label, values)| Wanted {
                label: label.clone(),
                values: match values {
                    ValuesSpec::One(value) => vec![value.clone()],
                    ValuesSpec::Any(values) => values.clone(),
                },
            });
            wanted.collect()
        };
        let resources = spec.resources.iter().map(|(name, n)| (name.clone(), n.0));
        let terms = Terms {
            strategy: match spec.strategy {
                StrategySpec::LeastLoaded => Strategy::LeastLoaded,
                StrategySpec::RoundRobin => Strategy::RoundRobin,
                StrategySpec::ConsistentHash => Strategy::ConsistentHash,
                StrategySpec::Binpack => Strategy::Binpack,
                StrategySpec::Spread => Strategy::Spread,
                StrategySpec::Broadcast => Strategy::Broadcast,
            },
            key: match &spec.key {
                None | Some(PlacementKeySpec::Shard) => Key::Shard,
                Some(PlacementKeySpec::Job) => Key::Job,
                Some(PlacementKeySpec::Parameter(name)) => Key::Parameter(name.clone()),
            },
            require: wanted(&spec.labels.require),
            prefer: wanted(&spec.labels.prefer),
            avoid: wanted(&spec.labels.avoid),
            needs: Resources::new(resources).with_kinds(),
        };
        (terms != Terms::default()).then(|| Arc::new(terms))
    }

    /// Whether each worker gets a shard of its runs.
    #[must_use]
    pub fn is_broadcast(&self) -> bool {
        let placement = self.spec.placement.as_ref();
        placement.is_some_and(|placement| placement.strategy == StrategySpec::Broadcast)
    }

    /// The document of a run that is broadcast to these workers: a shard for each, by its name.
    #[must_use]
    pub fn addressed(&self, workers: Vec<String>) -> Self {
        let mut document = self.clone();
        let names = workers.into_iter().map(serde_json::Value::String).collect();
        let (parameter, spec) = (BROADCAST_TO.to_owned(), &mut document.spec);
        spec.shards = Some(ShardsSpec::Items(ItemsSpec::Parameter(parameter.clone())));
        spec.parameters
            .insert(parameter, serde_json::Value::Array(names));
        document
    }
}

/// Whether a text may be the name of a resource: `cpu`, `gpu/a100`.
#[must_use]
pub fn is_resource_name(name: &str) -> bool {
    let part = |text: &str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
        !text.is_empty() && text.chars().all(fits)
    };
    name.len() <= 63
        && match name.split_once('/') {
            Some((whole, kind)) => part(whole) && part(kind),
            None => part(name),
        }
}

/// Whether a text may be the name of a label of a worker.
#[must_use]
pub fn is_label_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
    !name.is_empty() && name.len() <= 63 && name.chars().all(fits)
}

/// What is wrong with a placement, without looking at any worker.
pub(super) fn check(spec: &Spec, p: &mut Problems) {
    let Some(placement) = &spec.placement else {
        return;
    };
    check_key(spec, placement, p);
    if placement.strategy == StrategySpec::Broadcast {
        check_broadcast(spec, p);
    }
    for (kind, labels) in [
        ("require", &placement.labels.require),
        ("prefer", &placement.labels.prefer),
        ("avoid", &placement.labels.avoid),
    ] {
        let path = format!("spec.placement.labels.{kind}");
        if labels.len() > MAX_LABELS {
            let n = labels.len();
            let message = format!("SC1069: names {n} labels; the limit is {MAX_LABELS}");
            p.add(&path, message);
        }
        for (label, values) in labels {
            let path = format!("{path}.{label}");
            if !is_label_name(label) {
                p.add(
                    &path,
                    "SC1070: is no name of a label: letters, digits, `-`, `.`, `_` and `/`, at most 63",
                );
            }
            if matches!(values, ValuesSpec::Any(values) if values.is_empty()) {
                p.add(
                    &path,
                    "SC1071: lists no value, so no worker has it; give one",
                );
            }
        }
    }
    if placement.resources.len() > MAX_RESOURCES {
        let n = placement.resources.len();
        let message = format!("SC1069: names {n} resources; the limit is {MAX_RESOURCES}");
        p.add("spec.placement.resources", message);
    }
    for name in placement.resources.keys() {
        let path = format!("spec.placement.resources.{name}");
        if !is_resource_name(name) {
            p.add(
                &path,
                "SC1072: is no name of a resource: lower-case letters, digits, `-`, `.` and `_`, and one \
                 `/` before a kind, such as `gpu/a100`",
            );
        }
    }
}

fn check_broadcast(spec: &Spec, p: &mut Problems) {
    if spec.shards.is_some() {
        p.add(
            "spec.shards",
            "SC1073: a run with `strategy: broadcast` has a shard for each worker; leave `shards` out",
        );
    }
    if spec.timeouts.run.is_none() {
        p.add(
            "spec.timeouts.run",
            "SC1074: is needed with `strategy: broadcast`: so long a run waits for a worker that is gone",
        );
    }
    if spec.parameters.contains_key(BROADCAST_TO) {
        p.add(
            "spec.parameters.sichen_workers",
            "SC1075: is filled in by `strategy: broadcast` with the names of the workers; use another name",
        );
    }
}

fn check_key(spec: &Spec, placement: &PlacementSpec, p: &mut Problems) {
    let path = "spec.placement.key";
    let Some(key) = &placement.key else {
        return;
    };
    if placement.strategy != StrategySpec::ConsistentHash {
        p.add(
            path,
            "SC1067: is of no use without `strategy: consistentHash`",
        );
    }
    let PlacementKeySpec::Parameter(name) = key else {
        return;
    };
    let mut declared: Vec<&str> = spec.parameters.keys().map(String::as_str).collect();
    match &spec.shards {
        Some(ShardsSpec::Items(ItemsSpec::Parameter(name))) => declared.push(name),
        Some(ShardsSpec::Range(RangeSpec {
            bounds: BoundsSpec::Parameters(bounds),
            ..
        })) => declared.extend([bounds.from.as_str(), &bounds.to]),
        Some(ShardsSpec::Count(_) | ShardsSpec::Items(_) | ShardsSpec::Range(_)) | None => {}
    }
    // A job that declares no parameter takes any.
    if spec.parameters.is_empty() || declared.contains(&name.as_str()) {
        return;
    }
    let meant = nearest(name, &declared);
    let meant = meant.map_or(String::new(), |name| format!("did you mean `{name}`? "));
    p.add(
        path,
        format!(
            "SC1068: the job declares no parameter `{name}`; {meant}declared: `{}`",
            declared.join("`, `")
        ),
    );
}

#[cfg(test)]
mod tests;
