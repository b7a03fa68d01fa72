//! Each difference is found and named once; what is right is not.

use serde_json::json;

use super::{Decided, Finding, Fired, Ledger, Record, Report, SECOND, Segment};
use crate::timetables;

const HOUR: i64 = 3_600 * SECOND;
/// 2026-03-07T00:00:00Z, a day before New York's clocks change.
const START: i64 = 1_772_841_600 * SECOND;

fn segment(schedule: serde_json::Value, from: i64, hours: i64, revision: u32) -> Segment {
    let document = json!({"spec": {"schedules": [schedule], "timeZone": "America/New_York"}});
    Segment {
        after_us: from,
        through_us: from + hours * HOUR,
        revision,
        timetables: timetables(&document, "u", &crate::no_calendars),
    }
}

/// An hourly job through a day; each hour has its run.
fn hourly() -> Ledger {
    let fired = (1..=24).map(|n| Fired {
        at_us: START + n * HOUR,
        run: n.unsigned_abs(),
        revision: 1,
    });
    let segments = vec![segment(json!({"cron": "0 * * * *"}), START, 24, 1)];
    let revisions = segments.iter().map(|s| (1, s.timetables.clone().unwrap()));
    Ledger {
        revisions: revisions.collect(),
        fired: fired.collect(),
        segments,
        ..Ledger::default()
    }
}

fn audit(ledger: &Ledger) -> Report {
    ledger.audit(i64::MIN / 2, START + 1_000 * HOUR)
}

#[track_caller]
fn finds(ledger: &Ledger, expect: &[Finding]) {
    let report = audit(ledger);
    assert_eq!(report.findings, expect);
    assert_eq!(report.finding_count, expect.len() as u64);
}

fn decided(from: i64, to: i64, count: u64, reason: &str) -> Decided {
    let reason = reason.to_owned();
    Decided {
        from_us: START + from,
        to_us: START + to,
        count,
        reason,
    }
}

#[test]
fn what_is_whole_has_no_findings() {
    let report = audit(&hourly());
    let counts = (report.expected, report.with_run, report.with_decision);
    assert_eq!(counts, (24, 24, 0));
    assert_eq!((report.finding_count, report.unjudged.len()), (0, 0));
}

#[test]
fn one_deleted_one_added_and_one_moved_are_these_three() {
    let mut ledger = hourly();
    ledger.fired.remove(4);
    ledger.fired[9].at_us += SECOND;
    let at_us = START + 7 * HOUR + HOUR / 2;
    ledger.fired.push(Fired {
        at_us,
        run: 99,
        revision: 1,
    });
    let deleted = Finding::Missing {
        at_us: START + 5 * HOUR,
        revision: 1,
    };
    let added = Finding::Extra {
        at_us,
        record: Record::Run(99),
    };
    let moved = Finding::Moved {
        planned_us: START + 11 * HOUR,
        recorded_us: START + 11 * HOUR + SECOND,
        record: Record::Run(11),
    };
    finds(&ledger, &[deleted, added, moved]);
}

#[test]
fn ranges_are_judged_by_ends_and_count() {
    let with = |decision: Decided| {
        let mut ledger = hourly();
        // 03:00 to 09:00 were skipped: seven instants.
        ledger
            .fired
            .retain(|fired| !(3..=9).contains(&((fired.at_us - START) / HOUR)));
        ledger.decided.push(decision);
        ledger
    };
    finds(&with(decided(3 * HOUR, 9 * HOUR, 7, "paused")), &[]);
    let miscounted = Finding::Miscounted {
        from_us: START + 3 * HOUR,
        to_us: START + 9 * HOUR,
        reason: "paused".into(),
        recorded: 6,
        expected: 7,
    };
    finds(
        &with(decided(3 * HOUR, 9 * HOUR, 6, "paused")),
        &[miscounted],
    );
    let moved = Finding::Moved {
        planned_us: START + 9 * HOUR,
        recorded_us: START + 9 * HOUR - SECOND,
        record: Record::Decision("paused".into()),
    };
    finds(
        &with(decided(3 * HOUR, 9 * HOUR - SECOND, 7, "paused")),
        &[moved],
    );
    // A range that begins before the audit is not counted, but covers what it covers.
    let report =
        with(decided(3 * HOUR, 9 * HOUR, 99, "paused")).audit(START + 5 * HOUR, START + 24 * HOUR);
    assert_eq!((report.expected, report.finding_count), (19, 0));
}

#[test]
fn a_second_decision_of_an_instant_is_too_much_and_a_later_run_is_not() {
    let mut ledger = hourly();
    ledger.decided.push(decided(HOUR, HOUR, 1, "overlap"));
    finds(&ledger, &[]);
    ledger.decided.push(decided(HOUR, HOUR, 1, "removed"));
    finds(&ledger, &[]);
    ledger.decided.push(decided(HOUR, HOUR, 1, "deadline"));
    let twice = Finding::Extra {
        at_us: START + HOUR,
        record: Record::Decision("deadline".into()),
    };
    finds(&ledger, &[twice]);
}

#[test]
fn a_run_that_was_asked_for_is_judged_by_its_own_revision() {
    let mut ledger = hourly();
    // Revision 2 runs at half past; somebody asked for a time of long ago.
    ledger.segments.push(segment(
        json!({"cron": "30 * * * *"}),
        START + 24 * HOUR,
        1,
        2,
    ));
    let second = ledger.segments[1].timetables.clone().unwrap();
    ledger.revisions.insert(2, second);
    let run = |at_us, run, revision| Fired {
        at_us,
        run,
        revision,
    };
    ledger.fired.push(run(START + 24 * HOUR + HOUR / 2, 50, 2));
    ledger.fired.push(run(START + 3 * HOUR + HOUR / 2, 51, 2));
    ledger.fired.push(run(START - 5 * HOUR, 52, 1));
    finds(&ledger, &[]);
    ledger.fired.push(run(START + 3 * HOUR + HOUR / 4, 53, 2));
    let odd = Finding::Extra {
        at_us: START + 3 * HOUR + HOUR / 4,
        record: Record::Run(53),
    };
    finds(&ledger, &[odd]);
}

#[test]
fn a_job_without_schedules_may_be_run_for_any_time() {
    let mut ledger = hourly();
    ledger.revisions.insert(2, Vec::new());
    let asked = |revision| Fired {
        at_us: START + HOUR / 7,
        run: 60,
        revision,
    };
    ledger.fired.push(asked(2));
    finds(&ledger, &[]);
    ledger.fired.push(asked(1));
    let (at_us, record) = (START + HOUR / 7, Record::Run(60));
    finds(&ledger, &[Finding::Extra { at_us, record }]);
}

#[test]
fn a_gap_that_is_skipped_leaves_its_record() {
    // 02:30 falls out on 8 March; the change is at 07:00Z.
    let schedule = json!({"cron": "30 2 * * *", "gap": "skip"});
    let change = 31 * HOUR;
    let with = |decisions: Vec<Decided>| Ledger {
        segments: vec![segment(schedule.clone(), START + 24 * HOUR, 24, 1)],
        decided: decisions,
        ..Ledger::default()
    };
    finds(&with(vec![decided(change, change, 1, "gap")]), &[]);
    let at_us = START + change;
    finds(&with(vec![]), &[Finding::GapUnrecorded { at_us, count: 1 }]);
    let two = vec![
        decided(change, change, 1, "gap"),
        decided(change, change, 1, "gap"),
    ];
    let record = Record::Decision("gap".into());
    finds(&with(two), &[Finding::Extra { at_us, record }]);
}

#[test]
fn what_nobody_decided_yet_is_told_and_what_is_not_understood_too() {
    let mut ledger = hourly();
    ledger.present = Some(Segment {
        after_us: START + 24 * HOUR,
        ..ledger.segments[0].clone()
    });
    let report = ledger.audit(START, START + 26 * HOUR);
    let at = |hours| Finding::Undecided {
        at_us: START + hours * HOUR,
    };
    assert_eq!(report.findings, [at(25), at(26)]);

    ledger.present = None;
    ledger.segments[0] = segment(json!({"moon": "full"}), START, 24, 1);
    let report = audit(&ledger);
    assert_eq!(report.expected, 0);
    assert_eq!(report.unjudged.len(), 1, "{report:?}");
    assert!(report.unjudged[0].2.contains("moon"), "{report:?}");
}

#[test]
fn a_year_without_records_is_counted_and_not_listed() {
    let hours = 24 * 300;
    let ledger = Ledger {
        segments: vec![segment(json!({"cron": "* * * * *"}), START, hours, 1)],
        ..Ledger::default()
    };
    let report = ledger.audit(START, START + hours * HOUR);
    assert_eq!(report.findings.len(), super::MAX_FINDINGS);
    assert_eq!(report.finding_count, report.expected);
    assert_eq!(report.expected, 432_000);
}

#[test]
fn a_record_that_was_moved_over_the_end_of_the_range_is_told_as_moved() {
    let last = START + 24 * HOUR;
    for by in [SECOND, 60 * SECOND] {
        let mut ledger = hourly();
        ledger.fired[23].at_us = last + by;
        let moved = Finding::Moved {
            planned_us: last,
            recorded_us: last + by,
            record: Record::Run(24),
        };
        let report = ledger.audit(START, last);
        assert_eq!(report.findings, [moved]);
    }
    // One that belongs there, and one that is none of this range's business.
    let mut ledger = hourly();
    ledger.fired.remove(22);
    ledger.fired[22].at_us = last + 5 * SECOND;
    let before = START + 23 * HOUR - SECOND;
    assert_eq!(ledger.audit(START, before).findings, []);
    assert_eq!(hourly().audit(START, before).findings, []);
}
