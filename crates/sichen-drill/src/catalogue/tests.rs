//! Claims about `catalogue`.

use super::*;
use crate::drill::Variant;
use crate::schedule::{MAX_FAULTS, plan};

#[test]
fn every_drill_says_what_it_is_about_and_can_be_found() {
    for drill in ALL {
        for text in [drill.topic, drill.claim, drill.condition, drill.rollback] {
            assert!(!text.is_empty(), "{}", drill.name);
        }
        assert!(!drill.not_covered.is_empty(), "{}", drill.name);
        assert_eq!(find(drill.name).map(|d| d.topic), Some(drill.topic));
    }
    assert!(find("nothing").is_none());
}

#[test]
fn the_same_seed_gives_the_same_faults_and_none_overlap() {
    for drill in ALL {
        for variant in Variant::ALL {
            for duration in [None, Some(120_000), Some(u64::MAX)] {
                let drawn = plan(drill, variant, 7, duration);
                assert_eq!(drawn, plan(drill, variant, 7, duration));
                assert_eq!(drawn.faults.is_empty(), variant == Variant::Normal);
                assert!(drawn.faults.len() <= MAX_FAULTS);
                for pair in drawn.faults.windows(2) {
                    assert!(pair[0].at_ms + pair[0].hold_ms < pair[1].at_ms);
                }
                if let Some(last) = drawn.faults.get(1..).and_then(<[_]>::last) {
                    assert!(last.at_ms + last.hold_ms < drawn.duration_ms);
                }
            }
        }
    }
}

#[test]
fn no_failure_that_was_promised_to_be_rehearsed_is_missing() {
    let promised = [
        "kill-server",
        "freeze-server",
        "cut-server-from-database",
        "one-way-cut",
        "kill-worker",
        "freeze-worker",
        "worker-restart-with-journal",
        "database-crash",
        "database-pause",
        "kill-all",
        "clock-step",
        "disk-full-journal",
        "disk-full-sqlite",
        "skewed-shards",
        "rolling-restart",
        "slow-downstream",
        "lost-heartbeats",
        "plan-regression",
        "deadlock",
        "hot-key",
        // Networks: partitions, loss, delay.
        "partition-worker",
        "lossy-network",
        "slow-network",
    ];
    for name in promised {
        assert!(find(name).is_some(), "{name}");
    }
}
