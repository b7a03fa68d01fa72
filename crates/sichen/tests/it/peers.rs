//! Several real servers over one real PostgreSQL: equal peers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::program::until;
use crate::scene::Peers;

/// Which node owns how many duties, by the address; and each key has one owner.
fn shares(peers: &Peers, n: usize) -> BTreeMap<String, usize> {
    let members = peers.nodes[n].client.json("get members");
    let mut shares = BTreeMap::new();
    let address = |id: &Value| {
        let nodes = members["nodes"].as_array().unwrap();
        let node = nodes.iter().find(|node| node["id"] == *id);
        node.map(|node| node["address"].as_str().unwrap().to_owned())
    };
    for duty in members["duties"].as_array().unwrap() {
        let owner = address(&duty["node"]).unwrap_or_else(|| "nobody".to_owned());
        *shares.entry(owner).or_default() += 1;
    }
    shares
}

fn owner_of(peers: &Peers, n: usize, key: &str) -> Option<String> {
    let members = peers.nodes[n].client.json("get members");
    let duties = members["duties"].as_array().unwrap();
    let duty = duties.iter().find(|duty| duty["key"] == key)?;
    let nodes = members["nodes"].as_array().unwrap();
    let node = nodes.iter().find(|node| node["id"] == duty["node"])?;
    Some(node["address"].as_str().unwrap().to_owned())
}

/// The number of the server that has the workers' pool.
fn owner(peers: &Peers, among: &[usize]) -> usize {
    let mut found = None;
    until("the pool has an owner among the living", || {
        let address = owner_of(peers, among[0], "pool/default");
        found = among
            .iter()
            .copied()
            .find(|n| Some(&peers.nodes[*n].server.url) == address.as_ref());
        found.is_some()
    });
    found.unwrap()
}

fn all_share(peers: &Peers, among: &[usize]) {
    let urls: BTreeSet<String> = among
        .iter()
        .map(|n| peers.nodes[*n].server.url.clone())
        .collect();
    until("they share the duties", || {
        let shares = shares(peers, among[0]);
        let owners: BTreeSet<String> = shares.keys().cloned().collect();
        owners == urls && shares.values().all(|n| *n >= 5)
    });
}

/// Six slow shards of which some have ended and some run.
fn in_mid_run(peers: &Peers, on: usize) {
    let run = serde_json::json!({ "handler": "sleep" });
    peers.nodes[on].apply("slow", &run, &serde_json::json!({ "ms": 700 }), 24);
    peers.nodes[on].client.ok("run slow --key k");
    until("six shards have succeeded", || {
        peers.nodes[on].succeeded("slow:manual:k") >= 6
    });
}

/// Three nodes share what there is to do; whichever goes, by signal or by force, its
/// share is taken by the others, its workers follow with all that they hold, and nothing is done twice.
#[test]
fn three_nodes_share_the_duties_and_each_other_s_when_one_goes() {
    let Some(mut peers) = Peers::new(3, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 4);
    all_share(&peers, &[0, 1, 2]);
    in_mid_run(&peers, 0);

    // One goes in good order: the one that has the workers.
    let first = owner(&peers, &[0, 1, 2]);
    let stopped = Instant::now();
    peers.nodes[first].server.signal(Signal::SIGTERM);
    let others: Vec<usize> = (0..3).filter(|n| *n != first).collect();
    all_share(&peers, &others);
    println!("shared by two {:?} after SIGTERM", stopped.elapsed());
    assert!(peers.nodes[first].server.ended().success());
    let so_far = peers.nodes[others[0]].succeeded("slow:manual:k");
    assert!(so_far < 24, "it went in mid-run");

    // Another is killed.
    let second = owner(&peers, &others);
    let last = others.iter().copied().find(|n| *n != second).unwrap();
    let killed = Instant::now();
    peers.nodes[second].server.signal(Signal::SIGKILL);
    peers.nodes[second].server.ended();
    all_share(&peers, &[last]);
    println!("all with one {:?} after SIGKILL", killed.elapsed());
    peers.nodes[last].settles("slow:manual:k", "succeeded");

    // Both come back and have their shares again.
    peers.nodes[first].start_server_again();
    peers.nodes[second].start_server_again();
    all_share(&peers, &[0, 1, 2]);
    until("all are ready", || {
        (0..3).all(|n| peers.nodes[n].ready().0 == 200)
    });
    peers.nodes[0].each_shard_took_one_attempt("slow:manual:k");
    drop(worker);
}

/// Each node has looked for the other's sign since both were shown: it looks after each renewal.
fn signs_are_seen(peers: &Peers) {
    let shown =
        "select count(*) from pg_locks where locktype = 'advisory' and objsubid = 2 and granted";
    let database = peers.database.connect();
    until("both signs are shown", || database.number(shown) >= 2);
    let leases = || {
        let members = peers.nodes[0].client.json("get members");
        let nodes = members["nodes"].as_array().unwrap().iter();
        nodes
            .map(|node| (node["id"].to_string(), node["expires_at"].to_string()))
            .collect::<BTreeMap<_, _>>()
    };
    // The first renewal may have been under way; with the second, the look after the first is over.
    for _ in 0..2 {
        let before = leases();
        until("every lease is renewed", || {
            let now = leases();
            before.iter().all(|(id, end)| now.get(id) != Some(end))
        });
    }
}

/// When somebody other than `dead` owns every duty.
fn taken_over(peers: &Peers, seen_by: usize, dead: &str) -> bool {
    let shares = shares(peers, seen_by);
    !shares.contains_key(dead) && !shares.contains_key("nobody")
}

/// The bounds of the design, and what a busy machine may add to them.
const BUSY: Duration = Duration::from_secs(3);

/// DUP-001: a process that is killed on a living host is noticed by its connection, long before its lease
/// ends; its workers keep what they hold.
#[test]
fn a_killed_owner_is_taken_over_in_two_seconds_and_its_workers_lose_no_lease() {
    let Some(mut peers) = Peers::new(2, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 4);
    all_share(&peers, &[0, 1]);
    in_mid_run(&peers, 0);
    signs_are_seen(&peers);
    let dead = owner(&peers, &[0, 1]);
    let other = 1 - dead;
    let url = peers.nodes[dead].server.url.clone();
    let killed = Instant::now();
    peers.nodes[dead].server.signal(Signal::SIGKILL);
    peers.nodes[dead].server.ended();
    until("its duties are taken", || taken_over(&peers, other, &url));
    let took = killed.elapsed();
    println!("taken over {took:?} after SIGKILL");
    assert!(took < Duration::from_secs(2) + BUSY, "{took:?}");
    peers.nodes[other].settles("slow:manual:k", "succeeded");
    peers.nodes[other].each_shard_took_one_attempt("slow:manual:k");
    drop(worker);
}

/// DUP-002: a node that stands still keeps its connection and loses its lease; what it does when it goes on is
/// done under an old term.
#[test]
fn a_frozen_owner_is_taken_over_after_its_lease_and_writes_nothing_when_it_thaws() {
    let Some(peers) = Peers::new(2, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 4);
    all_share(&peers, &[0, 1]);
    in_mid_run(&peers, 0);
    let frozen = owner(&peers, &[0, 1]);
    let other = 1 - frozen;
    let url = peers.nodes[frozen].server.url.clone();
    let stopped = Instant::now();
    peers.nodes[frozen].server.signal(Signal::SIGSTOP);
    until("its duties are taken", || taken_over(&peers, other, &url));
    let took = stopped.elapsed();
    println!("taken over {took:?} after SIGSTOP");
    let bound = Duration::from_secs(7);
    assert!(took < bound + BUSY, "{took:?}");
    peers.nodes[other].settles("slow:manual:k", "succeeded");
    peers.nodes[frozen].server.signal(Signal::SIGCONT);
    all_share(&peers, &[0, 1]);
    peers.nodes[other].each_shard_took_one_attempt("slow:manual:k");
    drop(worker);
}

/// DB-006: the database is started again: each node has its own share again, and no worker lost anything.
#[test]
fn after_a_restart_of_the_database_each_node_has_its_own_share_again() {
    let Some(mut peers) = Peers::new(3, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 4);
    all_share(&peers, &[0, 1, 2]);
    let before = shares(&peers, 0);
    in_mid_run(&peers, 0);
    peers.database.stop_at_once();
    until("a node says that it is not ready", || {
        peers.nodes[0].ready().0 == 503
    });
    peers.database.start_again();
    let healed = Instant::now();
    until("all are ready", || {
        (0..3).all(|n| peers.nodes[n].ready().0 == 200)
    });
    println!("all ready {:?} after the heal", healed.elapsed());
    assert!(healed.elapsed() < Duration::from_secs(10) + BUSY);
    until("they share as before", || shares(&peers, 1) == before);
    peers.nodes[2].settles("slow:manual:k", "succeeded");
    peers.nodes[2].each_shard_took_one_attempt("slow:manual:k");
    drop(worker);
}

/// A run that is asked for at a node without its pool starts as soon as at the owner.
#[test]
fn a_run_asked_for_at_any_node_starts_at_once() {
    let Some(peers) = Peers::new(2, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 1);
    all_share(&peers, &[0, 1]);
    let other = 1 - owner(&peers, &[0, 1]);
    let run = serde_json::json!({ "handler": "noop" });
    peers.nodes[other].apply("quick", &run, &serde_json::json!({}), 1);
    let mut waits = Vec::new();
    for n in 0..20 {
        let key = format!("quick:manual:k{n}");
        peers.nodes[other]
            .client
            .ok(&format!("run quick --key k{n}"));
        peers.nodes[other].settles(&key, "succeeded");
        let run = peers.nodes[other].run(&key);
        let at = |field: &str| {
            run[field]
                .as_str()
                .unwrap()
                .parse::<jiff::Timestamp>()
                .unwrap()
        };
        waits.push(at("ended_at").duration_since(at("created_at")).as_millis());
    }
    waits.sort_unstable();
    println!("from its request to its end, ms: {waits:?}");
    assert!(
        waits[10] < 500,
        "a poll each second would take longer: {waits:?}"
    );
    peers.nodes[0].history_is_accepted();
    drop(worker);
}

/// Where no worker can be sent, no second node starts.
#[test]
fn a_node_that_nobody_can_be_sent_to_joins_no_peers() {
    let Some(peers) = Peers::new(1, &[]) else {
        return;
    };
    let refused = peers.refused(&["--listen", "0.0.0.0:0", "--allow-plaintext"]);
    assert!(refused.contains("SC7014"), "{refused}");
}
