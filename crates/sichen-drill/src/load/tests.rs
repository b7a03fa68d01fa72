//! Claims about `load`.

use super::*;

#[test]
fn instants_begin_behind_the_first_moment_and_hold_the_last() {
    let job = Job {
        name: "a",
        every_s: 2,
        shards: 1,
    };
    assert_eq!(
        instants(&job, 1_999_999, 6_000_000),
        [2_000_000, 4_000_000, 6_000_000]
    );
    assert!(instants(&job, 2_000_000, 3_999_999).is_empty());
}

#[test]
fn a_hot_key_is_one_account_and_others_are_many() {
    let at = |load, planned_us| {
        posting(
            load,
            &Occasion {
                job: "a".into(),
                shard: 0,
                planned_us,
            },
            1,
        )
        .0
    };
    assert!((0..50).all(|n| at(Load::HotKey, n) == 0));
    let many: std::collections::BTreeSet<u32> = (0..50).map(|n| at(Load::Usual, n)).collect();
    assert!(many.len() > 20);
}
