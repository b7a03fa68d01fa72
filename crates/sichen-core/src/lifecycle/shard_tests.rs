//! Claims about a shard's moves.

use super::*;
use crate::ids::RunId;

fn running(used: u32) -> Facts {
    Facts {
        key: ShardKey::new(RunId(1), 0),
        state: ShardState::Running,
        token: Token(5),
        used,
        stop: None,
        deadline: None,
    }
}

fn check(shard: Facts, ending: Ending, to: ShardState) -> Transition {
    let policy = retry::Policy::default();
    let now = Timestamp::UNIX_EPOCH;
    let t = on_end(&shard, Token(5), ending, "", &policy, now).expect("the holder is current");
    assert_eq!(t.to, to, "{ending:?} of {shard:?}");
    assert!(
        crate::lifecycle::is_legal("shard", "running", "attempt_ended", to.word()),
        "{to} is not in the move table"
    );
    assert_eq!(t.ready_at.is_some(), to.is_grantable());
    t
}

#[test]
fn the_holder_ends_its_attempt() {
    check(running(1), Ending::Succeeded, ShardState::Succeeded);
    check(running(1), Ending::Failed, ShardState::Retry);
    check(running(2), Ending::Lost, ShardState::Retry);
    check(running(2), Ending::TimedOut, ShardState::Retry);
    check(running(1), Ending::FailedForGood, ShardState::Failed);
    assert!(
        check(running(1), Ending::FailedRun, ShardState::Failed)
            .stops_run
            .is_some()
    );
}

/// A lost attempt counts like any other (house rule A10).
#[test]
fn an_exhausted_budget_fails_the_shard() {
    for ending in [Ending::Failed, Ending::Lost, Ending::TimedOut] {
        check(running(3), ending, ShardState::Failed);
    }
}

#[test]
fn a_released_attempt_costs_nothing() {
    let t = check(running(3), Ending::Released, ShardState::Scheduled);
    assert!(t.refund);
}

/// RETRY-012: stopped by hand stays stopped.
#[test]
fn nothing_is_retried_after_a_stop_request() {
    for cause in StopCause::ALL {
        let shard = Facts {
            stop: Some(*cause),
            ..running(1)
        };
        for ending in [
            Ending::Failed,
            Ending::Lost,
            Ending::TimedOut,
            Ending::Cancelled,
            Ending::Released,
        ] {
            check(shard, ending, ShardState::Cancelled);
        }
        check(shard, Ending::Succeeded, ShardState::Succeeded);
    }
}

#[test]
fn stale_token_is_refused() {
    let policy = retry::Policy::default();
    let now = Timestamp::UNIX_EPOCH;
    let end = |shard: Facts, token| on_end(&shard, token, Ending::Succeeded, "", &policy, now);
    assert_eq!(
        end(running(1), Token(4)),
        Err(Refused::Stale {
            given: Token(4),
            current: Token(5)
        })
    );
    assert_eq!(
        end(running(1), Token(6)),
        Err(Refused::Unknown {
            given: Token(6),
            current: Token(5)
        })
    );
    for state in ShardState::ALL
        .iter()
        .filter(|s| **s != ShardState::Running)
    {
        let shard = Facts {
            state: *state,
            ..running(1)
        };
        assert_eq!(
            end(shard, Token(5)),
            Err(Refused::NotRunning {
                given: Token(5),
                state: *state
            }),
            "a shard that is {state} takes no report"
        );
    }
}

#[test]
fn a_token_jumps_above_a_lost_tail_after_a_restore() {
    assert_eq!(Token(0).next(0), Token(1));
    assert_eq!(Token(7).next(0), Token(8));
    assert_eq!(Token(7).next(1), Token((1 << 32) + 1));
    assert_eq!(Token((1 << 32) + 1).next(1), Token((1 << 32) + 2));
}

fn rule(errors: &[&str], ends: &[AttemptEnd], action: Action) -> retry::Rule {
    retry::Rule {
        exits: Vec::new(),
        errors: errors.iter().map(|e| (*e).to_owned()).collect(),
        ends: ends.to_vec(),
        action,
        delay: None,
    }
}

/// What rules make of an attempt: the state, the seconds to wait, whether the run stops, which rule.
type Expect = (ShardState, Option<i64>, bool, Option<usize>);

#[track_caller]
fn decided(shard: Facts, ending: Ending, code: &str, expect: Expect) {
    let policy = retry::Policy {
        max_attempts: 3,
        max_failures: None,
        backoff: retry::Backoff::Fixed {
            delay: jiff::SignedDuration::from_secs(10),
        },
        rules: vec![
            rule(&["bad-input"], &[], Action::FailShard),
            rule(&["no-money"], &[], Action::FailRun),
            rule(&["nothing-new"], &[AttemptEnd::TimedOut], Action::Ignore),
            retry::Rule {
                delay: Some(jiff::SignedDuration::from_secs(90)),
                ..rule(&["busy"], &[AttemptEnd::Lost], Action::Retry)
            },
            rule(&["again"], &[], Action::Retry),
        ],
    };
    let now = Timestamp::UNIX_EPOCH;
    let t = on_end(&shard, Token(5), ending, code, &policy, now).expect("the holder is current");
    let wait = t.ready_at.map(|at| at.duration_since(now).as_secs());
    let got = (t.to, wait, t.stops_run == Some(StopCause::Fatal), t.rule);
    assert_eq!(got, expect, "{ending:?} {code} of {shard:?}");
    assert_eq!(t.end, ending.attempt_end(), "the record says what happened");
}

#[test]
fn a_rule_comes_before_what_the_handler_said() {
    use Ending::{Failed, FailedForGood, FailedRun, Lost, TimedOut};
    use ShardState::{Retry, Succeeded};
    let failed = ShardState::Failed;
    let first = running(1);
    decided(first, Failed, "bad-input", (failed, None, false, Some(0)));
    decided(first, Failed, "no-money", (failed, None, true, Some(1)));
    decided(
        first,
        Failed,
        "nothing-new",
        (Succeeded, None, false, Some(2)),
    );
    decided(
        first,
        TimedOut,
        "stalled",
        (Succeeded, None, false, Some(2)),
    );
    decided(first, Failed, "busy", (Retry, Some(90), false, Some(3)));
    decided(
        first,
        Lost,
        "session-over",
        (Retry, Some(90), false, Some(3)),
    );
    decided(
        first,
        FailedForGood,
        "again",
        (Retry, Some(10), false, Some(4)),
    );
    decided(first, FailedRun, "again", (Retry, Some(10), false, Some(4)));
    decided(
        first,
        FailedRun,
        "bad-input",
        (failed, None, false, Some(0)),
    );
    // None fits: the handler decides.
    decided(first, Failed, "other", (Retry, Some(10), false, None));
    decided(first, FailedForGood, "other", (failed, None, false, None));
    decided(first, FailedRun, "other", (failed, None, true, None));
}

#[test]
fn no_rule_gives_more_than_the_budget() {
    let last = running(3);
    let failed = |rule| (ShardState::Failed, None, false, rule);
    decided(last, Ending::Failed, "again", failed(Some(4)));
    decided(last, Ending::Lost, "", failed(Some(3)));
    decided(last, Ending::Failed, "other", failed(None));
    let ignored = (ShardState::Succeeded, None, false, Some(2));
    decided(last, Ending::Failed, "nothing-new", ignored);
}

#[test]
fn what_ends_without_a_fault_or_after_a_stop_asks_no_rule() {
    let code = "nothing-new";
    let back = (ShardState::Scheduled, Some(0), false, None);
    decided(running(1), Ending::Released, code, back);
    decided(running(1), Ending::Cancelled, code, back);
    let stopped = Facts {
        stop: Some(StopCause::Cancel),
        ..running(1)
    };
    let cancelled = (ShardState::Cancelled, None, false, None);
    decided(stopped, Ending::Failed, code, cancelled);
    decided(stopped, Ending::Failed, "no-money", cancelled);
}

#[test]
fn a_plan_step_is_never_ignored() {
    let plan = Facts {
        key: ShardKey::new(RunId(1), crate::ids::ShardNo::PLAN.0),
        ..running(1)
    };
    let failed = (ShardState::Failed, None, false, Some(2));
    decided(plan, Ending::Failed, "nothing-new", failed);
}

#[test]
fn what_ends_past_the_deadline_stops_the_run() {
    let policy = retry::Policy::default();
    let now = Timestamp::UNIX_EPOCH;
    let after = |ms: i64| Facts {
        deadline: now.checked_sub(jiff::SignedDuration::from_millis(ms)).ok(),
        ..running(1)
    };
    let end = |shard: Facts, ending| {
        let t = on_end(&shard, Token(5), ending, "", &policy, now).expect("the holder is current");
        (t.to, t.stops_run)
    };
    use Ending::{Cancelled, Failed, FailedRun, Lost, Released, TimedOut};
    for ending in [Failed, FailedRun, TimedOut, Lost, Cancelled, Released] {
        let late = (ShardState::Cancelled, Some(StopCause::Deadline));
        assert_eq!(end(after(1), ending), late, "{ending:?}");
        // The very deadline is in time.
        assert_ne!(end(after(0), ending).1, Some(StopCause::Deadline));
        let stopped = Facts {
            stop: Some(StopCause::Cancel),
            ..after(1)
        };
        assert_eq!(end(stopped, ending), (ShardState::Cancelled, None));
    }
    let done = (ShardState::Succeeded, None);
    assert_eq!(end(after(60_000), Ending::Succeeded), done, "done is done");
}

/// RETRY-005: what the shards of a run share is counted where the end is committed.
#[test]
fn the_attempt_that_uses_up_the_shared_budget_is_the_last_one() {
    use ShardState::{Cancelled, Failed, Retry, Succeeded};
    let used_up = Some((StopCause::Fatal, FAILURES_USED_UP));
    let check = |ending, before, stop: Option<StopCause>, expect: (_, Option<u32>, _)| {
        let policy = retry::Policy {
            max_failures: Some(10),
            ..retry::Policy::default()
        };
        let run = Run {
            failures: before,
            stop: stop.map(|cause| (cause, Timestamp::UNIX_EPOCH)),
            ..crate::lifecycle::run::tests::waiting()
        };
        let t = on_end(
            &running(1),
            Token(5),
            ending,
            "",
            &policy,
            Timestamp::UNIX_EPOCH,
        )
        .expect("the holder is current")
        .committed(&run);
        assert_eq!((t.transition.to, t.failures, t.stops_run), expect);
        assert_eq!(
            t.transition.ready_at.is_some(),
            t.transition.to.is_grantable()
        );
    };
    check(Ending::Failed, 8, None, (Retry, Some(9), None));
    check(Ending::Failed, 9, None, (Failed, Some(10), used_up));
    check(Ending::Lost, 9, None, (Failed, Some(10), used_up));
    check(Ending::TimedOut, 9, None, (Failed, Some(10), used_up));
    check(Ending::FailedForGood, 3, None, (Failed, Some(4), None));
    let fatal = Some((StopCause::Fatal, ""));
    check(Ending::FailedRun, 9, None, (Failed, Some(10), fatal));
    check(Ending::Succeeded, 9, None, (Succeeded, None, None));
    let cancel = Some(StopCause::Cancel);
    check(Ending::Failed, 9, cancel, (Cancelled, None, None));
}
