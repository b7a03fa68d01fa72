//! A job that is kept running, on a server that is killed again and again: the chain never breaks.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::program::until;
use crate::scene::{Scene, on_both_stores};

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
