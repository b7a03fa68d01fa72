//! Claims about forecasts, and a second way to reckon them: second by second.

use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn secs(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

fn run(job: u32, second: i64, length: i64, wants: u32) -> Expected {
    Expected {
        job,
        at: at(second),
        length: secs(length),
        wants,
    }
}

fn window(from: i64, to: i64, part: i64) -> Window {
    Window {
        from: at(from),
        to: at(to),
        part: secs(part),
    }
}

#[test]
fn what_fits_leaves_nothing_over() {
    let told = forecast(
        4,
        &[run(0, 0, 60, 2), run(1, 30, 30, 2)],
        window(0, 120, 60),
    );
    assert_eq!(told.overbooked, []);
    let parts: Vec<_> = told
        .parts
        .iter()
        .map(|p| (p.runs, p.wanted, p.used))
        .collect();
    // 2 for a minute and 2 for half of it, of 4.
    assert_eq!(parts, [(2, 4, 750), (0, 0, 0)]);
    assert!(told.parts.iter().all(|part| part.behind.is_zero()));
}

#[test]
fn too_much_at_once_is_named_and_worked_off_afterwards() {
    // A hundred slot-seconds are wanted within ten seconds, of 4 slots.
    let runs = [run(7, 60, 10, 6), run(3, 60, 10, 4)];
    let told = forecast(4, &runs, window(0, 180, 60));
    let span = Overbooked {
        from: at(60),
        until: Some(at(85)),
        wanted: 10,
        jobs: vec![7, 3],
    };
    assert_eq!(told.overbooked, [span]);
    let used: Vec<u64> = told.parts.iter().map(|part| part.used).collect();
    assert_eq!(used, [0, 100 * 1_000 / 240, 0]);
}

#[test]
fn a_limit_of_none_is_behind_for_ever() {
    let told = forecast(0, &[run(0, 10, 5, 1)], window(0, 60, 30));
    assert_eq!(told.overbooked[0].until, None);
    assert!(told.parts[0].behind > SignedDuration::from_hours(1_000_000));
    assert_eq!(told.parts[1].used, 0);
}

#[test]
fn a_run_that_began_before_counts_for_its_rest() {
    let told = forecast(
        1,
        &[run(0, -50, 60, 1), run(0, -50, 50, 9)],
        window(0, 20, 20),
    );
    assert_eq!(told.overbooked, []);
    assert_eq!((told.parts[0].runs, told.parts[0].used), (0, 500));
}

#[test]
fn one_ends_as_another_begins_without_being_too_much() {
    let told = forecast(1, &[run(0, 0, 10, 1), run(1, 10, 10, 1)], window(0, 20, 5));
    assert_eq!(told.overbooked, []);
    assert!(told.parts.iter().all(|part| part.used == 1_000));
}

#[test]
fn parts_and_spans_are_limited() {
    let runs: Vec<Expected> = (0..500).map(|n| run(0, n * 10, 1, 2)).collect();
    let told = forecast(1, &runs, window(0, 5_000, 1));
    assert_eq!(told.parts.len(), MAX_PARTS);
    assert_eq!(told.overbooked.len(), MAX_SPANS);
    assert!(told.overbooked.iter().all(|span| span.until.is_some()));
}

/// What is left over at the end of each second, and used in it, in unit-seconds.
fn second_by_second(there: u32, runs: &[Expected], seconds: i64) -> Vec<(i64, i64)> {
    let mut over = 0_i64;
    let there = i64::from(there);
    let one = |second: i64| {
        let going = |run: &&Expected| {
            let begin = run.at.as_second();
            (begin..begin + run.length.as_secs()).contains(&second)
        };
        let wanted: i64 = runs
            .iter()
            .filter(going)
            .map(|run| i64::from(run.wants))
            .sum();
        let used = (over + wanted).min(there);
        over += wanted - used;
        (over, used)
    };
    (0..seconds).map(one).collect()
}

proptest! {
    #[test]
    fn it_is_what_counting_second_by_second_gives(
        there in 1_u32..8,
        runs in prop::collection::vec((0_i64..200, 0_i64..60, 0_u32..6), 0..40),
    ) {
        let runs: Vec<Expected> =
            runs.into_iter().map(|(at, length, wants)| run(0, at, length, wants)).collect();
        let told = forecast(there, &runs, window(0, 300, 1));
        let counted = second_by_second(there, &runs, 300);
        for (part, (over, used)) in told.parts.iter().zip(counted) {
            let micros = i64::try_from(part.behind.as_micros()).unwrap();
            prop_assert_eq!(micros, over * 1_000_000 / i64::from(there));
            prop_assert_eq!(i64::try_from(part.used).unwrap(), used * 1_000 / i64::from(there));
        }
        for pair in told.overbooked.windows(2) {
            prop_assert!(pair[0].until.is_some_and(|until| until <= pair[1].from));
        }
    }
}
