//! Cases of `testdata/cases/bug_reports.json` in their form with several servers: how processes end while their
//! node dies, and nodes that are to live by another rhythm than their peers.

use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::cluster::{BUSY, Peers, SILENT};
use crate::program::until;
use crate::scene::text;

/// STUCK-014, STUCK-017.
#[test]
fn a_killed_process_fails_and_a_hasty_rhythm_is_refused_beside_healthy_nodes() {
    let Some(mut peers) = Peers::new(2, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 2);
    peers.all_share(&[0, 1]);
    killed_processes_fail_under_a_successor(&mut peers);
    a_rhythm_that_loses_leases_is_refused(&mut peers);
    peers.nodes[0].history_is_accepted();
    drop(worker);
}

/// STUCK-014: a process is killed from outside while the node that granted it is frozen and then dies. Its end is
/// a failure at the successor, tried again by the policy, and counted once; a helper's death is none.
fn killed_processes_fail_under_a_successor(peers: &mut Peers) {
    let pids = text(&peers.nodes[0].path("pid")).to_owned();
    let script =
        format!("echo $$ > {pids}.new; mv {pids}.new {pids}-$SICHEN_ATTEMPT; exec sleep 600");
    let spec = |script: &str| {
        json!({
            "run": { "process": { "argv": ["/bin/sh", "-c", script] } },
            "retry": { "maxAttempts": 2, "backoff": { "fixed": "1s" } },
        })
    };
    peers.nodes[0].apply_spec("killed", &spec(&script));
    peers.nodes[0].apply_spec("helped", &spec("sh -c 'kill -9 $$'; exit 0"));
    peers.nodes[1].client.ok("run killed --key k");
    let kill_attempt = |peers: &Peers, attempt: u32| {
        let file = peers.nodes[0].path(&format!("pid-{attempt}"));
        until("its process runs", || file.exists());
        let pid = std::fs::read_to_string(file).unwrap();
        kill(Pid::from_raw(pid.trim().parse().unwrap()), Signal::SIGKILL).unwrap();
    };
    let owner = peers.owner(&[0, 1]);
    until("its process runs", || peers.nodes[0].path("pid-1").exists());
    peers.nodes[owner].server.signal(Signal::SIGSTOP);
    kill_attempt(peers, 1);
    until("its end is in the journal", || {
        peers.nodes[0].unacknowledged("w1") == 1
    });
    peers.kill(owner);
    let there = 1 - owner;
    kill_attempt(peers, 2);
    let there = &peers.nodes[there];
    there.settles("killed:manual:k", "failed");
    let shard = &there.shards("killed:manual:k")[0];
    assert_eq!(shard["attempt"], 2, "{shard}");
    assert_eq!(shard["failure"]["code"], "killed-by-signal-9", "{shard}");
    let life = there.client.ok("trace killed:manual:k");
    assert_eq!(life.matches("killed-by-signal-9").count(), 2, "{life}");
    there.client.ok("run helped --key k");
    there.settles("helped:manual:k", "succeeded");
    assert_eq!(there.shards("helped:manual:k")[0]["attempt"], 1);
    let metrics = there.ask("GET", "/metrics", "");
    let failed: Vec<&str> = metrics
        .body
        .lines()
        .filter(|line| line.starts_with("sichen_runs_settled_total"))
        .filter(|line| line.contains("state=\"failed\""))
        .collect();
    assert!(
        matches!(failed[..], [one] if one.ends_with(" 1")),
        "{failed:?}"
    );
    peers.nodes[owner].start_server_again();
    peers.all_share(&[0, 1]);
}

/// STUCK-017: a node whose leases one late beat would lose does not start, and its healthy peers hear nothing of it. One
/// with a long lease may join them, and when it is killed nobody waits for that to end.
fn a_rhythm_that_loses_leases_is_refused(peers: &mut Peers) {
    let nodes = |peers: &Peers| -> Vec<Value> {
        let members = peers.nodes[0].client.json("get members");
        let nodes = members["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["id"].clone()).collect()
    };
    let before = nodes(peers);
    let config = peers.nodes[0].path("rhythm.yaml");
    for (beat, lease) in [("60s", "60s"), ("9s", "10s")] {
        let refused = peers.refused(&["--beat", beat, "--session-ttl", lease]);
        assert!(refused.contains("SC1310"), "{refused}");
        std::fs::write(&config, format!("node_beat: {beat}\nnode_lease: {lease}\n")).unwrap();
        let refused = peers.refused(&["--config", text(&config)]);
        assert!(refused.contains("SC1310"), "{refused}");
    }
    assert_eq!(nodes(peers), before, "none of them has registered");
    std::fs::write(&config, "node_beat: 10s\nnode_lease: 30s\n").unwrap();
    let rhythm = ["--beat", "10s", "--session-ttl", "30s"];
    peers.join(&[&["--config", text(&config)][..], &rhythm].concat());
    peers.all_share(&[0, 1, 2]);
    let killed = Instant::now();
    peers.kill(2);
    until("its duties are taken", || peers.taken_over(0, 2));
    let took = killed.elapsed();
    println!("taken over {took:?} after SIGKILL, of a lease of 30 s");
    assert!(took < SILENT + BUSY, "{took:?}");
    peers.nodes[0].client.ok("run helped --key again");
    peers.nodes[1].settles("helped:manual:again", "succeeded");
}
