//! Several real servers over one real PostgreSQL: equal peers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::cluster::{BUSY, Peers};
use crate::program::{PATIENCE, until, until_within};

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
    peers.all_share(&[0, 1, 2]);
    in_mid_run(&peers, 0);

    // One goes in good order: the one that has the workers.
    let first = peers.owner(&[0, 1, 2]);
    let stopped = Instant::now();
    peers.nodes[first].server.signal(Signal::SIGTERM);
    let others: Vec<usize> = (0..3).filter(|n| *n != first).collect();
    peers.all_share(&others);
    println!("shared by two {:?} after SIGTERM", stopped.elapsed());
    assert!(peers.nodes[first].server.ended().success());
    let so_far = peers.nodes[others[0]].succeeded("slow:manual:k");
    assert!(so_far < 24, "it went in mid-run");

    // Another is killed.
    let second = peers.owner(&others);
    let last = others.iter().copied().find(|n| *n != second).unwrap();
    let killed = Instant::now();
    peers.nodes[second].server.signal(Signal::SIGKILL);
    peers.nodes[second].server.ended();
    peers.all_share(&[last]);
    println!("all with one {:?} after SIGKILL", killed.elapsed());
    peers.nodes[last].settles("slow:manual:k", "succeeded");

    // Both come back and have their shares again.
    peers.nodes[first].start_server_again();
    peers.nodes[second].start_server_again();
    peers.all_share(&[0, 1, 2]);
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

/// DUP-001: a process that is killed on a living host is noticed by its connection, long before its lease
/// ends; its workers keep what they hold.
#[test]
fn a_killed_owner_is_taken_over_in_two_seconds_and_its_workers_lose_no_lease() {
    let Some(mut peers) = Peers::new(2, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 4);
    peers.all_share(&[0, 1]);
    in_mid_run(&peers, 0);
    signs_are_seen(&peers);
    let dead = peers.owner(&[0, 1]);
    let other = 1 - dead;
    let killed = Instant::now();
    peers.nodes[dead].server.signal(Signal::SIGKILL);
    peers.nodes[dead].server.ended();
    until("its duties are taken", || peers.taken_over(other, dead));
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
    peers.all_share(&[0, 1]);
    in_mid_run(&peers, 0);
    let frozen = peers.owner(&[0, 1]);
    let other = 1 - frozen;
    let stopped = Instant::now();
    peers.nodes[frozen].server.signal(Signal::SIGSTOP);
    until("its duties are taken", || peers.taken_over(other, frozen));
    let took = stopped.elapsed();
    println!("taken over {took:?} after SIGSTOP");
    let bound = Duration::from_secs(7);
    assert!(took < bound + BUSY, "{took:?}");
    peers.nodes[other].settles("slow:manual:k", "succeeded");
    peers.nodes[frozen].server.signal(Signal::SIGCONT);
    peers.all_share(&[0, 1]);
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
    peers.all_share(&[0, 1, 2]);
    in_mid_run(&peers, 0);
    // With the pool's owner, who is there by now.
    let before = peers.shares(0);
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
    // A share that another took meanwhile stays there for a minute, which is as long as a test waits.
    until_within(
        2 * PATIENCE,
        &format!("they share as before: {before:?}"),
        || peers.shares(1) == before,
    );
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
    peers.all_share(&[0, 1]);
    let other = 1 - peers.owner(&[0, 1]);
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
