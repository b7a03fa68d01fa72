//! A backfill over real processes: the server dies in the middle, and each planned time has one run.

use crate::program::until;
use crate::scene::{Scene, on_both_stores};

on_both_stores!(
    new => a_server_killed_in_mid_backfill_runs_every_time_once,
        the_counts_of_a_backfill_are_checked_and_a_disagreement_is_named,
        a_server_killed_while_runs_are_checked_checks_each_once;
);

fn a_server_killed_in_mid_backfill_runs_every_time_once(mut scene: Scene) {
    let worker = scene.worker("w1", &scene.server.url, 4);
    scene.apply_spec(
        "past",
        &serde_json::json!({
            "run": { "handler": "sleep" }, "parameters": { "ms": 20 },
            "schedules": [{ "cron": "* * * * *" }], "overlap": "allow",
        }),
    );
    // Before the job was there: an hour of minutes, which nothing has decided.
    let range = "--from 2026-01-10T00:00:00Z --to 2026-01-10T01:00:00Z";
    let shown = scene
        .client
        .json(&format!("backfill start past {range} --dry-run"));
    assert_eq!(
        (shown["instants"].as_u64(), shown["waiting"].as_u64()),
        (Some(60), Some(0))
    );
    assert_eq!(shown["totals"]["create"].as_u64(), Some(60), "{shown:#}");
    let asked = scene.client.json(&format!(
        "backfill start past {range} --parallelism 4 --key k"
    ));
    let id = asked["id"].as_u64().unwrap();
    let get = |scene: &Scene| scene.client.json(&format!("backfill get {id}"));
    until("some have run", || {
        get(&scene)["runs"]["succeeded"].as_u64() >= Some(8)
    });
    scene.kill_and_restart_server();
    let done = get(&scene)["instants"]["done"].as_u64();
    assert!(done < Some(60), "it was killed in the middle: {done:?}");
    until("it is finished", || get(&scene)["state"] == "finished");
    let backfill = get(&scene);
    assert_eq!(
        backfill["instants"]["created"].as_u64(),
        Some(60),
        "{backfill:#}"
    );
    assert_eq!(
        backfill["runs"]["succeeded"].as_u64(),
        Some(60),
        "{backfill:#}"
    );
    let runs = scene
        .client
        .json(&format!("runs --backfill {id} --limit 1000"));
    let planned = runs["items"].as_array().unwrap().iter();
    let planned: std::collections::BTreeSet<_> = planned
        .map(|run| run["planned_at"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(planned.len(), 60, "each minute has one run");
    let again = scene.client.json(&format!(
        "backfill start past {range} --parallelism 4 --key k"
    ));
    assert_eq!(
        again["id"].as_u64(),
        Some(id),
        "the same request is the same backfill"
    );
    scene.history_is_accepted();
    drop(worker);
}

/// The business of each run is counted again by another job, no faster than the rate; what does not
/// agree is named, and asking again checks nothing twice.
fn the_counts_of_a_backfill_are_checked_and_a_disagreement_is_named(scene: Scene) {
    let worker = scene.worker("w1", &scene.server.url, 4);
    scene.apply_spec(
        "past",
        &serde_json::json!({
            "run": { "handler": "sleep" }, "parameters": { "ms": 5 },
            "schedules": [{ "cron": "* * * * *" }], "overlap": "allow",
        }),
    );
    let sichen = env!("CARGO_BIN_EXE_sichen");
    let script = format!(
        "found=10; case $SICHEN_PERIOD_END in *T00:02:00*) found=9;; esac; \
         {sichen} report checkpoint c --done $found --expected 10"
    );
    scene.apply_spec(
        "count",
        &serde_json::json!({
            "run": { "process": { "argv": ["/bin/sh", "-c", script] } },
            "retry": { "maxAttempts": 1 }, "countsMustMatch": true,
        }),
    );
    let range = "--from 2026-01-10T00:00:00Z --to 2026-01-10T00:05:00Z";
    let asked = scene
        .client
        .json(&format!("backfill start past {range} --parallelism 4"));
    let id = asked["id"].as_u64().unwrap();
    until("it is finished", || {
        scene.client.json(&format!("backfill get {id}"))["state"] == "finished"
    });
    let verify = format!("backfill verify {id} --with count --rate 600");
    let before = std::time::Instant::now();
    let found = scene.client.fails_json(&verify, 1);
    // Five starts, a tenth of a second apart.
    assert!(before.elapsed() >= std::time::Duration::from_millis(500));
    let counts = |view: &serde_json::Value| {
        ["runs", "agree", "disagree", "unchecked"].map(|of| view[of].as_u64().unwrap())
    };
    assert_eq!(counts(&found), [5, 4, 1, 0], "{found:#}");
    let item = &found["items"][0];
    assert_eq!(item["planned_at"], "2026-01-10T00:02:00+00:00", "{found:#}");
    assert_eq!(
        (item["found"].as_u64(), item["expected"].as_u64()),
        (Some(9), Some(10))
    );
    let again = scene.client.fails_json(&verify, 1);
    assert_eq!(again, found, "the same checks are found again");
    let checks = scene.client.json("runs count");
    assert_eq!(checks["items"].as_array().unwrap().len(), 5);
    scene.history_is_accepted();
    drop(worker);
}

/// The server itself has each run counted again, at the rate that was asked for; killed in the middle it
/// goes on, and no run is counted twice.
fn a_server_killed_while_runs_are_checked_checks_each_once(mut scene: Scene) {
    let worker = scene.worker("w1", &scene.server.url, 4);
    scene.apply_spec(
        "past",
        &serde_json::json!({
            "run": { "handler": "sleep" }, "parameters": { "ms": 5 },
            "schedules": [{ "cron": "* * * * *" }], "overlap": "allow",
        }),
    );
    let sichen = env!("CARGO_BIN_EXE_sichen");
    let script = format!(
        "found=10; case $SICHEN_PERIOD_END in *T00:02:00*) found=9;; esac; \
         {sichen} report checkpoint c --done $found --expected 10"
    );
    scene.apply_spec(
        "count",
        &serde_json::json!({ "run": { "process": { "argv": ["/bin/sh", "-c", script] } } }),
    );
    let range = "--from 2026-01-10T00:00:00Z --to 2026-01-10T00:05:00Z";
    let asked = scene.client.json(&format!(
        "backfill start past {range} --parallelism 4 --verify count --verify-rate 60"
    ));
    let id = asked["id"].as_u64().unwrap();
    let get = |scene: &Scene| scene.client.json(&format!("backfill get {id}"));
    until("one is checked", || {
        get(&scene)["checks"]["agree"].as_u64() >= Some(1)
    });
    scene.kill_and_restart_server();
    until("it is finished", || get(&scene)["state"] == "finished");
    let checks = get(&scene)["checks"].clone();
    let counts = ["due", "open", "agree", "differ", "uncounted"];
    let counts = counts.map(|of| checks[of].as_u64().unwrap());
    assert_eq!(counts, [0, 0, 4, 1, 0], "{checks:#}");
    let runs = scene.client.json("runs count");
    let runs = runs["items"].as_array().unwrap();
    assert_eq!(runs.len(), 5, "each is checked once");
    let started = runs.iter().map(|run| run["created_at"].as_str().unwrap());
    let started: Vec<jiff::Timestamp> = started.map(|at| at.parse().unwrap()).collect();
    let (first, last) = (started.iter().min().unwrap(), started.iter().max().unwrap());
    // One each second, but for the one that a server may have started as it died.
    assert!(last.duration_since(*first).as_secs() >= 3, "{started:?}");
    let differ = scene
        .client
        .json(&format!("backfill checks {id} --state differs"));
    let check = &differ["items"][0];
    assert_eq!(
        check["planned_at"], "2026-01-10T00:02:00+00:00",
        "{differ:#}"
    );
    assert_eq!(
        (check["found"].as_u64(), check["expected"].as_u64()),
        (Some(9), Some(10))
    );
    scene.history_is_accepted();
    drop(worker);
}
