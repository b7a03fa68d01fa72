//! Claims about units, rates and what a grant takes of them.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(1_800_000_000_000_000 + micros).unwrap()
}

fn uses(weights: &[(&str, u32)]) -> Uses {
    Uses::new(weights.iter().map(|(text, n)| (name(text), *n)))
}

fn account(units: Option<u32>, rate: Option<Rate>, used: u64) -> Account {
    let bucket = rate.map_or(Bucket::empty(at(0)), |rate| Bucket::full(rate, at(0)));
    Account {
        limits: Limits { units, rate },
        used,
        bucket,
    }
}

fn rate(text: &str, burst: u32) -> Rate {
    Rate::parse(text, Some(burst)).unwrap()
}

#[test]
fn units_are_taken_up_to_the_limit_and_not_above() {
    for (limit, used, needs, good) in [
        (40, 0, 40, true),
        (40, 0, 41, false),
        (40, 39, 1, true),
        (40, 39, 2, false),
        (40, 40, 1, false),
        (0, 0, 1, false),
        // Lowered below what is held.
        (2, 5, 1, false),
    ] {
        let a = account(Some(limit), None, used);
        let checked = a.check(needs, at(0));
        assert_eq!(checked.is_ok(), good, "{used} of {limit}, needs {needs}");
        if !good {
            assert_eq!(checked, Err(Lack::Units { limit, used }));
        }
    }
}

#[test]
fn a_grant_takes_all_it_uses_or_nothing() {
    let r = rate("1/s", 5);
    let accounts = [
        (name("a"), account(Some(10), None, 0)),
        (name("b"), account(None, Some(r), 0)),
    ];
    let mut ledger = Ledger::open(accounts);
    let before = ledger.clone();
    let short = ledger
        .take(&uses(&[("a", 1), ("b", 6)]), at(0))
        .unwrap_err();
    assert_eq!(short.capacity, name("b"));
    assert!(!short.can_come(), "more than the burst never comes");
    assert_eq!(
        ledger, before,
        "nothing is taken of the one that had enough"
    );
    ledger.take(&uses(&[("a", 10), ("b", 5)]), at(0)).unwrap();
    let short = ledger.take(&uses(&[("a", 1)]), at(0)).unwrap_err();
    assert!(short.can_come());
    let changed: Vec<_> = ledger.changed().collect();
    assert_eq!(changed, [(&name("b"), Bucket::empty(at(0)))]);
    let missing = ledger.take(&uses(&[("c", 1)]), at(0)).unwrap_err();
    assert_eq!(missing.lack, Lack::Missing);
}

#[test]
fn tokens_come_to_the_microsecond() {
    let r = rate("50/s", 100);
    let mut bucket = Bucket::full(r, at(0));
    assert_eq!(bucket.tokens(r), 100);
    bucket = bucket.taken(r, 100);
    assert_eq!(bucket.ready_at(r, 1), Some(at(20_000)));
    assert!(!bucket.filled(r, at(19_999)).holds(r, 1));
    assert!(bucket.filled(r, at(20_000)).holds(r, 1));
    assert_eq!(bucket.filled(r, at(1_999_999)).tokens(r), 99);
    assert_eq!(
        bucket.filled(r, at(9_000_000_000)),
        Bucket::full(r, at(9_000_000_000))
    );
    assert_eq!(bucket.ready_at(r, 101), None);
    let odd = rate("3/s", 1);
    let empty = Bucket::empty(at(0));
    assert_eq!(empty.ready_at(odd, 1), Some(at(333_334)), "rounded up");
    // A clock that does not move, or a former instant, brings nothing.
    assert_eq!(bucket.filled(r, at(0)), bucket);
}

#[test]
fn a_changed_rate_keeps_whole_tokens_up_to_the_new_burst() {
    let (slow, fast) = (rate("60/m", 60), rate("10/s", 20));
    let bucket = Bucket::full(slow, at(0));
    let after = bucket.changed(Some(slow), Some(fast), at(0));
    assert_eq!(after.tokens(fast), 20);
    let half = bucket
        .taken(slow, 50)
        .changed(Some(slow), Some(fast), at(500_000));
    assert_eq!(half.tokens(fast), 10, "half a token is dropped");
    let wider = rate("60/m", 100);
    let wide = bucket.changed(Some(slow), Some(wider), at(0));
    assert_eq!(wide.tokens(wider), 60, "a larger burst fills by and by");
    let new = Bucket::empty(at(0)).changed(None, Some(fast), at(9));
    assert_eq!(new, Bucket::full(fast, at(9)));
}

#[test]
fn rates_are_read_as_they_are_shown() {
    for text in ["50/s", "1/m", "1000000/h", "5000/d"] {
        let r = Rate::parse(text, None).unwrap();
        assert_eq!((r.text().as_str(), r.burst), (text, r.count));
        assert_eq!(Per::of_micros(r.per.micros()), Some(r.per));
    }
    for text in ["", "50", "50/w", "/s", "0/s", "1000001/s", "-1/s", "1.5/s"] {
        assert!(
            Rate::parse(text, None).unwrap_err().starts_with("SC1"),
            "{text}"
        );
    }
    assert!(Rate::parse("5/s", Some(0)).is_err());
}

#[test]
fn names_become_variables_and_uses_a_text() {
    assert_eq!(variable("mysql-main"), "SICHEN_USES_MYSQL_MAIN");
    assert_eq!(variable("a.b_c-1"), "SICHEN_USES_A_B_C_1");
    let u = uses(&[("mysql-main", 2), ("sms", 1), ("nothing", 0)]);
    assert_eq!(u.text().as_deref(), Some(r#"{"mysql-main":2,"sms":1}"#));
    assert_eq!(Uses::parse(&u.text().unwrap()), Some(u));
    assert_eq!(Uses::default().text(), None);
    assert_eq!(Uses::parse("{\"A b\":1}"), None);
}

#[test]
fn an_unknown_name_is_told_with_the_nearest() {
    let told = unknown("mysq-main", &["mysql-main", "sms-api"]);
    assert!(told.contains("did you mean `mysql-main`?"), "{told}");
    let told = unknown("sms", &[]);
    assert!(told.contains("there are none yet"), "{told}");
}

proptest! {
    /// I33: in any window the tokens taken are at most what the rate brings in it and the burst.
    #[test]
    fn no_window_has_more_than_its_rate_and_one_burst(
        count in 1u32..2_000, per in 0usize..4, burst in 1u32..500,
        steps in prop::collection::vec((0i64..3_000_000, 1u32..60), 1..120),
    ) {
        let per = [Per::Second, Per::Minute, Per::Hour, Per::Day][per];
        let r = Rate { count, per, burst };
        let mut account = account(None, Some(r), 0);
        let mut now = 0;
        let mut taken: Vec<(i64, i128)> = Vec::new();
        for (wait, tokens) in steps {
            now += wait;
            if account.check(tokens, at(now)).is_ok() {
                account.take(tokens, at(now));
                taken.push((now, i128::from(tokens)));
            }
            prop_assert!(account.bucket.level >= 0);
            prop_assert!(account.bucket.tokens(r) <= burst);
        }
        let period = i128::from(per.micros());
        for first in 0..taken.len() {
            let mut sum = 0;
            for (when, tokens) in &taken[first..] {
                sum += tokens;
                let brought = i128::from(when - taken[first].0) * i128::from(count);
                prop_assert!(sum * period <= brought + i128::from(burst) * period);
            }
        }
    }

    /// Exact over any way of looking: reading a bucket often brings the same as reading it once.
    #[test]
    fn looking_changes_nothing(
        count in 1u32..2_000, burst in 1u32..500, taken in 0u32..500,
        looks in prop::collection::vec(0i64..500_000, 1..50),
    ) {
        let r = Rate { count, per: Per::Minute, burst };
        let start = Bucket::full(r, at(0)).taken(r, taken.min(burst));
        let mut often = start;
        let mut now = 0;
        for wait in looks {
            now += wait;
            often = often.filled(r, at(now));
        }
        prop_assert_eq!(often.level, start.filled(r, at(now)).level);
    }

    /// What a bucket says it will have at an instant it has then, and not a microsecond before.
    #[test]
    fn a_promise_is_kept_and_not_early(count in 1u32..2_000, burst in 1u32..500, needs in 1u32..500) {
        let r = Rate { count, per: Per::Second, burst };
        let empty = Bucket::empty(at(0));
        match empty.ready_at(r, needs) {
            None => prop_assert!(needs > burst),
            Some(then) => {
                prop_assert!(empty.filled(r, then).holds(r, needs));
                let before = then - SignedDuration::from_micros(1);
                prop_assert!(!empty.filled(r, before).holds(r, needs));
            }
        }
    }
}
