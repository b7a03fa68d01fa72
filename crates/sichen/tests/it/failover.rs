//! Real processes, really killed and cut off: nothing is lost, nothing is done twice.
//!
//! What a shard did is counted outside the scheduler: each attempt appends a line to a file.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::program::{Client, Process, spawn, start, until};
use crate::proxy::Proxy;

/// A server with its data, and a place for evidence.
struct Scene {
    dir: tempfile::TempDir,
    server: Process,
    client: Client,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("server");
        let server = start(&["server", "--data", text(&data), "--listen", "127.0.0.1:0"]);
        let client = Client::new(&server.url, &data);
        Self {
            dir,
            server,
            client,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// SIGKILL, and the same server again on the same port.
    fn kill_and_restart_server(&mut self) {
        let address = self.server.url.strip_prefix("http://").unwrap().to_owned();
        self.server.signal(Signal::SIGKILL);
        self.server.ended();
        let data = self.path("server");
        self.server = start(&["server", "--data", text(&data), "--listen", &address]);
    }

    /// A worker that may start `/bin/sh`.
    fn worker(&self, name: &str, server: &str, slots: u32) -> Process {
        let config = self.path("worker.yaml");
        std::fs::write(&config, "allow_programs: [/bin/sh]\nbuiltin: true\n").unwrap();
        let (data, join) = (self.path(name), self.path("server/join-token"));
        spawn(&[
            "worker",
            "--config",
            text(&config),
            "--name",
            name,
            "--server",
            server,
            "--data",
            text(&data),
            "--join-token-file",
            text(&join),
            "--slots",
            &slots.to_string(),
        ])
    }

    /// Applies a job that runs `run` over `shards` shards.
    fn apply(&self, name: &str, run: &Value, parameters: &Value, shards: u32) {
        let document = serde_json::json!({
            "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": name },
            "spec": { "run": run, "parameters": parameters, "shards": { "count": shards } },
        });
        let file = self.path(&format!("{name}.json"));
        std::fs::write(&file, document.to_string()).unwrap();
        self.client.ok(&format!("apply -f {}", text(&file)));
    }

    /// A job whose every attempt waits for the file `go`, then appends its shard to `done`.
    fn apply_script(&self, name: &str, shards: u32) {
        let (go, done) = (self.path("go"), self.path("done"));
        let (go, done) = (text(&go), text(&done));
        let script =
            format!("while [ ! -e {go} ]; do sleep 0.02; done; echo $SICHEN_SHARD_INDEX >> {done}");
        let argv = ["/bin/sh", "-c", &script];
        let run = serde_json::json!({ "process": { "argv": argv } });
        self.apply(name, &run, &serde_json::json!({}), shards);
    }

    fn go(&self) {
        std::fs::write(self.path("go"), "").unwrap();
    }

    /// Which shards were done, in order of their ends.
    fn done(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("done")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn run(&self, key: &str) -> Value {
        self.client.json(&format!("describe run {key}"))["run"].clone()
    }

    fn settles(&self, key: &str, state: &str) {
        until(&format!("{key} is {state}"), || {
            self.run(key)["state"] == state
        });
    }

    /// The shards of a run, all of them, page by page.
    fn shards(&self, key: &str) -> Vec<Value> {
        self.client.json(&format!("shards {key}"))["items"]
            .as_array()
            .unwrap()
            .clone()
    }

    /// One attempt each, and a history that the checker accepts.
    fn each_shard_took_one_attempt(&self, key: &str) {
        for shard in self.shards(key) {
            assert_eq!(
                (&shard["state"], &shard["attempt"]),
                (&"succeeded".into(), &1.into())
            );
        }
        self.client.ok("verify");
    }

    /// Results in a worker's journal that no verdict has come for.
    fn unacknowledged(&self, worker: &str) -> i64 {
        let journal = self.path(worker).join("journal.db");
        let Ok(journal) = rusqlite::Connection::open(journal) else {
            return -1;
        };
        let count = "select count(*) from attempt where finish is not null";
        journal.query_row(count, [], |row| row.get(0)).unwrap_or(-1)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// STUCK-003: the server dies in mid-run and comes back; its workers lose no lease.
#[test]
fn a_killed_server_comes_back_and_no_lease_is_lost() {
    let mut scene = Scene::new();
    let worker = scene.worker("w1", &scene.server.url, 4);
    let run = serde_json::json!({ "handler": "sleep" });
    scene.apply("slow", &run, &serde_json::json!({ "ms": 300 }), 24);
    scene.client.ok("run slow --key k");
    let succeeded = |scene: &Scene| {
        scene.run("slow:manual:k")["shards"]["succeeded"]
            .as_u64()
            .unwrap()
    };
    until("six shards have succeeded", || succeeded(&scene) >= 6);
    scene.kill_and_restart_server();
    assert!(succeeded(&scene) < 24, "it was killed in mid-run");
    scene.settles("slow:manual:k", "succeeded");
    scene.each_shard_took_one_attempt("slow:manual:k");
    drop(worker);
}

/// STUCK-003: the report arrives and its answer is lost; the work is not done again.
#[test]
fn a_finish_whose_answer_is_lost_counts_once() {
    let scene = Scene::new();
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
#[test]
fn a_killed_worker_hands_its_finished_result_in_when_it_comes_back() {
    let scene = Scene::new();
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
#[test]
fn a_killed_worker_s_shards_run_again_at_once_when_it_comes_back() {
    let scene = Scene::new();
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
    scene.client.ok("verify");
    drop(back);
}

/// 100,000 shards in one run, the server killed half way: bounded memory, every outcome kept.
#[test]
fn the_largest_run_survives_a_killed_server_in_bounded_memory() {
    const SHARDS: u32 = 100_000;
    const LIMIT_KIB: u64 = 200 * 1024;
    let mut scene = Scene::new();
    let workers = ["w1", "w2"].map(|name| scene.worker(name, &scene.server.url, 256));
    let run = serde_json::json!({ "handler": "noop" });
    scene.apply("large", &run, &serde_json::json!({}), SHARDS);
    scene.client.ok("run large --key k");
    let mut peak = 0;
    let mut killed = false;
    let end = std::time::Instant::now() + std::time::Duration::from_secs(280);
    loop {
        let run = scene.run("large:manual:k");
        peak = peak.max(peak_memory_kib(scene.server.pid()));
        if !killed && run["shards"]["succeeded"].as_u64().unwrap() >= u64::from(SHARDS) / 2 {
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
    let shards = scene.run("large:manual:k")["shards"].clone();
    assert_eq!(
        (&shards["succeeded"], &shards["open"]),
        (&SHARDS.into(), &0.into())
    );
    drop(workers);
    // The store itself, without any server: each shard has its outcome.
    scene.server.signal(Signal::SIGTERM);
    assert!(scene.server.ended().success());
    let store = std::fs::read_dir(scene.path("server")).unwrap().flatten();
    let store = store
        .map(|e| e.path())
        .find(|p| p.extension().is_some_and(|e| e == "db"));
    let store = rusqlite::Connection::open(store.unwrap()).unwrap();
    let count = "select count(*) from shard where state = 'succeeded'";
    let kept: u32 = store.query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(kept, SHARDS);
    println!("peak memory of the server: {} MiB", peak / 1024);
}

/// The most that a process has held in memory so far.
fn peak_memory_kib(pid: nix::unistd::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next())
        .map_or(0, |n| n.parse().unwrap())
}
