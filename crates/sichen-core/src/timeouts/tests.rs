//! Claims about when an attempt and a run have taken too long.

use super::*;
use crate::ids::{RunId, ShardKey, Token};
use crate::layout::Descriptor;
use crate::lifecycle::ShardState;
use crate::model::{Checkpoint, Progress};

fn at(s: i64) -> Timestamp {
    Timestamp::from_second(s).expect("a second")
}

fn secs(s: i64) -> SignedDuration {
    SignedDuration::from_secs(s)
}

/// A running shard granted at 0 with these limits.
fn shard(attempt: Option<i64>, stall: Option<i64>) -> Shard {
    let timeouts = Timeouts {
        attempt: attempt.map(secs),
        stall: stall.map(secs),
        active: None,
    };
    let attempt_until = timeouts.attempt_until(at(0));
    Shard {
        key: ShardKey::new(RunId(1), 0),
        descriptor: Descriptor::Whole,
        state: ShardState::Running,
        ver: 2,
        token: Token(1),
        attempt: 1,
        used: 1,
        takeovers: 0,
        ready_at: at(0),
        session: None,
        grant_seq: 1,
        timeout_at: timeout_at(attempt_until, timeouts.stall, at(0)),
        attempt_until,
        stall: timeouts.stall,
        digest: String::new(),
        checkpoint: Checkpoint::default(),
        progress: Progress::default(),
        failure: None,
        started_at: Some(at(0)),
        ended_at: None,
        discarded_at: None,
    }
}

#[test]
fn the_earlier_of_both_limits_counts() {
    for (attempt, stall, expect, over) in [
        (None, None, None, Overrun::Attempt),
        (Some(60), None, Some(60), Overrun::Attempt),
        (None, Some(5), Some(5), Overrun::Stall),
        (Some(60), Some(5), Some(5), Overrun::Stall),
        (Some(4), Some(5), Some(4), Overrun::Attempt),
        (Some(5), Some(5), Some(5), Overrun::Attempt),
    ] {
        let shard = shard(attempt, stall);
        assert_eq!(shard.timeout_at, expect.map(at), "{attempt:?} {stall:?}");
        assert_eq!(overrun(&shard), over, "{attempt:?} {stall:?}");
    }
}

#[test]
fn a_sign_moves_the_stall_and_never_the_attempt() {
    let mut shard = shard(Some(60), Some(5));
    for (now, idle, expect) in [
        (4, 0, 9),
        (8, 1, 12),
        // One that was long on its way moves nothing back.
        (9, 8, 12),
        (58, 0, 60),
        (59, 0, 60),
    ] {
        shard.timeout_at = after_sign(&shard, secs(idle), at(now));
        assert_eq!(shard.timeout_at, Some(at(expect)), "at {now}");
    }
    assert_eq!(overrun(&shard), Overrun::Attempt);
}

#[test]
fn a_sign_matters_only_where_a_stall_is_limited() {
    let limited = shard(Some(60), None);
    assert_eq!(after_sign(&limited, secs(0), at(30)), Some(at(60)));
    let free = shard(None, None);
    assert_eq!(after_sign(&free, secs(0), at(30)), None);
    let clock_back = shard(None, Some(5));
    let back = after_sign(&clock_back, secs(-100), at(1));
    assert_eq!(back, Some(at(6)), "no sign comes from the future");
}

#[test]
fn the_first_grant_can_only_bring_the_deadline_nearer() {
    let timeouts = |active: Option<i64>| Timeouts {
        active: active.map(secs),
        ..Timeouts::default()
    };
    for (before, active, expect) in [
        (None, None, None),
        (Some(100), None, Some(100)),
        (None, Some(60), Some(70)),
        (Some(100), Some(60), Some(70)),
        (Some(50), Some(60), Some(50)),
    ] {
        let deadline = timeouts(active).deadline(before.map(at), at(10));
        assert_eq!(deadline, expect.map(at), "{before:?} {active:?}");
    }
}

#[test]
fn nobody_ends_from_outside_what_may_still_be_within_its_grace() {
    let over = Timestamp::UNIX_EPOCH;
    let check = |grace, after, expect| {
        let now = over + SignedDuration::from_secs(after);
        let within = within_grace(over, SignedDuration::from_secs(grace), now);
        assert_eq!(within, expect, "{grace} s, {after} s later");
    };
    check(60, 15, true);
    check(60, 64, true);
    check(60, 65, false);
    // The usual grace is over before anybody looks.
    check(10, 15, false);
}
