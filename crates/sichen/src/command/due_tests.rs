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
