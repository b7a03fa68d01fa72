//! Cases of `testdata/cases/bug_reports.json` in their form with several servers: real processes over one
//! PostgreSQL, some of them killed, frozen or cut off.
//!
//! # Not here
//! What befalls the database under them ([`crate::several_database`]), or their workers
//! ([`crate::several_workers`]).

use std::collections::BTreeSet;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::cluster::{BUSY, Peers, asks_for};
use crate::outage::{apply_ticking, each_second_ran, ticks};
use crate::program::until;
use crate::scene::{Answer, text};

fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Waits until so much time is over: for what must *not* have happened in it.
fn passes(what: &str, seconds: i64) {
    let end = now() + jiff::SignedDuration::from_secs(seconds);
    until(what, || now() > end);
}

/// DUP-006: twenty callers at three nodes with one key: one run, and each of them learns which.
#[test]
fn one_key_sent_to_three_nodes_at_once_starts_one_run() {
    let Some(peers) = Peers::new(3, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 1);
    let declared = json!({ "run": { "handler": "noop" }, "parameters": { "n": 1 } });
    peers.nodes[0].apply_spec("once", &declared);
    let ask = |n: usize| asks_for(&peers.nodes[n % 3], "once", "K1", &json!({}));
    let mut answers: Vec<Answer> = std::thread::scope(|threads| {
        let asked: Vec<_> = (0..20).map(|n| threads.spawn(move || ask(n))).collect();
        asked
            .into_iter()
            .map(|asked| asked.join().unwrap())
            .collect()
    });
    answers.push(ask(20));
    let (mut ids, mut created) = (BTreeSet::new(), 0);
    for answer in &answers {
        let run: Value = serde_json::from_str(&answer.body).unwrap();
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        ids.insert(run["id"].as_u64().unwrap());
        created += u32::from(run["created"] == true);
    }
    assert_eq!((ids.len(), created), (1, 1), "{answers:?}");
    let other = asks_for(&peers.nodes[1], "once", "K1", &json!({ "n": 2 }));
    assert_eq!(other.status, 409, "{other:?}");
    peers.nodes[2].settles("once:manual:K1", "succeeded");
    peers.nodes[2].history_is_accepted();
    drop(worker);
}

/// DUP-001: one node after the other is killed around a tick, and comes back. Each instant has its one run,
/// and a job that forbids it never has two at once.
#[test]
fn each_instant_has_its_one_run_though_nodes_are_killed_around_it() {
    const KILLS: usize = 9;
    let Some(mut peers) = Peers::new(3, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 8);
    peers.all_share(&[0, 1, 2]);
    let (free, alone) = (
        ["free-0", "free-1", "free-2"],
        ["alone-0", "alone-1", "alone-2"],
    );
    for (free, alone) in free.iter().zip(alone) {
        apply_ticking(&peers.nodes[0], free);
        let spec = json!({
            "run": { "handler": "sleep" }, "parameters": { "ms": 300 },
            "schedules": [{ "every": "1s" }], "overlap": "forbid",
        });
        peers.nodes[0].apply_spec(alone, &spec);
    }
    for kill in 0..KILLS {
        // From 100 ms before a tick to 100 ms after it.
        let phase = i32::try_from(900 + kill * 200 / (KILLS - 1)).unwrap() % 1_000;
        until("the tick comes", || {
            let now = now().subsec_millisecond();
            (phase..phase + 30).contains(&now)
        });
        let n = kill % 3;
        peers.kill(n);
        peers.nodes[n].start_server_again();
    }
    peers.all_ready();
    for name in free {
        each_second_ran(&peers.nodes[0], name, KILLS);
    }
    for name in alone {
        peers.nodes[1].client.ok(&format!("pause {name}"));
        until("its runs are over", || {
            ticks(&peers.nodes[2], name).iter().all(|tick| tick.1)
        });
        let runs = peers.nodes[2]
            .client
            .json(&format!("runs {name} --limit 500"));
        let mut spans: Vec<[jiff::Timestamp; 2]> = Vec::new();
        for run in runs["items"].as_array().unwrap() {
            spans.push(
                ["started_at", "ended_at"].map(|f| run[f].as_str().unwrap().parse().unwrap()),
            );
        }
        spans.sort_unstable();
        assert!(spans.len() > 1, "{name} went on");
        for pair in spans.windows(2) {
            assert!(pair[0][1] <= pair[1][0], "two at once of {name}: {pair:?}");
        }
    }
    peers.nodes[0].history_is_accepted();
    drop(worker);
}

/// API-003: whichever node is told, it holds on all of them from the answer on.
#[test]
fn an_edit_a_pause_and_a_deletion_at_one_node_hold_on_every_node() {
    let Some(peers) = Peers::new(3, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 4);
    peers.all_share(&[0, 1, 2]);
    let [a, b, c] = &peers.nodes[..] else {
        unreachable!()
    };
    // Enough of them that each node has some.
    let names: Vec<String> = (0..4).map(|n| format!("ticking-{n}")).collect();
    for name in &names {
        apply_ticking(a, name);
    }
    until("they tick", || names.iter().all(|n| ticks(b, n).len() > 1));
    let none_after = |answered: i64| {
        for name in &names {
            let late: Vec<_> = ticks(c, name)
                .into_iter()
                .filter(|t| t.0 > answered + 2)
                .collect();
            assert!(late.is_empty(), "{name} after {answered}: {late:?}");
        }
    };
    for name in &names {
        b.client.ok(&format!("pause {name}"));
    }
    let paused = now().as_second();
    passes("instants that nobody uses", 4);
    none_after(paused);
    for name in &names {
        c.client.ok(&format!("resume {name}"));
    }
    until("they tick again", || {
        names
            .iter()
            .all(|n| ticks(a, n).iter().any(|t| t.0 > paused + 2))
    });
    // Twenty edits, each at the next node: one schedule is left, of the last one.
    let edited = &names[0];
    for n in 0..20 {
        let spec = json!({
            "run": { "handler": "noop" }, "schedules": [{ "every": "1s" }], "overlap": "allow",
            "parameters": { "n": n }, "catchUp": { "policy": { "all": 1000 } },
        });
        peers.nodes[n % 3].apply_spec(edited, &spec);
    }
    let answered = now().as_second();
    let later = || {
        let runs = a.client.json(&format!("runs {edited} --limit 500"));
        let runs = runs["items"].as_array().unwrap().clone();
        let planned = |run: &Value| -> i64 {
            let at: jiff::Timestamp = run["planned_at"].as_str().unwrap().parse().unwrap();
            at.as_second()
        };
        let later = runs.into_iter().filter(|run| planned(run) > answered);
        later
            .map(|run| (planned(&run), run["parameters"]["n"].clone()))
            .collect::<Vec<_>>()
    };
    until("it ticks after its edits", || later().len() > 2);
    let mut runs = later();
    runs.sort_by_key(|run| run.0);
    for pair in runs.windows(2) {
        assert_eq!(pair[1].0 - pair[0].0, 1, "one a tick: {runs:?}");
    }
    assert!(runs.iter().all(|run| run.1 == 19), "{runs:?}");
    // Deleted at one node while a run goes on under another.
    a.apply_script("long", 1);
    a.client.ok("run long --key k");
    until("it runs", || b.run("long:manual:k")["state"] == "running");
    // The runs of a deleted job are found by their numbers.
    let long = b.run("long:manual:k")["id"].to_string();
    for name in names.iter().map(String::as_str).chain(["long"]) {
        b.client.ok(&format!("delete {name} --yes"));
    }
    let deleted = now().as_second();
    a.go();
    c.settles(&long, "succeeded");
    assert_eq!(a.done(), ["0"]);
    passes("instants that nobody uses", 4);
    none_after(deleted);
    c.each_shard_took_one_attempt(&long);
    drop(worker);
}

/// MISS-004: what was prepared for the old text dies with it, also where the edit arrives at one node and
/// another, which has the schedule, dies right after: its successor reads the new text.
#[test]
fn an_edit_at_one_node_holds_when_another_dies_right_after() {
    let Some(mut peers) = Peers::new(2, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 8);
    peers.all_share(&[0, 1]);
    let names: Vec<String> = (0..4).map(|n| format!("edited-{n}")).collect();
    for name in &names {
        apply_ticking(&peers.nodes[0], name);
    }
    until("they tick", || {
        names
            .iter()
            .all(|name| ticks(&peers.nodes[1], name).len() > 1)
    });
    for name in &names {
        let spec = json!({ "run": { "handler": "noop" }, "schedules": [{ "cron": "0 5 1 1 *" }] });
        peers.nodes[0].apply_spec(name, &spec);
    }
    let answered = now().as_second();
    peers.kill(1);
    until("its duties are taken", || peers.taken_over(0, 1));
    peers.nodes[1].start_server_again();
    passes("instants of the old text", 4);
    for name in &names {
        let late: Vec<_> = ticks(&peers.nodes[0], name)
            .into_iter()
            .filter(|tick| tick.0 > answered)
            .collect();
        assert!(late.is_empty(), "{name} after {answered}: {late:?}");
        for node in &peers.nodes {
            let next = node.client.json(&format!("next {name}"));
            let first = next["next"][0].as_str().unwrap();
            assert!(first.contains("-01-01T05:00:00"), "{next}");
        }
    }
    peers.nodes[0].history_is_accepted();
    drop(worker);
}

/// MISS-013: while each of three nodes is restarted in turn, every second has its one run, within five.
#[test]
fn a_rolling_restart_of_three_nodes_leaves_no_instant_out() {
    let Some(mut peers) = Peers::new(3, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 8);
    peers.all_share(&[0, 1, 2]);
    let names: Vec<String> = (0..4).map(|n| format!("ticking-{n}")).collect();
    for name in &names {
        apply_ticking(&peers.nodes[0], name);
    }
    until("they tick", || {
        names
            .iter()
            .all(|name| !ticks(&peers.nodes[0], name).is_empty())
    });
    for n in 0..3 {
        peers.nodes[n].server.signal(Signal::SIGTERM);
        assert!(peers.nodes[n].server.ended().success());
        peers.nodes[n].start_server_again();
        until("it is ready", || peers.nodes[n].ready().0 == 200);
    }
    peers.all_share(&[0, 1, 2]);
    for name in &names {
        each_second_ran(&peers.nodes[1], name, 3);
        let runs = peers.nodes[2]
            .client
            .json(&format!("runs {name} --limit 500"));
        for run in runs["items"].as_array().unwrap() {
            let at =
                |field: &str| -> jiff::Timestamp { run[field].as_str().unwrap().parse().unwrap() };
            let late = at("created_at").duration_since(at("planned_at"));
            let bound = Duration::from_secs(5) + BUSY;
            assert!(late.unsigned_abs() < bound, "{late:?}: {run}");
        }
    }
    peers.nodes[0].history_is_accepted();
    drop(worker);
}

/// SCALE-001, at a smaller size: many jobs at one instant, again and again, and a node dies between: each
/// instant of each job has its one run, soon, and the last is no later than the first.
#[test]
fn many_jobs_at_one_instant_are_fired_in_time_though_a_node_dies() {
    const JOBS: usize = 100;
    const EVERY: i64 = 5;
    let Some(mut peers) = Peers::new(3, &[]) else {
        return;
    };
    let workers = ["w1", "w2"].map(|name| peers.worker(name, 100));
    peers.all_share(&[0, 1, 2]);
    let mut documents = String::new();
    for n in 0..JOBS {
        let job = json!({
            "apiVersion": "sichen/v1", "kind": "Job",
            "metadata": { "name": format!("j{n}"), "namespace": format!("tenant-{}", n % 50) },
            "spec": {
                "run": { "handler": "noop" }, "overlap": "allow",
                "schedules": [{ "every": format!("{EVERY}s") }],
                "catchUp": { "policy": { "all": 1000 } },
            },
        });
        documents.push_str(&format!("---\n{job}\n"));
    }
    let file = peers.nodes[0].path("jobs.yaml");
    std::fs::write(&file, documents).unwrap();
    peers.nodes[0]
        .client
        .ok(&format!("apply -f {}", text(&file)));
    // All of them are there at the next instant.
    let first = (now().as_second() / EVERY + 1) * EVERY;
    let database = peers.database.connect();
    let runs_of = |instant: i64, what: &str| {
        let of = format!("occasion = 'p/{instant}000000/0'");
        database.number(&format!("select {what} from run where {of}"))
    };
    until("the first instant has fired", || {
        runs_of(first, "count(*)") > 0
    });
    peers.kill(0);
    let instants: Vec<i64> = (0..3).map(|n| first + n * EVERY).collect();
    for instant in &instants {
        until("every job has its run", || {
            runs_of(*instant, "count(distinct job_uid)") >= i64::try_from(JOBS).unwrap()
        });
        until("they are over", || {
            runs_of(*instant, "count(*) filter (where state <> 'succeeded')") == 0
        });
        assert_eq!(
            runs_of(*instant, "count(*)"),
            i64::try_from(JOBS).unwrap(),
            "one each"
        );
        let late = runs_of(*instant, &format!("max(created_at) - {instant}000000"));
        println!("created within {} ms", late / 1_000);
        assert!(late < 10_000_000, "{late} µs");
    }
    peers.nodes[1].history_is_accepted();
    drop(workers);
}

/// STUCK-016: two nodes whose clocks are ten minutes wrong, either way, and a worker with one of them: what
/// is due and who lives is told by the database's clock alone, and each node's own is found wrong.
#[test]
fn nodes_whose_clocks_are_minutes_apart_go_by_the_database_s() {
    let rhythm = ["--beat", "1s", "--session-ttl", "3s"];
    let Some(peers) = Peers::with_clocks(&["+10m", "-10m"], &rhythm) else {
        return;
    };
    let worker = peers.worker("w1", 4);
    peers.all_share(&[0, 1]);
    for node in &peers.nodes {
        let told = node.doctor();
        let clock = told.lines().find(|line| line.contains(" clock "));
        assert!(clock.is_some_and(|line| line.starts_with("warn")), "{told}");
    }
    let names = ["ticking-0", "ticking-1", "ticking-2"];
    for name in names {
        apply_ticking(&peers.nodes[0], name);
    }
    let longer_than_a_session = json!({ "ms": 5_000 });
    let run = json!({ "handler": "sleep" });
    peers.nodes[1].apply("long", &run, &longer_than_a_session, 1);
    peers.nodes[1].client.ok("run long --key k");
    peers.nodes[0].settles("long:manual:k", "succeeded");
    for name in names {
        each_second_ran(&peers.nodes[1], name, 5);
        let runs = peers.nodes[0]
            .client
            .json(&format!("runs {name} --limit 500"));
        for run in runs["items"].as_array().unwrap() {
            let at =
                |field: &str| -> jiff::Timestamp { run[field].as_str().unwrap().parse().unwrap() };
            assert!(at("planned_at") <= at("started_at"), "too early: {run}");
            let late = at("created_at").duration_since(at("planned_at"));
            assert!(
                late.unsigned_abs() < Duration::from_secs(10) + BUSY,
                "{run}"
            );
        }
    }
    let workers = peers.nodes[0].client.json("get workers");
    assert_eq!(workers["items"].as_array().unwrap().len(), 1, "{workers}");
    let events = peers.nodes[0].client.ok("events -o json");
    assert!(
        !events.contains("session_ended"),
        "nobody was declared lost"
    );
    peers.nodes[1].each_shard_took_one_attempt("long:manual:k");
    drop(worker);
}
