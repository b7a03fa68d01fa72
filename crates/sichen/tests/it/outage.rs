//! What befalls a database in the middle of a run: nothing is lost, nothing is done twice, and every
//! run ends without anybody starting a server or a worker again.
//!
//! No work here is longer than a moment, so no shard may be worked on twice. An attempt may yet be
//! lost: one that was granted, and whose worker's session ended before it heard of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::program::{Process, until};
use crate::scene::{Kind, Scene};

/// Shards of the run that is harmed.
const SHARDS: u64 = 60;
const RUN: &str = "harmed:manual:k";
/// Runs that are asked for while sessions end.
const ASKED: u32 = 40;
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

/// STUCK-008: whatever an instant's step is cut off in, it is decided once, and its job goes on.
#[test]
fn schedules_whose_sessions_are_terminated_leave_no_instant_out() {
    on_postgres(|mut scene| {
        let worker = scene.worker("w1", &scene.server.url, 8);
        let names = ["a", "b", "c", "d"];
        for name in names {
            apply_ticking(&scene, name);
            until("it ticks", || !ticks(&scene, name).is_empty());
        }
        let (began, mut ended) = (Instant::now(), 0);
        while began.elapsed() < Duration::from_secs(10) {
            ended += scene.database().terminate_all_sessions();
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(ended > 10, "{ended} sessions");
        until("the server is ready", || scene.ready().0 == 200);
        for name in names {
            each_second_ran(&scene, name, 10);
        }
        scene.history_is_accepted();
        drop(worker);
    });
}

/// API-011: who is answered has its run, each run that exists starts, and the same key never makes
/// another.
#[test]
fn a_run_that_is_asked_for_while_sessions_end_is_whole_or_not_there() {
    on_postgres(|scene| {
        let worker = scene.worker("w1", &scene.server.url, 8);
        let spec = json!({ "run": { "handler": "noop" }, "overlap": "allow" });
        scene.apply_spec("asked", &spec);
        let database = scene.database.as_ref().unwrap();
        let ask = |n: u32| scene.client.run(&format!("run asked --key k{n}"));
        let over = AtomicBool::new(false);
        let answered: Vec<bool> = std::thread::scope(|threads| {
            let ending = threads.spawn(|| {
                let mut ended = 0;
                while !over.load(Ordering::SeqCst) {
                    ended += database.terminate_all_sessions();
                    std::thread::sleep(Duration::from_millis(50));
                }
                ended
            });
            let answered = (0..ASKED).map(|n| ask(n).status.success()).collect();
            over.store(true, Ordering::SeqCst);
            assert!(ending.join().unwrap() > 10, "sessions are ended");
            answered
        });
        until("the server is ready", || scene.ready().0 == 200);
        let (healed, made) = (Instant::now(), asked(&scene));
        for (n, _) in (0..ASKED).zip(answered).filter(|(_, answered)| *answered) {
            assert!(made.contains_key(&format!("asked:manual:k{n}")), "k{n}");
        }
        until("each that exists is over", || {
            asked(&scene)
                .values()
                .all(|(_, state)| state == "succeeded")
        });
        assert!(healed.elapsed() < HEALED_WITHIN, "{:?}", healed.elapsed());
        for n in 0..ASKED {
            assert!(ask(n).status.success(), "k{n} again");
        }
        until("all are over", || {
            asked(&scene)
                .values()
                .all(|(_, state)| state == "succeeded")
        });
        let all = asked(&scene);
        assert_eq!(all.len(), ASKED as usize);
        assert!(made.iter().all(|(key, (id, _))| all[key].0 == *id));
        scene.history_is_accepted();
        drop(worker);
    });
}

/// The runs that were asked for: by key, the id and the state.
fn asked(scene: &Scene) -> BTreeMap<String, (u64, String)> {
    let runs = scene.client.json("runs asked --limit 500");
    let text = |run: &serde_json::Value, field: &str| run[field].as_str().unwrap().to_owned();
    let items = runs["items"].as_array().unwrap().iter();
    let found: Vec<_> = items
        .map(|run| {
            let (id, state) = (run["id"].as_u64().unwrap(), text(run, "state"));
            (text(run, "key"), (id, state))
        })
        .collect();
    let by_key = BTreeMap::from_iter(found.iter().cloned());
    assert_eq!(by_key.len(), found.len(), "one run a key");
    by_key
}

/// DB-006: instants of the outage are decided after it, and who asks meanwhile is told.
#[test]
fn ten_seconds_without_a_database_lose_nothing() {
    on_postgres(|mut scene| {
        let workers = in_mid_run(&scene);
        apply_ticking(&scene, "ticking");
        until("it ticks", || !ticks(&scene, "ticking").is_empty());
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
        each_second_ran(&scene, "ticking", 10);
        all_is_well_again(&scene, workers);
    });
}

/// A foreign program has read the run's row to change it, and then sleeps in its transaction.
#[test]
fn a_run_that_a_foreign_transaction_holds_stops_nothing_else() {
    on_postgres(|mut scene| {
        let workers = in_mid_run(&scene);
        let foreign = scene.database().connect();
        foreign.execute("begin; select * from run where job_name = 'harmed' for update");
        let began = Instant::now();
        // Those of the other two are held by what can't be reported.
        let third = scene.worker("w3", &scene.server.url, 2);
        scene.apply("other", &json!({ "handler": "noop" }), &json!({}), 4);
        scene.client.ok("run other --key k");
        scene.settles("other:manual:k", "succeeded");
        while began.elapsed() < Duration::from_secs(20) {
            assert_eq!(scene.ready().0, 200);
            std::thread::sleep(Duration::from_millis(200));
        }
        let sessions = scene.client.json("get workers");
        assert_eq!(sessions["items"].as_array().unwrap().len(), 3);
        foreign.execute("rollback");
        all_is_well_again(&scene, workers);
        let events = scene.client.ok("events harmed:manual:k -o json");
        assert!(!events.contains("session_over"), "{events}");
        drop(third);
    });
}

/// The same with a job's row: its own schedule waits, every other fires on time. DB-004: a deletion holds that
/// row and no other.
#[test]
fn a_job_that_a_foreign_transaction_holds_delays_no_other_schedule() {
    on_postgres(|mut scene| {
        let worker = scene.worker("w1", &scene.server.url, 4);
        for name in ["held", "ticking"] {
            apply_ticking(&scene, name);
            until("it ticks", || !ticks(&scene, name).is_empty());
        }
        let foreign = scene.database().connect();
        foreign.execute("begin; select * from job where name = 'held' for update");
        let before = ticks(&scene, "ticking").len();
        let held = ticks(&scene, "held").len();
        let after = before + 10;
        until("its neighbour ticks on", || {
            ticks(&scene, "ticking").len() >= after
        });
        // Of the one that is held what was on its way may have come.
        let of_held = ticks(&scene, "held").len();
        assert!(of_held <= held + 1, "{held}, then {of_held}");
        foreign.execute("rollback");
        for name in ["held", "ticking"] {
            each_second_ran(&scene, name, after);
        }
        scene.history_is_accepted();
        drop(worker);
    });
}

/// DB-003: somebody reads from an old snapshot, so no version of a row may be removed. What passes through
/// meanwhile makes thousands of dead ones, and a run that is asked for starts as soon as ever.
#[test]
fn an_old_transaction_elsewhere_delays_no_start() {
    const PASSING: u32 = 4_000;
    on_postgres(|mut scene| {
        let workers = ["w1", "w2"].map(|name| scene.worker(name, &scene.server.url, 64));
        let noop = json!({ "handler": "noop" });
        scene.apply("passing", &noop, &json!({}), PASSING);
        scene.apply("asked", &noop, &json!({}), 1);
        let foreign = scene.database().connect();
        foreign.execute("begin isolation level repeatable read; select count(*) from shard");
        scene.client.ok("run passing --key k");
        scene.settles("passing:manual:k", "succeeded");
        for n in 0..5 {
            scene.client.ok(&format!("run asked --key k{n} --wait"));
            let run = scene.run(&format!("asked:manual:k{n}"));
            let at =
                |field: &str| -> jiff::Timestamp { run[field].as_str().unwrap().parse().unwrap() };
            let delay = at("started_at").duration_since(at("created_at"));
            println!("started after {delay:?}");
            assert!(delay.as_secs() < 2, "{delay:?}");
        }
        let query = "select n_dead_tup from pg_stat_user_tables where relname = 'shard'";
        let database = scene.database().connect();
        until("the dead are counted", || {
            database.number(query) > i64::from(PASSING)
        });
        foreign.execute("rollback");
        scene.history_is_accepted();
        drop(workers);
    });
}

/// A job with an instant each second.
pub fn apply_ticking(scene: &Scene, name: &str) {
    let spec = json!({
        "run": { "handler": "noop" },
        "schedules": [{ "every": "1s" }],
        "catchUp": { "policy": { "all": 1000 } },
        "overlap": "allow",
    });
    scene.apply_spec(name, &spec);
}

/// Waits for more than `least` instants, pauses the job, and sees that none is left out.
pub fn each_second_ran(scene: &Scene, name: &str, least: usize) {
    until("it ticks again", || ticks(scene, name).len() > least);
    scene.client.ok(&format!("pause {name}"));
    until("every tick is over", || {
        ticks(scene, name).iter().all(|t| t.1)
    });
    let ticks = ticks(scene, name);
    for pair in ticks.windows(2) {
        assert_eq!(pair[1].0 - pair[0].0, 1, "one is left out: {ticks:?}");
    }
}

/// The planned seconds of a ticking job's runs, oldest first, and whether each has succeeded.
pub fn ticks(scene: &Scene, name: &str) -> Vec<(i64, bool)> {
    let runs = scene.client.json(&format!("runs {name} --limit 500"));
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
