//! The examples that people copy: run as their guides say, with a server and a worker of their own,
//! and killed where it hurts.

use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use crate::program::{Process, spawn, until};
use crate::scene::{Kind, Scene, text};

/// A file of `examples/`.
fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

struct Example {
    scene: Scene,
    /// What stands for /opt/jobs.
    jobs: PathBuf,
}

impl Example {
    /// The example's files where its configuration names them, and its job applied; `changes` are
    /// made to every text.
    fn of(dir: &str, job: &str, changes: &[(&str, &str)]) -> Example {
        let scene = Scene::new(Kind::Sqlite).unwrap();
        let jobs = scene.path("jobs");
        std::fs::create_dir(&jobs).unwrap();
        let bin = Path::new(env!("CARGO_BIN_EXE_sichen")).parent().unwrap();
        let path = format!("PATH: {}:", text(bin));
        for entry in std::fs::read_dir(example(dir)).unwrap() {
            let file = entry.unwrap().path();
            let mut copy = read(&file)
                .replace("/opt/jobs", text(&jobs))
                .replace("PATH: /usr/local/bin:", &path);
            for (from, to) in changes {
                copy = copy.replace(from, to);
            }
            std::fs::write(jobs.join(file.file_name().unwrap()), copy).unwrap();
        }
        let document = jobs.join(job);
        scene.client.ok(&format!("apply -f {}", text(&document)));
        Example { scene, jobs }
    }

    fn worker(&self) -> Process {
        let (config, data) = (self.jobs.join("worker.yaml"), self.scene.path("w1"));
        let join = self.scene.path("server/join-token");
        spawn(&[
            "worker",
            "--config",
            text(&config),
            "--data",
            text(&data),
            "--server",
            &self.scene.server.url,
            "--join-token-file",
            text(&join),
        ])
    }
}

#[test]
fn the_shell_example_waits_for_its_input_and_writes_whole_files() {
    let example = Example::of("shell", "checksums.yaml", &[("delay: 1m", "delay: 300ms")]);
    let (scene, input) = (&example.scene, example.jobs.join("in"));
    for file in [
        "orders/a b",
        "orders/b",
        "orders/c",
        "payments/d",
        "payments/e",
    ] {
        let file = input.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text(&file)).unwrap();
    }
    let worker = example.worker();
    scene.client.ok("run checksums --key k");
    until(
        "two directories are done, and the third was looked for",
        || {
            let shards = scene.shards("checksums:manual:k");
            let done = shards.iter().filter(|shard| shard["state"] == "succeeded");
            done.count() == 2
                && shards
                    .iter()
                    .any(|shard| shard["attempt"].as_u64() >= Some(2))
        },
    );
    std::fs::create_dir(input.join("refunds")).unwrap();
    scene.settles("checksums:manual:k", "succeeded");
    let out = example.jobs.join("out/checksums:manual:k");
    let mut names: Vec<String> = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["orders.sha256", "payments.sha256", "refunds.sha256"]
    );
    let checked = Command::new("sha256sum")
        .args([
            "--check",
            "--strict",
            "--quiet",
            text(&out.join("orders.sha256")),
        ])
        .current_dir(input.join("orders"))
        .status();
    assert!(checked.unwrap().success());
    assert_eq!(read(&out.join("orders.sha256")).lines().count(), 3);
    assert_eq!(scene.run("checksums:manual:k")["progress"]["done"], 5);
    scene.history_is_accepted();
    drop(worker);
}

/// The Python to test with; `None`, said aloud and a fault under CI, if there is none.
pub fn python() -> Option<PathBuf> {
    let ask =
        "import sqlite3, sys; assert sqlite3.sqlite_version_info >= (3, 35); print(sys.executable)";
    let found = Command::new("python3").args(["-c", ask]).output();
    if let Ok(output) = found
        && output.status.success()
    {
        let path = String::from_utf8(output.stdout).unwrap();
        return Some(path.trim().into());
    }
    let say = "NOT TESTED: the example in Python; no python3 with SQLite 3.35 or newer is installed \
               (Debian, Ubuntu: apt-get install python3)";
    assert!(!sichen_testdb::in_ci(), "{say}, although CI is set");
    eprintln!("{say}");
    None
}

#[test]
fn the_python_example_counts_every_entry_once_whoever_is_killed() {
    let Some(python) = python() else { return };
    let changes = [
        ("/usr/bin/python3", text(&python)),
        ("batch: 100", "batch: 25"),
    ];
    let example = Example::of("python", "settle.yaml", &changes);
    let scene = &example.scene;
    let ledger = rusqlite::Connection::open(example.jobs.join("ledger.db")).unwrap();
    ledger
        .busy_timeout(std::time::Duration::from_secs(60))
        .unwrap();
    let schema = read(&example.jobs.join("ledger.sql"));
    let fence = scene.client.ok("fence sql --dialect sqlite");
    ledger.execute_batch(&schema).unwrap();
    ledger.execute_batch(&fence).unwrap();
    let saved = || -> i64 {
        let count = "SELECT count(checkpoint) FROM sichen_fence";
        ledger.query_row(count, [], |row| row.get(0)).unwrap()
    };
    let mut worker = example.worker();
    scene.client.ok("run settle-py --key k");
    until("all four shards have committed something", || saved() == 4);
    worker.signal(Signal::SIGKILL);
    worker.ended();
    let worker = example.worker();
    scene.settles("settle-py:manual:k", "succeeded");
    let wrong = "SELECT count(*) FROM
                   (SELECT account, sum(amount_minor) AS amount FROM ledger GROUP BY account) AS l
                   FULL JOIN totals AS t USING (account)
                 WHERE l.amount IS NOT t.amount_minor";
    let wrong: i64 = ledger.query_row(wrong, [], |row| row.get(0)).unwrap();
    assert_eq!(
        wrong, 0,
        "accounts whose total is not that of their entries"
    );
    let run = scene.run("settle-py:manual:k");
    assert_eq!(run["progress"]["done"], 2_000, "{run}");
    let again = scene.shards("settle-py:manual:k");
    assert!(
        again
            .iter()
            .any(|shard| shard["attempt"].as_u64() > Some(1))
    );
    scene.history_is_accepted();
    drop(worker);
}
