//! The capacity document: how much of a shared thing there is, as a user writes it; and what jobs
//! say that they use.
//!
//! `apiVersion: sichen/v1, kind: Capacity`. Its name is the same for all namespaces: what it stands
//! for is one thing.
//!
//! # Not here
//! What limits do to grants ([`crate::capacity`]).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Problem, Problems};
use super::{API_VERSION, Document, Metadata};
use crate::capacity::{Limits, MAX_BURST, MAX_UNITS, MAX_USES, Rate, Uses, variable};
use crate::name::{self, Name};
use crate::place::hash_of;

/// A whole capacity document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CapacityDocument {
    /// `sichen/v1`.
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: String,
    /// `Capacity`.
    #[schemars(extend("const" = "Capacity"))]
    pub kind: String,
    /// Name and labels.
    pub metadata: CapacityMetadata,
    /// The limits.
    pub spec: CapacitySpec,
}

/// Name and labels. There is no namespace: all of them share the capacity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CapacityMetadata {
    /// The capacity's name: lower-case letters, digits, `-`, `.` and `_`, at most 63.
    pub name: String,
    /// Free text for people, at most 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Labels for searching.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The limits; units, a rate, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CapacitySpec {
    /// Units that running attempts may hold at once, such as connections; 0 lets nothing start.
    #[schemars(range(min = 0, max = MAX_UNITS))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<u32>,
    /// Tokens a second, minute, hour or day that starting attempts take: `50/s`, `100/m`, `1000/h`,
    /// `5000/d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// Tokens that gather while none is taken; those of one period if left out.
    #[schemars(range(min = 1, max = MAX_BURST))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
}

impl CapacityDocument {
    /// A document of nothing but a name and limits.
    #[must_use]
    pub fn new(name: &str, spec: CapacitySpec) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "Capacity".to_owned(),
            metadata: CapacityMetadata {
                name: name.to_owned(),
                ..CapacityMetadata::default()
            },
            spec,
        }
    }

    /// Everything that is wrong with the document beyond its shape; empty if nothing is.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let mut p = Problems(Vec::new());
        let metadata = Metadata {
            name: self.metadata.name.clone(),
            namespace: "default".to_owned(),
            title: self.metadata.title.clone(),
            labels: BTreeMap::new(),
        };
        let kind = (self.kind != "Capacity").then_some(self.kind.as_str());
        super::check::check_head(&self.api_version, kind, &metadata, &mut p);
        let spec = &self.spec;
        if spec.units.is_none() && spec.rate.is_none() {
            p.add(
                "spec",
                "SC1062: has no limit; give `units`, `rate`, or both",
            );
        }
        if let Some(units) = spec.units {
            p.within("spec.units", i64::from(units), 0, i64::from(MAX_UNITS));
        }
        match (&spec.rate, spec.burst) {
            (Some(rate), burst) => {
                if let Err(message) = Rate::parse(rate, burst) {
                    p.add("spec.rate", message);
                }
            }
            (None, Some(_)) => p.add("spec.burst", "SC1063: is of no use without `rate`"),
            (None, None) => {}
        }
        p.0
    }

    /// The name.
    ///
    /// # Errors
    /// As [`Name::new`].
    pub fn capacity_name(&self) -> Result<Name, name::Error> {
        Name::new(&self.metadata.name)
    }

    /// The limits of a sound document.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let rate = self.spec.rate.as_deref();
        Limits {
            units: self.spec.units,
            rate: rate.and_then(|text| Rate::parse(text, self.spec.burst).ok()),
        }
    }
}

impl Document {
    /// What each attempt of the job uses of capacities.
    #[must_use]
    pub fn uses(&self) -> Uses {
        let uses = self.spec.uses.iter();
        let uses = uses.filter_map(|(name, n)| Some((Name::new(name).ok()?, *n)));
        let own = self.pace().and_then(|pace| pace.capacity_name().ok());
        Uses::new(uses.chain(own.map(|name| (name, 1))))
    }

    /// The capacity that stands for the job's rate, if it has one: each start takes one token of it.
    #[must_use]
    pub fn pace(&self) -> Option<CapacityDocument> {
        let rate = Rate::even(self.spec.rate.as_deref()?).ok()?;
        let name = format!("{}/{}", self.metadata.namespace, self.metadata.name);
        let spec = CapacitySpec {
            units: None,
            rate: Some(rate.text()),
            burst: Some(rate.burst),
        };
        let mut document = CapacityDocument::new(&pace_of(&name), spec);
        document.metadata.title = Some(format!("the rate of job {name}"));
        Some(document)
    }
}

/// The name of the capacity that stands for the rate of the job `NAMESPACE/NAME`.
#[must_use]
pub fn pace_of(job: &str) -> String {
    format!("{PACE}{:016x}", hash_of(job.as_bytes()))
}

/// How the names of capacities begin that stand for rates of jobs.
pub const PACE: &str = "rate-of-job.";

/// What is wrong with a job's rate.
pub(super) fn check_rate(rate: Option<&str>, p: &mut Problems) {
    if let Some(Err(message)) = rate.map(Rate::even) {
        p.add("spec.rate", message);
    }
}

/// What is wrong with a job's uses, without looking at the capacities.
pub(super) fn check_uses(uses: &BTreeMap<String, u32>, p: &mut Problems) {
    if uses.len() > MAX_USES {
        let n = uses.len();
        p.add(
            "spec.uses",
            format!("SC1064: names {n} capacities; a job may use {MAX_USES}"),
        );
    }
    let mut variables: BTreeMap<String, &str> = BTreeMap::new();
    for (name, units) in uses {
        let path = format!("spec.uses.{name}");
        p.name(&path, name);
        p.within(&path, i64::from(*units), 1, i64::from(MAX_UNITS));
        let variable = variable(name);
        if let Some(other) = variables.insert(variable.clone(), name) {
            p.add(
                &path,
                format!(
                    "SC1065: a process would find `{other}` and `{name}` both in {variable}; \
                     use one of them, or name a capacity otherwise"
                ),
            );
        }
    }
}

/// What is wrong with a use of a capacity with these limits: that it could never be met. One that is
/// closed (0 units) is passed over: it is to be opened again.
#[must_use]
pub fn check_use(name: &Name, units: u32, limits: &Limits) -> Option<Problem> {
    let most = limits.most().filter(|most| units > *most && *most > 0)?;
    Some(Problem {
        path: format!("spec.uses.{name}"),
        message: format!(
            "SC1066: needs {units} of `{name}`, which never has more than {most} ({limits})"
        ),
    })
}

#[cfg(test)]
mod tests;
