//! What a CronJob does about failed pods, as a job's `retry`.
//!
//! # Not here
//! What follows from rules (`sichen_core::retry`).

use serde_json::{Map, Value, json};
use sichen_core::retry::MAX_RUN_FAILURES;

use super::kubernetes::{Reader, Refused};
use super::source::Level;

const JOB: &str = "spec.jobTemplate.spec";
/// What the cluster takes if nothing is said.
const BACKOFF_LIMIT: u64 = 6;
/// Attempts that a job may have.
const MOST_ATTEMPTS: u64 = 1_000;

/// Reads `backoffLimit`, `backoffLimitPerIndex` and `podFailurePolicy`.
///
/// # Errors
/// A value that means nothing.
pub fn read(reader: &mut Reader<'_>, spec: &mut Map<String, Value>) -> Result<(), Refused> {
    let (whole, each) = (
        format!("{JOB}.backoffLimit"),
        format!("{JOB}.backoffLimitPerIndex"),
    );
    let (of_shard, of_run) = match (reader.number(&each)?, reader.number(&whole)?) {
        (Some(each), whole) => (each, whole),
        (None, whole) => {
            let limit = whole.unwrap_or(BACKOFF_LIMIT);
            // The cluster counts the failures of all pods together.
            (limit, spec.contains_key("shards").then_some(limit))
        }
    };
    if of_shard >= MOST_ATTEMPTS {
        let message =
            format!("{of_shard} is more than the {MOST_ATTEMPTS} attempts that are taken");
        reader.say(Level::Warning, &whole, message);
    }
    let attempts = of_shard.saturating_add(1).min(MOST_ATTEMPTS);
    // 10 s, 20 s, 40 s, … up to 6 min: as the cluster does.
    let backoff = json!({ "exponential": { "base": "10s", "factor": 2.0, "max": "6m" } });
    let mut retry = json!({ "maxAttempts": attempts, "backoff": backoff });
    if let Some(limit) = of_run {
        let most = limit.saturating_add(1).min(MAX_RUN_FAILURES.into());
        retry["maxFailures"] = most.into();
    }
    let field = format!("{JOB}.podFailurePolicy.rules");
    let list = reader.get(&field).as_array().cloned().unwrap_or_default();
    let mut rules = Vec::new();
    for (n, rule) in list.iter().enumerate() {
        rules.extend(read_rule(reader, rule, &format!("{field}[{n}]"))?);
    }
    if !rules.is_empty() {
        retry["rules"] = rules.into();
    }
    spec.insert("retry".into(), retry);
    Ok(())
}

fn read_rule(reader: &mut Reader<'_>, rule: &Value, at: &str) -> Result<Option<Value>, Refused> {
    let refused = |why: String| Err((at.to_owned(), why));
    let action = match rule["action"].as_str() {
        Some("FailJob") => "failRun",
        Some("FailIndex") => "failShard",
        Some("Count") => "retry",
        Some("Ignore") => {
            let message = "Ignore starts another pod without counting; here another attempt is \
                           started, which counts";
            reader.say(Level::Warning, at, message);
            "retry"
        }
        other => return refused(format!("the action {other:?} is not known")),
    };
    let codes = &rule["onExitCodes"];
    if codes.is_object() {
        let values = codes["values"].as_array().into_iter().flatten();
        let values: Option<Vec<u64>> = values.map(Value::as_u64).collect();
        let Some(values) = values.filter(|values| values.iter().all(|v| *v <= 255)) else {
            return refused("the exit codes of a process are 0 to 255".into());
        };
        let listed = match codes["operator"].as_str() {
            Some("In") => values.into_iter().map(Value::from).collect(),
            Some("NotIn") => all_but(&values),
            other => return refused(format!("the operator {other:?} is not known")),
        };
        return Ok(Some(json!({ "exitCodes": listed, "action": action })));
    }
    let conditions = rule["onPodConditions"].as_array().into_iter().flatten();
    let disrupted = conditions.clone().any(|c| c["type"] == "DisruptionTarget");
    if disrupted && conditions.count() == 1 {
        let message = "a disrupted pod is an attempt that was lost with its worker";
        reader.say(Level::Note, at, message);
        return Ok(Some(json!({ "ends": ["lost"], "action": action })));
    }
    // Passing over a rule would let a later one decide what this one does.
    refused("a rule about other conditions than DisruptionTarget has no counterpart".into())
}

/// The exit codes of failures that are not listed, as ranges.
fn all_but(values: &[u64]) -> Vec<Value> {
    let mut ranges = Vec::new();
    let mut from = None;
    for code in 1..=256_u64 {
        match (code < 256 && !values.contains(&code), from) {
            (true, None) => from = Some(code),
            (false, Some(first)) => {
                ranges.push(if first == code - 1 {
                    first.into()
                } else {
                    format!("{first}-{}", code - 1).into()
                });
                from = None;
            }
            _ => {}
        }
    }
    ranges
}
