//! Whole stretches of the calendar, counted: nothing lost, nothing doubled, whoever has the duty.

use std::collections::{BTreeMap, BTreeSet};

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sichen_core::ids::{JobUid, RunId};
use sichen_core::port::{Page, RunFilter};

use crate::fixture::{Cluster, Node, start};

/// The planned instants of all runs, by job; a second run of one would show as a lower count.
fn planned(cluster: &Cluster) -> (usize, BTreeMap<JobUid, BTreeSet<Timestamp>>) {
    let (mut rows, mut found) = (0, BTreeMap::<JobUid, BTreeSet<Timestamp>>::new());
    let mut after: Option<RunId> = None;
    loop {
        let page = Page {
            after,
            limit: 1_000,
        };
        let runs = block_on(cluster.store.list_runs(RunFilter::default(), page)).unwrap();
        let Some(last) = runs.last() else {
            return (rows, found);
        };
        after = Some(last.id);
        rows += runs.len();
        for run in &runs {
            let at = run.occasion.planned_at().unwrap();
            found.entry(run.job).or_default().insert(at);
        }
    }
}

/// Fires until nothing more is due, and keeps the node's lease alive; how many runs that made.
fn fire(cluster: &Cluster, node: &Node) -> usize {
    node.coordinate(cluster);
    let (now, mut runs) = (cluster.now(), 0);
    loop {
        let pass = node.trigger(cluster);
        runs += pass.runs;
        if pass.next.is_none_or(|next| next > now) {
            return runs;
        }
    }
}

/// DUP-004: daily totals match the calendar, with two nodes that share the jobs, one of which is replaced
/// every 17 minutes: in turn it hands over, and is gone without a word.
#[test]
fn a_days_totals_match_the_calendar_whoever_has_the_duty() {
    let cluster = Cluster::new();
    // Without input a run is over when it is written: only time is looked at here.
    let spec = |cron: &str| {
        json!({
            "run": { "handler": "h" }, "overlap": "allow", "schedules": [{ "cron": cron }],
            "parameters": { "none": [] }, "shards": { "items": { "parameter": "none" } },
        })
    };
    let mut jobs = vec![(cluster.apply("ten", spec("*/10 * * * * *")), 10, 8_640)];
    for n in 0..5 {
        let minute = cluster.apply(&format!("minute-{n}"), spec("* * * * *"));
        let half = cluster.apply(&format!("half-{n}"), spec("*/30 * * * *"));
        jobs.extend([(minute, 60, 1_440), (half, 1_800, 48)]);
    }
    let mut nodes = [cluster.node("n0"), cluster.node("n1")];
    let (mut changes, mut by_each) = (0, [0, 0]);
    for tick in 1..=8_640_i64 {
        // A node's lease lasts five seconds.
        for seconds in [4, 4, 2] {
            cluster.pass(seconds);
            for node in &nodes {
                node.coordinate(&cluster);
            }
        }
        if tick % (17 * 6) == 0 {
            let gone = changes % 2;
            if changes % 4 < 2 {
                block_on(nodes[gone].engine.coordinator.hand_over()).unwrap();
            }
            // Who goes is on its way out; its successor is another process.
            nodes[gone] = cluster.node(&format!("n{tick}"));
            changes += 1;
        }
        for (node, fired) in nodes.iter().zip(&mut by_each) {
            *fired += fire(&cluster, node);
        }
    }
    assert_eq!(changes, 84);
    assert!(
        by_each.iter().all(|fired| *fired > 1_000),
        "both work: {by_each:?}"
    );
    let (rows, found) = planned(&cluster);
    assert_eq!(rows, 16_080);
    for (job, grid, count) in jobs {
        let instants = &found[&job];
        assert_eq!(instants.len(), count, "each planned time once");
        let off = instants.iter().find(|at| at.as_second() % grid != 0);
        assert_eq!(off, None, "every {grid} s");
    }
}

/// CRON-026: a fixed rate keeps its phase, however often the servers start anew.
#[test]
fn a_fixed_rate_keeps_its_phase_over_restarts() {
    let cluster = Cluster::new();
    let spec = json!({
        "run": { "handler": "h" }, "overlap": "allow",
        "schedules": [{ "every": "1h", "phase": "20m" }],
    });
    let job = cluster.apply("j", spec);
    let mut node = cluster.node("n0");
    for minute in 1..=300 {
        cluster.pass(60);
        if minute == 55 || minute > 55 && (minute - 55) % 20 == 0 {
            node = cluster.node(&format!("n{minute}"));
        }
        fire(&cluster, &node);
    }
    let (rows, found) = planned(&cluster);
    let hour = |n: i64| start() + SignedDuration::from_mins(20 + 60 * n);
    assert_eq!(rows, 5);
    assert_eq!(found[&job], (0..5).map(hour).collect::<BTreeSet<_>>());
}
