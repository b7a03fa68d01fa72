//! What `sichen due` answers.

use serde_json::{Value, json};

use super::decide;

#[test]
fn every_cronjob_case_maps_to_the_file() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/cases/k8s_cronjob_cases.json"
    );
    let text = std::fs::read_to_string(path).expect("the cases are part of the project");
    let cases: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    for case in &cases {
        let answer = decide(&case.to_string()).expect("a good case");
        for (field, wanted) in case["expected"].as_object().expect("an object") {
            assert_eq!(&answer["cronjob"][field], wanted, "{} {field}", case["id"]);
        }
    }
}

#[test]
fn a_job_is_decided_as_the_trigger_would() {
    let answer = decide(
        r#"
schedules:
  - cron: {expr: "0 * * * *", dialect: crontab, gap: skip}
  - every: {period: 1h, anchor: 2026-05-01T00:20:00Z}
timeZone: Asia/Shanghai
catchUp: {all: 2}
startingDeadline: 2h
overlap: {queue: 1}
highWater: 2026-05-01T00:30:00Z
now: 2026-05-01T06:10:00Z
running: [{id: old, planned: 2026-05-01T00:20:00Z}]
"#,
    )
    .expect("a good case");
    let short: Vec<_> = answer["decisions"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|decision| {
            let word = |field: &str| decision[field].as_str().unwrap_or_default().to_owned();
            (word("planned"), word("action"), word("reason"))
        })
        .collect();
    let wanted = [
        ("2026-05-01T01:00:00Z", "skip", "deadline"),
        ("2026-05-01T04:20:00Z", "skip", "catch_up"),
        ("2026-05-01T05:20:00Z", "queue", "overlap"),
        ("2026-05-01T06:00:00Z", "skip", "overlap"),
    ];
    let wanted: Vec<_> = wanted
        .iter()
        .map(|(at, action, why)| ((*at).into(), (*action).into(), (*why).into()))
        .collect();
    assert_eq!(short, wanted);
    assert_eq!(answer["missed"], 9);
    assert_eq!(answer["next_wake"], "2026-05-01T06:20:00Z");
}

#[test]
fn a_bad_case_names_what_is_wrong() {
    let error = |text: &str| format!("{:#}", decide(text).expect_err("refused"));
    let base = json!({"schedules": [{"cron": "61 * * * *"}], "highWater": "2026-05-01T00:00:00Z", "now": "2026-05-01T01:00:00Z"});
    assert!(error(&base.to_string()).contains("schedules[0]: SC1103"));
    let mut unknown = base.clone();
    unknown["timezon"] = json!("UTC");
    assert!(error(&unknown.to_string()).contains("timezon"));
    let mut zone = base.clone();
    (zone["timeZone"], zone["schedules"]) = (json!("Mars/Phobos"), json!([{"cron": "1 * * * *"}]));
    assert!(error(&zone.to_string()).contains("SC1120"));
    assert!(error("schedules: [").contains("cannot be read"));
}

#[test]
fn a_case_may_have_a_calendars_document() {
    let answer = decide(
        "schedules: [{cron: 0 9 * * *}]
highWater: 2026-10-07T00:00:00Z
now: 2026-10-07T09:00:00Z
calendarUse: working-days
calendar:
  apiVersion: sichen/v1
  kind: Calendar
  metadata: {name: c}
  spec: {daysOff: [2026-10-07]}
",
    )
    .unwrap();
    assert_eq!(answer["decisions"], json!([]), "{answer}");
    assert_eq!(answer["next_wake"], "2026-10-08T09:00:00Z");
}

#[test]
fn a_schedule_is_read_as_a_job_document_writes_it() {
    let case = |schedule: serde_json::Value| {
        json!({
            "schedules": [schedule], "timeZone": "Europe/Berlin", "catchUp": {"all": 9}, "overlap": "allow",
            "highWater": "2026-03-28T12:00:00Z", "now": "2026-03-29T12:00:00Z",
        })
        .to_string()
    };
    let same = [
        (
            json!({"cron": "30 2 * * *", "gap": "shift", "fold": "both", "dialect": "crontab"}),
            json!({"cron": {"expr": "30 2 * * *", "gap": "shift", "fold": "both", "dialect": "crontab"}}),
        ),
        (
            json!({"every": "6h", "phase": "90m"}),
            json!({"every": {"period": "6h", "anchor": "1970-01-01T01:30:00Z"}}),
        ),
    ];
    for (beside, within) in same {
        let (beside, within) = (decide(&case(beside)), decide(&case(within)));
        assert_eq!(beside.expect("good"), within.expect("good"));
    }
    for odd in [
        json!({"cron": "30 2 * * *", "timeZone": "UTC"}),
        json!({"at": "2026-03-29T01:00:00Z", "gap": "skip"}),
        json!({"weekly": "monday"}),
    ] {
        let error = format!("{:#}", decide(&case(odd.clone())).expect_err("refused"));
        assert!(error.starts_with("schedules[0]: `"), "{odd}: {error}");
    }
    let error = format!("{:#}", decide("null").expect_err("refused"));
    assert!(
        error.contains("a mapping with the fields of a case"),
        "{error}"
    );
}

/// Every field that is read, and every word of the answer, stands in the guide.
#[test]
fn the_guide_has_every_field_of_a_case_and_of_its_answer() {
    let guide = include_str!("../../../../docs/guide/due.md");
    let has = |word: &str| {
        assert!(
            guide.contains(&format!("`{word}`")),
            "{word} is not in the guide"
        )
    };
    // What serde reads, as it says itself when a field is unknown.
    let error = format!("{:#}", decide(r#"{"none": 1}"#).expect_err("refused"));
    let fields = error
        .split("expected one of")
        .nth(1)
        .expect("a list")
        .split('`');
    let fields: Vec<&str> = fields.skip(1).step_by(2).collect();
    assert!(fields.len() > 20, "{error}");
    fields.iter().for_each(|field| has(field));
    let words = |value: &serde_json::Value| -> Vec<String> {
        value
            .as_object()
            .expect("a mapping")
            .keys()
            .cloned()
            .collect()
    };
    let answers = [
        json!({"schedules": [{"cron": "* * * * *"}], "catchUp": "coalesce", "highWater": "2026-05-01T00:00:00Z", "now": "2026-05-01T00:09:00Z", "overlap": {"queue": 1}, "running": [{"id": "a"}]}),
        json!({"schedules": [{"cron": "* * * * *"}], "catchUp": {"all": 2}, "highWater": "2026-05-01T00:00:00Z", "now": "2026-05-01T00:09:00Z", "overlap": "replace", "running": [{"id": "a"}]}),
        json!({"schedules": [{"cron": "* * * * *"}], "catchUp": {"all": 2}, "highWater": "2026-05-01T00:00:00Z", "now": "2026-05-01T00:09:00Z", "running": [{"id": "a"}]}),
        json!({"schedule": "* * * * *", "creationTime": "2026-05-01T00:00:00Z", "now": "2026-05-01T00:09:00Z"}),
    ];
    for case in answers {
        let answer = decide(&case.to_string()).expect("good");
        words(&answer).iter().for_each(|word| has(word));
        for decision in answer["decisions"].as_array().expect("a list") {
            words(decision).iter().for_each(|word| has(word));
            has(decision["action"].as_str().expect("a word"));
            has(decision["reason"].as_str().expect("a word"));
        }
        if let Some(cronjob) = answer.get("cronjob") {
            words(cronjob).iter().for_each(|word| has(word));
        }
    }
    // Its examples give what stands below them.
    let blocks: Vec<&str> = guide.split("```").skip(1).step_by(2).collect();
    let examples: Vec<_> = blocks
        .iter()
        .filter_map(|b| b.strip_prefix("yaml\n"))
        .collect();
    let answers: Vec<_> = blocks
        .iter()
        .filter_map(|b| b.strip_prefix("json\n"))
        .collect();
    assert!(!examples.is_empty() && examples.len() == answers.len());
    for (example, answer) in examples.iter().zip(answers) {
        let answer: serde_json::Value = serde_json::from_str(answer).expect("JSON");
        assert_eq!(decide(example).expect("good"), answer, "{example}");
    }
}
