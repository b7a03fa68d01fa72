//! What a process finds in its environment: a fixed small base, the configuration's additions, and
//! the `SICHEN_*` contract (docs/guide/processes.md).

use std::path::Path;

use jiff::Timestamp;
use sichen_sdk::{Context, Part};

use super::Launch;
use super::channel::Channel;

/// Taken over from the worker; everything else of the worker's environment stays its own.
const BASE: [&str; 5] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ"];
/// A single text of an environment may have 128 KiB on Linux.
const MAX_VALUE_BYTES: usize = 100 * 1024;

/// What the worker has made for the attempt.
#[derive(Debug)]
pub(super) struct Own<'a> {
    pub(super) worker_uid: &'a str,
    pub(super) lease: &'a str,
    pub(super) dir: &'a Path,
    pub(super) report: &'a Path,
    pub(super) channel: &'a Channel,
}

/// # Errors
/// A value that no environment can carry, named.
pub(super) fn of(
    context: &Context,
    launch: &Launch,
    own: &Own<'_>,
) -> Result<Vec<(String, String)>, String> {
    let mut env: Vec<(String, String)> = BASE
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .collect();
    env.extend(launch.env.iter().cloned());
    let mut add = |name: &str, value: String| env.push((format!("SICHEN_{name}"), value));
    let grant = context.grant();
    add("JOB", grant.job.clone());
    add("RUN", grant.run_key.clone());
    add("RUN_ID", context.run_id().to_string());
    add("REVISION", grant.revision.to_string());
    add("SHARD", context.shard_no().to_string());
    add("ATTEMPT", context.attempt().to_string());
    add("TOKEN", context.token().to_string());
    add("FENCE_KEY", context.fence_key().to_owned());
    for (name, limit_ms) in [
        ("TIMEOUT_MS", grant.attempt_timeout_ms),
        ("STALL_MS", grant.stall_timeout_ms),
    ] {
        if limit_ms > 0 {
            add(name, limit_ms.to_string());
        }
    }
    add("GRACE_MS", grant.grace_ms.to_string());
    match context.part() {
        Part::Count { index, total } => {
            add("SHARD_INDEX", index.to_string());
            add("SHARD_TOTAL", total.to_string());
        }
        part => {
            add("SHARD_INDEX", context.shard_no().max(0).to_string());
            add("SHARD_TOTAL", context.total().to_string());
            match part {
                Part::IntRange(range) => {
                    add("RANGE_FROM", range.start.to_string());
                    add("RANGE_TO", range.end.to_string());
                }
                Part::TimeRange(range) => {
                    add("RANGE_FROM", instant(range.start)?);
                    add("RANGE_TO", instant(range.end)?);
                }
                Part::Item(item) => add("ITEM", item),
                Part::Reduce { shards } => add("REDUCE", shards.to_string()),
                Part::Plan => add("PLAN", "1".to_owned()),
                Part::Count { .. } => {}
            }
        }
    }
    for (name, at) in [
        ("PLANNED_AT", grant.planned_at_us),
        ("DEADLINE", grant.deadline_us),
    ] {
        if let Some(at) = at {
            add(name, instant(at)?);
        }
    }
    if let Some(period) = context.period_us() {
        add("PERIOD_START", instant(period.start)?);
        add("PERIOD_END", instant(period.end)?);
    }
    if !context.zone().is_empty() {
        add("ZONE", context.zone().to_owned());
    }
    // A display; one that no environment can carry is left out rather than failing the attempt.
    if let Some(position) = context
        .display_checkpoint()
        .filter(|text| !text.contains('\0'))
    {
        add("CHECKPOINT", position.to_owned());
    }
    let file = own.dir.join("parameters.json");
    std::fs::write(&file, context.parameters())
        .map_err(|error| format!("{}: {error}", file.display()))?;
    add("PARAMETERS_FILE", file.display().to_string());
    if context.parameters().len() <= MAX_VALUE_BYTES {
        add("PARAMETERS", context.parameters().to_owned());
    }
    for (name, value) in scalars(context) {
        add(&format!("PARAM_{name}"), value);
    }
    for one in &grant.uses {
        add(&uses_variable(&one.capacity), one.units.to_string());
    }
    add("REPORT", own.report.display().to_string());
    add("REPORT_SOCKET", own.channel.path().display().to_string());
    add("REPORT_SECRET", own.channel.secret().to_owned());
    // By these two a later incarnation of the worker finds strangers of its own.
    add("WORKER_UID", own.worker_uid.to_owned());
    add("LEASE", own.lease.to_owned());
    if !context.traceparent().is_empty() {
        env.push(("TRACEPARENT".to_owned(), context.traceparent().to_owned()));
    }
    for (name, value) in &env {
        if name.is_empty() || name.contains(['\0', '=']) {
            return Err(format!(
                "{name:?} is no name of a variable: it is empty, or has `=` or a NUL character"
            ));
        }
        if value.contains('\0') {
            return Err(format!("{name}: no environment can carry a NUL character"));
        }
        if value.len() > MAX_VALUE_BYTES {
            return Err(format!(
                "{name}: {} bytes, the limit is {MAX_VALUE_BYTES}",
                value.len()
            ));
        }
    }
    Ok(env)
}

/// Texts, numbers and booleans among the parameters, under names that a shell can spell. Of two
/// that are spelt alike the last in order counts.
fn scalars(context: &Context) -> Vec<(String, String)> {
    let parameters: serde_json::Value = context.read_parameters().unwrap_or_default();
    let Some(map) = parameters.as_object() else {
        return Vec::new();
    };
    map.iter()
        .filter_map(|(name, value)| {
            let text = match value {
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Number(number) => number.to_string(),
                serde_json::Value::Bool(yes) => yes.to_string(),
                _ => return None,
            };
            let name = name.chars().map(|c| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_uppercase()
                } else {
                    '_'
                }
            });
            // What no environment can carry stands in the file.
            let fits = text.len() <= MAX_VALUE_BYTES && !text.contains('\0');
            fits.then(|| (name.collect(), text))
        })
        .collect()
}

fn instant(us: i64) -> Result<String, String> {
    Timestamp::from_microsecond(us)
        .map(|at| at.to_string())
        .map_err(|error| format!("{us} µs: {error}"))
}
/// The name of a capacity as a variable: in capitals, `-` and `.` as `_`. The server has refused a job
/// of which two come to the same.
fn uses_variable(capacity: &str) -> String {
    format!(
        "USES_{}",
        capacity.to_ascii_uppercase().replace(['-', '.'], "_")
    )
}
