//! Everything that can differ from one drill to another, by name: what a comparison goes by.
//!
//! # Invariants
//! - What can be chosen, and what a machine or a build brings along, is a condition; what is drawn from
//!   another condition is none of its own.
//!
//! # Not here
//! Comparing ([`crate::record`]).

use std::collections::BTreeMap;

use crate::drill::{Act, BEAT_MS, Drill, NODE_LEASE_MS};
use crate::load::{ACCOUNTS, JOBS, STEPS};
use crate::schedule::Plan;
use crate::stage::load_of;

/// What is known of the program and the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Around {
    /// Version and build of the program under drill.
    pub(crate) program: String,
    /// What the server keeps its truth in: kind, place, version and settings, by name.
    pub(crate) store: BTreeMap<String, String>,
}

fn word(value: impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// How the one condition is changed, and for how long.
fn changed(drill: &Drill, plan: &Plan) -> String {
    let name = plan.variant.name();
    match plan.variant.hold_ms(drill.bound_ms) {
        Some(ms) if drill.fault != Act::Nothing => format!("{name}, for {ms} ms"),
        // The load itself is what is changed.
        _ if drill.fault == Act::Nothing => {
            format!("{name}: {} load", word(load_of(drill, plan.variant)))
        }
        _ => name.to_owned(),
    }
}

fn work(drill: &Drill) -> String {
    let jobs = JOBS.map(|job| format!("every {} s {} shard(s)", job.every_s, job.shards));
    let jobs = jobs.join(", ");
    let kind = match drill.fault {
        Act::Nothing => String::new(),
        _ => format!("{}: ", word(drill.shape.load)),
    };
    format!("{kind}{jobs}, {STEPS} steps each, {ACCOUNTS} accounts")
}

/// All of them.
pub(crate) fn conditions(drill: &Drill, plan: &Plan, around: &Around) -> BTreeMap<String, String> {
    let shape = &drill.shape;
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let mut put = |name: &str, value: String| drop(all.insert(name.to_owned(), value));
    put("drill", drill.name.to_owned());
    put("changed", changed(drill, plan));
    put("seed", plan.seed.to_string());
    put("load_ms", plan.duration_ms.to_string());
    put("load", work(drill));
    put("program", around.program.clone());
    for (name, value) in &around.store {
        put(name, value.clone());
    }
    put("servers", (1 + shape.peers).to_string());
    put(
        "workers",
        format!("{} with {} slots", shape.workers, shape.slots),
    );
    put("session_ms", shape.session_ms.to_string());
    put("beat_ms", BEAT_MS.to_string());
    put("node_lease_ms", NODE_LEASE_MS.to_string());
    put("ground", word(shape.ground));
    put(
        "machine",
        format!(
            "{}-{}, {cores} processors",
            std::env::consts::OS,
            std::env::consts::ARCH
        ),
    );
    if let Some(mistake) = plan.mistake {
        put("mistake", word(mistake));
    }
    all
}

#[cfg(test)]
mod tests;
