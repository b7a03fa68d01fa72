//! QUEUE-003: slots and units come back, whoever dies holding them.
//!
//! Workers and servers are killed by turns while short runs pass under three limits at once: a capacity's, a
//! namespace's and a job's. When the killing is over each count is what runs, and the work goes as fast as
//! before.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{BUSY, Peers};
use crate::program::{Process, until, until_within};
use crate::scene::text;

/// How much of it.
struct Size {
    /// Runs of a batch.
    runs: usize,
    /// How often somebody is killed.
    kills: usize,
    /// Runs that end between two deaths.
    between: i64,
}

const WORKERS: [&str; 3] = ["w0", "w1", "w2"];

/// Runs of a namespace, of the capacity and of the job that may go on at once.
const LIMITS: [u64; 3] = [16, 8, 12];

#[test]
fn slots_come_back_though_workers_and_servers_are_killed_by_turns() {
    slots_come_back(&Size {
        runs: 150,
        kills: 8,
        between: 12,
    });
}

#[test]
#[ignore = "for a quarter of an hour: cargo nextest run -p sichen --run-ignored only slots_come_back"]
fn slots_come_back_after_a_quarter_of_an_hour_of_deaths() {
    slots_come_back(&Size {
        runs: 2_000,
        kills: 45,
        between: 44,
    });
}

fn slots_come_back(size: &Size) {
    let Some(mut peers) = Peers::new(2, &["--beat", "1s", "--session-ttl", "3s"]) else {
        return;
    };
    let mut workers: Vec<Process> = WORKERS.map(|name| peers.worker(name, 8)).into();
    peers.all_share(&[0, 1]);
    limited(&peers);
    let fresh = batch(&peers, size.runs, "fresh");

    asks(&peers, size.runs, "deadly");
    for kill in 0..size.kills {
        let before = over(&peers);
        until("some are over", || {
            let over = over(&peers);
            over >= before + size.between || over >= 2 * i64::try_from(size.runs).unwrap()
        });
        // The one that has the workers' pool, then a worker, and so on.
        if kill % 2 == 0 {
            let owner = peers.owner(&[0, 1]);
            peers.kill(owner);
            peers.nodes[owner].start_server_again();
            peers.all_ready();
        } else {
            let n = kill / 2 % WORKERS.len();
            workers[n].signal(nix::sys::signal::Signal::SIGKILL);
            workers[n].ended();
            workers[n] = peers.worker(WORKERS[n], 8);
        }
    }
    until_within(Duration::from_secs(120), "all are over", || {
        let [capacity, namespace, job, _] = counts(&peers);
        assert!(capacity <= LIMITS[1] && namespace <= LIMITS[0] && job <= LIMITS[2]);
        over(&peers) == 2 * i64::try_from(size.runs).unwrap()
    });
    until("nothing is held", || counts(&peers) == [0; 4]);
    peers.all_share(&[0, 1]);
    let after = batch(&peers, size.runs, "after");
    println!(
        "{} runs: {fresh:?} when fresh, {after:?} after {} deaths",
        size.runs, size.kills
    );
    // Other programs share the machine: a tenth can't be told from them, half of the units can.
    let again = batch(&peers, size.runs, "again");
    let best = after.min(again);
    assert!(best <= fresh * 2 + BUSY, "{best:?} after {fresh:?}");
    assert_eq!(counts(&peers), [0; 4]);
    peers.nodes[0].history_is_accepted();
    drop(workers);
}

/// A job of short runs under all three limits.
fn limited(peers: &Peers) {
    let capacity = json!({
        "apiVersion": "sichen/v1", "kind": "Capacity", "metadata": { "name": "db" },
        "spec": { "units": LIMITS[1] },
    });
    let file = peers.nodes[0].path("db.json");
    std::fs::write(&file, capacity.to_string()).unwrap();
    let client = &peers.nodes[0].client;
    client.ok(&format!("apply -f {}", text(&file)));
    client.ok(&format!(
        "namespace set default --max-running {}",
        LIMITS[0]
    ));
    let spec = json!({
        "run": { "handler": "sleep" }, "parameters": { "ms": 100 }, "overlap": "allow",
        "uses": { "db": 1 }, "maxRunningShards": LIMITS[2], "retry": { "maxAttempts": 20, "backoff": { "fixed": "1s" } },
    });
    peers.nodes[0].apply_spec("short", &spec);
}

/// Asks for so many runs.
fn asks(peers: &Peers, runs: usize, name: &str) {
    let all: Vec<Value> = (0..runs)
        .map(|n| json!({ "key": format!("{name}-{n}") }))
        .collect();
    for some in all.chunks(1_000) {
        let body = json!({ "runs": some }).to_string();
        let path = "/api/v1/jobs/default/short/runs:batch";
        let answer = peers.nodes[0].ask("POST", path, &body);
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
    }
}

/// Runs that have succeeded; no other end is right.
fn over(peers: &Peers) -> i64 {
    let database = peers.database.connect();
    let wrong = "select count(*) from run where state in ('failed', 'partial', 'cancelled')";
    assert_eq!(database.number(wrong), 0);
    database.number("select count(*) from run where state = 'succeeded'")
}

/// How long a batch takes from its request on.
fn batch(peers: &Peers, runs: usize, name: &str) -> Duration {
    let before = over(peers);
    let from = Instant::now();
    asks(peers, runs, name);
    let all = before + i64::try_from(runs).unwrap();
    until_within(Duration::from_secs(120), "the batch is over", || {
        over(peers) == all
    });
    from.elapsed()
}

/// What each limit counts as in use, and what the workers hold: capacity, namespace, job, slots.
fn counts(peers: &Peers) -> [u64; 4] {
    let client = &peers.nodes[0].client;
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let capacity = client.json("capacity show db");
    let namespaces = client.json("namespace list");
    let namespace = namespaces["items"].as_array().unwrap();
    let namespace = namespace
        .iter()
        .find(|one| one["name"] == "default")
        .unwrap();
    let running = "select count(*) from shard where state = 'running'";
    let job = u64::try_from(peers.database.connect().number(running)).unwrap();
    let workers = client.json("get workers");
    let held = workers["items"].as_array().unwrap().iter();
    let held = held.map(|worker| number(&worker["held"])).sum();
    [
        number(&capacity["used"]),
        number(&namespace["running"]),
        job,
        held,
    ]
}
