//! What befalls a database in the middle of a run: nothing is lost, nothing is done twice, and every
//! run ends without anybody starting a server or a worker again.
//!
//! No work here is longer than a moment, so no shard may be worked on twice. An attempt may yet be
//! lost: one that was granted, and whose worker's session ended before it heard of it.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::program::{Process, until};
use crate::scene::{Kind, Scene};

/// Shards of the run that is harmed.
const SHARDS: u64 = 60;
const RUN: &str = "harmed:manual:k";
/// After the database is back, everything must be over within this time.
const HEALED_WITHIN: Duration = Duration::from_secs(45);

/// A run of many short processes on two workers, begun and not over.
fn in_mid_run(scene: &Scene) -> [Process; 2] {
    let workers = ["w1", "w2"].map(|name| scene.worker(name, &scene.server.url, 4));
    scene.apply_steps("harmed", "sleep 0.2", u32::try_from(SHARDS).unwrap());
    scene.client.ok("run harmed --key k");
    until("some shards have succeeded", || scene.succeeded(RUN) >= 8);
    assert!(scene.succeeded(RUN) < SHARDS / 2, "it is in mid-run");
    workers
}

/// Everything ends by itself, once each.
fn all_is_well_again(scene: &Scene, workers: [Process; 2]) {
    let healed = Instant::now();
    until("the server is ready", || scene.ready().0 == 200);
    scene.settles(RUN, "succeeded");
    assert!(healed.elapsed() < HEALED_WITHIN, "{:?}", healed.elapsed());
    let mut done: Vec<u64> = scene.done().iter().map(|n| n.parse().unwrap()).collect();
    done.sort_unstable();
    assert_eq!(done, Vec::from_iter(0..SHARDS), "each shard was done once");
    scene.history_is_accepted();
    drop(workers);
}

fn on_postgres(claim: fn(Scene)) {
    if let Some(scene) = Scene::new(Kind::Postgres) {
        claim(scene);
    }
}

#[test]
fn a_database_that_crashes_and_comes_back_loses_nothing() {
    on_postgres(|mut scene| {
        let workers = in_mid_run(&scene);
        scene.database().stop_at_once();
        until("the server says so", || scene.ready().0 == 503);
        scene.database().start_again();
        all_is_well_again(&scene, workers);
    });
}

#[test]
fn a_killed_backend_loses_nothing() {
    on_postgres(|mut scene| {
        let workers = in_mid_run(&scene);
        scene.database().kill_a_backend();
        all_is_well_again(&scene, workers);
    });
}

#[test]
fn sessions_that_are_terminated_again_and_again_lose_nothing() {
    on_postgres(|mut scene| {
        let workers = in_mid_run(&scene);
        let mut ended = 0;
        while scene.succeeded(RUN) < SHARDS * 3 / 4 {
            ended += scene.database().terminate_all_sessions();
        }
        assert!(ended > 0);
        all_is_well_again(&scene, workers);
    });
}

/// Instants of the outage are decided after it, and who asks meanwhile is told.
#[test]
fn ten_seconds_without_a_database_lose_nothing() {
    on_postgres(|mut scene| {
        let workers = in_mid_run(&scene);
        scene.apply_spec(
            "ticking",
            &json!({
                "run": { "handler": "noop" },
                "schedules": [{ "every": "1s" }],
                "catchUp": { "policy": { "all": 1000 } },
                "overlap": "allow",
            }),
        );
        until("it ticks", || !ticks(&scene).is_empty());
        scene.database().stop_at_once();
        let began = Instant::now();
        until("the server says so", || scene.ready().0 == 503);
        let told = scene.client.fails("runs ticking", 5);
        assert!(told.contains("SC3001"), "{told}");
        while began.elapsed() < Duration::from_secs(10) {
            assert_eq!(scene.ready().0, 503);
            std::thread::sleep(Duration::from_millis(200));
        }
        scene.database().start_again();
        until("it ticks again", || ticks(&scene).len() > 10);
        scene.client.ok("pause ticking");
        until("every tick is over", || ticks(&scene).iter().all(|t| t.1));
        let ticks = ticks(&scene);
        for pair in ticks.windows(2) {
            assert_eq!(
                pair[1].0 - pair[0].0,
                1,
                "no instant is left out: {ticks:?}"
            );
        }
        all_is_well_again(&scene, workers);
    });
}

/// The planned seconds of the ticking job's runs, oldest first, and whether each has succeeded.
fn ticks(scene: &Scene) -> Vec<(i64, bool)> {
    let runs = scene.client.json("runs ticking --limit 500");
    let runs = runs["items"].as_array().unwrap().iter();
    let mut ticks: Vec<(i64, bool)> = runs
        .map(|run| {
            let planned: jiff::Timestamp = run["planned_at"].as_str().unwrap().parse().unwrap();
            (planned.as_second(), run["state"] == "succeeded")
        })
        .collect();
    ticks.sort_unstable();
    ticks
}
