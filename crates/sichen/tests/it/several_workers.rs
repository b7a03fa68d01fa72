//! Cases of `testdata/cases/bug_reports.json` in their form with several servers: what becomes of workers, and
//! of what they hold, when a server dies, stands still or is not reached.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;
use sichen_testdb::proxy::Proxy;

use crate::cluster::{Links, Peers};
use crate::program::{children, lives, until};
use crate::scene::text;

/// STUCK-007, RETRY-013: the node that has the worker stands still, so nobody can tell it; the stop is
/// asked for at another, and the first one dies. What waits is over with the answer, what runs is stopped
/// by the successor; that the worker's slots are all taken changes nothing.
#[test]
fn a_stop_whose_node_dies_before_the_worker_is_told_is_delivered_by_its_successor() {
    let Some(mut peers) = Peers::new(2, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 1);
    peers.all_share(&[0, 1]);
    let owner = peers.owner(&[0, 1]);
    let other = &peers.nodes[1 - owner];
    let failing = json!({
        "run": { "handler": "fail" }, "parameters": { "attempts": 9, "message": "no" },
        "retry": { "maxAttempts": 5, "backoff": { "fixed": "1h" } },
    });
    other.apply_spec("backs-off", &failing);
    other.client.ok("run backs-off --key k");
    until("it backs off", || {
        let shard = &other.shards("backs-off:manual:k")[0];
        shard["attempt"] == 1 && shard["state"] != "running"
    });
    other.apply_script("long", 1);
    other.apply_script("queued", 1);
    other.client.ok("run long --key k");
    until("its process runs", || !children(worker.pid()).is_empty());
    let of_worker = children(worker.pid());
    other.client.ok("run queued --key k");

    peers.nodes[owner].server.signal(Signal::SIGSTOP);
    for key in ["long", "queued", "backs-off"] {
        other.client.ok(&format!("cancel {key}:manual:k"));
    }
    for key in ["queued:manual:k", "backs-off:manual:k"] {
        assert_eq!(other.run(key)["state"], "cancelled", "{key}");
    }
    assert_eq!(other.run("long:manual:k")["state"], "running");
    peers.kill(owner);
    let dead = Instant::now();
    let other = &peers.nodes[1 - owner];
    other.settles("long:manual:k", "cancelled");
    let took = dead.elapsed();
    println!("stopped {took:?} after its node's death");
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert!(
        of_worker.iter().all(|pid| !lives(*pid)),
        "its processes are gone"
    );
    other.go();
    peers.nodes[owner].start_server_again();
    peers.all_ready();
    let other = &peers.nodes[1 - owner];
    assert_eq!(other.done(), [""; 0], "nothing of it ran to its end");
    assert_eq!(other.run("long:manual:k")["state"], "cancelled");
    assert_eq!(other.shards("queued:manual:k")[0]["attempt"], 0);
    other.history_is_accepted();
    drop(worker);
}

/// STUCK-003: a result that a node has taken and not acknowledged, and one that it never got: the node
/// dies, and the worker hands both in at another; nothing is done again.
#[test]
fn a_result_whose_node_dies_counts_once_at_another() {
    let links = Links {
        workers: true,
        ..Links::default()
    };
    let Some(mut peers) = Peers::linked(2, links, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 1);
    let taken_and_lost: [fn(&Proxy); 2] = [
        |door| door.swallow_answers(),
        |door| door.swallow_requests(),
    ];
    for (round, swallow) in taken_and_lost.into_iter().enumerate() {
        peers.all_share(&[0, 1]);
        let owner = peers.owner(&[0, 1]);
        let (there, name) = (1 - owner, format!("once-{round}"));
        let key = format!("{name}:manual:k");
        // What the worker does is seen in the first node's directory.
        let _ = std::fs::remove_file(peers.nodes[0].path("go"));
        peers.nodes[0].apply_script(&name, 1);
        peers.nodes[there].client.ok(&format!("run {name} --key k"));
        until("its process runs", || !children(worker.pid()).is_empty());
        swallow(&peers.doors[owner]);
        peers.nodes[0].go();
        until("its result is in the journal", || {
            peers.nodes[0].unacknowledged("w1") == 1
        });
        if round == 0 {
            peers.nodes[there].settles(&key, "succeeded");
        }
        peers.kill(owner);
        peers.doors[owner].heal();
        let dead = Instant::now();
        peers.nodes[there].settles(&key, "succeeded");
        until("the worker has its verdict", || {
            peers.nodes[0].unacknowledged("w1") == 0
        });
        assert!(
            dead.elapsed() < Duration::from_secs(30),
            "{:?}",
            dead.elapsed()
        );
        peers.nodes[there].each_shard_took_one_attempt(&key);
        peers.nodes[owner].start_server_again();
        peers.all_ready();
    }
    assert_eq!(peers.nodes[0].done(), ["0", "0"], "once each");
    drop(worker);
}

/// DUP-011, STUCK-004: a worker is cut off in the middle, and the node that granted dies. It ends its processes by
/// itself before the successor lets anybody else begin, and what it reports when it is back is refused.
#[test]
fn a_worker_that_is_cut_off_has_stopped_before_a_successor_grants_again() {
    let Some(mut peers) = Peers::new(2, &["--beat", "1s", "--session-ttl", "3s"]) else {
        return;
    };
    // The pool has its owner once it had a worker.
    let mut first = peers.worker("w0", 1);
    peers.all_share(&[0, 1]);
    let owner = peers.owner(&[0, 1]);
    first.signal(Signal::SIGTERM);
    assert!(first.ended().success());
    until("its session is over", || {
        peers.nodes[owner].client.json("get workers")["items"] == json!([])
    });
    let door = Proxy::to(&peers.nodes[owner].server.url);
    let cut_off = peers.nodes[0].worker("w1", &door.url, 1);
    let file = |name: &str| text(&peers.nodes[0].path(name)).to_owned();
    let steps = format!(
        "if [ $SICHEN_ATTEMPT = 1 ]; then trap '' TERM; echo $$ > {pid}.new; mv {pid}.new {pid}; \
         while :; do sleep 0.1; done; fi; \
         if kill -0 $(cat {pid}); then echo both >> {both}; fi",
        pid = file("pid"),
        both = file("both"),
    );
    peers.nodes[0].apply_steps("posting", &steps, 1);
    peers.nodes[0].client.ok("run posting --key k");
    until("its process runs", || peers.nodes[0].path("pid").exists());
    door.swallow_all();
    peers.kill(owner);
    let there = 1 - owner;
    let second = peers.nodes[0].worker("w2", &peers.nodes[there].server.url, 1);
    peers.nodes[there].settles("posting:manual:k", "succeeded");
    assert!(!peers.nodes[0].path("both").exists(), "both ran at once");
    assert_eq!(peers.nodes[0].done(), ["0"]);
    door.leads_to(&peers.nodes[there].server.url);
    door.heal();
    until("it has its verdict", || {
        peers.nodes[0].unacknowledged("w1") == 0
    });
    let shard = &peers.nodes[there].shards("posting:manual:k")[0];
    assert_eq!(
        (&shard["state"], &shard["attempt"]),
        (&"succeeded".into(), &2.into())
    );
    peers.nodes[there].history_is_accepted();
    drop((cut_off, second));
}

/// STUCK-001, STUCK-013: a worker dies together with the node that has it. Both were alone in knowing each
/// other; started again under its name it comes to another node, and its shards run again at once, long
/// before its old session would have ended.
#[test]
fn a_worker_that_died_with_its_node_has_its_shards_again_at_another() {
    let Some(mut peers) = Peers::new(2, &["--session-ttl", "60s"]) else {
        return;
    };
    let mut worker = peers.worker("w1", 2);
    peers.all_share(&[0, 1]);
    let owner = peers.owner(&[0, 1]);
    let there = 1 - owner;
    peers.nodes[0].apply_script("again", 2);
    peers.nodes[there].client.ok("run again --key k");
    let all = |peers: &Peers, attempt: u32| {
        let shards = peers.nodes[there].shards("again:manual:k");
        let is =
            |shard: &serde_json::Value| shard["state"] == "running" && shard["attempt"] == attempt;
        shards.iter().all(is)
    };
    until("both shards run", || all(&peers, 1));
    worker.signal(Signal::SIGKILL);
    worker.ended();
    peers.kill(owner);
    let dead = Instant::now();
    let back = peers.worker("w1", 2);
    until("both shards run under a new token", || all(&peers, 2));
    println!("again after {:?}", dead.elapsed());
    assert!(
        dead.elapsed() < Duration::from_secs(50),
        "its session lasts 60 s"
    );
    peers.nodes[0].go();
    peers.nodes[there].settles("again:manual:k", "succeeded");
    let mut done = peers.nodes[0].done();
    done.sort_unstable();
    assert_eq!(
        done,
        ["0", "1"],
        "the first attempts died with their worker"
    );
    peers.nodes[there].history_is_accepted();
    drop(back);
}
