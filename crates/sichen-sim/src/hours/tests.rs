//! Which hours count.

use super::*;

fn part(secs: i64, runs: u64, hits: u64) -> Part {
    Part {
        secs,
        runs,
        faults: BTreeMap::from([("worker crash", hits + 5)]),
        hits: BTreeMap::from([("live lease", hits)]),
    }
}

fn check(parts: &[Part], counted: u64, empty: u64) {
    let mut hours = Hours::default();
    parts.iter().for_each(|part| hours.add(part));
    assert_eq!((hours.counted, hours.empty), (counted, empty));
}

#[test]
fn an_hour_counts_only_when_runs_settled_and_faults_hit_something() {
    check(&[part(3_600, 1_000, 10)], 1, 0);
    check(&[part(3_600, 999, 10)], 0, 1);
    check(&[part(3_600, 1_000, 9)], 0, 1);
    check(&[part(1_800, 500, 5)], 0, 0);
    check(&[part(1_800, 500, 5), part(1_800, 500, 5)], 1, 0);
    // What one hour has too much of does not fill the next.
    check(&[part(3_600, 5_000, 50), part(3_600, 0, 0)], 1, 1);
}

#[test]
fn faults_of_all_seeds_are_summed() {
    let mut hours = Hours::default();
    hours.add(&part(10, 1, 2));
    hours.add(&part(10, 1, 3));
    assert_eq!((hours.faults(), hours.all.secs), (15, 20));
}
