//! Every case of `testdata/cases/k8s_cronjob_cases.json` goes through `due` and `overlap`.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
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
            .filter_map(|job| instant(&job["plannedTime"]))
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
        assert_eq!(step.missed_in_words(), expected["missed"], "{id}: {step:?}");
    }
    let requeue = step.requeue_after.map(|after| after.as_millis());
    let wanted = expected["requeue_after_s"]
        .as_f64()
        .map(|seconds| (seconds * 1_000.0).round() as i128);
    assert_eq!(requeue, wanted, "{id}");
}
