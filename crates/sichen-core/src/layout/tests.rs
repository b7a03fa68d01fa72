//! Claims about layouts: whole cover, no overlap, limits.

use proptest::prelude::*;

use super::*;

fn ranges(layout: &Layout) -> Vec<(i64, i64)> {
    layout
        .cut()
        .expect("cuts")
        .into_iter()
        .map(|d| match d {
            Descriptor::Range { from, to } => (from, to),
            other => panic!("{other:?} in a range layout"),
        })
        .collect()
}

fn covers_once(from: i64, to: i64, cuts: &[(i64, i64)]) {
    let mut at = from;
    for (f, t) in cuts {
        assert_eq!(*f, at, "gap or overlap before {f}");
        assert!(t >= f);
        at = *t;
    }
    assert_eq!(at, to, "the end is not covered");
}

proptest! {
    #[test]
    fn range_by_count_covers_its_input_exactly_once(from: i64, width in 0u64.., n in 1u32..400) {
        let to = from.saturating_add_unsigned(width);
        let cuts = ranges(&Layout::Range { from, to, cut: Cut::Count(n) });
        prop_assert_eq!(cuts.len(), n as usize);
        covers_once(from, to, &cuts);
        let sizes: Vec<i128> = cuts.iter().map(|(f, t)| i128::from(*t) - i128::from(*f)).collect();
        prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
    }

    #[test]
    fn range_by_size_covers_its_input_exactly_once(
        from in -1_000_000i64..1_000_000, width in 0i64..200_000, size in 3u64..50_000,
    ) {
        let to = from + width;
        let cuts = ranges(&Layout::Range { from, to, cut: Cut::Size(size) });
        covers_once(from, to, &cuts);
        prop_assert!(cuts.iter().all(|(f, t)| t > f && (t - f).unsigned_abs() <= size));
    }

    #[test]
    fn every_key_has_one_index(key: Vec<u8>, total in 1u32..1000) {
        prop_assert!(index_of(&key, total) < total);
        prop_assert_eq!(index_of(&key, total), index_of(&key, total));
    }

    #[test]
    fn every_item_is_one_shard(items in proptest::collection::btree_set("[a-z]{1,8}", 0..50)) {
        let items: Vec<String> = items.into_iter().collect();
        let cut = Layout::Items(items.clone()).cut().unwrap();
        let back: Vec<String> = cut.into_iter().map(|d| match d {
            Descriptor::Item(item) => item,
            other => panic!("{other:?}"),
        }).collect();
        prop_assert_eq!(back, items);
    }
}

/// SHARD-009: three keys in eight shards give five empty shards, none missing.
#[test]
fn more_shards_than_keys_leaves_empty_shards() {
    let cuts = ranges(&Layout::Range {
        from: 10,
        to: 13,
        cut: Cut::Count(8),
    });
    covers_once(10, 13, &cuts);
    assert_eq!(cuts.iter().filter(|(f, t)| f == t).count(), 5);
}

/// SHARD-009: no input gives no shards.
#[test]
fn no_input_gives_no_shards() {
    assert_eq!(
        Layout::from_extremes(None, Cut::Count(8))
            .unwrap()
            .cut()
            .unwrap(),
        []
    );
    assert_eq!(Layout::Items(vec![]).cut().unwrap(), []);
    assert_eq!(
        Layout::Range {
            from: 4,
            to: 4,
            cut: Cut::Size(10)
        }
        .cut()
        .unwrap(),
        []
    );
}

/// SHARD-001: 0 shards and too many shards are refused with the limit in the message.
#[test]
fn counts_outside_the_limits_are_refused() {
    assert_eq!(Layout::Count(0).cut(), Err(Error::Zero));
    assert_eq!(Layout::Count(100_000).cut().unwrap().len(), 100_000);
    assert_eq!(
        Layout::Count(100_001).cut(),
        Err(Error::TooMany { shards: 100_001 })
    );
    let wide = Layout::Range {
        from: i64::MIN,
        to: i64::MAX,
        cut: Cut::Size(1),
    };
    assert!(matches!(wide.cut(), Err(Error::TooMany { .. })));
    assert_eq!(
        Layout::from_extremes(Some((0, i64::MAX)), Cut::Count(2)),
        Err(Error::NoEnd { max: i64::MAX })
    );
}

#[test]
fn keys_spread_evenly_over_indexes() {
    let mut counts = [0u32; 8];
    for i in 0..80_000u32 {
        counts[index_of(format!("tenant-{i}").as_bytes(), 8) as usize] += 1;
    }
    assert!(
        counts.iter().all(|c| (9_500..10_500).contains(c)),
        "{counts:?}"
    );
}
