//! A job that is kept running, on a server that is killed again and again: the chain never breaks.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::program::until;
use crate::scene::{Kind, Scene, on_both_stores};

on_both_stores!(
    new =>
        a_killed_server_breaks_no_chain_of_runs,
        a_fixed_delay_is_previewed;
);

/// How often the server dies.
const DEATHS: usize = 5;

fn runs(scene: &Scene, job: &str) -> Vec<Value> {
    let found = scene.client.json(&format!("runs {job} --limit 1000"));
    found["items"].as_array().unwrap().clone()
}

fn closed(scene: &Scene, job: &str) -> usize {
    let open = ["scheduled", "running"];
    let is_closed = |run: &&Value| !open.contains(&run["state"].as_str().unwrap());
    runs(scene, job).iter().filter(is_closed).count()
}

/// Whatever the server was doing when it was killed, between the end of a run and the next one too:
/// each end has one successor, and the job goes on without anybody's help.
fn a_killed_server_breaks_no_chain_of_runs(mut scene: Scene) {
    let worker = scene.worker("w1", &scene.server.url, 2);
    let spec = json!({ "run": { "handler": "noop" }, "schedules": [{ "continuous": {} }] });
    scene.apply_spec("kept", &spec);
    for death in 1..=DEATHS {
        until("runs end", || closed(&scene, "kept") >= 2 * death);
        scene.kill_and_restart_server();
    }
    until("it goes on", || closed(&scene, "kept") >= 2 * DEATHS + 2);
    scene.client.ok("pause kept");
    until("the last one ends", || {
        closed(&scene, "kept") == runs(&scene, "kept").len()
    });
    let mut followed: BTreeMap<u64, usize> = BTreeMap::new();
    for line in scene.client.ok("events -o json").lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["kind"] == "schedule_followed"
            && let Some(run) = event["data"]["run"].as_u64()
        {
            *followed.entry(run).or_default() += 1;
        }
    }
    let runs = runs(&scene, "kept");
    assert!(runs.len() >= 2 * DEATHS, "{}", runs.len());
    for run in &runs {
        let id = run["id"].as_u64().unwrap();
        assert_eq!(followed.get(&id), Some(&1), "what follows run {id}");
    }
    scene.history_is_accepted();
    drop(worker);
}

fn a_fixed_delay_is_previewed(scene: Scene) {
    let spec = json!({ "run": { "handler": "noop" }, "schedules": [{ "after": "1h" }] });
    scene.apply_spec("slow", &spec);
    until("its run is there", || runs(&scene, "slow").len() == 1);
    let told = scene.client.ok("next slow");
    assert!(told.contains("1h after the end of its last run"), "{told}");
    assert!(told.contains("the end of an open run makes"), "{told}");
    let worker = scene.worker("w1", &scene.server.url, 2);
    until("it ends", || closed(&scene, "slow") == 1);
    let told = scene.client.json("next slow");
    assert_eq!(told["next"].as_array().unwrap().len(), 1, "{told}");
    let job = scene.client.json("get jobs")["items"][0].clone();
    assert_eq!(job["following_at"], told["next"][0]);
    scene.history_is_accepted();
    drop(worker);
}

/// No look in its turn is waited for, which may be ten seconds away; nor is the next planned time.
#[test]
fn what_a_resume_catches_up_starts_at_once() {
    let scene = Scene::new(Kind::Sqlite).expect("SQLite is there");
    let worker = scene.worker("w1", &scene.server.url, 2);
    let spec = json!({
        "run": { "handler": "noop" }, "schedules": [{ "every": "8s" }], "overlap": "allow",
    });
    scene.apply_spec("ticking", &spec);
    let mut waits = Vec::new();
    for _ in 0..3 {
        scene.client.ok("pause ticking");
        until("it has something to catch up", || {
            let shown = scene.client.ok("resume ticking --catch-up --dry-run");
            !shown.contains("would run 0 ")
        });
        scene.client.ok("resume ticking --catch-up");
        let id = runs(&scene, "ticking")[0]["id"].as_u64().unwrap();
        let id = id.to_string();
        scene.settles(&id, "succeeded");
        let run = scene.run(&id);
        let when =
            |field: &str| -> jiff::Timestamp { run[field].as_str().unwrap().parse().unwrap() };
        let wait = when("started_at").duration_since(when("created_at"));
        waits.push(wait.as_millis());
    }
    // What an edit would do is shown, too.
    let file = scene.path("edited.json");
    let mut edited = spec.clone();
    edited["schedules"] = json!([{ "cron": "0 0 1 1 *" }]);
    let edited = json!({
        "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": "ticking" }, "spec": edited,
    });
    std::fs::write(&file, edited.to_string()).unwrap();
    let apply = format!("apply --dry-run -f {}", file.display());
    let shown = scene.client.ok(&apply);
    assert!(shown.contains("-01-01T00:00:00+00:00\n"), "{shown}");
    scene.client.ok("pause ticking");
    let shown = scene.client.ok(&apply);
    assert!(shown.contains("it stays paused"), "{shown}");
    waits.sort_unstable();
    println!("from the resume to the start, ms: {waits:?}");
    assert!(waits[1] < 1_000, "they waited for a look: {waits:?}");
    drop(worker);
}
