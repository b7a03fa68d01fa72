//! Every case of `testdata/cases/k8s_cronjob_cases.json` goes through `due` and `overlap`.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sichen_core::schedule::cronjob::{Action, CronJob, step};
use sichen_core::schedule::overlap::Overlap;

fn instant(value: &Value) -> Option<Timestamp> {
    value.as_str().map(|text| text.parse().expect("an instant"))
}

#[test]
fn every_cronjob_case_holds() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/cases/k8s_cronjob_cases.json"
    );
    let text = std::fs::read_to_string(path).expect("the cases are part of the project");
    let cases: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(cases.len(), 22, "a case was added or lost; look at it");
    for case in &cases {
        check(case);
    }
}

fn check(case: &Value) {
    let id = case["id"].as_str().expect("an id");
    let (input, expected) = (&case["input"], &case["expected"]);
    let job = CronJob {
        schedule: input["schedule"].as_str().expect("a schedule").to_owned(),
        time_zone: input["timeZone"].as_str().map(str::to_owned),
        suspend: input["suspend"].as_bool().expect("suspend"),
        concurrency: match input["concurrencyPolicy"].as_str() {
            Some("Forbid") => Overlap::Forbid,
            Some("Replace") => Overlap::Replace,
            _ => Overlap::Allow,
        },
        starting_deadline: input["startingDeadlineSeconds"]
            .as_i64()
            .map(SignedDuration::from_secs),
        created_at: instant(&input["creationTime"]).expect("created"),
        last_scheduled: instant(&input["lastScheduleTime"]),
        active: input["activeJobs"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|job| job["inStatusList"] == true)
            .map(|job| instant(&job["plannedTime"]))
            .collect(),
    };
    let step = step(&job, instant(&input["now"]).expect("now"));
    let action = match step.action {
        Action::Create => "create",
        Action::Replace => "replace",
        Action::None => "none",
    };
    assert_eq!(action, expected["action"], "{id}: {step:?}");
    assert_eq!(step.because.as_str(), expected["reason"], "{id}: {step:?}");
    if expected.get("planned").is_some() {
        assert_eq!(step.planned, instant(&expected["planned"]), "{id}");
    }
    if expected.get("missed").is_some() {
        assert_eq!(step.reckoned.as_str(), expected["missed"], "{id}: {step:?}");
    }
    let requeue = step.requeue_after.map(|after| after.as_millis());
    let wanted = expected["requeue_after_s"]
        .as_f64()
        .map(|seconds| (seconds * 1_000.0).round() as i128);
    assert_eq!(requeue, wanted, "{id}");
}

/// What the controller does where it differs from what one would guess, each from its own words.
#[test]
fn the_controllers_odd_habits_are_kept() {
    let base = json!({
        "schedule": "*/15 * * * *", "timeZone": null, "suspend": false, "concurrencyPolicy": "Allow",
        "startingDeadlineSeconds": null, "creationTime": "2025-04-01T08:00:00Z",
        "lastScheduleTime": "2025-04-02T09:15:00Z", "now": "2025-04-02T09:30:20Z", "activeJobs": [],
    });
    let due = |planned: &str, missed: &str, again: f64| json!({"action": "create", "reason": "due", "planned": planned, "missed": missed, "requeue_after_s": again});
    let none = |reason: &str, again: f64| json!({"action": "none", "reason": reason, "missed": "none", "requeue_after_s": again});
    let active = |planned: Value| json!([{"plannedTime": planned, "inStatusList": true}]);
    let cases = [
        // How many were missed is reckoned by how far the first two are apart: here by five minutes
        // over a day, although there were 36.
        (
            "reckoned",
            json!({"schedule": "*/5 9-10 * * *", "lastScheduleTime": "2025-04-01T09:55:00Z", "now": "2025-04-02T10:57:00Z"}),
            due("2025-04-02T10:55:00Z", "many", 79_380.1),
        ),
        // A hundred besides the planned one are many, 99 are few.
        (
            "many",
            json!({"schedule": "* * * * *", "now": "2025-04-02T10:56:00Z"}),
            due("2025-04-02T10:56:00Z", "many", 60.1),
        ),
        (
            "few",
            json!({"schedule": "* * * * *", "now": "2025-04-02T10:55:00Z"}),
            due("2025-04-02T10:55:00Z", "few", 60.1),
        ),
        // Look-back for what is due, last time for when to look again.
        (
            "every",
            json!({"schedule": "@every 20m", "startingDeadlineSeconds": 600, "now": "2025-04-02T09:35:00Z"}),
            none("not-due", 1_200.1),
        ),
        (
            "deadline 0",
            json!({"startingDeadlineSeconds": 0, "now": "2025-04-02T09:30:00Z"}),
            none("not-due", 900.1),
        ),
        // The zone within the schedule is before the one beside it.
        (
            "two zones",
            json!({"schedule": "TZ=Asia/Tokyo 0 0 * * *", "timeZone": "Europe/Paris", "lastScheduleTime": "2025-04-01T15:00:00Z", "now": "2025-04-02T15:00:05Z"}),
            due("2025-04-02T15:00:00Z", "none", 86_395.1),
        ),
        (
            "its own zone unknown",
            json!({"schedule": "TZ=Mars/Base 0 0 * * *"}),
            json!({"action": "none", "reason": "unparseable-schedule", "requeue_after_s": null}),
        ),
        (
            "six fields",
            json!({"schedule": "CRON_TZ=UTC 0 0 0 * * *"}),
            json!({"action": "none", "reason": "unparseable-schedule", "requeue_after_s": null}),
        ),
        // An unknown zone is seen before a suspension.
        (
            "zone first",
            json!({"timeZone": "Mars/Base", "suspend": true}),
            json!({"action": "none", "reason": "unknown-time-zone", "requeue_after_s": null}),
        ),
        // A job whose planned time nobody knows is active all the same.
        (
            "unknown time",
            json!({"concurrencyPolicy": "Forbid", "activeJobs": active(Value::Null)}),
            json!({"action": "none", "reason": "forbid-active", "planned": "2025-04-02T09:30:00Z", "requeue_after_s": 880.1}),
        ),
        (
            "replaced",
            json!({"concurrencyPolicy": "Replace", "activeJobs": active(Value::Null)}),
            json!({"action": "replace", "reason": "due", "planned": "2025-04-02T09:30:00Z", "requeue_after_s": 880.1}),
        ),
        // A status from a clock that was ahead.
        (
            "ahead",
            json!({"lastScheduleTime": "2025-04-02T09:45:00Z"}),
            none("not-due", 1_780.1),
        ),
    ];
    for (id, changes, expected) in cases {
        let mut input = base.clone();
        for (field, value) in changes.as_object().expect("fields") {
            input[field] = value.clone();
        }
        check(&json!({"id": id, "input": input, "expected": expected}));
    }
}
