//! Several real servers over one real PostgreSQL: equal peers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

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
