//! Claims about `windows`.

use super::*;

fn check(
    windows: &[(i64, i64)],
    begins: &[i64],
    pairs: &[(i64, i64)],
    missed: &[i64],
    extra: &[i64],
) {
    let windows: Vec<Window> = windows
        .iter()
        .map(|&(from_us, to_us)| Window {
            planned_us: from_us,
            from_us,
            to_us,
        })
        .collect();
    let expect = Matched {
        pairs: pairs.to_vec(),
        missed: missed.to_vec(),
        extra: extra.to_vec(),
    };
    assert_eq!(matched(&windows, begins), expect);
}

#[test]
fn each_instant_has_a_witness_of_its_own() {
    check(&[(0, 5), (10, 15)], &[1, 11], &[(0, 1), (10, 11)], &[], &[]);
    // One task can't stand for two instants.
    check(&[(0, 20), (10, 15)], &[11], &[(10, 11)], &[0], &[]);
    // A second task for one instant is too many.
    check(&[(0, 5)], &[1, 2], &[(0, 1)], &[], &[2]);
}

#[test]
fn a_task_outside_every_window_witnesses_nothing() {
    check(&[(10, 15)], &[9, 16], &[], &[10], &[9, 16]);
    check(&[], &[1], &[], &[], &[1]);
    check(&[(1, 2)], &[], &[], &[1], &[]);
}

#[test]
fn a_window_that_closes_first_is_served_first() {
    // In the order of their begins the wide window would take the only task that the narrow has.
    check(
        &[(0, 100), (10, 12)],
        &[11, 50],
        &[(10, 11), (0, 50)],
        &[],
        &[],
    );
}

/// Every matching there is, for small cases: the greedy one is as large as the largest.
#[test]
fn no_other_matching_finds_more_witnesses() {
    fn best(windows: &[Window], begins: &[i64]) -> usize {
        let Some((first, rest)) = windows.split_first() else {
            return 0;
        };
        let without = best(rest, begins);
        let with =
            (0..begins.len()).filter(|i| (first.from_us..=first.to_us).contains(&begins[*i]));
        let with = with.map(|i| {
            let mut left = begins.to_vec();
            left.remove(i);
            1 + best(rest, &left)
        });
        with.max().unwrap_or(0).max(without)
    }
    let mut state = 7u64;
    let mut draw = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        i64::try_from((state >> 33) % below).unwrap()
    };
    for _ in 0..300 {
        let windows: Vec<Window> = (0..5)
            .map(|_| {
                let from_us = draw(12);
                Window {
                    planned_us: from_us,
                    from_us,
                    to_us: from_us + draw(6),
                }
            })
            .collect();
        let begins: Vec<i64> = (0..5).map(|_| draw(16)).collect();
        let found = matched(&windows, &begins);
        assert_eq!(
            found.pairs.len(),
            best(&windows, &begins),
            "{windows:?} {begins:?}"
        );
    }
}
