//! Documents whose schedules say everything they can, and what is refused.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::document::{Calendars, Document, check};
use crate::ids::JobUid;

fn document(spec: Value) -> Document {
    let mut whole = json!({ "run": { "handler": "h" } });
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let text = json!({
        "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": "j" }, "spec": whole,
    });
    serde_json::from_value(text).unwrap()
}

fn job() -> JobUid {
    JobUid(uuid::Uuid::from_u128(7))
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// The first instants of `spec` after `after`.
fn next(spec: Value, after: &str, expect: &[&str]) {
    let document = document(spec.clone());
    assert_eq!(check(&document), [], "{spec}");
    let timing = document.timing(job(), &Calendars::default()).unwrap();
    let mut last = at(after);
    let mut found = Vec::new();
    while found.len() < expect.len().max(1)
        && let Some(next) = timing.next(last)
    {
        found.push(next.to_string());
        last = next;
    }
    assert_eq!(found, expect, "{spec}");
}

#[test]
fn every_field_of_a_schedule_is_heard() {
    // Quartz counts weekdays from Sunday = 1.
    let quartz = json!({ "cron": "0 0 9 ? * 2", "dialect": "quartz" });
    next(
        json!({ "schedules": [quartz] }),
        "2026-03-01T00:00:00Z",
        &["2026-03-02T09:00:00Z"],
    );
    let zone = json!({ "cron": "30 2 * * *", "timeZone": "America/New_York", "gap": "skip" });
    next(
        json!({ "schedules": [zone], "timeZone": "Asia/Shanghai" }),
        "2026-03-07T12:00:00Z",
        &["2026-03-09T06:30:00Z"],
    );
    let both = json!({ "cron": "30 1 * * *", "timeZone": "America/New_York", "fold": "both" });
    next(
        json!({ "schedules": [both] }),
        "2026-11-01T04:00:00Z",
        &[
            "2026-11-01T05:30:00Z",
            "2026-11-01T06:30:00Z",
            "2026-11-02T06:30:00Z",
        ],
    );
    let phase = json!({ "every": "1h", "phase": "10m" });
    next(
        json!({ "schedules": [phase] }),
        "2026-03-01T00:10:00Z",
        &["2026-03-01T01:10:00Z", "2026-03-01T02:10:00Z"],
    );
    let bounded = json!({
        "every": "1h", "from": "2026-03-01T05:00:00Z", "until": "2026-03-01T15:00:00+08:00",
    });
    next(
        json!({ "schedules": [bounded] }),
        "2026-03-01T00:00:00Z",
        &["2026-03-01T05:00:00Z", "2026-03-01T06:00:00Z"],
    );
    let ended = json!({ "every": "1h", "until": "2026-03-01T00:30:00Z" });
    next(json!({ "schedules": [ended] }), "2026-03-01T00:00:00Z", &[]);
}

#[test]
fn an_instant_of_several_schedules_counts_once() {
    let several = json!({ "schedules": [
        { "cron": "0 * * * *" }, { "every": "30m" }, { "at": "2026-03-01T01:00:00Z" },
    ] });
    let timing = document(several)
        .timing(job(), &Calendars::default())
        .unwrap();
    let plan = timing.due(
        at("2026-03-01T00:30:00Z"),
        at("2026-03-01T01:00:00Z"),
        false,
    );
    assert_eq!(plan.runs.len(), 1);
    assert_eq!(plan.runs[0].planned, at("2026-03-01T01:00:00Z"));
    assert_eq!(plan.runs[0].period_start, at("2026-03-01T00:30:00Z"));
}

#[test]
fn jitter_is_a_fixed_share_of_each_run() {
    let spec = json!({ "schedules": [{ "every": "1h" }], "jitter": "10m" });
    let timing = document(spec).timing(job(), &Calendars::default()).unwrap();
    let decide = |now: &str| timing.due(at("2026-03-01T00:30:00Z"), at(now), false).runs[0];
    let (first, again) = (
        decide("2026-03-01T01:00:00Z"),
        decide("2026-03-01T01:00:07Z"),
    );
    assert_eq!(first.not_before, again.not_before);
    let share = first.not_before.duration_since(first.planned);
    assert!(share.as_secs() > 0 && share.as_secs() <= 600, "{share:#}");
    assert_eq!(
        first.period_end,
        at("2026-03-01T01:00:00Z"),
        "the period knows no jitter"
    );
}

#[test]
fn a_period_of_civil_days_follows_the_clock_change() {
    let spec = json!({
        "schedules": [{ "cron": "30 4 * * *" }], "timeZone": "Europe/Berlin",
        "period": "civil-day",
    });
    let timing = document(spec).timing(job(), &Calendars::default()).unwrap();
    let run = timing.run_at(at("2026-03-30T02:30:00Z")).unwrap();
    // 2026-03-29 has 23 hours there.
    assert_eq!(run.period_start, at("2026-03-28T23:00:00Z"));
    assert_eq!(run.period_end, at("2026-03-29T22:00:00Z"));
    let nominal = timing.nominal(&run);
    assert_eq!(nominal.civil.to_string(), "2026-03-30T04:30:00");
    assert_eq!(nominal.zone, "Europe/Berlin");
    let days = (nominal.first_day.to_string(), nominal.end_day.to_string());
    assert_eq!(days, ("2026-03-29".to_owned(), "2026-03-30".to_owned()));
}

/// The paths and codes of everything that is wrong.
fn wrong(spec: Value, expect: &[(&str, &str)]) {
    let found: Vec<(String, String)> = check(&document(spec.clone()))
        .into_iter()
        .map(|p| (p.path, p.message.chars().take(6).collect()))
        .collect();
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|(p, c)| (p.as_str(), c.as_str()))
        .collect();
    assert_eq!(found, expect, "{spec}");
}

#[test]
fn what_does_not_go_together_is_refused_where_it_stands() {
    let one = |schedule: Value| json!({ "schedules": [schedule] });
    wrong(one(json!({})), &[("spec.schedules[0]", "SC1017")]);
    wrong(
        one(json!({ "cron": "0 0 * * *", "every": "1h" })),
        &[("spec.schedules[0]", "SC1017")],
    );
    wrong(
        one(json!({ "every": "1h", "gap": "skip", "dialect": "quartz" })),
        &[
            ("spec.schedules[0].dialect", "SC1018"),
            ("spec.schedules[0].gap", "SC1018"),
        ],
    );
    wrong(
        one(json!({ "cron": "0 0 * * *", "phase": "1m" })),
        &[("spec.schedules[0].phase", "SC1018")],
    );
    let days = json!([{ "name": "holidays", "use": "working-days" }]);
    wrong(
        one(json!({ "after": "1h", "calendars": days })),
        &[("spec.schedules[0].calendars", "SC1018")],
    );
    wrong(
        one(json!({ "continuous": { "minWait": "1m", "maxWait": "1s" } })),
        &[("spec.schedules[0].continuous", "SC1128")],
    );
    wrong(
        json!({ "schedules": [{ "after": "1h" }, { "continuous": {} }] }),
        &[("spec.schedules", "SC1020")],
    );
    wrong(
        one(json!({ "every": "1h", "from": "tomorrow" })),
        &[("spec.schedules[0].from", "SC1014")],
    );
    wrong(
        one(
            json!({ "every": "1h", "from": "2026-03-01T00:00:00Z", "until": "2026-03-01T00:00:00Z" }),
        ),
        &[("spec.schedules[0].until", "SC1122")],
    );
    wrong(json!({ "jitter": "25h" }), &[("spec.jitter", "SC1019")]);
    let many: Vec<Value> = (0..101).map(|_| json!({ "every": "1h" })).collect();
    wrong(
        json!({ "schedules": many }),
        &[("spec.schedules", "SC1002")],
    );
}

/// DST-017: each mistake is told at its own field, and says nothing about its neighbours.
#[test]
fn a_mistake_in_one_schedule_never_stops_another() {
    for zone in [
        "America/New_Yrok",
        "Mars/Phobos",
        "Europe/Budapesst",
        "",
        "Local",
    ] {
        let spec = json!({ "schedules": [
            { "cron": "0 0 * * *", "timeZone": zone }, { "every": "1h" },
        ] });
        wrong(spec.clone(), &[("spec.schedules[0].timeZone", "SC1120")]);
        let (timing, problems) = document(spec).sound_timing(job(), &Calendars::default());
        assert_eq!(problems.len(), 1);
        assert_eq!(
            timing.next(at("2026-03-01T00:00:00Z")),
            Some(at("2026-03-01T01:00:00Z"))
        );
    }
}

/// The zone of the job is never replaced by another: what needs it does not run.
#[test]
fn under_an_unknown_zone_only_schedules_with_their_own_run() {
    let spec = json!({ "timeZone": "Mars/Phobos", "schedules": [
        { "cron": "0 0 * * *" }, { "cron": "0 1 * * *", "timeZone": "UTC" },
    ] });
    wrong(spec.clone(), &[("spec.timeZone", "SC1120")]);
    let (timing, _) = document(spec).sound_timing(job(), &Calendars::default());
    assert_eq!(
        timing.next(at("2026-03-01T00:00:00Z")),
        Some(at("2026-03-01T01:00:00Z"))
    );
}
