//! What runs on a drill's cluster, and what it must have done at the end: worked out here, never asked
//! of the scheduler.
//!
//! # Invariants
//! - Planned instants are whole multiples of a job's step of time since 1970: arithmetic that shares
//!   nothing with the scheduler's.
//!
//! # Not here
//! The task ([`crate::task`]) and its database ([`crate::business`]).

use serde_json::{Value, json};

use crate::drill::Load;
use crate::evidence::Occasion;

/// A job of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub name: &'static str,
    /// From one planned instant to the next.
    pub every_s: u32,
    /// Its shards.
    pub shards: u32,
}

/// The jobs of every load.
pub const JOBS: [Job; 2] = [
    Job {
        name: "drill-single",
        every_s: 2,
        shards: 1,
    },
    Job {
        name: "drill-sharded",
        every_s: 3,
        shards: 3,
    },
];
/// Steps of a task: each is one transaction in the business database.
pub const STEPS: u32 = 4;
/// Accounts in the business database.
pub const ACCOUNTS: u32 = 64;
/// The handler's name.
pub const HANDLER: &str = "drill-task";

/// How long a task waits between two steps.
#[must_use]
pub fn pace_ms(load: Load, occasion: &Occasion) -> u64 {
    let usual = 250;
    match load {
        Load::Skewed if occasion.shard == 2 => usual * 10,
        _ => usual,
    }
}

/// What a step posts: the account and the amount.
#[must_use]
pub fn posting(load: Load, occasion: &Occasion, step: u32) -> (u32, i64) {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let planned = occasion.planned_us.to_le_bytes();
    let numbers = [occasion.shard.to_le_bytes(), step.to_le_bytes()].concat();
    for byte in occasion.job.bytes().chain(planned).chain(numbers) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    let account = match load {
        Load::HotKey => 0,
        _ => u32::try_from((hash >> 32) % u64::from(ACCOUNTS)).unwrap_or(0),
    };
    (account, i64::try_from(hash % 9_973).unwrap_or(0) + 1)
}

/// The job's document.
#[must_use]
pub fn document(job: &Job) -> Value {
    json!({
        "apiVersion": "sichen/v1",
        "kind": "Job",
        "metadata": { "name": job.name },
        "spec": {
            "schedules": [{ "cron": format!("*/{} * * * * *", job.every_s) }],
            "run": { "handler": HANDLER },
            "shards": { "count": job.shards },
            "overlap": "allow",
            "catchUp": { "policy": { "all": 10_000 } },
            "retry": { "maxAttempts": 100, "backoff": { "fixed": "200ms" } },
            "timeouts": { "attempt": "10m" },
        },
    })
}

/// The instants of a job in (`after_us`, `until_us`].
#[must_use]
pub fn instants(job: &Job, after_us: i64, until_us: i64) -> Vec<i64> {
    let step = i64::from(job.every_s) * 1_000_000;
    let first = (after_us.div_euclid(step) + 1) * step;
    let mut instants = Vec::new();
    let mut at = first;
    while at <= until_us {
        instants.push(at);
        at += step;
    }
    instants
}

/// All occasions of the load in (`after_us`, `until_us`].
#[must_use]
pub fn occasions(after_us: i64, until_us: i64) -> Vec<Occasion> {
    let mut all = Vec::new();
    for job in &JOBS {
        for planned_us in instants(job, after_us, until_us) {
            all.extend((0..job.shards).map(|shard| Occasion {
                job: job.name.to_owned(),
                shard,
                planned_us,
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests;
