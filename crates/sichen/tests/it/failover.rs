//! Real processes, really killed and cut off: nothing is lost, nothing is done twice, whichever
//! store is below.

use nix::sys::signal::Signal;
use sichen_testdb::proxy::Proxy;

use crate::program::{children, lives, until};
use crate::scene::{Kind, Scene, on_both_stores};

on_both_stores!(
    new =>
        a_killed_server_comes_back_and_no_lease_is_lost,
        a_restarted_server_is_ready_when_its_duties_are_held,
        a_finish_whose_answer_is_lost_counts_once,
        a_killed_worker_hands_its_finished_result_in_when_it_comes_back,
        a_killed_worker_s_shards_run_again_at_once_when_it_comes_back;
    impatient => a_frozen_worker_is_taken_over_and_what_it_reports_late_is_refused;
);

/// STUCK-003: the server dies in mid-run and comes back; its workers lose no lease.
fn a_killed_server_comes_back_and_no_lease_is_lost(mut scene: Scene) {
    let worker = scene.worker("w1", &scene.server.url, 4);
    let run = serde_json::json!({ "handler": "sleep" });
    scene.apply("slow", &run, &serde_json::json!({ "ms": 300 }), 24);
    scene.client.ok("run slow --key k");
    until("six shards have succeeded", || {
        scene.succeeded("slow:manual:k") >= 6
    });
    scene.kill_and_restart_server();
    let so_far = scene.succeeded("slow:manual:k");
    assert!(so_far < 24, "it was killed in mid-run");
    scene.settles("slow:manual:k", "succeeded");
    scene.each_shard_took_one_attempt("slow:manual:k");
    drop(worker);
}

/// A server that was killed and is back calls itself ready once it holds every duty, and not before.
/// A directory's old server is surely dead, so there that is at once; elsewhere its lease must end.
fn a_restarted_server_is_ready_when_its_duties_are_held(mut scene: Scene) {
    until("the server is ready", || scene.ready().0 == 200);
    scene.kill_and_restart_server();
    let back = std::time::Instant::now();
    until("the server is ready again", || scene.ready().0 == 200);
    let members = scene.client.json("get members");
    let this = &members["this_node"];
    let duties = members["duties"].as_array().unwrap();
    assert!(!duties.is_empty() && !this.is_null(), "{members:#}");
    for duty in duties {
        assert_eq!(&duty["node"], this, "{members:#}");
    }
    if scene.database.is_none() {
        let waited = back.elapsed();
        assert!(
            waited.as_secs() < 4,
            "{waited:?}: a lease lasts five seconds"
        );
    }
}

/// STUCK-003: the report arrives and its answer is lost; the work is not done again.
fn a_finish_whose_answer_is_lost_counts_once(scene: Scene) {
    let proxy = Proxy::to(&scene.server.url);
    let mut worker = scene.worker("w1", &proxy.url, 1);
    scene.apply_script("once", 1);
    scene.client.ok("run once --key k");
    until("the shard runs", || {
        scene.run("once:manual:k")["state"] == "running"
    });
    proxy.swallow_answers();
    scene.go();
    scene.settles("once:manual:k", "succeeded");
    assert_eq!(scene.unacknowledged("w1"), 1, "the answer was lost");
    proxy.heal();
    until("the worker has its verdict", || {
        scene.unacknowledged("w1") == 0
    });
    assert_eq!(scene.done(), ["0"]);
    scene.each_shard_took_one_attempt("once:manual:k");
    worker.signal(Signal::SIGTERM);
    assert!(
        worker.ended().success(),
        "it drains with nothing left to report"
    );
}

/// The result is in the journal of a worker that was killed before it could report it.
fn a_killed_worker_hands_its_finished_result_in_when_it_comes_back(scene: Scene) {
    let proxy = Proxy::to(&scene.server.url);
    let mut worker = scene.worker("w1", &proxy.url, 1);
    scene.apply_script("kept", 1);
    scene.client.ok("run kept --key k");
    until("the shard runs", || {
        scene.run("kept:manual:k")["state"] == "running"
    });
    proxy.swallow_requests();
    scene.go();
    until("the result is in the journal", || {
        scene.unacknowledged("w1") == 1
    });
    worker.signal(Signal::SIGKILL);
    worker.ended();
    assert_eq!(
        scene.run("kept:manual:k")["state"],
        "running",
        "nobody has told the server"
    );
    let again = scene.worker("w1", &scene.server.url, 1);
    scene.settles("kept:manual:k", "succeeded");
    assert_eq!(scene.done(), ["0"], "it was not done again");
    scene.each_shard_took_one_attempt("kept:manual:k");
    drop(again);
}

/// STUCK-001, STUCK-013: a killed worker that comes back under its name takes its shards again at
/// once, long before the old session would have ended.
fn a_killed_worker_s_shards_run_again_at_once_when_it_comes_back(scene: Scene) {
    let mut worker = scene.worker("w1", &scene.server.url, 2);
    scene.apply_script("again", 2);
    scene.client.ok("run again --key k");
    until("both shards run", || {
        scene
            .shards("again:manual:k")
            .iter()
            .all(|s| s["state"] == "running")
    });
    worker.signal(Signal::SIGKILL);
    worker.ended();
    let killed = std::time::Instant::now();
    let back = scene.worker("w1", &scene.server.url, 2);
    until("both shards run under a new token", || {
        scene
            .shards("again:manual:k")
            .iter()
            .all(|s| s["attempt"] == 2)
    });
    assert!(
        killed.elapsed().as_secs() < 14,
        "the old session would have lasted 15 s"
    );
    scene.go();
    scene.settles("again:manual:k", "succeeded");
    let mut done = scene.done();
    done.sort();
    assert_eq!(
        done,
        ["0", "1"],
        "the first attempts died with their worker"
    );
    scene.history_is_accepted();
    drop(back);
}

/// STUCK-001: a worker that is frozen for longer than its session is taken over. Its process goes on,
/// and what that did is reported when the worker thaws: under a token that is old.
fn a_frozen_worker_is_taken_over_and_what_it_reports_late_is_refused(scene: Scene) {
    let frozen = scene.worker("w1", &scene.server.url, 1);
    scene.apply_script("frozen", 1);
    scene.client.ok("run frozen --key k");
    let attempt = |scene: &Scene| scene.shards("frozen:manual:k")[0]["attempt"].clone();
    until("its process runs", || !children(frozen.pid()).is_empty());
    let of_frozen = children(frozen.pid());
    frozen.signal(Signal::SIGSTOP);
    let second = scene.worker("w2", &scene.server.url, 1);
    until("another has taken over", || attempt(&scene) == 2);
    scene.go();
    scene.settles("frozen:manual:k", "succeeded");
    until("both have done it", || scene.done().len() == 2);
    frozen.signal(Signal::SIGCONT);
    until("what the frozen one started is gone", || {
        of_frozen.iter().all(|pid| !lives(*pid))
    });
    until("the late report is refused", || {
        let events = scene.client.ok("events frozen:manual:k -o json");
        events.contains("report_refused") && scene.unacknowledged("w1") == 0
    });
    assert_eq!(attempt(&scene), 2, "the late report changed nothing");
    scene.history_is_accepted();
    drop(second);
}

/// 100,000 shards in one run, the server killed half way: bounded memory, every outcome kept.
#[test]
fn the_largest_run_survives_a_killed_server_in_bounded_memory() {
    let server = wide_run_with_a_killed_server(Scene::new(Kind::Sqlite).unwrap(), 100_000);
    // The store itself, without any server: each shard has its outcome.
    let store = std::fs::read_dir(server.path("server")).unwrap().flatten();
    let store = store
        .map(|e| e.path())
        .find(|p| p.extension().is_some_and(|e| e == "db"));
    let store = rusqlite::Connection::open(store.unwrap()).unwrap();
    let kept: u32 = store.query_row(SUCCEEDED, [], |row| row.get(0)).unwrap();
    assert_eq!(kept, 100_000);
}

/// The same on PostgreSQL with a fifth of them, for time's sake.
#[test]
fn a_wide_run_on_postgres_survives_a_killed_server_in_bounded_memory() {
    let Some(scene) = Scene::new(Kind::Postgres) else {
        return;
    };
    let mut scene = wide_run_with_a_killed_server(scene, 20_000);
    assert_eq!(scene.database().connect().number(SUCCEEDED), 20_000);
}

const SUCCEEDED: &str = "select count(*) from shard where state = 'succeeded'";

fn wide_run_with_a_killed_server(mut scene: Scene, shards: u32) -> Scene {
    const LIMIT_KIB: u64 = 200 * 1024;
    let workers = ["w1", "w2"].map(|name| scene.worker(name, &scene.server.url, 256));
    let run = serde_json::json!({ "handler": "noop" });
    scene.apply("large", &run, &serde_json::json!({}), shards);
    scene.client.ok("run large --key k");
    let mut peak = 0;
    let mut killed = false;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(280);
    loop {
        let run = scene.run("large:manual:k");
        peak = peak.max(peak_memory_kib(scene.server.pid()));
        if !killed && run["shards"]["succeeded"].as_u64().unwrap() >= u64::from(shards) / 2 {
            scene.kill_and_restart_server();
            killed = true;
        }
        if run["state"] == "succeeded" {
            break;
        }
        assert!(std::time::Instant::now() < end, "not in time: {run:#}");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    assert!(killed, "the run ended before half of it was seen");
    assert!(peak <= LIMIT_KIB, "the server took {peak} KiB");
    let counts = scene.run("large:manual:k")["shards"].clone();
    assert_eq!(
        (&counts["succeeded"], &counts["open"]),
        (&shards.into(), &0.into())
    );
    drop(workers);
    scene.server.signal(Signal::SIGTERM);
    assert!(scene.server.ended().success());
    println!("peak memory of the server: {} MiB", peak / 1024);
    scene
}

/// The most that a process has held in memory so far.
fn peak_memory_kib(pid: nix::unistd::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next())
        .map_or(0, |n| n.parse().unwrap())
}
