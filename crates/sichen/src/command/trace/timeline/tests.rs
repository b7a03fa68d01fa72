//! Claims about timelines.

use serde_json::json;

use super::*;

fn run() -> Run {
    serde_json::from_value(json!({
        "id": 7, "key": "j:2026-03-01T00:00:00+00:00", "job_uid": "", "namespace": "default",
        "job": "j", "revision": 1, "planned_at": "2026-03-01T00:00:00+00:00", "state": "succeeded",
        "reason": "", "round": 1, "pool": "default", "handler": "h", "priority": 0,
        "parallelism": 2, "parameters": {}, "created_at": "2026-03-01T00:00:00.004Z",
        "ended_at": "2026-03-01T00:00:09Z",
        "shards": { "total": 1, "open": 0, "succeeded": 1, "failed": 0, "cancelled": 0 }
    }))
    .unwrap()
}

/// An event at so many milliseconds.
fn event(seq: u64, ms: i64, entity: &str, kind: &str, to: &str, data: serde_json::Value) -> Event {
    let at = Timestamp::from_millisecond(1_772_323_200_000 + ms).unwrap();
    let shard = entity == "shard";
    Event {
        seq,
        entity: entity.to_owned(),
        id: if shard { "7/0" } else { "7" }.to_owned(),
        ver: 1,
        at: at.to_string(),
        op: String::new(),
        actor: "worker a".to_owned(),
        duty: None,
        term: None,
        kind: kind.to_owned(),
        from: String::new(),
        to: to.to_owned(),
        attempt: shard.then(|| data["attempt"].as_u64().unwrap_or(1).try_into().unwrap()),
        token: shard.then(|| data["token"].as_u64().unwrap_or(1)),
        cause: data["cause"].as_str().unwrap_or_default().to_owned(),
        data,
    }
}

fn life() -> Vec<Event> {
    let lost = json!({ "end": "lost", "code": "session_expired", "message": "", "token": 2 });
    let second = json!({ "worker": "b", "checkpoint_seq": 3, "attempt": 2, "token": 3 });
    let done = json!({ "end": "succeeded", "attempt": 2, "token": 3 });
    let checkpoint =
        |seq| json!({ "seq": seq, "position": format!("row {seq}"), "done": 1_000 * seq });
    vec![
        event(
            1,
            4,
            "run",
            "run_created",
            "scheduled",
            json!({ "total": 1 }),
        ),
        event(
            2,
            5,
            "shard",
            "attempt_granted",
            "running",
            json!({ "worker": "a" }),
        ),
        event(3, 5, "run", "run_started", "running", json!({})),
        event(
            4,
            100,
            "shard",
            "checkpoint_saved",
            "running",
            checkpoint(1),
        ),
        event(
            5,
            200,
            "shard",
            "checkpoint_saved",
            "running",
            checkpoint(2),
        ),
        event(
            6,
            300,
            "shard",
            "checkpoint_saved",
            "running",
            checkpoint(3),
        ),
        event(7, 6_000, "shard", "attempt_ended", "retry", lost),
        event(8, 6_500, "shard", "attempt_granted", "running", second),
        event(
            9,
            7_000,
            "shard",
            "report_refused",
            "running",
            json!({ "cause": "stale" }),
        ),
        event(10, 9_000, "shard", "attempt_ended", "succeeded", done),
        event(
            11,
            9_000,
            "run",
            "run_settled",
            "succeeded",
            json!({ "total": 1, "succeeded": 1 }),
        ),
    ]
}

#[test]
fn a_takeover_reads_from_the_planned_time_to_the_outcome() {
    let told: Vec<String> = entries(&run(), None, &life(), false)
        .iter()
        .map(|e| format!("{} {}: {}", e.after_ms, e.what, e.text))
        .collect();
    assert_eq!(
        told,
        [
            "0 planned: the time of the schedule",
            "4 created: 1 shard, by worker a",
            "5 granted: to a, token 1",
            "300 checkpoint: numbers 1 to 3, the last at row 3; 3,000 done",
            "6000 lost: session_expired → it will be tried again",
            "6500 taken over: to b, token 3, from checkpoint 3, after a was lost, after a wait of 500ms",
            "7000 refused: a report of worker a with token 1: the shard has a newer token",
            "9000 succeeded: by worker a",
            "9000 succeeded: 1 of 1 succeeded",
        ]
    );
}

#[test]
fn every_event_has_its_place() {
    for all in [false, true] {
        let entries = entries(&run(), None, &life(), all);
        let mut seen: Vec<u64> = entries.iter().flat_map(|e| e.events.clone()).collect();
        seen.sort_unstable();
        assert_eq!(seen, (1..=11).collect::<Vec<u64>>());
        let checkpoints = entries.iter().filter(|e| e.what == "checkpoint").count();
        assert_eq!(checkpoints, if all { 3 } else { 1 });
    }
}

#[test]
fn a_shard_alone_has_its_runs_frame() {
    let mine: Vec<Event> = life().into_iter().filter(|e| e.entity == "shard").collect();
    let told = entries(&run(), Some(0), &mine, false);
    let words: Vec<&str> = told.iter().map(|e| e.what.as_str()).collect();
    assert_eq!(words[..3], ["planned", "created", "granted"]);
    assert_eq!(told.last().unwrap().text, "the run succeeded");
}

#[test]
fn what_was_retried_waited_since_the_retry() {
    let failed = json!({ "end": "failed", "code": "exit-1", "message": "", "token": 1 });
    let granted = |attempt| json!({ "worker": "a", "attempt": attempt, "token": attempt });
    let events = [
        event(1, 5, "shard", "attempt_granted", "running", granted(1)),
        event(2, 100, "shard", "attempt_ended", "failed", failed),
        event(3, 20_100, "shard", "shard_reopened", "scheduled", json!({})),
        event(4, 20_103, "shard", "attempt_granted", "running", granted(2)),
    ];
    let told = entries(&run(), None, &events, false);
    let last = told.last().map(|e| e.text.as_str());
    assert_eq!(last, Some("to a, token 2, after a wait of 3ms"));
}

#[test]
fn who_was_asked_for_a_slot_is_told_for_whom() {
    let granted = json!({ "worker": "a" });
    let asked = json!({ "by": 8, "priority": 100, "own": -1, "n": 1, "most": 10 });
    let released = json!({ "end": "released", "code": "", "message": "" });
    let events = [
        event(1, 5, "shard", "attempt_granted", "running", granted),
        event(2, 60_000, "shard", "attempt_recalled", "running", asked),
        event(3, 61_000, "shard", "attempt_ended", "scheduled", released),
    ];
    let told = entries(&run(), None, &events, false);
    let last: Vec<(&str, &str)> = told
        .iter()
        .rev()
        .take(2)
        .rev()
        .map(|e| (e.what.as_str(), e.text.as_str()))
        .collect();
    assert_eq!(
        last,
        [
            (
                "asked to yield",
                "its slot to run 8 of priority 100, itself of -1"
            ),
            ("released", "it waits again"),
        ]
    );
}

#[test]
fn setbacks_are_the_attempts_that_did_not_succeed_with_what_followed() {
    let told = setbacks(&run(), &life());
    let told: Vec<_> = told.iter().map(|e| (e.attempt, e.text.as_str())).collect();
    assert_eq!(
        told,
        [(Some(1), "session_expired → it will be tried again")]
    );
}
