//! `sichen fence` on the built binary and a real SQLite file.

use std::path::Path;
use std::process::{Command, Output};

fn fence(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sichen"))
        .arg("fence")
        .args(arguments)
        .output()
        .unwrap()
}

fn shown(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn install(path: &Path) {
    let sql = fence(&["sql", "--dialect", "sqlite"]);
    assert!(sql.status.success());
    let conn = rusqlite::Connection::open(path).unwrap();
    // Twice: running the text again changes nothing.
    conn.execute_batch(&shown(&sql)).unwrap();
    conn.execute_batch(&shown(&sql)).unwrap();
}

#[test]
fn the_printed_sql_makes_a_database_that_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("business.db");
    install(&path);
    let url = format!("sqlite:{}", path.display());
    let checked = fence(&["check", &url]);
    let text = shown(&checked);
    assert!(checked.status.success(), "{text}");
    assert!(text.contains("ok    stale token is refused"), "{text}");
    assert!(text.contains("sichen: stale fencing token"), "{text}");
    let json: serde_json::Value =
        serde_json::from_slice(&fence(&["check", &url, "--json"]).stdout).unwrap();
    assert_eq!(json["ok"], true);
}

#[test]
fn a_database_without_the_kit_or_with_a_weakened_one_fails_the_check() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("business.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE t (n)")
        .unwrap();
    let checked = fence(&["check", path.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(
        shown(&checked).contains("FAIL  table sichen_fence"),
        "{}",
        shown(&checked)
    );
    install(&path);
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch("DROP TRIGGER sichen_fence_guard")
        .unwrap();
    let checked = fence(&["check", path.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(1), "{}", shown(&checked));
}

#[test]
fn what_is_no_database_is_said_and_never_made() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("no-such.db");
    assert!(
        !fence(&["check", missing.to_str().unwrap()])
            .status
            .success()
    );
    assert!(!missing.exists());
    let other = fence(&["check", "oracle://h/db"]);
    assert!(!other.status.success());
    assert!(
        String::from_utf8_lossy(&other.stderr).contains("use postgres://"),
        "{other:?}"
    );
    assert_eq!(
        fence(&["sql", "--dialect", "oracle"]).status.code(),
        Some(2)
    );
}

#[test]
fn every_dialect_is_printed_whole() {
    for (dialect, last) in [
        ("sqlite", "sichen_fence_save_row"),
        ("postgres", "sichen_dedupe_hit"),
        ("mysql", "sichen_dedupe_hit"),
    ] {
        let sql = fence(&["sql", "--dialect", dialect]);
        assert!(
            sql.status.success() && shown(&sql).contains(last),
            "{dialect}"
        );
    }
}
