//! Claims about overlap.

use jiff::{SignedDuration, Timestamp};
use sichen_core::schedule::overlap::{Blocker, Overlap, Verdict, judge, may_leave_queue};

fn minute(minute: i64) -> Timestamp {
    Timestamp::from_second(1_780_000_000 + 60 * minute).expect("in range")
}

fn check(policy: Overlap, active: &[u32], queued: u32, planned: &[i64], expect: &[Verdict<u32>]) {
    let planned: Vec<_> = planned.iter().map(|at| minute(*at)).collect();
    assert_eq!(
        judge(policy, active, queued, &planned),
        expect,
        "{policy:?} {active:?} {queued}"
    );
}

#[test]
fn allow_starts_everything() {
    check(
        Overlap::Allow,
        &[7, 8],
        3,
        &[1, 2],
        &[Verdict::Run, Verdict::Run],
    );
}

#[test]
fn forbid_names_what_blocked() {
    let skip = |blocked_by| Verdict::Skip { blocked_by };
    check(Overlap::Forbid, &[], 0, &[1], &[Verdict::Run]);
    check(Overlap::Forbid, &[7, 8], 0, &[1], &[skip(Blocker::Run(7))]);
    check(
        Overlap::Forbid,
        &[],
        0,
        &[1, 2],
        &[Verdict::Run, skip(Blocker::Planned(minute(1)))],
    );
}

#[test]
fn replace_starts_the_newest_only() {
    check(Overlap::Replace, &[], 0, &[1], &[Verdict::Run]);
    check(
        Overlap::Replace,
        &[7, 8],
        0,
        &[1],
        &[Verdict::Replace {
            victims: vec![7, 8],
        }],
    );
    let skip = Verdict::Skip {
        blocked_by: Blocker::Planned(minute(2)),
    };
    check(
        Overlap::Replace,
        &[7],
        0,
        &[1, 2],
        &[skip, Verdict::Replace { victims: vec![7] }],
    );
}

#[test]
fn a_queue_stays_within_its_limit() {
    let queue = |place| Verdict::Queue {
        behind: Blocker::Run(7),
        place,
    };
    let skip = Verdict::Skip {
        blocked_by: Blocker::Run(7),
    };
    let policy = Overlap::Queue { limit: 2 };
    check(policy, &[], 0, &[1], &[Verdict::Run]);
    check(
        policy,
        &[7],
        0,
        &[1, 2, 3],
        &[queue(1), queue(2), skip.clone()],
    );
    check(policy, &[7], 2, &[1], &[skip]);
    // Nothing active, but something waits already: no overtaking.
    let behind = Blocker::Planned(minute(1));
    check(policy, &[], 1, &[1], &[Verdict::Queue { behind, place: 2 }]);
}

#[test]
fn the_window_is_judged_again_when_a_run_leaves_the_queue() {
    // MISS-016
    let window = Some(SignedDuration::from_mins(5));
    assert!(may_leave_queue(minute(0), window, minute(5)));
    assert!(!may_leave_queue(minute(0), window, minute(6)));
    assert!(may_leave_queue(minute(0), None, minute(600)));
}
