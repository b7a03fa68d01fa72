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
    }
}

fn check(shard: Facts, ending: Ending, to: ShardState) -> Transition {
    let policy = retry::Policy::default();
    let now = Timestamp::UNIX_EPOCH;
    let t = on_end(&shard, Token(5), ending, &policy, now).expect("the holder is current");
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
    assert!(check(running(1), Ending::FailedRun, ShardState::Failed).stops_run);
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
    let end = |shard: Facts, token| on_end(&shard, token, Ending::Succeeded, &policy, now);
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
