//! Claims about slots that are asked for, among real processes: a run of low priority holds them all, one of high
//! priority comes, starts within the grace, and the low one goes on later from its checkpoint.

use serde_json::json;

use crate::program::until;
use crate::scene::{Scene, on_both_stores, text};

on_both_stores!(new => a_slot_is_given_to_a_better_run_and_the_work_goes_on_later);

/// Counts up from its checkpoint until the file `go` is there; at TERM it saves how far it has come.
fn counting(scene: &Scene) -> String {
    let (log, go) = (scene.path("log"), scene.path("go"));
    format!(
        "n=${{SICHEN_CHECKPOINT:-0}}; echo \"low from $n\" >> {log}; \
         trap 'echo \"{{\\\"checkpoint\\\": \\\"$n\\\"}}\" >> \"$SICHEN_REPORT\"; exit 75' TERM; \
         while [ ! -e {go} ]; do n=$((n+1)); sleep 0.02; done; echo \"low to $n\" >> {log}",
        log = text(&log),
        go = text(&go),
    )
}

fn apply(scene: &Scene, name: &str, script: &str, more: serde_json::Value) {
    let argv = ["/bin/sh", "-c", script];
    let mut spec = json!({ "run": { "process": { "argv": argv } } });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    scene.apply_spec(name, &spec);
}

fn log(scene: &Scene) -> Vec<String> {
    let text = std::fs::read_to_string(scene.path("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn count(scene: &Scene, begins: &str) -> usize {
    let lines = log(scene);
    lines.iter().filter(|line| line.starts_with(begins)).count()
}

/// Where attempts of the low run began that did not begin at the beginning.
fn went_on(scene: &Scene) -> Vec<u64> {
    let lines = log(scene);
    let from = lines
        .iter()
        .filter_map(|line| line.strip_prefix("low from "));
    from.map(|n| n.parse().unwrap())
        .filter(|n| *n > 0)
        .collect()
}

fn a_slot_is_given_to_a_better_run_and_the_work_goes_on_later(scene: Scene) {
    let worker = scene.worker("w1", &scene.server.url, 2);
    let yields = json!({
        "shards": { "count": 2 }, "priority": 0, "retry": { "maxAttempts": 1 },
        "preemption": { "yields": { "after": "1s", "times": 5 } },
    });
    apply(&scene, "low", &counting(&scene), yields);
    scene.client.ok("run low --key k");
    until("the low run holds both slots", || {
        count(&scene, "low from 0") == 2
    });
    let (log_file, gone) = (scene.path("log"), scene.path("high-go"));
    let script = format!(
        "echo high >> {}; while [ ! -e {} ]; do sleep 0.02; done",
        text(&log_file),
        text(&gone)
    );
    // One that does not ask waits, however high it is.
    apply(&scene, "quiet", &script, json!({ "priority": 500 }));
    let asks = json!({ "priority": 100, "preemption": { "preempts": true } });
    apply(&scene, "high", &script, asks);
    scene.client.ok("run high --key k");
    until("the high run has a slot", || count(&scene, "high") == 1);
    assert_eq!(count(&scene, "low from"), 2, "{:?}", log(&scene));
    let told = scene.client.ok("trace low:manual:k");
    assert!(told.contains("asked to yield"), "{told}");
    assert!(told.contains("of priority 100, itself of 0"), "{told}");
    let why = scene.client.ok("explain low:manual:k");
    assert!(why.contains("of priority 100"), "{why}");

    std::fs::write(&gone, "").unwrap();
    scene.settles("high:manual:k", "succeeded");
    until("the low run goes on", || went_on(&scene).len() == 1);
    let metrics = scene.ask("GET", "/metrics", "").body;
    let counted = "sichen_attempts_recalled_total{pool=\"default\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    scene.go();
    // One attempt a shard is all that it may use up: one that gave its slot up has used none.
    scene.settles("low:manual:k", "succeeded");
    let attempts = scene.shards("low:manual:k");
    let attempts: Vec<u64> = attempts
        .iter()
        .map(|shard| shard["attempt"].as_u64().unwrap())
        .collect();
    assert_eq!(attempts.iter().sum::<u64>(), 3, "{attempts:?}");
    assert_eq!(scene.run("low:manual:k")["failures"], 0);
    scene.history_is_accepted();
    drop(worker);
}
