//! Cases of `testdata/cases/bug_reports.json` in their form with several servers: time that was missed, and
//! work that outlasts whoever granted it.
//!
//! # Not here
//! The rules of catch-up, which know nothing of nodes (`crates/sichen-core/tests/it/schedule_due.rs`).

use serde_json::json;

use crate::cluster::Peers;
use crate::outage::{apply_ticking, each_second_ran, ticks};
use crate::program::until;
use crate::scene::Scene;

/// What a job that ticks each second has run of the seconds in between, at both of which it was.
fn ran_between(node: &Scene, name: &str, from: i64, to: i64) -> Vec<i64> {
    let planned = ticks(node, name).into_iter().map(|(at, _)| at);
    planned.filter(|at| (from..=to).contains(at)).collect()
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// MISS-001, MISS-002, MISS-011: every node is gone for a while and all come back at once. What was missed is
/// decided once, by whichever has the duty; a job that was paused at one node before and is resumed at another
/// after runs nothing of it.
#[test]
fn time_missed_by_every_node_is_decided_once_by_whoever_comes_back() {
    let Some(mut peers) = Peers::new(3, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 4);
    peers.all_share(&[0, 1, 2]);
    for name in ["latest", "paused"] {
        let spec = json!({
            "run": { "handler": "noop" }, "schedules": [{ "every": "1s" }],
            "catchUp": { "policy": "latest" }, "overlap": "allow",
        });
        peers.nodes[0].apply_spec(name, &spec);
    }
    apply_ticking(&peers.nodes[0], "all");
    for name in ["latest", "paused", "all"] {
        until("it ticks", || ticks(&peers.nodes[1], name).len() > 1);
    }
    peers.nodes[1].client.ok("pause paused");
    let gone = now();
    (0..3).for_each(|n| peers.kill(n));
    // An instant is on time for fifteen seconds, so that the trigger may change hands.
    until("seconds are missed", || now() > gone + 15 + 8);
    (0..3).for_each(|n| peers.nodes[n].start_server_again());
    peers.all_ready();
    let back = now();
    until("they tick again", || {
        ["latest", "all"]
            .iter()
            .all(|name| ticks(&peers.nodes[2], name).last().unwrap().0 > back + 1)
    });
    peers.nodes[2].client.ok("resume paused");
    until("it ticks again", || {
        ticks(&peers.nodes[0], "paused").last().unwrap().0 > back
    });
    // The first second of the outage may have been decided by a living node.
    let missed = |name: &str| ran_between(&peers.nodes[1], name, gone + 2, gone + 5);
    assert_eq!(missed("latest"), [0_i64; 0], "a newer one is on time");
    assert_eq!(missed("paused"), [0_i64; 0], "nothing of a pause runs");
    assert_eq!(missed("all").len(), 4);
    each_second_ran(&peers.nodes[2], "all", 6);
    for name in ["latest", "paused", "all"] {
        peers.nodes[2].client.ok(&format!("pause {name}"));
        until("what has begun has ended", || {
            let runs = peers.nodes[2].client.json(&format!("runs {name}"));
            let runs = runs["items"].as_array().unwrap();
            runs.iter().all(|run| run["state"] == "succeeded")
        });
    }
    peers.nodes[0].history_is_accepted();
    // A second evaluator has one run or one reason for each instant.
    peers.nodes[1].client.ok("audit --all");
    drop(worker);
}

/// MISS-017: the node that carries a backfill out is killed, and the one that takes it over; each instant has one
/// run all the same, and those that were there before none again.
#[test]
fn a_backfill_whose_nodes_die_one_after_the_other_creates_what_is_missing_once() {
    let Some(mut peers) = Peers::new(3, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 4);
    peers.all_share(&[0, 1, 2]);
    let spec = json!({
        "run": { "handler": "sleep" }, "parameters": { "ms": 30 },
        "schedules": [{ "cron": "* * * * *" }], "overlap": "allow",
    });
    peers.nodes[0].apply_spec("past", &spec);
    let start = |node: &Scene, until: &str, key: &str| {
        let range = format!("--from 2026-01-10T00:00:00Z --to 2026-01-10T{until}:00Z");
        let asked = node.client.json(&format!(
            "backfill start past {range} --parallelism 4 --key {key}"
        ));
        asked["id"].as_u64().unwrap()
    };
    let get = |node: &Scene, id: u64| node.client.json(&format!("backfill get {id}"));
    let first = start(&peers.nodes[0], "00:05", "some");
    until("some are there before", || {
        get(&peers.nodes[1], first)["state"] == "finished"
    });
    let all = start(&peers.nodes[1], "01:00", "all");
    for n in 0..3 {
        let least = 12 * (n as u64 + 1);
        until("some have run", || {
            let there = &peers.nodes[(n + 1) % 3];
            get(there, all)["runs"]["succeeded"].as_u64() >= Some(least)
        });
        peers.kill(n);
        peers.nodes[n].start_server_again();
    }
    until("it is finished", || {
        get(&peers.nodes[0], all)["state"] == "finished"
    });
    let backfill = get(&peers.nodes[2], all);
    assert_eq!(
        backfill["instants"]["created"].as_u64(),
        Some(55),
        "{backfill:#}"
    );
    let runs = peers.nodes[2]
        .client
        .json(&format!("runs --backfill {all} --limit 1000"));
    let planned = runs["items"].as_array().unwrap().iter();
    let planned: std::collections::BTreeSet<_> =
        planned.map(|run| run["planned_at"].to_string()).collect();
    assert_eq!(
        planned.len(),
        55,
        "each minute that was missing has one run"
    );
    peers.nodes[1].history_is_accepted();
    drop(worker);
}

/// DUP-008, DUP-009: a run that lasts longer than its worker's session and than any node, and one that waits for
/// its next attempt as long: nobody takes the first away from its worker, nobody starts the second early.
#[test]
fn what_runs_or_waits_longer_than_any_lease_outlasts_the_nodes() {
    let Some(mut peers) = Peers::new(3, &["--beat", "1s", "--session-ttl", "6s"]) else {
        return;
    };
    let worker = peers.worker("w1", 4);
    peers.all_share(&[0, 1, 2]);
    peers.nodes[0].apply_script("long", 1);
    let fails = json!({
        "run": { "handler": "fail" }, "parameters": { "attempts": 1, "message": "no" },
        "retry": { "maxAttempts": 2, "backoff": { "fixed": "10s" } },
    });
    peers.nodes[0].apply_spec("waits", &fails);
    peers.nodes[1].client.ok("run long --key k");
    peers.nodes[1].client.ok("run waits --key k");
    let shard = |node: &Scene, run: &str| node.shards(run)[0].clone();
    until("one runs, and one waits", || {
        let waits = shard(&peers.nodes[2], "waits:manual:k");
        let runs = shard(&peers.nodes[2], "long:manual:k");
        runs["state"] == "running" && waits["attempt"] == 1 && waits["state"] != "running"
    });
    let begun = now();
    for _ in 0..2 {
        peers.all_share(&[0, 1, 2]);
        let owner = peers.owner(&[0, 1, 2]);
        peers.kill(owner);
        peers.nodes[owner].start_server_again();
    }
    until("a session's time is over", || now() > begun + 7);
    peers.nodes[0].go();
    peers.nodes[0].settles("long:manual:k", "succeeded");
    peers.nodes[1].settles("waits:manual:k", "succeeded");
    assert!(now() >= begun + 9, "it began before its time");
    assert_eq!(shard(&peers.nodes[2], "long:manual:k")["attempt"], 1);
    assert_eq!(shard(&peers.nodes[2], "waits:manual:k")["attempt"], 2);
    assert_eq!(peers.nodes[0].done(), ["0"]);
    peers.nodes[2].history_is_accepted();
    drop(worker);
}

/// STUCK-008: the sessions of every node in the database are ended, again and again, in the middle of whatever
/// they do. A trigger that was claimed is somebody's or free, and no instant is left out.
#[test]
fn sessions_of_every_node_are_ended_and_no_instant_is_left_out() {
    const TIMES: usize = 6;
    let Some(peers) = Peers::new(3, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 4);
    peers.all_share(&[0, 1, 2]);
    for name in ["a", "b", "c"] {
        apply_ticking(&peers.nodes[0], name);
    }
    for n in 1..=TIMES {
        until("it ticks", || ticks(&peers.nodes[n % 3], "a").len() > n);
        assert!(peers.database.terminate_all_sessions() > 0);
    }
    peers.all_ready();
    for name in ["a", "b", "c"] {
        each_second_ran(&peers.nodes[0], name, TIMES);
    }
    peers.nodes[1].history_is_accepted();
    peers.nodes[2].client.ok("audit --all");
    drop(worker);
}
