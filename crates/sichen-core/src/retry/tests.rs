//! Claims about when the next attempt may start.

use super::*;

fn exponential(base_s: i64, factor: f64, max_s: i64) -> Policy {
    Policy {
        max_attempts: 3,
        backoff: Backoff::Exponential {
            base: SignedDuration::from_secs(base_s),
            factor,
            max: SignedDuration::from_secs(max_s),
            jitter: false,
        },
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
