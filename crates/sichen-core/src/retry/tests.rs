//! Claims about when the next attempt may start.

use super::*;

fn exponential(base_s: i64, factor: f64, max_s: i64) -> Policy {
    Policy {
        max_attempts: 3,
        max_failures: None,
        backoff: Backoff::Exponential {
            base: SignedDuration::from_secs(base_s),
            factor,
            max: SignedDuration::from_secs(max_s),
            jitter: false,
        },
        rules: Vec::new(),
    }
}

/// RETRY-008.
#[test]
fn backoff_never_overflows_its_cap() {
    let shard = ShardKey::new(crate::ids::RunId(1), 0);
    let policy = exponential(10, 2.0, 3600);
    for used in 1..=100u32 {
        let expect = if used <= 9 {
            10 * (1i64 << (used - 1))
        } else {
            3600
        };
        assert_eq!(
            policy.delay(shard, used).as_secs(),
            expect,
            "attempt {used}"
        );
    }
    let day = 86_400;
    let policy = exponential(day, 10.0, 30 * day);
    let days: Vec<i64> = (1..=4)
        .map(|n| policy.delay(shard, n).as_secs() / day)
        .collect();
    assert_eq!(days, [1, 10, 30, 30]);
    assert_eq!(policy.delay(shard, u32::MAX).as_secs(), 30 * day);
}

#[test]
fn full_jitter_stays_within_the_delay_and_spreads() {
    let policy = Policy::default();
    let delays: Vec<_> = (0..200)
        .map(|no| policy.delay(ShardKey::new(crate::ids::RunId(7), no), 3))
        .collect();
    assert!(
        delays
            .iter()
            .all(|d| !d.is_negative() && *d <= SignedDuration::from_secs(4))
    );
    let below = delays
        .iter()
        .filter(|d| **d < SignedDuration::from_secs(2))
        .count();
    assert!(
        (60..=140).contains(&below),
        "{below} of 200 in the lower half"
    );
}

/// Which of three rules speaks of an attempt that ended so.
#[track_caller]
fn check(end: AttemptEnd, code: &str, expect: Option<usize>) {
    let rule = |exits: &[(u8, u8)], errors: &[&str], ends: &[AttemptEnd]| Rule {
        exits: exits.iter().map(|(from, to)| *from..=*to).collect(),
        errors: errors.iter().map(|e| (*e).to_owned()).collect(),
        ends: ends.to_vec(),
        action: Action::FailShard,
        delay: None,
    };
    let policy = Policy {
        rules: vec![
            rule(&[(3, 3), (10, 19)], &["bad-input"], &[]),
            rule(&[(12, 12)], &["killed-by-signal-*", "exit-77"], &[]),
            rule(
                &[],
                &["session-over"],
                &[AttemptEnd::Lost, AttemptEnd::TimedOut],
            ),
        ],
        ..Policy::default()
    };
    let found = policy.rule(end, code).map(|(place, _)| place);
    assert_eq!(found, expect, "{end} {code}");
}

#[test]
fn the_first_rule_that_fits_is_found() {
    use AttemptEnd::{Failed, Lost, TimedOut};
    check(Failed, "exit-3", Some(0));
    check(Failed, "exit-10", Some(0));
    check(Failed, "exit-19", Some(0));
    check(Failed, "exit-12", Some(0));
    check(Failed, "exit-77", Some(1));
    check(Failed, "bad-input", Some(0));
    check(Failed, "killed-by-signal-9", Some(1));
    check(TimedOut, "attempt-timeout", Some(2));
    check(TimedOut, "stalled", Some(2));
    check(Lost, "worker-restarted", Some(2));
}

#[test]
fn no_rule_fits_what_none_names() {
    use AttemptEnd::{Failed, Lost};
    for code in [
        "exit-2",
        "exit-20",
        "exit-256",
        "exit--1",
        "exit-",
        "exit-3x",
        "bad-input-2",
        "killed-by-signal",
        "",
    ] {
        check(Failed, code, None);
    }
    // What a lost attempt would have said is not known, whatever code it is recorded with.
    for code in ["exit-3", "bad-input", "killed-by-signal-9"] {
        check(Lost, code, Some(2));
    }
    let by_code = Rule {
        exits: vec![0..=255],
        errors: vec!["*".to_owned()],
        ends: Vec::new(),
        action: Action::Retry,
        delay: None,
    };
    assert!(!by_code.fits(Lost, "session-over"));
    assert!(by_code.fits(Failed, "anything"));
}
