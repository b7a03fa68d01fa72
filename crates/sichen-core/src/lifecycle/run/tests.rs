//! Claims about how shard outcomes fold into the run's.

use jiff::SignedDuration;

use super::*;
use crate::ids::{JobUid, Occasion, Revision, RunId};
use crate::lifecycle::WaitsFor;
use crate::model::{RunTerms, Waits};
use crate::name::{JobName, Name};

fn check(counts: (u32, u32, u32, u32), stop: Option<StopCause>, expect: Option<RunState>) {
    let (open, succeeded, failed, cancelled) = counts;
    let total = open + succeeded + failed + cancelled;
    let c = Counters {
        total,
        open,
        succeeded,
        failed,
        cancelled,
    };
    assert_eq!(settle(&c, stop, true), expect, "{c:?} {stop:?}");
}

#[test]
fn the_outcome_follows_the_settle_order() {
    use RunState::*;
    check((1, 9, 0, 0), None, None);
    check((0, 9, 0, 0), None, Some(Succeeded));
    check((0, 0, 0, 0), None, Some(Succeeded));
    check((0, 0, 9, 0), None, Some(Failed));
    check((0, 8, 1, 0), None, Some(Partial));
    check((0, 8, 0, 1), Some(StopCause::Cancel), Some(Cancelled));
    check((0, 9, 0, 0), Some(StopCause::Cancel), Some(Succeeded));
    check((0, 8, 1, 0), Some(StopCause::Cancel), Some(Partial));
    check((0, 8, 0, 1), Some(StopCause::Deadline), Some(Failed));
    check((0, 8, 1, 1), Some(StopCause::Fatal), Some(Failed));
    check((3, 5, 0, 0), Some(StopCause::Cancel), None);
}

#[test]
fn a_count_that_had_to_match_fails_the_run() {
    let c = Counters {
        total: 2,
        succeeded: 2,
        ..Counters::default()
    };
    assert_eq!(settle(&c, None, false), Some(RunState::Failed));
}

fn second(n: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(n)
}

/// A run that waits to be the only one, planned for second 0.
pub(crate) fn waiting() -> Run {
    Run {
        id: RunId(1),
        job: JobUid(uuid::Uuid::nil()),
        job_name: JobName::new("default", "j").expect("a name"),
        occasion: Occasion::Planned {
            at: second(0),
            rerun: 0,
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
        backfill: None,
        waits: Some(Waits {
            what: WaitsFor::Queue,
            most: 1,
        }),
        ready_at: Some(second(0)),
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
        created_at: second(0),
        started_at: None,
        ended_at: None,
    }
}

/// MISS-016: the window is judged again when a run leaves the queue; exactly at its end is in time.
#[test]
fn a_turn_comes_when_there_is_room_and_time() {
    let mut run = waiting();
    assert_eq!(turn(&run, 0, second(5)), Turn::Start(second(5)));
    assert_eq!(turn(&run, 1, second(5)), Turn::Wait);
    run.terms.start_by = Some(second(5));
    assert_eq!(turn(&run, 0, second(5)), Turn::Start(second(5)));
    assert_eq!(turn(&run, 0, second(6)), Turn::TooLate);
    assert_eq!(
        turn(&run, 1, second(6)),
        Turn::TooLate,
        "it is not kept either"
    );
}

#[test]
fn a_turn_waits_for_old_task_trees_and_for_its_own_time() {
    let mut run = waiting();
    run.dead_by = Some(second(7));
    assert_eq!(turn(&run, 0, second(5)), Turn::Start(second(7)));
    assert_eq!(turn(&run, 0, second(8)), Turn::Start(second(8)));
    run.ready_at = Some(second(9));
    assert_eq!(turn(&run, 0, second(5)), Turn::Start(second(9)));
    // A tree that may live until after the window leaves no time to start in.
    run.terms.start_by = Some(second(8));
    assert_eq!(turn(&run, 0, second(5)), Turn::TooLate);
}

#[test]
fn what_ends_or_starts_at_the_very_deadline_is_in_time() {
    let mut run = waiting();
    run.terms.start_by = Some(second(5));
    assert_eq!(late(&run, second(5)), None);
    let too_late = Some((StopCause::Cancel, STARTING_DEADLINE));
    assert_eq!(late(&run, second(6)), too_late);
    run.terms.deadline = Some(second(5));
    assert_eq!(late(&run, second(5)), None);
    assert_eq!(late(&run, second(6)), Some((StopCause::Deadline, "")));
    (run.state, run.terms.deadline) = (RunState::Running, None);
    assert_eq!(late(&run, second(6)), None, "it has started");
}
