//! Alerts and their notices: written together, under the duty's term, once.

use std::collections::BTreeMap;

use futures::executor::block_on;
use sichen_core::alert::notice::{Notice, Tried};
use sichen_core::alert::{Alert, Member, Phase, Rule};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::{RunState, StopCause};
use sichen_core::model::DutyKey;
use sichen_core::port::{Error, Fence, Page, RunFilter, SaveAlerts};
use uuid::Uuid;

use crate::bench::{Bench, at, wait};

fn alert(group: &str, phase: Phase) -> Alert {
    let member = Member {
        since: at(3),
        cause: "exit-1: \"ä\\\0\"".replace('\0', "\u{1}"),
        active: true,
    };
    Alert {
        rule: Rule::Failures,
        group: group.to_owned(),
        phase,
        since: at(1),
        turned_at: at(2),
        joined_at: at(3),
        told_at: (phase == Phase::Open).then(|| at(4)),
        flaps: 5,
        widened: 6,
        more: true,
        members: BTreeMap::from([("nightly".to_owned(), member)]),
    }
}

fn notice(n: u128, receiver: &str, due: i64) -> Notice {
    Notice {
        id: Uuid::from_u128(n),
        receiver: receiver.to_owned(),
        body: format!("{{\"n\":{n}}}"),
        created_at: at(0),
        due_at: at(due),
        tries: 0,
    }
}

fn save(b: &Bench, fence: &Fence, save: SaveAlerts) -> Result<(), Error> {
    block_on(b.store.save_alerts(b.op(), fence.clone(), save))
}

fn ids(b: &Bench, by: i64, limit: u32) -> Vec<u128> {
    let due = wait(b.store.list_notices(at(by), limit));
    due.iter().map(|notice| notice.id.as_u128()).collect()
}

pub fn alerts_and_notices_are_kept_as_they_were_written(b: &Bench) {
    let fence = b.fence(DutyKey::Alerts);
    let (one, two) = (alert("one", Phase::Open), alert("two", Phase::Pending));
    let first = SaveAlerts {
        keep: vec![two.clone(), one.clone()],
        forget: vec![],
        notices: vec![notice(1, "ops", 9), notice(2, "dev", 5)],
    };
    save(b, &fence, first.clone()).unwrap();
    assert_eq!(wait(b.store.list_alerts()), [one.clone(), two.clone()]);
    // Said again, with one that has gone on.
    save(b, &fence, first).unwrap();
    assert_eq!(ids(b, 9, 9), [2, 1]);
    assert_eq!(ids(b, 9, 1), [2, 1], "one of each receiver");
    assert_eq!(ids(b, 4, 9), [0; 0]);
    let kept = wait(b.store.list_notices(at(9), 9));
    assert_eq!(kept[1], notice(1, "ops", 9));
    let counted = wait(b.store.count_notices());
    assert_eq!(counted, [("dev".to_owned(), 1), ("ops".to_owned(), 1)]);
    let over = Alert {
        phase: Phase::Over,
        ..one.clone()
    };
    let next = SaveAlerts {
        keep: vec![over.clone()],
        forget: vec![two.key(), alert("three", Phase::Over).key()],
        notices: vec![],
    };
    save(b, &fence, next).unwrap();
    assert_eq!(wait(b.store.list_alerts()), [over]);
}

/// What waits for one receiver hides nothing of another.
pub fn each_receiver_has_its_own_notices(b: &Bench) {
    let fence = b.fence(DutyKey::Alerts);
    let notices = [
        (1, "dead", 0),
        (2, "dead", 1),
        (3, "dead", 1),
        (4, "ops", 8),
        (5, "ops", 7),
        (6, "dev", 9),
        (7, "dev", 10),
    ];
    let first = SaveAlerts {
        notices: notices.map(|(n, to, due)| notice(n, to, due)).into(),
        ..SaveAlerts::default()
    };
    save(b, &fence, first).unwrap();
    assert_eq!(ids(b, 9, 1), [1, 5, 6]);
    assert_eq!(ids(b, 9, 2), [1, 2, 5, 4, 6]);
    assert_eq!(ids(b, 1, 9), [1, 2, 3]);
}

pub fn a_notice_ends_or_is_put_off(b: &Bench) {
    let fence = b.fence(DutyKey::Alerts);
    let due = SaveAlerts {
        notices: vec![notice(1, "ops", 0), notice(2, "ops", 1)],
        ..SaveAlerts::default()
    };
    save(b, &fence, due).unwrap();
    let tried = vec![
        (Uuid::from_u128(1), Tried::Ended),
        (Uuid::from_u128(2), Tried::Again(at(60))),
        (Uuid::from_u128(3), Tried::Again(at(60))),
    ];
    wait(b.store.end_notices(b.op(), fence.clone(), tried));
    assert_eq!(ids(b, 59, 9), [0; 0]);
    let left = wait(b.store.list_notices(at(60), 9));
    let put_off = Notice {
        tries: 1,
        due_at: at(60),
        ..notice(2, "ops", 1)
    };
    assert_eq!(left, [put_off]);
    let ended = vec![(Uuid::from_u128(2), Tried::Ended)];
    wait(b.store.end_notices(b.op(), fence.clone(), ended.clone()));
    wait(b.store.end_notices(b.op(), fence, ended));
    assert_eq!(wait(b.store.count_notices()), []);
}

pub fn alerts_are_written_under_the_duty_s_present_term_alone(b: &Bench) {
    let old = b.fence(DutyKey::Alerts);
    let janitor = b.fence(DutyKey::Janitor);
    let new = b.take_over(&old);
    let all = || SaveAlerts {
        keep: vec![alert("one", Phase::Open)],
        forget: vec![],
        notices: vec![notice(1, "ops", 0)],
    };
    for fence in [&old, &janitor] {
        let refused = save(b, fence, all());
        assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    }
    assert_eq!(wait(b.store.list_alerts()), []);
    assert_eq!(wait(b.store.count_notices()), []);
    save(b, &new, all()).unwrap();
    let ended = vec![(Uuid::from_u128(1), Tried::Ended)];
    let refused = block_on(b.store.end_notices(b.op(), old, ended));
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    assert_eq!(ids(b, 0, 9), [1]);
}

pub fn runs_without_success_are_listed_by_their_end(b: &Bench) {
    let list = |since, limit| {
        let runs = wait(b.store.list_unsuccessful_runs(since, limit));
        runs.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    let late = || {
        let job = b.job("late");
        let mut new = b.new_run(job, "key", vec![Descriptor::Index]);
        new.terms.start_by = Some(b.now());
        b.create(new)
    };
    let (failed, given_up, open) = (b.run_of(1), b.run_of(1), b.run_of(1));
    let not_started = late();
    b.pass(10);
    let begun = b.now();
    // The one that was written last ends first.
    b.stop(not_started, StopCause::Deadline);
    assert_eq!(b.run(not_started).state, RunState::Cancelled);
    b.pass(10);
    let later = b.now();
    b.stop(failed, StopCause::Deadline);
    assert_eq!(b.run(failed).state, RunState::Failed);
    // What somebody wanted to end is no failure.
    b.stop(given_up, StopCause::Cancel);
    assert_eq!(b.run(given_up).state, RunState::Cancelled);
    assert_eq!(b.run(open).state, RunState::Scheduled);
    // Runs of backfills are told of by their backfill.
    let job = b.job("filled");
    super::backfills::one_run_of(b, job);
    let filter = RunFilter {
        job: Some(job),
        ..RunFilter::default()
    };
    let (after, limit) = (None, 9);
    let filled = wait(b.store.list_runs(filter, Page { after, limit }))[0].id;
    b.stop(filled, StopCause::Deadline);
    assert_eq!(b.run(filled).state, RunState::Failed);
    assert_eq!(list(begun, 9), [failed, not_started]);
    assert_eq!(list(begun, 1), [failed]);
    assert_eq!(list(later, 9), [failed]);
}
