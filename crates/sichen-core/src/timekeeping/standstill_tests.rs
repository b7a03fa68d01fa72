//! While the clock is behind no lease ends early, and none that nobody renews lives on.

use proptest::prelude::*;

use super::*;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_780_000_000_000 + ms).expect("of this era")
}

/// The clock was set back by an hour; `ms` have passed since.
fn behind(ms: i64) -> Told {
    Told {
        now: at(0),
        wall: at(ms - 3_600_000),
        steady: at(ms),
        held: false,
    }
}

#[test]
fn nothing_is_taken_while_time_goes_on() {
    let mut standstill = Standstill::default();
    let told = Told {
        now: at(5_000),
        wall: at(5_000),
        steady: at(5_000),
        held: false,
    };
    assert_eq!(standstill.look(&told, &[(1, at(9_000))]), []);
    assert_eq!(standstill.look(&behind(0), &[(1, at(9_000))]).len(), 1);
    standstill.written(&behind(1));
    assert_eq!(standstill.look(&told, &[(1, at(9_000) - MARK)]), []);
    // And what was seen before it is forgotten.
    let again = standstill.look(&behind(9_000), &[(1, at(9_000) - MARK)]);
    assert_eq!(again, [(1, at(9_000) - MARK, at(9_000) - 2 * MARK)]);
}

#[test]
fn what_is_not_renewed_ends_when_it_would_have() {
    let mut standstill = Standstill::default();
    let mut end = at(15_000);
    let mut ms = 0;
    while end > at(0) {
        let shorter = standstill.look(&behind(ms), &[(1, end)]);
        end = shorter[0].2;
        standstill.written(&behind(ms + 10));
        ms += 1_000;
    }
    // A look late, and ten of a thousand milliseconds of each second are not counted.
    assert!((15_000..=17_000).contains(&ms), "{ms}");
}

/// MISS-005: clocks count nanoseconds, stores keep microseconds.
#[test]
fn an_end_that_is_kept_to_the_microsecond_is_no_renewal() {
    let told = |ms| Told {
        steady: at(ms) + SignedDuration::from_nanos(ms * 7 % 1_000),
        ..behind(ms)
    };
    let mut standstill = Standstill::default();
    let (mut end, mut ms) = (at(5_000), 0);
    while end > at(0) {
        end = standstill.look(&told(ms), &[(1, end)])[0].2;
        end = Timestamp::from_microsecond(end.as_microsecond()).expect("of this era");
        standstill.written(&told(ms + 3));
        ms += 999;
    }
    assert!(ms < 7_000, "its five seconds, and a look or two: {ms}");
}

proptest! {
    /// MISS-005. Whatever is renewed when, between the listing and the writing too: no lease ends before its
    /// length has passed since it was renewed last.
    #[test]
    fn no_lease_ends_early(
        steps in prop::collection::vec((1_i64..3_000, 0_i64..50, 0_i64..50, 0_u8..4), 1..60),
    ) {
        const TTL: i64 = 5_000;
        let mut standstill = Standstill::default();
        // The lease's end in the store, and when it was renewed in truth.
        let (mut end, mut renewed, mut ms) = (at(TTL), 0, 0);
        let renew = |end: &mut Timestamp, renewed: &mut i64, ms: i64| {
            // As stores do: one that is over is never renewed.
            if *end > at(0) {
                (*end, *renewed) = (at(TTL), ms);
            }
        };
        for (wait, reading, writing, when) in steps {
            ms += wait;
            if when == 0 {
                renew(&mut end, &mut renewed, ms);
            }
            let told = behind(ms);
            ms += reading;
            if when == 1 {
                renew(&mut end, &mut renewed, ms);
            }
            let shorter = standstill.look(&told, &[(1, end)]);
            ms += writing;
            if when == 2 {
                renew(&mut end, &mut renewed, ms);
            }
            for (_, from, to) in shorter {
                if from == end {
                    end = to;
                }
            }
            if end <= at(0) {
                prop_assert!(ms - renewed >= TTL - 1, "{ms} {renewed}");
                break;
            }
            if when == 3 {
                renew(&mut end, &mut renewed, ms);
            }
            standstill.written(&behind(ms));
        }
    }
}
