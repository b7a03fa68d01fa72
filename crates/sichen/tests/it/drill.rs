//! Drills through the program: that they pass where all is well, and that they can fail.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::program::{command, err, out};

/// Carries a drill out: its exit code and its report.
fn drilled(words: &[&str], evidence: &Path) -> (Option<i32>, Value) {
    let evidence = evidence.to_str().unwrap();
    let more = ["--evidence", evidence, "-o", "json"];
    let words: Vec<&str> = ["drill"]
        .into_iter()
        .chain(words.iter().copied())
        .chain(more)
        .collect();
    let output = command(&words).output().unwrap();
    let report = serde_json::from_str(&out(&output));
    let report = report.unwrap_or_else(|e| panic!("{e}: {}{}", out(&output), err(&output)));
    (output.status.code(), report)
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn a_killed_worker_is_survived_and_the_folder_says_so_without_the_planted_secret() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("first");
    let (code, report) = drilled(&["run", "kill-worker", "--seed", "3"], &folder);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(report["verdict"], "passed");
    let record = read(&folder, "record.yaml");
    for key in [
        "topic:",
        "claim:",
        "baseline_version:",
        "condition:",
        "execution:",
        "evidence:",
        "pass_when:",
        "stop_when:",
        "observed_result:",
        "first_deviation:",
        "recovery_replay:",
        "owner:",
        "rollback:",
        "not_covered:",
    ] {
        assert!(
            record.contains(&format!("\n{key}")) || record.starts_with(key),
            "{key}"
        );
    }
    assert!(read(&folder, "timeline.svg").contains("kill worker-"));
    assert!(read(&folder, "metrics/server.txt").contains("\nsichen_runs_settled_total{"));
    // The tasks wrote the secret down; in the folder it is masked.
    let tasks = read(&folder, "tasks.jsonl");
    assert!(tasks.contains("\"note\":\"***\"") && !tasks.contains("planted-"));
    // What another seed gave is another condition, and so is another variant: not both at once.
    let words = [
        "drill",
        "compare",
        folder.to_str().unwrap(),
        folder.to_str().unwrap(),
    ];
    assert!(command(&words).output().unwrap().status.success());
    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let changed = record.replace("seed: \"3\"", "seed: \"4\"");
    let changed = changed.replace("load_ms: \"", "load_ms: \"1");
    std::fs::write(other.join("record.yaml"), changed).unwrap();
    let words = [
        "drill",
        "compare",
        folder.to_str().unwrap(),
        other.to_str().unwrap(),
    ];
    let refused = command(&words).output().unwrap();
    assert_eq!(refused.status.code(), Some(4), "{}", out(&refused));
    assert!(
        err(&refused).contains("SC7053: 2 conditions differ"),
        "{}",
        err(&refused)
    );
}

#[test]
fn tasks_that_leave_a_step_out_fail_the_drill_and_so_does_its_replay() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("first");
    let words = [
        "run",
        "kill-worker",
        "--variant",
        "normal",
        "--mistake",
        "forget-step",
    ];
    let (code, report) = drilled(&words, &folder);
    assert_eq!(code, Some(1), "{report:#}");
    let failed = |report: &Value| -> Vec<String> {
        let findings = report["findings"].as_array().unwrap().iter();
        let failed = findings.filter(|f| f["ok"] == false);
        failed
            .map(|f| f["pass_when"].as_str().unwrap().to_owned())
            .collect()
    };
    let bad = failed(&report);
    assert!(
        bad.len() == 1 && bad[0].contains("business data"),
        "{bad:?}"
    );
    assert!(read(&folder, "record.yaml").contains("first_deviation: "));
    let (code, again) = drilled(
        &["replay", folder.to_str().unwrap()],
        &dir.path().join("again"),
    );
    assert_eq!((code, failed(&again)), (Some(1), bad));
    let plan = |folder: &Path| read(folder, "plan.yaml");
    assert_eq!(plan(&folder), plan(&dir.path().join("again")));
}

#[test]
fn a_drill_without_the_fence_is_stopped_at_the_first_double_posting() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("first");
    let words = ["run", "freeze-worker", "--mistake", "no-fence"];
    let (code, report) = drilled(&words, &folder);
    assert_eq!(code, Some(3), "{report:#}");
    let stopped = report["stopped"].as_str().unwrap();
    assert!(stopped.contains("stands twice"), "{report:#}");
    // It is looked for twice a second, beside whatever else the drill is doing.
    let (_, took) = stopped.rsplit_once("had ended ").unwrap();
    let took: u64 = took.split(' ').next().unwrap().parse().unwrap();
    assert!(took + 500 <= 5_000, "{stopped}");
    assert!(read(&folder, "record.yaml").contains("verdict: stopped"));
}

/// Two servers over a PostgreSQL of the drill's own.
#[test]
fn a_server_that_is_cut_off_from_its_database_leaves_the_work_to_its_peer() {
    if sichen_testdb::postgres_programs().is_none() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("first");
    let words = ["run", "cut-peer-from-database", "--seed", "3", "--variant"];
    let words: Vec<&str> = words.into_iter().chain(["boundary"]).collect();
    let (code, report) = drilled(&words, &folder);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(report["verdict"], "passed");
    assert!(read(&folder, "record.yaml").contains("cut-peer-from-database"));
}

/// A drill that goes on, and the file in which its tasks write their evidence.
struct Going {
    drill: Child,
    tasks: PathBuf,
}

impl Going {
    /// Begins one, and waits until a task has begun.
    fn begin(words: &[&str], dir: &Path) -> Self {
        let files = dir.join("files");
        std::fs::create_dir(&files).unwrap();
        let mut drill = command(words);
        let drill = drill
            .env("TMPDIR", &files)
            .args(["--evidence", dir.join("first").to_str().unwrap()])
            .args(["-o", "json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut going = Self {
            drill,
            tasks: PathBuf::new(),
        };
        going.until("a task has begun", |going| {
            let homes = std::fs::read_dir(&files).unwrap();
            let tasks = homes.map(|home| home.unwrap().path().join("tasks.jsonl"));
            going.tasks = tasks
                .into_iter()
                .find(|file| file.is_file())
                .unwrap_or_default();
            going.count("begin") > 0
        });
        going
    }

    fn count(&self, kind: &str) -> usize {
        let text = std::fs::read_to_string(&self.tasks).unwrap_or_default();
        text.matches(&format!("\"kind\":\"{kind}\"")).count()
    }

    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert_eq!(self.drill.try_wait().unwrap(), None, "before {what}");
            assert!(begun.elapsed() < Duration::from_secs(180), "never: {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.drill.id()).unwrap())
    }

    /// Its server's process.
    fn server(&self) -> Pid {
        let task = format!("/proc/{}/task", self.pid());
        let threads = std::fs::read_dir(task).unwrap();
        let born = threads.map(|t| std::fs::read_to_string(t.unwrap().path().join("children")));
        let born: Vec<String> = born.map(|b| b.unwrap_or_default()).collect();
        let children = born.iter().flat_map(|pids| pids.split_whitespace());
        let is_server = |pid: &&str| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|b| *b == 0).nth(1) == Some(b"server".as_slice())
        };
        let pid = children.into_iter().find(is_server).unwrap();
        Pid::from_raw(pid.parse().unwrap())
    }

    fn end(self) -> (Option<i32>, Value) {
        let output = self.drill.wait_with_output().unwrap();
        let report = serde_json::from_str(&out(&output));
        let report = report.unwrap_or_else(|e| panic!("{e}: {}{}", out(&output), err(&output)));
        (output.status.code(), report)
    }
}

/// While the drill does nothing but wait for long tasks to end.
#[test]
fn a_server_that_dies_after_the_load_stops_the_drill_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut going = Going::begin(&["drill", "run", "skewed-shards"], dir.path());
    // Under load some task begins every two seconds; the third shards go on for ten.
    let (mut begins, mut since) = (0, Instant::now());
    going.until("the load is over", |going| {
        if going.count("begin") != begins {
            (begins, since) = (going.count("begin"), Instant::now());
        }
        since.elapsed() > Duration::from_secs(5)
    });
    assert!(going.count("end") < begins, "no task is left to wait for");
    kill(going.server(), Signal::SIGKILL).unwrap();
    let killed = Instant::now();
    let (code, report) = going.end();
    assert_eq!(code, Some(3), "{report:#}");
    assert!(killed.elapsed() < Duration::from_secs(30), "{report:#}");
    let stopped = report["stopped"].as_str().unwrap();
    assert!(
        stopped.contains("server ended by itself: SIGKILL"),
        "{stopped}"
    );
    let (_, took) = stopped.rsplit_once("had ended ").unwrap();
    let took: u64 = took.split(' ').next().unwrap().parse().unwrap();
    assert!(took + 500 <= 5_000, "{stopped}");
    assert!(read(&dir.path().join("first"), "record.yaml").contains("verdict: stopped"));
}

#[test]
fn a_drill_that_is_interrupted_leaves_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let mut going = Going::begin(&["drill", "run", "skewed-shards"], dir.path());
    going.until("some steps are done", |going| going.count("step") > 3);
    kill(going.pid(), Signal::SIGINT).unwrap();
    let (code, report) = going.end();
    assert_eq!(code, Some(1), "{report:#}");
    let folder = dir.path().join("first");
    let record = read(&folder, "record.yaml");
    assert!(record.contains("verdict: unfinished"), "{record}");
    assert!(record.contains("first_deviation: ") && record.contains("it was interrupted"));
    for file in [
        "tasks.jsonl",
        "history.jsonl",
        "timeline.svg",
        "logs/server.log",
    ] {
        assert!(!read(&folder, file).is_empty(), "{file}");
    }
    assert!(read(&folder, "faults.jsonl").len() < 10_000);
    assert!(read(&folder, "verdict.json").contains("outcome"));
}

#[test]
fn a_drill_whose_cluster_cannot_be_built_leaves_a_record_and_says_what_failed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("first");
    let words = [
        "run",
        "cut-server-from-database",
        "--store",
        "postgres://nobody:planted-password@127.0.0.1:1/nothing",
    ];
    let (code, report) = drilled(&words, &folder);
    assert_eq!(code, Some(1), "{report:#}");
    let unfinished = report["unfinished"].as_str().unwrap();
    assert!(unfinished.contains("SC7051: "), "{unfinished}");
    let record = read(&folder, "record.yaml");
    assert!(record.contains("verdict: unfinished") && record.contains("not finished: SC7051"));
    assert!(!record.contains("planted-password"));
    for file in ["plan.yaml", "faults.jsonl", "error.txt", "verdict.json"] {
        assert!(folder.join(file).is_file(), "{file}");
    }
    // It can be repeated, and is not taken for one that can be compared with others of another store.
    assert!(record.contains("recovery_replay: "));
}
