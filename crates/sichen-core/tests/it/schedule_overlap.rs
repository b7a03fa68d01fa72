//! Claims about overlap.

use jiff::{SignedDuration, Timestamp};
use sichen_core::schedule::overlap::{Active, Blocker, Origin, Overlap, Verdict, judge, start_by};

fn minute(minute: i64) -> Timestamp {
    Timestamp::from_second(1_780_000_000 + 60 * minute).expect("in range")
}

fn check(policy: Overlap, active: &[u32], queued: u32, planned: &[i64], expect: &[Verdict<u32>]) {
    let planned: Vec<_> = planned.iter().map(|at| minute(*at)).collect();
    assert_eq!(
        judge(policy, 1, Active::all(active, queued), &planned),
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
fn as_many_as_may_run_and_no_more() {
    let active = |runs| Active::all(runs, 0);
    let planned = [minute(1), minute(2)];
    let judged = judge(Overlap::Forbid, 3, active(&[7, 8]), &planned);
    let blocked_by = Blocker::Run(7);
    assert_eq!(judged, [Verdict::Run, Verdict::Skip { blocked_by }]);
    let judged = judge(
        Overlap::Queue { limit: 1 },
        2,
        active(&[]),
        &[minute(1), minute(2), minute(3)],
    );
    let behind = Blocker::Planned(minute(1));
    assert_eq!(
        judged,
        [
            Verdict::Run,
            Verdict::Run,
            Verdict::Queue { behind, place: 1 }
        ]
    );
}

#[test]
fn a_run_that_waits_counts_against_those_that_may_not_wait() {
    let blocked_by = Blocker::Planned(minute(1));
    check(
        Overlap::Forbid,
        &[],
        1,
        &[1],
        &[Verdict::Skip { blocked_by }],
    );
    check(
        Overlap::Replace,
        &[],
        1,
        &[1],
        &[Verdict::Replace { victims: vec![] }],
    );
}

#[test]
fn who_asks_decides_what_holds() {
    let queue = Overlap::Queue { limit: 3 };
    for policy in [Overlap::Allow, Overlap::Forbid, Overlap::Replace, queue] {
        assert_eq!(policy.of(Origin::Planned), policy);
        assert_eq!(policy.of(Origin::Manual(None)), Overlap::Allow);
        assert_eq!(policy.of(Origin::Manual(Some(queue))), queue);
        assert_eq!(policy.of(Origin::Backfill), Overlap::Allow);
    }
}

#[test]
fn the_latest_start_counts_from_the_planned_time_with_jitter() {
    let window = Some(SignedDuration::from_mins(5));
    assert_eq!(start_by(minute(1), window), Some(minute(6)));
    assert_eq!(start_by(minute(0), None), None);
}
