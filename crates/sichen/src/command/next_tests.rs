//! What `sichen next` prints and how it exits.

use std::process::ExitCode;

use clap::Parser;

use super::{Args, run};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// The output, and whether it succeeded.
fn next(words: &[&str]) -> (String, bool) {
    let line = Line::try_parse_from([&["next"], words].concat()).expect("a good command line");
    let mut out = Vec::new();
    let code = run(&line.args, &mut out).expect("a vector takes it");
    (
        String::from_utf8(out).expect("text"),
        code == ExitCode::SUCCESS,
    )
}

#[test]
fn instants_carry_the_offset_of_their_zone() {
    let (out, good) = next(&[
        "--cron",
        "30 2 * * *",
        "--tz",
        "America/New_York",
        "--after",
        "2026-03-07T12:00:00Z",
        "--count",
        "2",
        "-o",
        "json",
    ]);
    assert!(good);
    assert_eq!(
        out,
        "{\"next\":[\"2026-03-08T03:00:00-04:00\",\"2026-03-09T02:30:00-04:00\"]}\n"
    );
    let (out, _) = next(&[
        "--cron",
        "30 2 * * *",
        "--tz",
        "America/New_York",
        "--after",
        "2026-03-07T12:00:00Z",
        "--count",
        "1",
        "--gap",
        "shift",
        "-o",
        "json",
    ]);
    assert_eq!(out, "{\"next\":[\"2026-03-08T03:30:00-04:00\"]}\n");
}

#[test]
fn what_can_never_be_says_so() {
    let (out, good) = next(&["--cron", "0 0 30 2 *", "-o", "json"]);
    assert!(good);
    let answer: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(answer, serde_json::json!({"next": [], "never": true}));
}

#[test]
fn a_mistake_is_shown_with_its_place() {
    let (out, good) = next(&["--cron", "0 22-2 * * *", "-o", "json"]);
    assert!(!good);
    let answer: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(answer["error"]["field"], "hour");
    assert_eq!(
        answer["error"]["position"],
        serde_json::json!({"start": 3, "end": 6})
    );
    assert_eq!(answer["error"]["intended"], "`22-23,0-2`");
    let (_, good) = next(&["--cron", "0 2 * * *", "--tz", "Mars/Phobos", "-o", "json"]);
    assert!(!good);
}

#[test]
fn the_dialect_brings_its_own_policy() {
    let (out, _) = next(&[
        "--cron",
        "30 2 * * *",
        "--dialect",
        "kubernetes",
        "--tz",
        "America/New_York",
        "--after",
        "2026-03-07T12:00:00Z",
        "--count",
        "1",
        "-o",
        "json",
    ]);
    assert_eq!(out, "{\"next\":[\"2026-03-09T02:30:00-04:00\"]}\n");
}
