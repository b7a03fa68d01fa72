//! Claims about the rhythm of sessions and beats.

use super::*;

fn check(ttl_s: i64, beat_s: i64, sane: bool) {
    let rhythm = Rhythm {
        ttl: SignedDuration::from_secs(ttl_s),
        beat: SignedDuration::from_secs(beat_s),
    };
    assert_eq!(
        rhythm.checked().is_ok(),
        sane,
        "ttl {ttl_s} s, beat {beat_s} s"
    );
}

/// STUCK-017.
#[test]
fn a_lease_not_longer_than_three_beats_is_refused() {
    check(60, 60, false);
    check(10, 9, false);
    check(30, 10, true);
    check(15, 3, true);
    check(3, 1, true);
    check(0, 0, false);
    check(1, 0, false);
    check(i64::MAX, i64::MAX, false);
}

#[test]
fn a_lone_holder_beats_less_often_if_that_loses_nothing() {
    let check = |beat, ttl, expect| {
        let rhythm = Rhythm {
            beat: SignedDuration::from_millis(beat),
            ttl: SignedDuration::from_millis(ttl),
        };
        assert_eq!(rhythm.beat_alone(), SignedDuration::from_millis(expect));
    };
    check(1_000, 5_000, 1_500);
    check(1_000, 4_500, 1_500);
    check(1_000, 4_499, 1_000);
}
