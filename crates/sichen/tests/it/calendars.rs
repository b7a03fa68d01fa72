//! Calendars, made of the built program: applied before the jobs that use them, changed, imported.

use crate::program::{Client, command, err, out, start, until};

/// The job stands first: its calendars are applied before it all the same.
fn documents(a: &str, b: &str) -> String {
    format!(
        "apiVersion: sichen/v1
kind: Job
metadata: {{name: tick}}
spec:
  schedules:
  - cron: '* * * * * *'
    calendars: [{{name: a, use: days-off}}]
  - cron: '* * * * * *'
    calendars: [{{name: b, use: days-off}}]
  overlap: allow
  run: {{handler: noop}}
---
apiVersion: sichen/v1
kind: Calendar
metadata: {{name: a}}
spec: {{weekend: [{a}]}}
---
apiVersion: sichen/v1
kind: Calendar
metadata: {{name: b}}
spec: {{weekend: [{b}]}}
"
    )
}

const ICS: &str = "BEGIN:VCALENDAR\r\nX-WR-CALNAME:Holidays\r\n\
BEGIN:VEVENT\r\nSUMMARY:Spring\r\n  Festival\r\nDTSTART;VALUE=DATE:20260215\r\n\
DTEND;VALUE=DATE:20260224\r\nEND:VEVENT\r\n\
BEGIN:VEVENT\r\nSUMMARY:Meeting\r\nDTSTART:20260301T090000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

#[test]
fn jobs_follow_their_calendars_and_every_instant_is_accounted_for() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let words = ["dev", "--listen", "127.0.0.1:0", "--data"];
    let dev = start(&[&words[..], &[data.to_str().unwrap()]].concat());
    let c = Client::new(&dev.url, &data);
    let file = dir.path().join("all.yaml");
    let shown = file.display();
    std::fs::write(&file, documents("", "")).unwrap();
    let applied = c.ok(&format!("apply -f {shown}"));
    assert!(
        applied.contains("calendar b created (version 1)"),
        "{applied}"
    );
    assert_eq!(c.json("next tick")["next"], serde_json::json!([]));
    let refused = c.fails("delete --calendar a --yes", 4);
    assert!(
        refused.contains("SC5018") && refused.contains("tick"),
        "{refused}"
    );
    assert!(c.fails("get calendar aa", 3).contains("did you mean a?"));

    // Every day is off by one of the two.
    let (early, late) = (
        "sunday, monday, tuesday, wednesday",
        "thursday, friday, saturday",
    );
    std::fs::write(&file, documents(early, late)).unwrap();
    let diff = c.run(&format!("diff -f {shown}"));
    assert_eq!(diff.status.code(), Some(1), "{}", err(&diff));
    let diff = out(&diff);
    assert!(diff.contains("planned times of job tick"), "{diff}");
    let applied = c.ok(&format!("apply -f {shown}"));
    assert!(
        applied.contains("job tick goes by it now (revision 2)"),
        "{applied}"
    );
    assert!(
        applied.contains("job tick goes by it now (revision 3)"),
        "{applied}"
    );
    until("it runs", || {
        !c.json("runs tick")["items"].as_array().unwrap().is_empty()
    });
    c.ok("audit tick");
    c.ok("verify");

    let ics = dir.path().join("h.ics");
    std::fs::write(&ics, ICS).unwrap();
    let applied = c.ok(&format!("import calendar {} --apply", ics.display()));
    assert_eq!(applied, "calendar holidays created (version 1)\n");
    let stored = c.json("get calendar holidays");
    assert_eq!(stored["spec"]["daysOff"][0]["through"], "2026-02-23");
    assert!(c.ok("delete --calendar holidays --yes").contains("deleted"));
}

#[test]
fn an_expression_is_previewed_by_a_file_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let ics = dir.path().join("h.ics");
    std::fs::write(&ics, ICS).unwrap();
    let ics = ics.to_str().unwrap();
    let next = |usage: &str| {
        let words = [
            "next",
            "--cron",
            "0 9 16 2 *",
            "--calendar",
            ics,
            "--use",
            usage,
            "--count",
            "1",
            "--after",
            "2026-01-01T00:00:00Z",
        ];
        out(&command(&words).output().unwrap())
    };
    assert!(next("roll-forward").contains("2026-02-24T09:00:00+00:00"));
    assert!(next("roll-back").contains("2026-02-13T09:00:00+00:00"));
    let later = next("working-days");
    assert!(later.contains("2027-02-16T09:00:00+00:00"), "{later}");
    assert!(later.contains("no entries after 2026-12-31"), "{later}");
    let printed = command(&["import", "calendar", ics, "--name", "cn"])
        .output()
        .unwrap();
    assert!(
        err(&printed).contains("h.ics:11: warning: VEVENT"),
        "{}",
        err(&printed)
    );
    let file = dir.path().join("cn.yaml");
    std::fs::write(&file, out(&printed)).unwrap();
    let valid = command(&["validate", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(out(&valid), "calendar cn is valid\n");
}
