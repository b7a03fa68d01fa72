//! Claims about calendar documents.

use serde_json::{Value, json};

use super::*;

fn document(spec: Value) -> CalendarDocument {
    let document = json!({
        "apiVersion": "sichen/v1", "kind": "Calendar", "metadata": {"name": "c"}, "spec": spec,
    });
    serde_json::from_value(document).expect("the shape is right")
}

#[track_caller]
fn check(spec: Value, expect: &[(&str, &str)]) {
    let problems = document(spec).check();
    let found: Vec<(&str, &str)> = problems
        .iter()
        .map(|p| (p.path.as_str(), p.message.get(..6).unwrap_or_default()))
        .collect();
    assert_eq!(found, expect, "{problems:#?}");
}

#[test]
fn dates_ranges_and_names_become_rules() {
    let document = document(json!({
        "daysOff": ["2026-01-01", {"from": "2026-02-15", "through": "2026-02-23", "name": "Spring Festival"}],
        "workingDays": [{"date": "2026-02-14", "name": "for Spring Festival"}],
    }));
    let calendar = document.calendar(7).expect("a good calendar");
    let date = |text: &str| text.parse::<Date>().expect("a date");
    assert_eq!(calendar.version, 7);
    assert_eq!(calendar.off.len(), 10);
    assert!(calendar.is_working(date("2026-02-14")));
    assert!(
        !calendar.is_working(date("2026-02-23")),
        "the last day is included"
    );
    assert!(calendar.is_working(date("2026-02-24")));
    let name = calendar.names.get(&date("2026-02-20"));
    assert_eq!(name.map(String::as_str), Some("Spring Festival"));
    assert_eq!(calendar.covers_through(), Some(date("2026-12-31")));
}

#[test]
fn everything_wrong_is_told_at_once() {
    check(
        json!({
            "daysOff": ["2026-02-30", "20260101", {"from": "2026-02-15"}, {"from": "2026-02-15", "through": "2026-02-14"}],
            "workingDays": [{"date": "2026-01-04", "name": " "}, {"date": "2026-01-04", "from": "2026-01-04"}],
        }),
        &[
            ("spec.daysOff[0]", "SC1043"),
            ("spec.daysOff[1]", "SC1043"),
            ("spec.daysOff[2]", "SC1041"),
            ("spec.daysOff[3].through", "SC1042"),
            ("spec.workingDays[0].name", "SC1040"),
            ("spec.workingDays[1]", "SC1041"),
        ],
    );
}

#[test]
fn a_calendar_that_contradicts_itself_or_has_no_working_day_is_refused() {
    check(
        json!({"daysOff": ["2026-01-01"], "workingDays": ["2026-01-01"]}),
        &[("spec", "SC1123")],
    );
    check(
        json!({"weekend": ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]}),
        &[("spec", "SC1123")],
    );
    check(
        json!({"daysOff": [{"from": "2026-01-01", "through": "9999-12-31"}]}),
        &[("spec", "SC1123")],
    );
    check(json!({"weekend": []}), &[]);
}

#[test]
fn a_document_is_written_as_it_was_read() {
    let spec = json!({
        "weekend": ["friday", "saturday"],
        "daysOff": ["2026-01-01", {"from": "2026-02-15", "through": "2026-02-23", "name": "n"}],
    });
    let written = serde_json::to_value(document(spec.clone())).expect("json");
    assert_eq!(written.get("spec"), Some(&spec));
}
