//! Claims about named capacities among real processes: never more held than the limit, whatever dies,
//! and nothing leaked by a death. What was held at once is counted by the jobs themselves.

use serde_json::{Value, json};

use crate::cluster::{Links, Peers};
use crate::program::until;
use crate::scene::{Scene, on_both_stores, text};

on_both_stores!(new => a_limit_holds_through_a_kill_and_a_resize);

/// A job whose attempts note their beginning, wait for the file `go`, and note their end.
fn apply_user(scene: &Scene, name: &str, uses: &Value, shards: u32) {
    let (log, go) = (scene.path("log"), scene.path("go"));
    let script = format!(
        "echo + $SICHEN_USES_DB_MAIN >> {log}; while [ ! -e {go} ]; do sleep 0.02; done; \
         echo - >> {log}",
        log = text(&log),
        go = text(&go),
    );
    let run = json!({ "process": { "argv": ["/bin/sh", "-c", script] } });
    scene.apply_spec(
        name,
        &json!({ "run": run, "uses": uses, "shards": { "count": shards } }),
    );
}

fn apply_capacity(scene: &Scene, name: &str, units: u32) {
    let document = json!({
        "apiVersion": "sichen/v1", "kind": "Capacity", "metadata": { "name": name },
        "spec": { "units": units },
    });
    let file = scene.path("capacity.json");
    std::fs::write(&file, document.to_string()).unwrap();
    scene.client.ok(&format!("apply -f {}", text(&file)));
}

fn log(scene: &Scene) -> Vec<String> {
    let text = std::fs::read_to_string(scene.path("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn begun(scene: &Scene) -> usize {
    log(scene)
        .iter()
        .filter(|line| line.starts_with('+'))
        .count()
}

/// The most attempts that ran at once.
fn most(scene: &Scene) -> i64 {
    let steps = log(scene);
    let mut now = 0;
    let counted = steps.iter().map(|line| {
        now += if line.starts_with('+') { 1 } else { -1 };
        now
    });
    counted.max().unwrap_or(0)
}

fn shown(scene: &Scene) -> Value {
    scene.client.json("capacity show db-main")
}

fn a_limit_holds_through_a_kill_and_a_resize(mut scene: Scene) {
    apply_capacity(&scene, "db-main", 6);
    let worker = scene.worker("w1", &scene.server.url, 8);
    apply_user(&scene, "j", &json!({ "db-main": 2 }), 12);
    let (none, bad) = (scene.path("none.json"), json!({ "db-mian": 1 }));
    let document = json!({
        "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": "none" },
        "spec": { "run": { "handler": "noop" }, "uses": bad },
    });
    std::fs::write(&none, document.to_string()).unwrap();
    let refused = scene.client.fails(&format!("apply -f {}", text(&none)), 2);
    assert!(refused.contains("did you mean `db-main`?"), "{refused}");

    scene.client.ok("run j --key k");
    until("three hold two units each", || begun(&scene) == 3);
    let found = shown(&scene);
    assert_eq!((&found["used"], &found["holds"]), (&6.into(), &3.into()));
    assert_eq!(found["holders"].as_array().unwrap().len(), 3);
    assert_eq!(found["waiters"][0]["units"], 2);
    let why = scene.client.ok("explain j:manual:k");
    let reason = "capacity db-main: needs 2, 0 of 6 free (6 held), held by shard";
    assert!(why.contains(reason), "{why}");
    scene.client.fails("capacity delete db-main --yes", 4);

    // A larger limit is used at once; the server dies with all of it held.
    scene.client.ok("capacity set db-main --units 10");
    until("five run", || begun(&scene) == 5);
    scene.kill_and_restart_server();
    assert_eq!(shown(&scene)["used"], 10);
    // A smaller one ends nothing, and nothing starts before fewer are held.
    scene.client.ok("capacity set db-main --units 4");
    assert_eq!(shown(&scene)["used"], 10, "10 of 4");
    scene.go();
    scene.settles("j:manual:k", "succeeded");
    assert_eq!(most(&scene), 5, "{:?}", log(&scene));
    assert_eq!(begun(&scene), 12);
    assert!(log(&scene).contains(&"+ 2".to_owned()), "{:?}", log(&scene));
    let found = shown(&scene);
    assert_eq!((&found["used"], &found["holds"]), (&0.into(), &0.into()));
    scene.history_is_accepted();
    drop(worker);
}

/// QUEUE-007 with several servers: one dies with holds out; the other grants on, and the sum stays right.
#[test]
fn a_server_that_dies_with_holds_out_leaks_none() {
    let Some(mut peers) = Peers::new(2, &[]) else {
        return;
    };
    let worker = peers.worker("w1", 8);
    peers.all_share(&[0, 1]);
    apply_capacity(&peers.nodes[0], "db-main", 3);
    apply_user(&peers.nodes[0], "j", &json!({ "db-main": 1 }), 9);
    peers.nodes[0].client.ok("run j --key k");
    let first = peers.nodes[0].path("log");
    let lines = |path: &std::path::Path| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter(|line| line.starts_with('+')).count()
    };
    until("three run", || lines(&first) == 3);
    let dead = peers.owner(&[0, 1]);
    peers.kill(dead);
    let other = &peers.nodes[1 - dead];
    assert_eq!(shown(other)["used"], 3);
    std::fs::write(first.with_file_name("go"), "").unwrap();
    other.settles("j:manual:k", "succeeded");
    assert_eq!(lines(&first), 9, "each shard took one attempt");
    assert_eq!(shown(other)["used"], 0);
    assert!(most(&peers.nodes[0]) <= 3, "{:?}", log(&peers.nodes[0]));
    other.history_is_accepted();
    drop(worker);
}

/// QUEUE-007: two limits, many runs. Every server dies with both used up, and later none reaches the database while
/// two holders end: no limit is ever passed, by the words of those who held it, each run has its turn in order,
/// and nothing is held at the end.
#[test]
fn two_limits_hold_while_all_servers_die_and_while_none_can_read_them() {
    const RUNS: usize = 15;
    const AT_ONCE: usize = 5;
    let links = Links {
        database: true,
        ..Links::default()
    };
    let Some(mut peers) = Peers::linked(2, links, &["--session-ttl", "60s"]) else {
        return;
    };
    let worker = peers.worker("w1", 20);
    peers.all_share(&[0, 1]);
    apply_capacity(&peers.nodes[0], "db-main", 5);
    apply_capacity(&peers.nodes[0], "api", 11);
    let (log_file, gate) = (peers.nodes[0].path("log"), peers.nodes[0].path("gate"));
    let script = format!(
        "n=${{SICHEN_RUN##*:}}; echo + $n >> {log}; while [ ! -e {gate}-$n ]; do sleep 0.05; done; echo - $n >> {log}",
        log = text(&log_file),
        gate = text(&gate),
    );
    let run = json!({ "process": { "argv": ["/bin/sh", "-c", script] } });
    let uses = json!({ "db-main": 1, "api": 2 });
    let spec = json!({ "run": run, "uses": uses, "overlap": "allow" });
    peers.nodes[0].apply_spec("j", &spec);
    for n in 0..RUNS {
        peers.nodes[n % 2].client.ok(&format!("run j --key {n:02}"));
    }
    let open = |numbers: std::ops::Range<usize>| {
        for n in numbers {
            std::fs::write(format!("{}-{n:02}", text(&gate)), "").unwrap();
        }
    };
    let used = |peers: &Peers| {
        let of = |name| peers.nodes[0].client.json(&format!("capacity show {name}"));
        [of("db-main"), of("api")].map(|shown| shown["used"].as_u64().unwrap())
    };
    until("five hold both", || begun(&peers.nodes[0]) == AT_ONCE);
    assert_eq!(used(&peers), [5, 10]);
    for n in 0..2 {
        peers.kill(n);
    }
    for node in &mut peers.nodes {
        node.start_server_again();
    }
    peers.all_ready();
    assert_eq!(used(&peers), [5, 10], "what runs still holds");
    for link in &peers.links {
        link.swallow_all();
    }
    until("no server reaches it", || {
        peers.nodes.iter().all(|node| node.ready().0 == 503)
    });
    open(0..2);
    let ended = || {
        log(&peers.nodes[0])
            .iter()
            .filter(|line| line.starts_with('-'))
            .count()
    };
    until("two have ended, and nobody can take that", || ended() == 2);
    assert_eq!(
        begun(&peers.nodes[0]),
        AT_ONCE,
        "nothing was given away unread"
    );
    for link in &peers.links {
        link.heal();
    }
    peers.all_ready();
    until("two more begin", || begun(&peers.nodes[0]) == AT_ONCE + 2);
    assert_eq!(used(&peers), [5, 10]);
    open(2..RUNS);
    for n in 0..RUNS {
        peers.nodes[1].settles(&format!("j:manual:{n:02}"), "succeeded");
    }
    assert_eq!((begun(&peers.nodes[0]), most(&peers.nodes[0])), (RUNS, 5));
    assert_eq!(used(&peers), [0, 0]);
    let started = |n: usize| -> jiff::Timestamp {
        let run = peers.nodes[0].run(&format!("j:manual:{n:02}"));
        run["started_at"].as_str().unwrap().parse().unwrap()
    };
    // The first find room for all of them, at whichever server they were asked for.
    let turns: Vec<jiff::Timestamp> = (AT_ONCE..RUNS).map(started).collect();
    assert!(
        turns.is_sorted(),
        "those that waited, in the order of their creation: {turns:?}"
    );
    peers.nodes[0].history_is_accepted();
    drop(worker);
}
