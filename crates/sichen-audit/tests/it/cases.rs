//! Every case of `testdata/cases/cron_cases.json`, the slow way.

use jiff::Timestamp;
use serde_json::Value;
use sichen_audit::{Dialect, Fold, Gap, Timetable};

/// Seconds within which a case's instants lie, or nothing does: twelve years, so that a leap day
/// missing from a century's end is passed.
const REACH: i64 = 12 * 366 * 86_400;

fn second(value: &Value) -> i64 {
    let instant: Timestamp = value
        .as_str()
        .and_then(|t| t.parse().ok())
        .expect("an instant");
    instant.as_second()
}

#[test]
fn every_cron_case_holds_the_slow_way_too() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/cases/cron_cases.json"
    );
    let text = std::fs::read_to_string(path).expect("the cases are part of the project");
    let cases: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(cases.len(), 148, "a case was added or lost; look at it");
    for case in &cases {
        check(case);
    }
}

fn check(case: &Value) {
    let text = |key: &str| case[key].as_str().expect("text");
    let id = text("id");
    let dialect = match text("dialect") {
        "vixie5" => Dialect::CrontabPlain,
        "vixie5ext" => Dialect::Crontab,
        "seconds6" => Dialect::Seconds,
        "robfig" | "robfig6" => Dialect::Kubernetes,
        "quartz6" | "quartz7" => Dialect::Quartz,
        other => panic!("{id}: unknown dialect {other}"),
    };
    let from = second(&case["from"]);
    let read = Timetable::cron(text("expr"), dialect, text("tz"), None, from);
    let read = match case["policy"]["dst"].as_str() {
        Some("debian") => read.map(|t| t.with(Gap::FirstValid, Fold::First)),
        Some("skip-both") => read.map(|t| t.with(Gap::Skip, Fold::Both)),
        Some("none") => read,
        other => panic!("{id}: unknown policy {other:?}"),
    };
    match (read, &case["expect"]) {
        (Err(_), Value::String(word)) if word == "error" => {}
        (Ok(timetable), Value::String(word)) if word == "never" => {
            assert_eq!(timetable.instants(from, from + REACH).next(), None, "{id}");
        }
        (Ok(timetable), Value::Array(instants)) => {
            let wanted: Vec<i64> = instants.iter().map(second).collect();
            let through = wanted.last().copied().unwrap_or(from);
            let found: Vec<i64> = timetable.instants(from, through).collect();
            assert_eq!(found, wanted, "{id}");
        }
        (read, expect) => panic!("{id}: {read:?}, expected {expect}"),
    }
}
