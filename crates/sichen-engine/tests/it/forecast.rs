//! Claims about what a pool is said to have to do.

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use sichen_core::forecast::Window;
use sichen_core::lifecycle::shard::Ending;
use sichen_engine::control::forecast::{Asked, Outlook};
use sichen_engine::sessions::ReportVerdict;

use crate::fixture::{Cluster, Node, pool, report, start};

fn at(hours: i64) -> Timestamp {
    start() + SignedDuration::from_hours(hours)
}

/// A day from tomorrow on, in hours.
fn asked(slots: Option<u32>) -> Asked {
    Asked {
        pool: pool(),
        window: Window {
            from: at(24),
            to: at(48),
            part: SignedDuration::from_hours(1),
        },
        slots,
    }
}

fn outlook(node: &Node, slots: Option<u32>) -> Outlook {
    block_on(node.engine.control.forecast(asked(slots))).unwrap()
}

/// A job of four shards at three each night, whose last runs took so many minutes each.
fn settlement(cluster: &Cluster, node: &Node, spec: serde_json::Value, minutes: &[i64]) {
    let job = cluster.apply("settle", spec);
    for (n, minutes) in minutes.iter().enumerate() {
        // Each run outlasts its worker's session, which nobody renews.
        node.worker(cluster, &format!("w{n}"), 8);
        let run = cluster.run(job, &format!("k{n}"));
        node.dispatch(cluster);
        cluster.pass(60 * minutes);
        for shard in cluster.shards(run) {
            let ended = node.report(cluster, report(shard.key, shard.token, Ending::Succeeded));
            assert_eq!(ended, ReportVerdict::Accepted);
        }
    }
}

fn nightly() -> serde_json::Value {
    serde_json::json!({
        "schedules": [{ "cron": "0 3 * * *" }], "run": { "handler": "h" }, "shards": { "count": 4 },
    })
}

#[test]
fn a_run_is_reckoned_as_the_middle_one_of_those_that_succeeded() {
    let cluster = Cluster::new();
    let node = cluster.node("a");
    node.coordinate(&cluster);
    settlement(&cluster, &node, nightly(), &[30, 10, 20]);
    let told = outlook(&node, Some(8));
    assert_eq!(told.jobs.len(), 1);
    let job = &told.jobs[0];
    assert_eq!((job.runs, job.slots), (1, 4));
    assert_eq!(job.length, Some(SignedDuration::from_mins(20)));
    let busy: Vec<_> = told
        .pool
        .parts
        .iter()
        .filter(|part| part.runs > 0)
        .collect();
    assert_eq!(busy.len(), 1);
    // Four of eight slots for a third of the hour.
    assert_eq!(
        (busy[0].from, busy[0].wanted, busy[0].used),
        (at(27), 4, 166)
    );
    assert_eq!(told.pool.overbooked, []);
    assert!(!told.cut);
}

#[test]
fn with_fewer_slots_the_instant_and_the_job_are_named() {
    let cluster = Cluster::new();
    let node = cluster.node("a");
    node.coordinate(&cluster);
    settlement(&cluster, &node, nightly(), &[30]);
    let told = outlook(&node, Some(3));
    let span = &told.pool.overbooked[0];
    assert_eq!((span.from, span.wanted), (at(27), 4));
    // Thirty slot-minutes too many, worked off by three at once.
    assert_eq!(span.until, Some(at(27) + SignedDuration::from_mins(40)));
    assert_eq!(span.jobs, [0]);
}

#[test]
fn slots_are_those_of_live_workers_if_none_are_given() {
    let cluster = Cluster::new();
    let node = cluster.node("a");
    node.coordinate(&cluster);
    assert_eq!(outlook(&node, None).slots, 0);
    node.worker(&cluster, "w1", 5);
    let leaving = node.worker(&cluster, "w2", 7);
    assert_eq!(outlook(&node, None).slots, 12);
    block_on(node.engine.sessions.draining(leaving)).unwrap();
    assert_eq!(outlook(&node, None).slots, 5);
}

#[test]
fn a_job_without_a_past_is_named_and_counts_for_nothing() {
    let cluster = Cluster::new();
    let node = cluster.node("a");
    cluster.apply("new", nightly());
    cluster.apply("never", serde_json::json!({ "run": { "handler": "h" } }));
    let told = outlook(&node, Some(1));
    assert_eq!(told.jobs.len(), 1);
    assert_eq!((told.jobs[0].length, told.jobs[0].runs), (None, 1));
    assert!(told.pool.parts.iter().all(|part| part.wanted == 0));
    assert_eq!(told.pool.parts.iter().map(|part| part.runs).sum::<u64>(), 1);
}

#[test]
fn a_capacity_counts_what_jobs_of_other_pools_use_of_it() {
    let cluster = Cluster::new();
    let node = cluster.node("a");
    node.coordinate(&cluster);
    let document = serde_json::json!({
        "apiVersion": "sichen/v1", "kind": "Capacity",
        "metadata": { "name": "ledger" }, "spec": { "units": 10 },
    });
    let document = serde_json::from_value(document).unwrap();
    block_on(node.engine.control.apply_capacity("user", &document)).unwrap();
    let mut here = nightly();
    here["uses"] = serde_json::json!({ "ledger": 2 });
    settlement(&cluster, &node, here, &[10]);
    let told = outlook(&node, Some(8));
    let (name, units, ledger) = &told.capacities[0];
    assert_eq!((name.as_str(), *units), ("ledger", 10));
    let most = ledger.parts.iter().map(|part| part.wanted).max();
    assert_eq!(most, Some(8));
    let mut elsewhere = nightly();
    elsewhere["uses"] = serde_json::json!({ "ledger": 3 });
    elsewhere["pool"] = serde_json::json!("other");
    cluster.apply("elsewhere", elsewhere);
    let told = outlook(&node, Some(8));
    assert_eq!(told.jobs.iter().filter(|job| job.in_pool).count(), 1);
    let runs: u64 = told.capacities[0]
        .2
        .parts
        .iter()
        .map(|part| part.runs)
        .sum();
    assert_eq!(runs, 2);
    assert_eq!(told.pool.parts.iter().map(|part| part.runs).sum::<u64>(), 1);
}
