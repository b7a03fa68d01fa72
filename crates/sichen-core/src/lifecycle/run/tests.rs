//! Claims about how shard outcomes fold into the run's.

use super::*;

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
