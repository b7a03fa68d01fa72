//! What a job's coming times say about clock changes.

use jiff::Timestamp;
use serde_json::{Value, json};
use sichen_core::document::Calendars;
use sichen_core::name::JobName;
use sichen_core::schedule::cron::Language;

use super::{Preview, read};

pub(crate) fn preview(spec: Value) -> Preview {
    let mut whole = json!({ "run": { "handler": "h" }, "timeZone": "America/New_York" });
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    let document = json!({
        "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": "j" }, "spec": whole,
    });
    let uid = "01890a5d-ac96-774b-bcce-b302099a8057";
    let document = read(document).unwrap();
    let name = JobName::new("default", "j").unwrap();
    Preview::new(name, false, uid, document, &Calendars::default()).unwrap()
}

#[track_caller]
fn shows(schedule: Value, after: &str, expect: &[&str]) {
    let preview = preview(json!({ "schedules": [schedule] }));
    let after: Timestamp = after.parse().unwrap();
    let planned = expect
        .iter()
        .filter(|line| !line.contains("does not run"))
        .count();
    let moments = preview.moments(after, Timestamp::MAX, planned);
    let lines: Vec<String> = moments
        .iter()
        .map(|moment| super::line(moment).trim_end().to_owned())
        .collect();
    assert_eq!(lines, expect);
}

#[test]
fn a_gap_says_what_it_moves_and_what_it_takes() {
    shows(
        json!({ "cron": "30 2 * * *" }),
        "2026-03-07T12:00:00Z",
        &[
            "2026-03-08T03:00:00-04:00  02:30:00 is left out by the clock change",
            "2026-03-09T02:30:00-04:00",
        ],
    );
    shows(
        json!({ "cron": "30 2 * * *", "gap": "skip" }),
        "2026-03-06T12:00:00Z",
        &[
            "2026-03-07T02:30:00-05:00",
            "2026-03-08T03:00:00-04:00  does not run: 1 local time is left out by the clock change (gap: skip)",
            "2026-03-09T02:30:00-04:00",
        ],
    );
    shows(
        json!({ "cron": "30 2 * * *", "gap": "shift" }),
        "2026-03-07T12:00:00Z",
        &["2026-03-08T03:30:00-04:00  02:30:00 is left out by the clock change"],
    );
}

#[test]
fn a_fold_says_which_pass_runs() {
    shows(
        json!({ "cron": "30 1 * * *" }),
        "2026-10-31T12:00:00Z",
        &[
            "2026-11-01T01:30:00-04:00  the first of two times that are 01:30:00",
            "2026-11-01T01:30:00-05:00  does not run: 01:30:00 for the second time (fold: first)",
            "2026-11-02T01:30:00-05:00",
        ],
    );
    shows(
        json!({ "cron": "30 1 * * *", "fold": "both" }),
        "2026-10-31T12:00:00Z",
        &[
            "2026-11-01T01:30:00-04:00  the first of two times that are 01:30:00",
            "2026-11-01T01:30:00-05:00  the second of two times that are 01:30:00",
        ],
    );
}

#[test]
fn bounds_zones_and_a_missing_schedule_are_told() {
    let schedule = json!({
        "cron": "0 9 * * *", "timeZone": "Asia/Tokyo",
        "from": "2026-03-01T00:00:00Z", "until": "2026-03-03T00:00:00Z",
    });
    let preview_ = preview(json!({ "schedules": [schedule] }));
    let notes = preview_.notes(Language::English).join("\n");
    for words in [
        "in Asia/Tokyo",
        "before 2026-03-01",
        "from 2026-03-03T00:00:00Z on",
    ] {
        assert!(notes.contains(words), "{notes}");
    }
    let after = "2026-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(preview_.moments(after, Timestamp::MAX, 10).len(), 2);
    let idle = preview(json!({}));
    assert_eq!(idle.moments(after, Timestamp::MAX, 10), []);
    assert!(idle.notes(Language::English)[0].contains("no schedule"));
}

#[test]
fn times_are_shown_in_the_zone_that_all_schedules_name() {
    let named = |zone: &str| json!({ "cron": "0 9 * * *", "timeZone": zone });
    let zone = |schedules: Value| preview(json!({ "schedules": schedules })).zone_name;
    let shanghai = named("Asia/Shanghai");
    assert_eq!(zone(json!([shanghai])), "Asia/Shanghai");
    assert_eq!(
        zone(json!([shanghai, named("Europe/Berlin")])),
        "America/New_York"
    );
    assert_eq!(
        zone(json!([shanghai, { "every": "1h" }])),
        "America/New_York"
    );
    assert_eq!(zone(json!([])), "America/New_York");
}

/// What the zone was taken for by older data, an hour west of what it is: the time that this takes away
/// runs once, at the change, as the server has it.
#[test]
fn newer_zone_data_leaves_no_date_out() {
    let spec = json!({ "timeZone": "Asia/Tokyo", "schedules": [{ "cron": "0 9 * * *" }] });
    let mark: Timestamp = "2026-03-01T00:30:00Z".parse().unwrap();
    let zones = json!({ "data": "2020a", "taken": { "Asia/Tokyo": { "offset": 28_800 } } });
    let zones = serde_json::from_value(zones).unwrap();
    let next = |preview: Preview| preview.next(mark).unwrap().to_string();
    assert_eq!(next(preview(spec.clone())), "2026-03-02T00:00:00Z");
    let known = preview(spec).knowing(Some(zones), mark);
    assert_eq!(next(known), "2026-03-01T00:30:01Z");
}
