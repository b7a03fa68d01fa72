//! What strains a cluster is told, and its end: each rule by its real cause, on real servers, counted at the
//! receiver's socket.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::alerts::{Receiver, config, sender};
use crate::cluster::Peers;
use crate::database::Database;
use crate::program::until;
use crate::scene::{Scene, text};

/// Waits until something of `rule` was told as `event`.
fn told(receiver: &Receiver, rule: &str, event: &str) -> Value {
    let mut found = Value::Null;
    until(&format!("{rule} is {event}"), || {
        let all = receiver.all();
        let one = all
            .iter()
            .find(|got| got.body["rule"] == rule && got.body["event"] == event);
        found = one.map(|got| got.body.clone()).unwrap_or_default();
        !found.is_null()
    });
    found
}

/// How often a rule was told of, each notice once.
fn count(receiver: &Receiver, rule: &str) -> usize {
    let all = receiver.all();
    let of = all.iter().filter(|got| got.body["rule"] == rule);
    let ids: std::collections::BTreeSet<String> =
        of.map(|got| got.body["id"].to_string()).collect();
    ids.len()
}

/// One notice that it is and one that it is over.
fn twice(receiver: &Receiver, rules: &[&str]) {
    for rule in rules {
        told(receiver, rule, "recovered");
        assert_eq!(count(receiver, rule), 2, "{rule}");
    }
}

fn sh(scene: &Scene, name: &str, script: &str, more: &Value) {
    let mut spec = json!({
        "run": { "process": { "argv": ["/bin/sh", "-c", script] } },
        "retry": { "maxAttempts": 1 },
    });
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
        spec.extend(more.clone());
    }
    scene.apply_spec(name, &spec);
}

fn scene(dir: &tempfile::TempDir, receiver: &Receiver, rules: &str) -> Scene {
    let file = config(dir, receiver, &format!("rules:\n{rules}"));
    let own = tempfile::tempdir().unwrap();
    Scene::on(own, None, &["--alerts", &file], Vec::new())
}

/// A job that succeeds in part, several that fail each in its own way, and what of that nobody puts right.
#[test]
fn a_part_a_surge_and_dead_letters_are_told_and_their_end() {
    let (dir, receiver) = (tempfile::tempdir().unwrap(), Receiver::new());
    let rules = "  surge: {at_least: 3}\n  dead_letters: {after: 2s}\n";
    let scene = scene(&dir, &receiver, rules);
    let _worker = scene.worker("w1", &scene.server.url, 4);
    let ok = text(&scene.path("ok")).to_owned();
    let half = format!("[ $SICHEN_SHARD_INDEX = 0 ] || [ -e {ok} ]");
    sh(&scene, "half", &half, &json!({ "shards": { "count": 2 } }));
    // A message on its way out, and none at all.
    for (name, end) in [("alpha", "echo no >&2; exit 1"), ("beta", "kill -9 $$")] {
        sh(
            &scene,
            name,
            &format!("[ -e {ok} ] || {{ {end}; }}"),
            &json!({}),
        );
        scene.client.ok(&format!("run {name} --key k"));
    }
    scene.client.ok("run half --key k");
    scene.settles("half:manual:k", "partial");
    let partial = told(&receiver, "partial", "raised");
    assert_eq!(partial["subjects"][0]["subject"], "half");
    told(&receiver, "surge", "raised");
    let letters = told(&receiver, "dead_letters", "raised");
    assert!(letters["count"].as_u64().unwrap() >= 1, "{letters}");
    std::fs::write(&ok, "").unwrap();
    // Some are tried again, the others are given up.
    scene.client.ok("retry half:manual:k");
    scene.settles("half:manual:k", "succeeded");
    for name in ["alpha", "beta"] {
        scene.client.ok(&format!("run {name} --key good"));
        scene.settles(&format!("{name}:manual:good"), "succeeded");
    }
    told(&receiver, "surge", "recovered");
    scene.client.ok("dead-letters discard --reason known --yes");
    twice(&receiver, &["partial", "surge"]);
    told(&receiver, "dead_letters", "recovered");
}

/// Ten runs say how long a job takes; the eleventh hangs, and others wait for its slot and its capacity.
#[test]
fn a_slow_run_and_those_that_wait_behind_it_are_told_and_their_end() {
    let (dir, receiver) = (tempfile::tempdir().unwrap(), Receiver::new());
    let rules = "  slower: {after: 2s}\n  backlog: {after: 2s, clear: 0s}\n  \
                 capacity_exhausted: {after: 2s, clear: 0s}\n";
    let scene = scene(&dir, &receiver, rules);
    let _worker = scene.worker("w1", &scene.server.url, 1);
    let capacity = json!({
        "apiVersion": "sichen/v1", "kind": "Capacity", "metadata": { "name": "ledger" },
        "spec": { "units": 1 },
    });
    let file = scene.path("capacity.json");
    std::fs::write(&file, capacity.to_string()).unwrap();
    scene.client.ok(&format!("apply -f {}", text(&file)));
    let uses = json!({ "uses": { "ledger": 1 } });
    let (slow, ok) = (scene.path("slow"), scene.path("ok"));
    let script = format!(
        "[ -e {} ] || exit 0; until [ -e {} ]; do sleep 0.1; done",
        text(&slow),
        text(&ok)
    );
    sh(&scene, "close", &script, &uses);
    sh(&scene, "report", "true", &uses);
    sh(&scene, "other", "true", &json!({}));
    for n in 0..10 {
        scene.client.ok(&format!("run close --key k{n} --wait"));
    }
    std::fs::write(&slow, "").unwrap();
    scene.client.ok("run close --key slow");
    until("it runs", || {
        scene.run("close:manual:slow")["state"] == "running"
    });
    scene.client.ok("run report --key k");
    scene.client.ok("run other --key k");
    let slower = told(&receiver, "slower", "raised");
    assert!(
        slower["summary"].as_str().unwrap().contains("of 10 runs"),
        "{slower}"
    );
    let backlog = told(&receiver, "backlog", "raised");
    assert!(
        backlog["summary"].as_str().unwrap().contains("other waits"),
        "{backlog}"
    );
    let held = told(&receiver, "capacity_exhausted", "raised");
    assert!(
        held["summary"]
            .as_str()
            .unwrap()
            .contains("1 of 1 held, report waits"),
        "{held}"
    );
    std::fs::write(&ok, "").unwrap();
    for run in ["close:manual:slow", "report:manual:k", "other:manual:k"] {
        scene.settles(run, "succeeded");
    }
    twice(&receiver, &["slower", "backlog", "capacity_exhausted"]);
}

/// A worker dies while somebody else's transaction keeps its session's row: nobody takes its shards back
/// until that ends. The transaction itself is told of too.
#[test]
fn a_transaction_that_keeps_a_dead_worker_s_shards_is_told_and_its_end() {
    let (dir, receiver) = (tempfile::tempdir().unwrap(), Receiver::new());
    let rules = "rules:\n  no_lease: {after: 1s}\n  old_transaction: {after: 2s}\n";
    let file = config(&dir, &receiver, rules);
    let Some(database) = Database::start() else {
        return;
    };
    let own = tempfile::tempdir().unwrap();
    let words = ["--alerts", &file, "--beat", "500ms", "--session-ttl", "2s"];
    let scene = Scene::on(own, Some(database.url()), &words, Vec::new());
    let worker = scene.worker("w1", &scene.server.url, 1);
    sh(&scene, "long", "sleep 600", &json!({}));
    scene.client.ok("run long --key k");
    until("it runs", || {
        scene.run("long:manual:k")["state"] == "running"
    });
    let foreign = database.connect();
    foreign.execute("begin; select * from session for update; select * from shard for update");
    worker.signal(Signal::SIGKILL);
    let lease = told(&receiver, "no_lease", "raised");
    assert_eq!(lease["subjects"][0]["subject"], "default");
    let old = told(&receiver, "old_transaction", "raised");
    let subject = old["subjects"][0]["subject"].as_str().unwrap();
    assert!(subject.starts_with("pid "), "{old}");
    foreign.execute("rollback");
    scene.settles("long:manual:k", "failed");
    twice(&receiver, &["no_lease", "old_transaction"]);
}

/// A server dies while somebody keeps its duties' rows: they are in nobody's hands until that ends. That they
/// went to another and back is told as well.
#[test]
fn duties_that_nobody_has_or_that_go_round_are_told_by_the_other_server() {
    let (dir, receiver) = (tempfile::tempdir().unwrap(), Receiver::new());
    let rules = "rules:\n  no_owner: {hold: 1s}\n  owner_flapping: {at_least: 2, after: 40s}\n";
    let file = config(&dir, &receiver, rules);
    let Some(mut peers) = Peers::new(2, &["--alerts", &file]) else {
        return;
    };
    peers.all_share(&[0, 1]);
    let teller = sender(&peers, &[0, 1]);
    let other = 1 - teller;
    let foreign = peers.database.connect();
    let node = |n: usize| {
        let members = peers.nodes[teller].client.json("get members");
        let nodes = members["nodes"].as_array().unwrap();
        let at = nodes
            .iter()
            .find(|node| node["address"] == *peers.address(n));
        at.unwrap()["id"].clone()
    };
    let dead = node(other);
    foreign.execute(&format!(
        "begin; select * from duty where node_id = {dead} for update"
    ));
    peers.kill(other);
    let idle = told(&receiver, "no_owner", "raised");
    assert!(idle["count"].as_u64().unwrap() >= 5, "{idle}");
    foreign.execute("rollback");
    twice(&receiver, &["no_owner"]);
    // Its duties are the other's now; a new one takes its share.
    peers.join(&["--alerts", &file]);
    let flapping = told(&receiver, "owner_flapping", "raised");
    assert!(
        flapping["summary"]
            .as_str()
            .unwrap()
            .contains("changes since"),
        "{flapping}"
    );
    told(&receiver, "owner_flapping", "recovered");
}

/// ALERT-001, where all of it is gone: somebody outside hears from a cluster whose alerts work, and no more once they do not: from one server of
/// two, from its peer when that is gone, and from nobody while the database is away.
#[test]
fn whoever_waits_outside_hears_of_working_alerts_and_not_of_others() {
    let (dir, receiver) = (tempfile::tempdir().unwrap(), Receiver::new());
    let outside = Receiver::new();
    let file = config(
        &dir,
        &receiver,
        &format!("heartbeat: {{url: '{}', every: 1s}}\n", outside.url),
    );
    let Some(mut peers) = Peers::new(2, &["--alerts", &file]) else {
        return;
    };
    peers.all_share(&[0, 1]);
    let heard = |n: usize| until("it is heard outside", || outside.all().len() >= n);
    heard(3);
    let first = sender(&peers, &[0, 1]);
    peers.kill(first);
    let before = outside.all().len();
    heard(before + 3);
    peers.database.stop_at_once();
    // What was on its way arrives; then it is silent for longer than any look takes.
    let mut last = usize::MAX;
    until("it falls silent", || {
        let now = outside.all().len();
        std::thread::sleep(std::time::Duration::from_secs(4));
        let silent = outside.all().len() == now;
        last = now;
        silent
    });
    peers.database.start_again();
    heard(last + 2);
}
