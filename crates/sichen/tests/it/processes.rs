//! Real processes under a real server: what becomes of them when the scheduler is in trouble.

use sichen_testdb::proxy::Proxy;

use crate::program::until;
use crate::scene::{Kind, Scene, on_both_stores, text};

on_both_stores!(
    impatient => a_process_whose_worker_was_declared_dead_is_killed_and_its_run_fails_once;
    new => a_cancelled_run_is_final_when_its_daemons_are_gone,
        a_process_may_say_anything_and_its_end_counts,
        failures_of_all_shards_are_counted_over_a_killed_server,
        a_job_says_how_long_its_processes_may_take_to_stop;
);

fn lives(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// The numbers that a script has appended to `pids`.
fn pids(scene: &Scene, how_many: usize) -> Vec<String> {
    let mut found = Vec::new();
    until("the process runs", || {
        let text = std::fs::read_to_string(scene.path("pids")).unwrap_or_default();
        found = text.lines().map(str::to_owned).collect();
        found.len() == how_many
    });
    found
}

fn apply(scene: &Scene, name: &str, script: &str) {
    let script = script.replace("PIDS", text(&scene.path("pids")));
    let argv = ["/bin/sh", "-c", &script];
    let spec = serde_json::json!({
        "run": { "process": { "argv": argv } },
        "retry": { "maxAttempts": 1 },
    });
    scene.apply_spec(name, &spec);
}

/// STUCK-004: the process goes on while its worker is not heard; then the worker is heard again.
fn a_process_whose_worker_was_declared_dead_is_killed_and_its_run_fails_once(scene: Scene) {
    let proxy = Proxy::to(&scene.server.url);
    let worker = scene.worker("w1", &proxy.url, 1);
    let script = "trap '' TERM; echo $$ >> PIDS; sleep 600; sleep 600; exit 0";
    apply(&scene, "silent", script);
    scene.client.ok("run silent --key k");
    let pid = pids(&scene, 1).remove(0);
    let heard = || {
        let workers = scene.client.json("get workers");
        !workers["items"].as_array().unwrap().is_empty()
    };
    for _ in 0..3 {
        proxy.swallow_requests();
        until("the worker is declared dead", || !heard());
        scene.settles("silent:manual:k", "failed");
        // Before anybody tells it: its worker counts the session on its own clock.
        until("the process is gone", || !lives(&pid));
        proxy.heal();
        until("the worker is heard again", heard);
    }
    // Once for the shard, once for the run; what came late is a note.
    let events = scene.client.ok("events silent:manual:k");
    assert_eq!(events.matches("running → failed").count(), 2, "{events}");
    assert_eq!(events.matches("→ failed").count(), 3, "{events}");
    assert_eq!(events.matches("report_refused").count(), 1, "{events}");
    scene.history_is_accepted();
    drop(worker);
}

/// It ignores TERM, holds its pipes, and has daemons: forked twice, with their own session, one of
/// them without the environment.
fn a_cancelled_run_is_final_when_its_daemons_are_gone(scene: Scene) {
    let worker = scene.worker("w1", &scene.server.url, 1);
    let daemon =
        "setsid sh -c \"trap '' TERM; sh -c 'echo \\$\\$ >> PIDS; sleep 600; :' & exit 0\"";
    let script = format!(
        "trap '' TERM; {daemon} & env -i {daemon} & echo $$ >> PIDS; while :; do sleep 1; done"
    );
    apply(&scene, "stubborn", &script);
    scene.client.ok("run stubborn --key k");
    let pids = pids(&scene, 3);
    assert!(pids.iter().all(|pid| lives(pid)));
    let asked = std::time::Instant::now();
    scene.client.ok("cancel stubborn:manual:k");
    until("the run is final", || {
        let state = scene.run("stubborn:manual:k")["state"].clone();
        let left = pids.iter().filter(|pid| lives(pid)).count();
        assert!(state != "cancelled" || left == 0, "{left} live on");
        state == "cancelled"
    });
    let took = asked.elapsed();
    assert!(took.as_secs() < 10 + 5, "within grace + 5 s: {took:?}");
    scene.history_is_accepted();
    drop(worker);
}

/// Bytes that are no text, and those that PostgreSQL has no place for; and its neighbour's end, which
/// is reported beside it.
fn a_process_may_say_anything_and_its_end_counts(scene: Scene) {
    let worker = scene.worker("w1", &scene.server.url, 2);
    let said = "printf 'a\\000b\\377\\n' >&2";
    let waits =
        r#"printf '{"waiting_on":"a\\u0000"}\n{"checkpoint":"b\\u0000"}\n' >> $SICHEN_REPORT"#;
    apply(&scene, "loud", &format!("{waits}; {said}; exit 3"));
    apply(&scene, "neighbour", "exit 0");
    for key in ["1", "2", "3"] {
        scene.client.ok(&format!("run loud --key {key}"));
        scene.client.ok(&format!("run neighbour --key {key}"));
    }
    for key in ["1", "2", "3"] {
        scene.settles(&format!("loud:manual:{key}"), "failed");
        scene.settles(&format!("neighbour:manual:{key}"), "succeeded");
    }
    let shards = scene.client.json("shards loud:manual:1");
    let failure = &shards["items"][0]["failure"];
    assert_eq!(failure["code"], "exit-3");
    let message = failure["message"].as_str().unwrap();
    assert!(message.contains("a\u{fffd}b\u{fffd}"), "{message}");
    scene.history_is_accepted();
    drop(worker);
}

/// RETRY-005: ten shards that always fail share 25 failures, and the server is killed in between.
fn failures_of_all_shards_are_counted_over_a_killed_server(mut scene: Scene) {
    let worker = scene.worker("w1", &scene.server.url, 10);
    let script = format!("echo x >> {}; exit 1", text(&scene.path("tries")));
    let spec = serde_json::json!({
        "run": { "process": { "argv": ["/bin/sh", "-c", script] } },
        "shards": { "count": 10 },
        "retry": { "maxAttempts": 1000, "maxFailures": 25, "backoff": { "fixed": "500ms" } },
    });
    scene.apply_spec("hopeless", &spec);
    scene.client.ok("run hopeless --key k");
    let tries = |scene: &Scene| {
        let text = std::fs::read_to_string(scene.path("tries")).unwrap_or_default();
        text.lines().count()
    };
    until("the first wave has failed", || tries(&scene) >= 10);
    scene.kill_and_restart_server();
    scene.settles("hopeless:manual:k", "failed");
    let run = scene.run("hopeless:manual:k");
    assert_eq!(run["reason"], "max_failures", "{run}");
    assert_eq!(run["failures"], 25, "{run}");
    let tries = tries(&scene);
    assert!((25..=25 + 9).contains(&tries), "{tries} attempts");
    let told = scene.client.ok("describe run hopeless:manual:k");
    assert!(told.contains("Failed attempts"), "{told}");
    scene.history_is_accepted();
    drop(worker);
}

/// One that ignores TERM is killed after the job's own grace; one that needs longer than the usual ten
/// seconds to stop, and may, has stopped by itself.
fn a_job_says_how_long_its_processes_may_take_to_stop(scene: Scene) {
    let worker = scene.worker("w1", &scene.server.url, 2);
    let of = |name: &str, grace: &str, script: &str| {
        let pids = scene.path("pids");
        let script = script.replace("PIDS", text(&pids));
        let spec = serde_json::json!({
            "run": { "process": { "argv": ["/bin/sh", "-c", script] } },
            "retry": { "maxAttempts": 1 },
            "timeouts": { "grace": grace },
        });
        scene.apply_spec(name, &spec);
        scene.client.ok(&format!("run {name} --key k"));
    };
    let asked = std::time::Instant::now();
    let stubborn = "trap '' TERM; echo $SICHEN_GRACE_MS >> PIDS; while :; do sleep 0.1; done";
    of("stubborn", "1s", stubborn);
    assert_eq!(pids(&scene, 1), ["1000"]);
    let slow = "trap 'sleep 12; echo stopped >> PIDS; exit 0' TERM; echo runs >> PIDS; \
                while :; do sleep 0.1; done";
    of("slow", "30s", slow);
    pids(&scene, 2);
    scene.client.ok("cancel slow:manual:k");
    let asked_stubborn = std::time::Instant::now();
    scene.client.ok("cancel stubborn:manual:k");
    scene.settles("stubborn:manual:k", "cancelled");
    let took = asked_stubborn.elapsed();
    assert!(took.as_secs() < 1 + 5, "within grace + 5 s: {took:?}");
    assert_eq!(pids(&scene, 3)[2], "stopped", "{:?}", asked.elapsed());
    scene.history_is_accepted();
    drop(worker);
}

/// STUCK-014: killed from outside is failed: tried again by the policy, and then counted where the alert
/// `SichenFailures` looks.
#[test]
fn a_process_that_is_killed_is_tried_again_and_then_raises_the_alert() {
    let scene = Scene::new(Kind::Sqlite).unwrap();
    let worker = scene.worker("w1", &scene.server.url, 1);
    let argv = ["/bin/sh", "-c", "kill -9 $$"];
    let spec = serde_json::json!({
        "run": { "process": { "argv": argv } },
        "retry": { "maxAttempts": 2, "backoff": { "fixed": "1s" } },
    });
    scene.apply_spec("killed", &spec);
    scene.client.ok("run killed --key k");
    scene.settles("killed:manual:k", "failed");
    let life = scene.client.ok("trace killed:manual:k");
    assert_eq!(life.matches("killed-by-signal-9").count(), 2, "{life}");
    let metrics = scene.ask("GET", "/metrics", "");
    let counted = metrics.body.lines().find(|line| {
        line.starts_with("sichen_runs_settled_total") && line.contains("state=\"failed\"")
    });
    assert!(
        counted.is_some_and(|line| line.ends_with(" 1")),
        "{counted:?}"
    );
    drop(worker);
}
