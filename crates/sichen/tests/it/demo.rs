//! The demo on the built binary: what it claims holds, and its deliberate mistakes are found.

use std::process::{Command, Output};

use serde_json::Value;

use crate::database::Database;

/// Runs `sichen demo --json` with `arguments`; its end and its report.
fn demo(arguments: &[&str]) -> (Output, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_sichen"))
        .args(["demo", "--json"])
        .args(arguments)
        .output()
        .unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output, report)
}

/// Names of the checks that did not hold.
fn failed(report: &Value) -> Vec<&str> {
    let checks = report["checks"].as_array().unwrap();
    let failed = checks.iter().filter(|check| check["ok"] == false);
    failed
        .map(|check| check["name"].as_str().unwrap())
        .collect()
}

fn is_gone(pid: &Value) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}/stat")).exists()
}

/// DUP-011, STUCK-001.
#[test]
fn a_killed_and_a_frozen_worker_leave_the_totals_right() {
    let (output, report) = demo(&["--entries", "6000"]);
    totals_are_right(&output, &report);
}

/// The same with server and ledger in PostgreSQL, which keeps nothing of it.
#[test]
fn on_postgres_a_killed_and_a_frozen_worker_leave_the_totals_right() {
    let Some(database) = Database::start() else {
        return;
    };
    let (output, report) = demo(&["--entries", "6000", "--store", &database.url()]);
    totals_are_right(&output, &report);
    let stale = report["facts"]["refused_writes"][0]["database"].as_str();
    assert!(stale.unwrap().ends_with("(SQLSTATE SC001)"), "{stale:?}");
    assert_eq!(schemas(&database), 0);
}

/// Schemas of the demo that are in the database.
fn schemas(database: &Database) -> i64 {
    let count = "select count(*) from pg_namespace where nspname like 'sichen_demo%'";
    database.connect().number(count)
}

fn totals_are_right(output: &Output, report: &Value) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report:#}\n{errors}");
    assert_eq!(report["ok"], true);
    assert_eq!(failed(report), [""; 0]);
    let facts = &report["facts"];
    let frozen = &facts["frozen"];
    assert_ne!(facts["killed"]["pid"], frozen["pid"]);
    assert!(is_gone(&facts["killed"]["pid"]) && is_gone(&frozen["pid"]));
    // The frozen worker's own commit came after the takeover, and the database refused it.
    assert!(frozen["taken_over_by"].as_u64() > frozen["token"].as_u64());
    let writes = facts["refused_writes"].as_array().unwrap();
    let stale = writes
        .iter()
        .find(|write| write["shard"] == frozen["shard"] && write["pid"] == frozen["pid"])
        .unwrap();
    assert_eq!(stale["token"], frozen["token"]);
    assert!(
        stale["database"]
            .as_str()
            .unwrap()
            .starts_with("sichen: stale fencing token")
    );
    // The late low id lies below where the first run had come to, and the second begins there.
    let low = facts["late_low_id"].as_i64();
    assert!(low < facts["runs"][0]["last_id"].as_i64());
    assert_eq!(facts["runs"][1]["first_id"].as_i64(), low);
    assert_eq!(report["business"]["entries"], 6_004);
    assert!(report["history"]["takeovers"].as_u64().unwrap() >= 2);
}

#[test]
fn the_old_holder_may_commit_between_grant_and_open() {
    let (output, report) = demo(&["--entries", "6000", "--scene", "commit-before-open"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report:#}\n{errors}");
    let facts = &report["facts"];
    let frozen = &facts["frozen"];
    assert_eq!(frozen["committed_late"], true);
    let takeovers = facts["takeovers"].as_array().unwrap();
    // Tokens are counted for each shard.
    let holds =
        |one: &&Value| one["shard"] == frozen["shard"] && one["token"] == frozen["taken_over_by"];
    let successor = takeovers.iter().find(holds).unwrap();
    assert_ne!(successor["pid"], frozen["pid"]);
    assert!(successor["resumed_after"].as_i64() >= frozen["last_id"].as_i64());
    assert_eq!(report["business"]["counted"], 6_004);
}

#[test]
fn on_postgres_the_old_holder_may_commit_between_grant_and_open() {
    let Some(database) = Database::start() else {
        return;
    };
    let scene = [
        "--entries",
        "6000",
        "--scene",
        "commit-before-open",
        "--store",
    ];
    let url = database.url();
    let arguments: Vec<&str> = scene.into_iter().chain([url.as_str()]).collect();
    let (output, report) = demo(&arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report:#}\n{errors}");
    assert_eq!(report["facts"]["frozen"]["committed_late"], true);
    assert_eq!(report["business"]["counted"], 6_004);
}

#[test]
fn leaving_the_fence_out_is_found_by_wrong_totals() {
    let (output, report) = demo(&["--entries", "6000", "--zoo", "no-fence"]);
    found_by_wrong_totals(&output, &report);
}

#[test]
fn on_postgres_leaving_the_fence_out_is_found_by_wrong_totals() {
    let Some(database) = Database::start() else {
        return;
    };
    let zoo = ["--entries", "6000", "--zoo", "no-fence", "--store"];
    let url = database.url();
    let arguments: Vec<&str> = zoo.into_iter().chain([url.as_str()]).collect();
    let (output, report) = demo(&arguments);
    found_by_wrong_totals(&output, &report);
    assert_eq!(
        schemas(&database),
        0,
        "a demo that fails leaves nothing either"
    );
}

/// What is not the demo's own stops it; what it is told to keep stays, and stops the next one.
#[test]
fn schemas_that_somebody_may_want_are_not_touched() {
    let Some(database) = Database::start() else {
        return;
    };
    let url = database.url();
    let small = ["--entries", "100", "--no-chaos", "--store", &url];
    let refused = || {
        let (output, _) = demo(&small);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && error.contains("SC7030"),
            "{error}"
        );
        error
    };
    let somebody = database.connect();
    somebody.execute("create schema sichen_demo; create table sichen_demo.mine (n int)");
    assert!(refused().contains("it is no demo's"));
    somebody.execute("drop schema sichen_demo cascade");
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let keep: Vec<&str> = small
        .into_iter()
        .chain(["--keep", kept.to_str().unwrap()])
        .collect();
    let (output, report) = demo(&keep);
    assert!(output.status.success(), "{report:#}");
    assert!(
        report["kept_schemas"]
            .as_str()
            .unwrap()
            .contains("sichen_demo_store")
    );
    let settled = "select count(*) from sichen_demo.ledger where settled_run is not null";
    assert_eq!(somebody.number(settled), 104, "those that came late too");
    assert!(refused().contains("kept by --keep"));
    // One that was killed has left its mark, and is replaced.
    somebody.execute(
        "do $$ declare s text; begin
           for s in select unnest(array['sichen_demo', 'sichen_demo_store']) loop
             execute format('comment on schema %I is %L', s,
               'sichen demo: in use, or left by a demo that was killed; may be dropped');
           end loop; end $$",
    );
    let (output, report) = demo(&small);
    assert!(output.status.success(), "{report:#}");
    assert_eq!(schemas(&database), 0);
}

fn found_by_wrong_totals(output: &Output, report: &Value) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{report:#}\n{errors}");
    let failed = failed(report);
    assert!(failed.contains(&"totals equal the input's"), "{failed:?}");
    assert!(failed.contains(&"stale write refused"), "{failed:?}");
    assert_eq!(
        report["history"]["accepted"], true,
        "only the user's side is broken"
    );
}

#[test]
fn starting_from_the_displayed_checkpoint_is_found_by_wrong_totals() {
    let zoo = [
        "--entries",
        "6000",
        "--zoo",
        "start-from-display-checkpoint",
    ];
    let (output, report) = demo(&zoo);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{report:#}\n{errors}");
    let failed = failed(&report);
    assert!(failed.contains(&"totals equal the input's"), "{failed:?}");
    assert!(
        failed.contains(&"takeovers resumed at the checkpoint"),
        "{failed:?}"
    );
    assert!(!failed.contains(&"stale write refused"), "{failed:?}");
}

#[test]
fn the_users_own_ledger_is_settled_and_bad_rows_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ledger.csv");
    let rows = "id,account,amount_minor,occurred_at\n\
                5,a,100,2026-08-29T09:30:00+08:00\n\
                6,a,1.5,2026-08-29T09:30:00+08:00\n\
                9,b,-40,2026-08-29T09:31:00+08:00\n";
    std::fs::write(&file, rows).unwrap();
    let input = file.to_str().unwrap();
    let (stopped, _) = demo(&["--no-chaos", "--input", input]);
    assert!(!stopped.status.success());
    let error = String::from_utf8_lossy(&stopped.stderr);
    assert!(
        error.contains("line 3: amount_minor \"1.5\" is not an integer"),
        "{error}"
    );
    let kept = dir.path().join("kept");
    let keep = kept.to_str().unwrap();
    let (output, report) = demo(&[
        "--no-chaos",
        "--input",
        input,
        "--on-bad-row",
        "skip",
        "--keep",
        keep,
    ]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report:#}\n{errors}");
    assert_eq!(report["input"]["skipped"], 1);
    assert_eq!(report["business"]["runs"][0]["entries"], 2);
    assert!(kept.join("business.db").exists() && kept.join("server").is_dir());
    let (again, _) = demo(&["--no-chaos", "--keep", keep]);
    assert!(!again.status.success(), "what was kept is not overwritten");
}
