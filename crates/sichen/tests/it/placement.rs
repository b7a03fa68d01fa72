//! Claims about placement among real processes: shards run where their job lets them, and say why they
//! do not run elsewhere. What was taken at once is counted by the jobs themselves.

use serde_json::json;

use crate::program::until;
use crate::scene::{Scene, on_both_stores, text};

on_both_stores!(
    new => shards_run_where_their_labels_and_resources_let_them,
        a_broadcast_reaches_each_of_three_workers_though_one_is_killed
);

fn log(scene: &Scene) -> Vec<String> {
    let text = std::fs::read_to_string(scene.path("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn begun(scene: &Scene) -> usize {
    log(scene).iter().filter(|line| *line == "+").count()
}

/// The most attempts that ran at once.
fn most(scene: &Scene) -> i64 {
    let mut now = 0;
    let steps = log(scene).into_iter().map(|line| {
        now += if line == "+" { 1 } else { -1 };
        now
    });
    steps.max().unwrap_or(0)
}

fn shards_run_where_their_labels_and_resources_let_them(mut scene: Scene) {
    let first = scene.worker_with(
        "w1",
        8,
        "labels: { zone: a }\nresources: { cpu: 4 }\nreserve: { cpu: 1 }\n",
    );
    until("w1 is there", || {
        scene.client.ok("get workers").contains("zone=a cpu:3")
    });
    let noop = json!({ "handler": "noop" });
    let require = |zone: &str| json!({ "labels": { "require": { "zone": zone } } });
    scene.apply_spec("there", &json!({ "run": noop, "placement": require("a") }));
    scene.client.ok("run there --key k");
    scene.settles("there:manual:k", "succeeded");

    // Nobody has this label: it says so, and starts when somebody comes that has it.
    scene.apply_spec(
        "elsewhere",
        &json!({ "run": noop, "placement": require("b") }),
    );
    scene.client.ok("run elsewhere --key k");
    let why = scene.client.ok("explain elsewhere:manual:k 0");
    assert!(
        why.contains("no_label") && why.contains("has the label zone=b; there is zone: a"),
        "{why}"
    );
    let second = scene.worker_with("w2", 8, "labels: { zone: b }\n");
    scene.settles("elsewhere:manual:k", "succeeded");
    let shard = scene.client.json("describe shard elsewhere:manual:k 0");
    assert_eq!(shard["attempts"][0]["worker"], "w2", "{shard}");

    // Three processors of the first worker, one and a half each: two at once, also past a restart.
    let (log, go) = (scene.path("log"), scene.path("go"));
    let script = format!(
        "echo + >> {log}; while [ ! -e {go} ]; do sleep 0.02; done; echo - >> {log}",
        log = text(&log),
        go = text(&go),
    );
    let run = json!({ "process": { "argv": ["/bin/sh", "-c", script] } });
    let placement = json!({ "resources": { "cpu": 1.5 } });
    scene.apply_spec(
        "takes",
        &json!({ "run": run, "shards": { "count": 5 }, "placement": placement }),
    );
    scene.client.ok("run takes --key k");
    until("two run", || begun(&scene) == 2);
    let why = scene.client.ok("explain takes:manual:k");
    let reason = "an attempt takes cpu 1.5; the most that is free on one is none";
    assert!(why.contains(reason), "{why}");
    scene.kill_and_restart_server();
    until("the new server says the same", || {
        scene.client.ok("explain takes:manual:k").contains(reason)
    });
    scene.go();
    scene.settles("takes:manual:k", "succeeded");
    assert_eq!(
        (most(&scene), begun(&scene)),
        (2, 5),
        "{:?}",
        self::log(&scene)
    );
    scene.history_is_accepted();
    drop((first, second));
}

/// Three workers, one of which is killed while it runs its shard: the others' are done once, its own waits for
/// it and is done by it when it is back.
fn a_broadcast_reaches_each_of_three_workers_though_one_is_killed(scene: Scene) {
    let names = ["w1", "w2", "w3"];
    let mut workers: Vec<_> = names.map(|name| scene.worker_with(name, 4, "")).into();
    until("all are there", || {
        let there = scene.client.ok("get workers");
        names.iter().all(|name| there.contains(name))
    });
    let (log, go) = (scene.path("log"), scene.path("go"));
    let script = format!(
        "echo + >> {log}; while [ ! -e {go} ]; do sleep 0.02; done",
        log = text(&log),
        go = text(&go),
    );
    let run = json!({ "process": { "argv": ["/bin/sh", "-c", script] } });
    scene.apply_spec(
        "all",
        &json!({
            "run": run, "placement": { "strategy": "broadcast" }, "timeouts": { "run": "10m" },
            "retry": { "maxAttempts": 5, "backoff": { "fixed": "100ms" } },
        }),
    );
    scene.client.ok("run all --key k");
    until("each runs its own", || begun(&scene) == 3);
    let attempts = |no: usize| -> Vec<String> {
        let shard = scene
            .client
            .json(&format!("describe shard all:manual:k {no}"));
        let attempts = shard["attempts"].as_array().cloned().unwrap_or_default();
        attempts
            .iter()
            .map(|a| a["worker"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    for (no, name) in names.iter().enumerate() {
        assert_eq!(attempts(no), [*name]);
    }
    drop(workers.remove(0));
    scene.go();
    until("its shard waits for it", || {
        let why = scene.client.ok("explain all:manual:k 0");
        why.contains("absent") && why.contains("not connected: w1")
    });
    assert_eq!(scene.run("all:manual:k")["state"], "running");
    workers.push(scene.worker_with("w1", 4, ""));
    scene.settles("all:manual:k", "succeeded");
    assert_eq!(attempts(0), ["w1", "w1"]);
    assert_eq!(
        (attempts(1), attempts(2)),
        (vec!["w2".to_owned()], vec!["w3".to_owned()])
    );
    scene.history_is_accepted();
    drop(workers);
}
