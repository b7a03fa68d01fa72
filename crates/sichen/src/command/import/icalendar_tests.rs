//! Claims about iCalendar files.

use serde_json::{Value, json};

use super::*;

fn options() -> Options {
    Options {
        name: None,
        namespace: "default".to_owned(),
        work_mark: "班".to_owned(),
        through: 2028,
    }
}

fn file(events: &str) -> String {
    format!("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{events}END:VCALENDAR\r\n")
}

fn event(lines: &[&str]) -> String {
    format!("BEGIN:VEVENT\r\n{}\r\nEND:VEVENT\r\n", lines.join("\r\n"))
}

/// Lists off and worked, and what is said: line, level, words.
#[track_caller]
fn check(text: &str, off: Value, work: Value, said: &[(u64, &str, &str)]) {
    let found = read(text, &options());
    let list = |days: &[DaySpec]| serde_json::to_value(days).expect("json");
    let spec = &found.document.spec;
    assert_eq!(
        (list(&spec.off), list(&spec.work)),
        (off, work),
        "{:#?}",
        found.remarks
    );
    assert_eq!(found.remarks.len(), said.len(), "{:#?}", found.remarks);
    for (remark, (line, level, words)) in found.remarks.iter().zip(said) {
        assert_eq!(
            (remark.line, remark.level.as_str()),
            (*line, *level),
            "{remark:?}"
        );
        assert!(
            remark.message.contains(words),
            "{words:?} is not in {remark:?}"
        );
    }
}

#[test]
fn folded_lines_marks_and_exclusive_ends_are_read() {
    let text = file(
        &(event(&[
            "SUMMARY:春节",
            "  休",
            "DTSTART;VALUE=DATE:20260215",
            "DTEND;VALUE=DATE:20260224",
        ]) + &event(&[
            "dtstart;X-A=\"b:c\";VALUE=DATE:20260214",
            "summary;LANGUAGE=zh:春节\\, 班",
        ])),
    );
    let text = format!("\u{feff}{text}");
    let off = json!([{"from": "2026-02-15", "through": "2026-02-23", "name": "春节 休"}]);
    check(
        &text,
        off,
        json!([{"date": "2026-02-14", "name": "春节, 班"}]),
        &[],
    );
}

#[test]
fn durations_and_plain_yearly_rules_are_written_out() {
    let text = file(
        &(event(&[
            "DTSTART;VALUE=DATE:20270101",
            "DURATION:P2D",
            "RRULE:FREQ=YEARLY",
        ]) + &event(&[
            "DTSTART;VALUE=DATE:20240229",
            "RRULE:FREQ=YEARLY;COUNT=2;BYMONTH=2",
            "SUMMARY:leap",
        ]) + &event(&[
            "DTSTART;VALUE=DATE:20261225",
            "RRULE:FREQ=YEARLY;UNTIL=20271225",
            "EXDATE;VALUE=DATE:20271225",
        ])),
    );
    let off = json!([
        {"date": "2024-02-29", "name": "leap"},
        "2026-12-25",
        {"from": "2027-01-01", "through": "2027-01-02"},
        {"from": "2028-01-01", "through": "2028-01-02"},
        {"date": "2028-02-29", "name": "leap"},
    ]);
    check(
        &text,
        off,
        json!([]),
        &[(6, "note", "written out through 2028")],
    );
}

#[test]
fn what_is_passed_over_is_said_by_line() {
    let text = file(
        &(event(&["DTSTART:20260501T090000Z", "SUMMARY:a meeting"])
            + &event(&["DTSTART;VALUE=DATE:20260502", "RRULE:FREQ=MONTHLY"])
            + &event(&["SUMMARY:no start"])
            + &event(&["DTSTART;VALUE=DATE:20260503", "STATUS:CANCELLED"])
            + &event(&["DTSTART;VALUE=DATE:20260504", "DTEND;VALUE=DATE:20260501"])
            + "BEGIN:VTODO\r\nDTSTART;VALUE=DATE:20260505\r\nEND:VTODO\r\n"
            + &event(&[
                "DTSTART;VALUE=DATE:20260506",
                "DTEND;VALUE=DATE:20260506",
                "BEGIN:VALARM",
                "DTSTART;VALUE=DATE:20260101",
                "END:VALARM",
            ])),
    );
    check(
        &text,
        json!(["2026-05-06"]),
        json!([]),
        &[
            (4, "warning", "a time of day"),
            (9, "warning", "only a plain FREQ=YEARLY"),
            (11, "warning", "no DTSTART"),
            (16, "warning", "cancelled"),
            (20, "warning", "before it starts"),
            (22, "warning", "VTODO is passed over"),
            (27, "note", "one day"),
        ],
    );
}

#[test]
fn a_file_that_contradicts_itself_or_is_cut_off_is_refused() {
    let text = file(
        &(event(&["DTSTART;VALUE=DATE:20261001", "SUMMARY:国庆节"])
            + &event(&["DTSTART;VALUE=DATE:20261001", "SUMMARY:班"])),
    );
    let found = read(&text, &options());
    assert_eq!(found.remarks[0].level, Level::Refused);
    assert!(
        found.remarks[0].message.contains("line 4"),
        "{:?}",
        found.remarks
    );
    let cut = &text[..text.len() - 20];
    assert!(
        read(cut, &options())
            .remarks
            .iter()
            .any(|r| r.field == "END")
    );
    let nothing = read("hello", &options());
    assert_eq!(nothing.remarks[0].level, Level::Refused);
}

#[test]
fn a_name_is_made_of_the_title_where_that_can_be_one() {
    let named = |title: &str| {
        let text = format!("X-WR-CALNAME:{title}\r\n") + &event(&["DTSTART;VALUE=DATE:20261001"]);
        read(&file(&text), &options()).document.metadata.name
    };
    assert_eq!(named("Holidays in China"), "holidays-in-china");
    assert_eq!(named("中国节假日"), "holidays");
}
