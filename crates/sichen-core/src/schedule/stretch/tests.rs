//! When two records are one, and when a step lengthens the one before it.

use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::document::{Document, Request, new_run};
use crate::ids::{JobUid, Occasion, Revision};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn skip(from: i64, to: i64, reason: &str, reference: &str) -> Decision {
    Decision {
        to: at(to),
        count: (to - from + 1) as u64,
        ..Decision::single(at(from), reason, reference.to_owned())
    }
}

fn told(decisions: &[Decision]) -> Vec<(i64, i64, u64, &str, &str)> {
    let told = |d| -> (i64, i64, u64, &str, &str) {
        let d: &Decision = d;
        let (from, to) = (d.from.as_second(), d.to.as_second());
        (from, to, d.count, &d.reason, &d.reference)
    };
    decisions.iter().map(told).collect()
}

/// A step of the mark that decides these.
fn step(from: i64, to: i64, ran: &[i64], decisions: Vec<Decision>) -> Advance {
    let document = json!({
        "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": "j" },
        "spec": { "run": { "handler": "h" } },
    });
    let document: Document = serde_json::from_value(document).unwrap();
    let run = |second: &i64| {
        let request = Request {
            job: JobUid(Uuid::nil()),
            revision: Revision(1),
            occasion: Occasion::Planned {
                at: at(*second),
                rerun: 0,
            },
            period: None,
            parameters: serde_json::Map::new(),
            digest: String::new(),
        };
        new_run(&document, request, at(*second)).unwrap()
    };
    Advance {
        job: JobUid(Uuid::nil()),
        revision: Revision(1),
        from: at(from),
        to: at(to),
        next_due: None,
        zones: None,
        pending: None,
        counted: None,
        runs: ran.iter().map(run).collect(),
        lengthens: None,
        decisions,
    }
}

#[test]
fn neighbours_that_say_the_same_are_one_record_unless_something_ran_between() {
    let each = |seconds: &[i64], by: &str| -> Vec<Decision> {
        seconds
            .iter()
            .map(|s| skip(*s, *s, "overlap", by))
            .collect()
    };
    let blocked = each(&[4, 2, 3, 6, 7], "9");
    assert_eq!(
        told(&join(blocked.clone(), &[])),
        [(2, 7, 5, "overlap", "9")]
    );
    let ran = [at(1), at(5), at(8)];
    let apart = [(2, 4, 3, "overlap", "9"), (6, 7, 2, "overlap", "9")];
    assert_eq!(told(&join(blocked.clone(), &ran)), apart);
    // Another blocker or another reason is another record; a clock change stands for itself.
    let mut mixed = each(&[2], "9");
    mixed.extend(each(&[3], "10"));
    mixed.extend([skip(4, 6, "deadline", ""), skip(7, 8, "deadline", "")]);
    mixed.push(skip(5, 5, "gap", ""));
    let kept = [
        (2, 2, 1, "overlap", "9"),
        (3, 3, 1, "overlap", "10"),
        (4, 8, 5, "deadline", ""),
        (5, 5, 1, "gap", ""),
    ];
    assert_eq!(told(&join(mixed, &[])), kept);
}

#[test]
fn a_step_lengthens_the_record_that_the_step_before_it_ended_with() {
    let first = step(0, 10, &[1], vec![skip(5, 9, "overlap", "9")]);
    let tail = Tail::after(&first, None).unwrap();
    let more = || vec![skip(11, 12, "overlap", "9")];

    let mut next = step(10, 20, &[15], more());
    tail.lengthen(&mut next);
    let longer = next.lengthens.as_slice();
    assert_eq!(told(longer), [(5, 12, 2, "overlap", "9")]);
    assert_eq!(next.decisions, []);
    assert_eq!(
        Tail::after(&next, Some(tail.clone())),
        None,
        "a run came last"
    );

    // Without it, the one after goes on with the same record; so it does over a step that decides nothing.
    next.runs.clear();
    let again = Tail::after(&next, Some(tail.clone())).unwrap();
    let idle = step(20, 30, &[], vec![skip(25, 25, "gap", "")]);
    let again = Tail::after(&idle, Some(again)).unwrap();
    let mut late = step(30, 40, &[], vec![skip(31, 31, "overlap", "9")]);
    again.lengthen(&mut late);
    assert_eq!(
        told(late.lengthens.as_slice()),
        [(5, 31, 1, "overlap", "9")]
    );

    let others = [
        ("another mark", step(11, 20, &[], more())),
        (
            "a run comes first",
            step(10, 20, &[11], vec![skip(12, 12, "overlap", "9")]),
        ),
        (
            "another blocker",
            step(10, 20, &[], vec![skip(11, 12, "overlap", "10")]),
        ),
        (
            "another reason",
            step(10, 20, &[], vec![skip(11, 12, "deadline", "9")]),
        ),
        (
            "nothing of the kind",
            step(10, 20, &[], vec![skip(11, 11, "gap", "")]),
        ),
    ];
    for (what, other) in others {
        let mut offered = other.clone();
        tail.lengthen(&mut offered);
        assert_eq!(offered, other, "{what}");
    }
}

#[test]
fn what_was_decided_by_others_meanwhile_is_no_tail() {
    let first = step(0, 10, &[], vec![skip(5, 9, "overlap", "9")]);
    let tail = Tail::after(&first, None);
    assert!(tail.is_some());
    assert_eq!(Tail::after(&step(12, 20, &[], vec![]), tail.clone()), None);
    assert_eq!(Tail::after(&step(10, 20, &[11], vec![]), tail), None);
}
