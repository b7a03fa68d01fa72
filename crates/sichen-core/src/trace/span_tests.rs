//! Claims about how many spans and marks are made of a run.

use super::*;
use crate::ids::{JobUid, Revision};
use crate::ids::{OpId, RunId};
use crate::lifecycle::run::Counters;
use crate::model::RunTerms;
use crate::name::{JobName, Name};

fn waiting() -> Run {
    Run {
        id: RunId(1),
        job: JobUid(uuid::Uuid::from_u128(1)),
        job_name: JobName::new("default", "j").unwrap(),
        occasion: Occasion::Planned {
            at: Timestamp::UNIX_EPOCH,
            rerun: 0,
        },
        revision: Revision(1),
        period: None,
        nominal: None,
        terms: RunTerms {
            pool: Name::new("default").unwrap(),
            handler: "h".to_owned(),
            priority: 0,
            parallelism: 1,
            parameters: "{}".to_owned(),
            counts_must_match: false,
            deadline: None,
            start_by: None,
            uses: crate::capacity::Uses::default(),
        },
        backfill: None,
        waits: None,
        ready_at: None,
        dead_by: None,
        failures: 0,
        state: RunState::Scheduled,
        round: 1,
        ver: 1,
        counters: Counters::default(),
        stop: None,
        stop_detail: String::new(),
        reason: String::new(),
        digest: String::new(),
        created_at: Timestamp::UNIX_EPOCH,
        started_at: None,
        ended_at: None,
    }
}

fn event(entity: Entity, kind: Kind, second: i64, attempt: u32, cause: &str) -> Event {
    Event {
        seq: 1,
        entity,
        ver: 1,
        at: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second),
        op: OpId(uuid::Uuid::nil()),
        actor: "node 1".to_owned(),
        duty: None,
        kind,
        from: String::new(),
        to: String::new(),
        attempt: Some(attempt),
        token: Some(Token(attempt.into())),
        cause: cause.to_owned(),
        data: r#"{"seq":7,"done":3,"worker":"w","session":5}"#.to_owned(),
    }
}

fn ended(round: u32) -> Run {
    Run {
        round,
        state: RunState::Succeeded,
        ended_at: Some(Timestamp::UNIX_EPOCH + SignedDuration::from_secs(9)),
        ..waiting()
    }
}

#[test]
fn a_long_history_makes_no_more_spans_and_marks_than_there_may_be() {
    let mut telling = Telling::new(ended(1));
    let shard = |no| Entity::Shard(ShardKey::new(RunId(1), no));
    let many = i32::try_from(MAX_SPANS).unwrap() + 5;
    for no in 0..many {
        telling.hear(&event(shard(no), Kind::AttemptGranted, 1, 1, ""));
    }
    for _ in 0..MAX_MARKS + 3 {
        telling.hear(&event(shard(0), Kind::CheckpointSaved, 2, 1, ""));
    }
    // What is left out has neither marks nor an end.
    telling.hear(&event(shard(many - 1), Kind::CheckpointSaved, 2, 1, ""));
    for no in 0..many {
        telling.hear(&event(shard(no), Kind::AttemptEnded, 3, 1, "succeeded"));
    }
    assert_eq!(telling.left_out(), 6);
    let spans = telling.spans(true);
    assert_eq!(spans.len(), MAX_SPANS);
    assert_eq!((spans[1].marks.len(), spans[1].unmarked), (MAX_MARKS, 3));
    assert!(
        spans[0]
            .says
            .contains(&("sichen.attempts_left_out", Value::Number(6)))
    );
    assert!(
        spans[0]
            .says
            .contains(&("sichen.is_whole", Value::Flag(false)))
    );
}

#[test]
fn what_is_newer_than_the_row_is_left_to_the_next_end() {
    let mut telling = Telling::new(ended(1));
    let (run, shard) = (
        Entity::Run(RunId(1)),
        Entity::Shard(ShardKey::new(RunId(1), 0)),
    );
    telling.hear(&event(shard.clone(), Kind::AttemptGranted, 1, 1, ""));
    telling.hear(&event(shard.clone(), Kind::AttemptEnded, 2, 1, "failed"));
    telling.hear(&event(run.clone(), Kind::RunSettled, 2, 0, ""));
    telling.hear(&event(run, Kind::RunReopened, 3, 0, ""));
    telling.hear(&event(shard.clone(), Kind::AttemptGranted, 4, 2, ""));
    telling.hear(&event(shard, Kind::AttemptEnded, 5, 2, "succeeded"));
    let spans = telling.spans(true);
    assert_eq!(spans.len(), 2);
    assert_eq!(spans[0].parent, None);
    assert_eq!(spans[1].to.as_second(), 2);
}

#[test]
fn a_plan_that_was_long_ago_does_not_lengthen_a_backfill() {
    let begin = |run: Run| Telling::new(run).spans(true)[0].from;
    let planned = Run {
        created_at: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(5),
        ..ended(1)
    };
    assert_eq!(
        begin(planned.clone()),
        Timestamp::UNIX_EPOCH,
        "its delay is a part of it"
    );
    let filled = Run {
        backfill: Some(crate::ids::BackfillId(1)),
        ..planned.clone()
    };
    assert_eq!(begin(filled), planned.created_at);
    let again = Run {
        occasion: Occasion::Planned {
            at: Timestamp::UNIX_EPOCH,
            rerun: 1,
        },
        ..planned.clone()
    };
    assert_eq!(begin(again), planned.created_at);
    // Written ahead of its time.
    let ahead = Run {
        created_at: Timestamp::UNIX_EPOCH - SignedDuration::from_secs(5),
        ..planned
    };
    assert_eq!(
        begin(ahead),
        Timestamp::UNIX_EPOCH - SignedDuration::from_secs(5)
    );
}
