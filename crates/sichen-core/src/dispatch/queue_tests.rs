//! Claims about the order of waiting work and the windows onto it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn place(lane: i64, rank: i64, turn: i64, run: u64) -> Place {
    Place {
        queue: (lane << RANK_BITS) | rank,
        turn,
        run: RunId(run),
    }
}

fn read(window: Window, waiting: &BTreeMap<Place, Place>) -> (Vec<Place>, Walk) {
    let walk = Walk::new(window, Place::FIRST);
    let (found, walk) = walk.along(waiting, |_| true);
    (found.into_iter().copied().collect(), walk)
}

#[test]
fn numbers_are_those_that_migrations_compute() {
    // The same figures stand in the tests of the two databases' migrations.
    let name = |text| Name::new(text).unwrap();
    let default = queue(&name("default"), Lane::Live, 0);
    assert_eq!(default & RANK_MASK, 1_000);
    assert_eq!(default >> (RANK_BITS + 1), number("default"));
    let backfill = queue(&name("default"), Lane::Backfill, 1_000);
    assert_eq!(backfill, (default & !RANK_MASK) | (1 << RANK_BITS));
    assert!(queue(&name("default"), Lane::Live, 5) < default);
    assert!(queue(&name("default"), Lane::Live, -1_000) < backfill);
}

#[test]
fn a_flood_in_one_lane_hides_no_other() {
    let mut waiting = BTreeMap::new();
    for run in 0..10_000 {
        let place = place(1, 1_000, 5, run);
        waiting.insert(place, place);
    }
    for lane in 2..900 {
        let place = place(lane, 1_000, 1, 20_000 + u64::try_from(lane).unwrap());
        waiting.insert(place, place);
    }
    let (found, walk) = read(Window::over(2_000, 900, 900), &waiting);
    let lanes: BTreeSet<i64> = found.iter().map(Place::lane).collect();
    assert_eq!(lanes.len(), 899);
    assert!(!walk.is_full() && walk.is_cut());
}

#[test]
fn a_flood_of_one_job_hides_no_other_job() {
    let mut waiting = BTreeMap::new();
    for run in 0..10_000 {
        let place = place(1, 1_000, 5, run);
        waiting.insert(place, place);
    }
    let mut seen = Seen::default();
    for turn in 6..300 {
        let (found, walk) = read(seen.window(6_000), &waiting);
        assert!(!seen.note(&walk));
        let jobs: BTreeSet<i64> = found.iter().map(|place| place.turn).collect();
        assert_eq!(jobs.len(), usize::try_from(turn - 5).unwrap());
        let place = place(1, 1_000, turn, 20_000);
        waiting.insert(place, place);
    }
}

proptest! {
    #[test]
    fn a_window_shows_each_lane_priority_and_job_it_has_room_for(
        places in prop::collection::btree_set((1_i64..6, 0_i64..4, 0_i64..4, 0_u64..40), 0..300),
    ) {
        let places = places.into_iter().map(|(l, r, t, n)| place(l, r, t, n));
        let waiting: BTreeMap<Place, Place> = places.map(|p| (p, p)).collect();
        // All of it.
        let (all, walk) = read(Window { total: 1_000, lane: 1_000, job: 1_000 }, &waiting);
        prop_assert_eq!(all.len(), waiting.len());
        prop_assert!(!walk.is_cut() && !walk.is_full());
        // A part.
        let window = Window { total: 1_000, lane: 24, job: 2 };
        let (part, walk) = read(window, &waiting);
        let lanes = |found: &[Place]| found.iter().map(Place::lane).collect::<BTreeSet<_>>();
        let queues = |found: &[Place]| found.iter().map(|p| p.queue).collect::<BTreeSet<_>>();
        let jobs = |found: &[Place]| found.iter().map(|p| (p.queue, p.turn)).collect::<BTreeSet<_>>();
        prop_assert_eq!(lanes(&part), lanes(&all));
        prop_assert_eq!(queues(&part), queues(&all));
        prop_assert!(jobs(&part).len() >= jobs(&all).len().min(2));
        prop_assert_eq!(u32::try_from(lanes(&part).len()).unwrap(), walk.met().0);
        prop_assert_eq!(u32::try_from(jobs(&part).len()).unwrap(), walk.met().1);
        prop_assert!(walk.is_cut() || part.len() == all.len());
        for lane in lanes(&part) {
            prop_assert!(part.iter().filter(|p| p.lane() == lane).count() <= 24);
        }
        for (queue, turn) in jobs(&part) {
            let of = part.iter().filter(|p| (p.queue, p.turn) == (queue, turn));
            prop_assert!(of.count() <= 2);
        }
        let order: BTreeSet<Place> = part.iter().copied().collect();
        prop_assert_eq!(order.len(), part.len());
        prop_assert!(part.is_sorted());
    }
}
