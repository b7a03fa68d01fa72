//! What agrees, and what is said of what does not.

use serde_json::json;

use super::*;

fn check(state: &str, reason: &str, counts: Option<(u64, Option<u64>)>) -> Run {
    let progress = counts.map(|(done, expected)| {
        json!({"done": done, "expected": expected, "rate_milli": 0, "waiting_on": ""})
    });
    serde_json::from_value(json!({
        "id": 9, "key": "count:manual:k", "job_uid": "", "namespace": "default", "job": "count",
        "revision": 1, "state": state, "reason": reason, "round": 1, "pool": "default",
        "handler": "h", "priority": 0, "parallelism": 1, "parameters": {},
        "shards": {"total": 1, "open": 0, "running": 0, "succeeded": 1, "failed": 0, "cancelled": 0},
        "progress": progress, "created_at": "",
    }))
    .expect("a run as the server shows it")
}

#[test]
fn only_equal_counts_of_a_check_that_succeeded_agree() {
    let say = |state, reason, counts| disagreement(&check(state, reason, counts));
    let text = |why: Option<String>| why.unwrap_or_default();
    assert_eq!(say("succeeded", "", Some((10, Some(10)))), None);
    assert_eq!(say("succeeded", "", Some((0, Some(0)))), None);
    let fewer = say("failed", "counts", Some((9, Some(10))));
    assert_eq!(text(fewer), "9 found, 10 expected");
    let silent = say("succeeded", "", Some((10, None)));
    assert_eq!(text(silent), "its check reported no counts");
    assert_eq!(
        text(say("succeeded", "", None)),
        "its check reported no counts"
    );
    let broken = say("failed", "", Some((10, Some(10))));
    assert_eq!(text(broken), "its check is failed");
    let late = say("cancelled", "deadline", None);
    assert_eq!(text(late), "its check is cancelled (deadline)");
}

#[test]
fn every_run_that_does_not_agree_is_named() {
    let mut view = View {
        backfill: 4,
        state: "finished".to_owned(),
        runs: 3,
        agree: 1,
        disagree: 1,
        unchecked: 1,
        items: Vec::new(),
    };
    let run = check("succeeded", "", None);
    let counted = check("failed", "counts", Some((9, Some(10))));
    view.add(&run, Some(&counted), "9 found, 10 expected".to_owned());
    view.add(&run, None, "the run is failed".to_owned());
    let text = said(&view);
    assert!(
        text.contains("9 found, 10 expected") && text.contains("the run is failed"),
        "{text}"
    );
    assert!(
        text.contains("of 3 runs 1 agree, 1 do not, 1 could not be checked"),
        "{text}"
    );
}
