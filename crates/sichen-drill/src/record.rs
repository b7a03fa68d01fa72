//! The record of one drill, and comparing two.
//!
//! # Invariants
//! - Two records are compared only if one condition differs between them: else nobody knows what made
//!   the difference.
//!
//! # Not here
//! Writing the folder around it ([`crate::folder`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::judge::Measures;

/// The record, as it stands in `record.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// What the drill is about.
    pub topic: String,
    /// What must hold.
    pub claim: String,
    /// The program that was drilled.
    pub baseline_version: String,
    /// The one condition that was changed, and for how long.
    pub condition: String,
    /// All conditions, by name: what a comparison goes by.
    pub conditions: BTreeMap<String, String>,
    /// How it was carried out.
    pub execution: Execution,
    /// The files beside this one, with the SHA-256 of each.
    pub evidence: BTreeMap<String, String>,
    /// What had to hold.
    pub pass_when: Vec<String>,
    /// What would have stopped it.
    pub stop_when: Vec<String>,
    /// What came of it.
    pub observed_result: Observed,
    /// The first thing that was not as it must be.
    pub first_deviation: Option<String>,
    /// The command that repeats it.
    pub recovery_replay: String,
    /// Who carried it out.
    pub owner: String,
    /// How to undo by hand what it may have left.
    pub rollback: String,
    /// What it does not show.
    pub not_covered: Vec<String>,
}

/// How a drill was carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Execution {
    /// The command.
    pub command: String,
    /// When it began.
    pub began: String,
    /// How long it took.
    pub took_ms: u64,
    /// The cluster.
    pub cluster: String,
    /// The faults, as they were done.
    pub faults: Vec<String>,
}

/// How a drill ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// All that must hold holds.
    Passed,
    /// Something does not.
    Failed,
    /// It was stopped while it ran.
    Stopped,
    /// It was begun and could not be carried out to its end, so that nothing can be said.
    Unfinished,
}

/// What came of a drill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// In one word.
    pub verdict: Outcome,
    /// Why it was stopped, and how long the stop took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Why it could not be finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
    /// Each thing that had to hold: `ok` or `NOT SO`, and what was seen.
    pub findings: Vec<String>,
    /// Of the business data before the load.
    pub checksum_before: String,
    /// After it.
    pub checksum_after: String,
    /// What the planned instants alone give.
    pub checksum_expected: String,
    /// What was measured.
    pub measures: Measures,
}

/// Two records side by side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The condition that differs, if one does, with both values.
    pub differs: Option<(String, String, String)>,
    /// What came of it, both.
    pub verdicts: (Outcome, Outcome),
    /// What was measured: name, first, second.
    pub measures: Vec<(String, String, String)>,
    /// What holds in one and not in the other.
    pub findings: Vec<(String, String)>,
}

/// Compares two records.
///
/// # Errors
/// [`Error::Incomparable`] if more than one condition differs; each is named.
pub fn compare(a: &Record, b: &Record) -> Result<Comparison, Error> {
    let mut names: Vec<&String> = a.conditions.keys().chain(b.conditions.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let value = |r: &Record, name: &String| r.conditions.get(name).cloned().unwrap_or_default();
    let differs = names
        .into_iter()
        .filter(|name| value(a, name) != value(b, name));
    let mut differs: Vec<(String, String, String)> = differs
        .map(|name| (name.clone(), value(a, name), value(b, name)))
        .collect();
    if differs.len() > 1 {
        let named: Vec<String> = differs
            .iter()
            .map(|(n, x, y)| format!("{n}: {x} and {y}"))
            .collect();
        return Err(Error::Incomparable(format!(
            "{} conditions differ, so that nobody can say which of them made the difference: {}\n  \
             repeat one of the two with a single condition changed (`--seed`, `--variant`, \
             `--duration`; `--batch` makes four that can be compared)",
            differs.len(),
            named.join("; ")
        )));
    }
    let (x, y) = (&a.observed_result, &b.observed_result);
    // Figures differ from drill to drill; what must hold should not.
    let word = |finding: &str| finding.split(':').next() == Some("ok");
    let differing = x.findings.iter().zip(&y.findings);
    let differing = differing.filter(|(x, y)| word(x) != word(y));
    Ok(Comparison {
        differs: differs.pop(),
        verdicts: (x.verdict, y.verdict),
        measures: side_by_side(&x.measures, &y.measures),
        findings: differing.map(|(x, y)| (x.clone(), y.clone())).collect(),
    })
}

fn side_by_side(x: &Measures, y: &Measures) -> Vec<(String, String, String)> {
    let spreads = [
        (
            "lateness, no fault near",
            &x.lateness_calm,
            &y.lateness_calm,
        ),
        (
            "lateness near faults",
            &x.lateness_near_faults,
            &y.lateness_near_faults,
        ),
        ("takeover", &x.takeover, &y.takeover),
        ("recovery", &x.recovery, &y.recovery),
        ("lateness while its server was gone", &x.moved, &y.moved),
    ];
    let mut rows: Vec<(String, String, String)> = Vec::new();
    for (name, x, y) in spreads {
        let parts = [
            ("p50", x.p50_ms, y.p50_ms),
            ("p99", x.p99_ms, y.p99_ms),
            ("max", x.max_ms, y.max_ms),
        ];
        rows.extend(parts.map(|(part, a, b)| {
            (
                format!("{name} {part} ms"),
                shown(x.count, a),
                shown(y.count, b),
            )
        }));
    }
    for (name, x, y) in [
        ("attempts", x.attempts, y.attempts),
        ("repeats", x.repeats, y.repeats),
        ("refused by the fence", x.refused, y.refused),
    ] {
        rows.push((name.to_owned(), x.to_string(), y.to_string()));
    }
    rows
}

fn shown(count: usize, ms: i64) -> String {
    if count == 0 {
        "-".to_owned()
    } else {
        ms.to_string()
    }
}

#[cfg(test)]
mod tests;
