//! Claims about how a run begins.

use jiff::SignedDuration;

use super::*;
use crate::ids::{JobUid, Occasion, Revision};
use crate::model::RunTerms;
use crate::name::Name;
use crate::timeouts::Timeouts;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn index(n: usize) -> Vec<Descriptor> {
    vec![Descriptor::Index; n]
}

fn new(shards: Vec<Descriptor>) -> NewRun {
    NewRun {
        job: JobUid(uuid::Uuid::nil()),
        occasion: Occasion::Manual {
            key: "k".to_owned(),
        },
        revision: Revision(1),
        period: None,
        nominal: None,
        terms: RunTerms {
            pool: Name::new("default").expect("a name"),
            handler: "h".to_owned(),
            priority: 0,
            parallelism: 1,
            parameters: "{}".to_owned(),
            counts_must_match: false,
            deadline: None,
            start_by: None,
            uses: crate::capacity::Uses::default(),
        },
        shards: shards.into(),
        ready_at: NOW,
        backfill: None,
        waits: None,
        counted: None,
        digest: "d".to_owned(),
        born_leased: Some(SessionId(7)),
        timeouts: Timeouts::default(),
    }
}

fn waits(what: WaitsFor) -> Option<Waits> {
    Some(Waits { what, most: 1 })
}

#[test]
fn the_state_follows_from_the_shards_and_the_grant() {
    use RunState::*;
    let plan = || {
        vec![Descriptor::Plan {
            data_source: "main".to_owned(),
            sql: "select".to_owned(),
        }]
    };
    let check = |shards: Vec<Descriptor>, granted, expect: (RunState, u32, u32, i32)| {
        let birth = new(shards).birth(granted, NOW);
        let seen = (birth.state, birth.total, birth.open, birth.first);
        assert_eq!(seen, expect);
        assert_eq!(birth.started_at.is_some(), birth.state == Running);
        assert_eq!(birth.ended_at.is_some(), birth.state == Succeeded);
    };
    check(index(3), false, (Scheduled, 3, 3, 0));
    check(index(1), true, (Running, 1, 1, 0));
    check(plan(), false, (Scheduled, 0, 1, ShardNo::PLAN.0));
    check(Vec::new(), false, (Succeeded, 0, 0, 0));
}

#[test]
fn who_waits_is_parked_and_who_has_no_input_waits_for_nobody() {
    let waiting = NewRun {
        waits: waits(WaitsFor::Replaced),
        ..new(index(2))
    };
    let birth = waiting.birth(false, NOW);
    assert_eq!((birth.ready_at, birth.replaces()), (parked(), true));
    let empty = NewRun {
        shards: [].into(),
        ..waiting
    };
    let birth = empty.birth(false, NOW);
    assert_eq!((birth.waits, birth.replaces()), (None, false));
    assert_eq!(birth.ready_at, NOW);
}

#[test]
fn only_a_single_shard_that_is_ready_and_waits_for_nobody_is_given_away_at_once() {
    let heir = |run: NewRun| run.heir(NOW).is_some();
    assert!(heir(new(index(1))));
    assert!(!heir(new(index(2))));
    assert!(!heir(NewRun {
        waits: waits(WaitsFor::Queue),
        ..new(index(1))
    }));
    assert!(!heir(NewRun {
        ready_at: NOW + SignedDuration::from_secs(1),
        ..new(index(1))
    }));
}

#[test]
fn who_is_too_late_to_start_is_not_given_away_at_once() {
    let heir = |start_by: i64, deadline: i64| {
        let mut run = new(index(1));
        run.terms.start_by = Some(NOW + SignedDuration::from_secs(start_by));
        run.terms.deadline = Some(NOW + SignedDuration::from_secs(deadline));
        run.heir(NOW).is_some()
    };
    assert!(heir(0, 0), "the very limit is in time");
    assert!(!heir(-1, 9));
    assert!(!heir(9, -1));
}

#[test]
fn the_same_occasion_with_another_request_is_told_apart() {
    let run = new(index(1));
    assert_eq!(run.taken(RunId(1), "d"), CreateVerdict::Exists(RunId(1)));
    assert_eq!(
        run.taken(RunId(1), "e"),
        CreateVerdict::OtherRequest(RunId(1))
    );
}
