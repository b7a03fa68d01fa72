//! What becomes of an instant, and that a backfill takes each once, whatever happens between its steps.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::check::Checks;
use super::past::Past;
use super::*;
use crate::document::{Calendars, Document, Timing};

fn at(s: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + s).expect("of this era")
}

fn wanted(order: Order) -> Wanted {
    Wanted {
        from: at(0),
        to: at(100),
        mode: Mode::OnlyMissing,
        order,
        parallelism: 3,
        rate: None,
        verify: None,
        reason: String::new(),
    }
}

fn backfill(wanted: Wanted) -> Backfill {
    Backfill {
        id: BackfillId(1),
        job: JobUid(uuid::Uuid::nil()),
        key: "k".to_owned(),
        actor: String::new(),
        place: Place::at(wanted.from),
        wanted,
        ver: 1,
        state: State::Running,
        next_at: None,
        counts: Counts::default(),
        runs: Outcomes::default(),
        checks: Checks::default(),
        next_check_at: None,
        created_at: at(0),
        ended_at: None,
        cause: String::new(),
    }
}

#[test]
fn each_mode_has_its_verdict_on_each_instant() {
    use RunState::{Cancelled, Failed, Partial, Running, Scheduled, Succeeded};
    let run = |state| {
        Some(LastRun {
            id: RunId(7),
            rerun: 2,
            state,
            round: 4,
        })
    };
    let reopen = Action::Reopen(RunId(7), 4);
    let leave = Action::Leave;
    type Row = (Option<LastRun>, Option<Record>, [Action; 3]);
    #[rustfmt::skip]
    let table: [Row; 10] = [
        // only missing, only failed, all
        (None, None, [Action::Create, leave(Why::NotFailed), Action::Create]),
        (None, Some(Record::Skipped), [Action::Create, leave(Why::NotFailed), Action::Create]),
        (None, Some(Record::Covered), [leave(Why::Covered), leave(Why::NotFailed), leave(Why::Covered)]),
        (None, Some(Record::Removed), [leave(Why::Removed); 3]),
        (run(Succeeded), Some(Record::Removed), [leave(Why::Removed); 3]),
        (run(Scheduled), None, [leave(Why::HasRun), leave(Why::Open), leave(Why::Open)]),
        (run(Running), Some(Record::Skipped), [leave(Why::HasRun), leave(Why::Open), leave(Why::Open)]),
        (run(Succeeded), None, [leave(Why::HasRun), leave(Why::NotFailed), Action::Rerun(3)]),
        (run(Cancelled), None, [leave(Why::HasRun), leave(Why::NotFailed), Action::Rerun(3)]),
        (run(Failed), Some(Record::Skipped), [leave(Why::HasRun), reopen, Action::Rerun(3)]),
    ];
    for (run, record, expect) in table {
        let facts = Facts {
            at: at(0),
            run,
            record,
        };
        let modes = [Mode::OnlyMissing, Mode::OnlyFailed, Mode::All];
        assert_eq!(modes.map(|mode| judge(mode, &facts)), expect, "{facts:?}");
    }
    let partial = Facts {
        at: at(0),
        run: run(Partial),
        record: None,
    };
    assert_eq!(judge(Mode::OnlyFailed, &partial), reopen);
}

#[test]
fn what_is_wrong_is_said_by_field() {
    assert_eq!(problems(&wanted(Order::Oldest)), []);
    let wrong = Wanted {
        to: at(0),
        parallelism: 0,
        rate: Some(MAX_RATE + 1),
        reason: "x".repeat(MAX_BACKFILL_REASON + 1),
        ..wanted(Order::Oldest)
    };
    let fields: Vec<_> = problems(&wrong)
        .into_iter()
        .map(|(field, _)| field)
        .collect();
    assert_eq!(fields, ["to", "parallelism", "rate", "reason"]);
}

#[test]
fn a_turn_is_taken_once_and_never_of_what_is_over() {
    for turn in [Turn::Pause, Turn::Resume, Turn::Cancel] {
        assert_eq!(
            turned(State::Finished, turn),
            Err(TurnVerdict::Over(State::Finished))
        );
    }
    assert_eq!(turned(State::Running, Turn::Pause), Ok(State::Paused));
    assert_eq!(
        turned(State::Paused, Turn::Pause),
        Err(TurnVerdict::Already)
    );
    assert_eq!(turned(State::Paused, Turn::Cancel), Ok(State::Cancelled));
    assert_eq!(
        turned(State::Cancelled, Turn::Cancel),
        Err(TurnVerdict::Already)
    );
}

/// One instant a second; the mark moves by `marks`, looks are `sizes` long, room and crashes vary:
/// every instant is taken exactly once.
fn walk(order: Order, marks: &[u8], sizes: &[u8], rooms: &[u8]) -> Vec<Timestamp> {
    let mut b = backfill(wanted(order));
    let (mut mark, mut taken, mut done) = (at(-1), Vec::new(), false);
    for n in 0..4_000 {
        let pick = |of: &[u8]| i64::from(of[n % of.len()]);
        mark = (mark + SignedDuration::from_secs(pick(marks))).min(at(200));
        let looked = look(&b.wanted, b.place, mark);
        let (from, below, down) = match looked {
            Look::Up { from, below } => (from, below, false),
            Look::Down { from, below } => (from, below, true),
            Look::Wait => continue,
            Look::Done => {
                done = true;
                break;
            }
        };
        assert!(from >= at(0) && below <= at(100), "within the range");
        assert!(
            below <= mark + SignedDuration::from_micros(1),
            "only what is decided"
        );
        let mut all: Vec<_> = (0..100)
            .map(at)
            .filter(|at| (from..below).contains(at))
            .collect();
        if down {
            all.reverse();
        }
        let shown = all.len().min(pick(sizes) as usize);
        let facts: Vec<_> = all[..shown]
            .iter()
            .map(|at| Facts {
                at: *at,
                run: None,
                record: None,
            })
            .collect();
        b.runs.open = 3 - (pick(rooms) as u32).min(3);
        let step = step(&b, looked, &facts, shown == all.len(), at(0));
        assert!(
            step.starts.len() <= (3 - b.runs.open) as usize,
            "no more than there is room"
        );
        // A crash before the commit: nothing of the step is kept.
        if n % 7 == 3 {
            continue;
        }
        taken.extend(step.starts.iter().map(|(at, _)| *at));
        b.place = step.place;
    }
    assert!(done, "it comes to its end: {:?}", b.place);
    taken
}

proptest! {
    #[test]
    fn every_instant_is_taken_once_whatever_the_mark_the_room_and_the_crashes(
        newest in any::<bool>(),
        marks in prop::collection::vec(0u8..20, 1..6).prop_filter("it moves", |v| v.iter().any(|n| *n > 0)),
        sizes in prop::collection::vec(1u8..30, 1..6),
        rooms in prop::collection::vec(0u8..5, 1..6).prop_filter("there is room", |v| v.iter().any(|n| *n > 0)),
    ) {
        let order = if newest { Order::Newest } else { Order::Oldest };
        let mut taken = walk(order, &marks, &sizes, &rooms);
        if !newest {
            prop_assert!(taken.is_sorted(), "oldest first");
        }
        taken.sort();
        prop_assert_eq!(taken, (0..100).map(at).collect::<Vec<_>>());
    }

    #[test]
    fn a_rate_is_kept_in_every_minute(rate in 1u32..3_000, gaps in prop::collection::vec(0i64..5_000, 1..60)) {
        let (mut now, mut next_at, mut starts) = (at(0), None, Vec::new());
        for gap in gaps {
            now += SignedDuration::from_millis(gap);
            for _ in 0..100 {
                match allowed(Some(rate), next_at, now) {
                    Ok(next) => {
                        next_at = next;
                        starts.push(now);
                    }
                    Err(may_at) => {
                        prop_assert!(may_at > now);
                        break;
                    }
                }
            }
        }
        let most = (rate + rate.div_ceil(60) + 1) as usize;
        for (first, beyond) in starts.iter().zip(starts.iter().skip(most)) {
            prop_assert!(beyond.duration_since(*first) >= SignedDuration::from_mins(1));
        }
    }
}

fn timing(schedules: serde_json::Value) -> Arc<Timing> {
    let document = serde_json::json!({
        "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": "j" },
        "spec": { "run": { "handler": "h" }, "schedules": schedules },
    });
    let document: Document = serde_json::from_value(document).expect("a document");
    let (timing, problems) =
        document.sound_timing(JobUid(uuid::Uuid::nil()), &Calendars::default());
    assert_eq!(problems.len(), 0);
    Arc::new(timing)
}

/// Each revision names the instants of its own stretch, up and down alike.
#[test]
fn the_past_has_the_instants_of_each_revision_in_its_stretch() {
    let minutes = timing(serde_json::json!([{ "cron": "* * * * *" }]));
    let tens = timing(serde_json::json!([{ "cron": "*/10 * * * *" }]));
    let none = timing(serde_json::json!([]));
    // Nothing was there before minute 30; every minute to 45; nothing to 60; every ten from there.
    let m = |n: i64| at(60 * n);
    let past = Past::new(
        tens.clone(),
        vec![(m(30), minutes), (m(45), none), (m(60), tens)],
    );
    let expect: Vec<_> = [0, 10, 20, 30]
        .into_iter()
        .chain(31..=45)
        .chain([70, 80])
        .map(m)
        .collect();
    let (mut up, mut from) = (Vec::new(), m(0));
    while let Some(at) = past.first(from, m(90)) {
        up.push(at);
        from = at + SignedDuration::from_secs(1);
    }
    let (mut down, mut below) = (Vec::new(), m(90));
    while let Some(at) = past.last(m(0), below) {
        down.push(at);
        below = at;
    }
    down.reverse();
    assert_eq!(up, expect);
    assert_eq!(down, expect);
    assert_eq!(past.count(m(0), m(90)), expect.len() as u64);
    assert_eq!(past.count(m(31), m(45)), 14);
    assert_eq!(past.first(m(46), m(70)), None);
    assert_eq!(past.last(m(46), m(70)), None);
}
