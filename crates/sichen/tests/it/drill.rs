//! Drills through the program: that they pass where all is well, and that they can fail.

use std::path::Path;

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
