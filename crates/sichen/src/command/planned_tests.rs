//! Claims about what is said of planned times that have no run.

use super::*;

fn skipped(decision: serde_json::Value) -> Skipped {
    Skipped {
        job: JobName::new("default", "tick").unwrap(),
        at: "2026-03-01T00:00:00+08:00".to_owned(),
        decision: serde_json::from_value(decision).unwrap(),
    }
}

fn record(count: u64, reason: &str, reference: &str) -> serde_json::Value {
    serde_json::json!({
        "from": "2026-03-01T00:00:00+08:00", "to": "2026-03-01T03:00:00+08:00", "count": count,
        "reason": reason, "reference": reference,
    })
}

#[test]
fn the_rule_that_left_a_time_out_is_named() {
    let check = |decision, parts: &[&str]| {
        let text = skipped(decision).text();
        for part in parts {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    };
    check(
        record(1, "overlap", "run 7"),
        &["not run (overlap)", ": run 7"],
    );
    check(record(4, "paused", ""), &["was paused", "4 planned times"]);
    check(record(1, "gap", ""), &["clock change"]);
    check(record(1, "something new", "x"), &["(something new)", "x"]);
    let mut filled = record(4, "deadline", "");
    filled["filled"] = 2.into();
    filled["filled_by"] = 9.into();
    check(filled, &["2 of them have their runs", "run 9"]);
}

#[test]
fn what_old_age_removed_is_not_said_to_have_been_left_out() {
    let removed = skipped(record(1, "removed", "succeeded"));
    assert!(removed.text().contains("has run (succeeded)"));
    assert_eq!(removed.hint(), "");
}
