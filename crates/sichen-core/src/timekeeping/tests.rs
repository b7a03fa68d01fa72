//! Clocks that step, drift and sleep.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::{Kept, MAX_STEP, Reading, Standing, Timekeeper, Told};

fn at(s: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + s).unwrap()
}

fn secs(s: i64) -> SignedDuration {
    SignedDuration::from_secs(s)
}

/// A store and the two clocks of one process.
struct World {
    keeper: Timekeeper,
    kept: Kept,
    wall: i64,
    elapsed: i64,
}

impl World {
    fn new() -> Self {
        let kept = Kept {
            mark: at(0),
            ..Kept::default()
        };
        let mut world = Self {
            keeper: Timekeeper::default(),
            kept,
            wall: 0,
            elapsed: 500,
        };
        world.read();
        world
    }

    fn pass(&mut self, s: i64) {
        self.wall += s;
        self.elapsed += s;
    }

    /// Reads, and keeps what a store keeps.
    fn read(&mut self) -> Told {
        let reading = Reading {
            wall: at(self.wall),
            elapsed: secs(self.elapsed),
        };
        let told = self.keeper.read(reading, &self.kept);
        (self.kept.mark, self.kept.held) = (told.now, told.held);
        told
    }

    fn check(&mut self, now: i64, held: bool) {
        let told = self.read();
        assert_eq!((told.now, told.held), (at(now), held));
    }

    fn accept(&mut self) {
        self.kept.accepts += 1;
        self.kept.held = false;
        self.kept.mark = self.kept.mark.max(at(self.wall));
    }

    fn restart(&mut self) {
        self.keeper = Timekeeper::default();
        self.elapsed = 7;
    }
}

#[test]
fn a_small_step_ahead_is_believed() {
    let mut w = World::new();
    w.pass(5);
    w.wall += MAX_STEP.as_secs();
    w.check(35, false);
}

#[test]
fn a_large_step_ahead_is_held_and_time_goes_on_by_what_passes() {
    let mut w = World::new();
    w.wall += 3_600;
    w.pass(5);
    w.check(5, true);
    w.pass(100);
    w.check(105, true);
}

#[test]
fn an_accepted_step_is_believed_from_then_on() {
    let mut w = World::new();
    w.wall += 3_600;
    w.check(0, true);
    w.accept();
    w.pass(1);
    w.check(3_601, false);
    w.wall += 3_600;
    w.check(3_601, true);
}

#[test]
fn a_clock_that_is_right_again_is_believed() {
    let mut w = World::new();
    w.wall += 3_600;
    w.check(0, true);
    w.wall -= 3_600;
    w.pass(10);
    w.check(10, false);
}

#[test]
fn a_step_stays_held_over_a_restart() {
    let mut w = World::new();
    w.wall += 3_600;
    w.pass(10);
    w.check(10, true);
    w.restart();
    w.pass(20);
    // Nobody knows how long nobody looked: time goes on from what was kept.
    w.check(10, true);
    w.pass(5);
    w.check(15, true);
}

#[test]
fn who_starts_believes_the_clock() {
    let mut w = World::new();
    w.restart();
    w.pass(1_000_000);
    w.check(1_000_000, false);
}

#[test]
fn who_was_asleep_believes_what_others_have_used() {
    let mut w = World::new();
    // The wall clock went on, its own monotonic clock did not.
    w.wall += 600;
    w.kept.mark = at(590);
    w.check(600, false);
    w.pass(1);
    w.check(601, false);
}

#[test]
fn while_the_clock_is_behind_time_stands() {
    let mut w = World::new();
    w.pass(100);
    w.check(100, false);
    w.wall -= 50;
    w.check(100, false);
    w.pass(40);
    w.check(100, false);
    w.pass(20);
    w.check(110, false);
}

/// MISS-005: a step back is told from the little by which what others have used is ahead.
#[test]
fn how_the_clock_stands_is_told() {
    let mut w = World::new();
    w.pass(100);
    assert_eq!(w.read().standing(), Standing::Right);
    w.wall -= 2;
    assert_eq!(w.read().standing(), Standing::Right);
    w.wall -= 118;
    assert_eq!(w.read().standing(), Standing::Behind);
    w.pass(117);
    assert_eq!(w.read().standing(), Standing::Behind);
    w.pass(2);
    assert_eq!(w.read().standing(), Standing::Right);
    w.wall += 200;
    assert_eq!(w.read().standing(), Standing::Ahead);
}

#[test]
fn a_slow_drift_is_no_step() {
    let mut w = World::new();
    for _ in 0..100 {
        w.pass(3_700);
        w.wall += 2;
        assert!(!w.read().held);
    }
}

proptest! {
    /// Whatever the wall clock does, time never goes back, and without an acceptance it never gains
    /// more than the step an hour (and one more).
    #[test]
    fn time_never_goes_back_nor_runs_away(steps in prop::collection::vec((0_i64..2_000, -5_000_i64..5_000), 1..60)) {
        let mut w = World::new();
        let (mut last, mut passed) = (at(0), 0);
        for (pass, step) in steps {
            w.pass(pass);
            w.wall += step;
            passed += pass;
            let told = w.read();
            prop_assert!(told.now >= last);
            let most = passed + (passed / 3_600 + 2) * MAX_STEP.as_secs();
            prop_assert!(told.now <= at(most), "{told:?} after {passed} s");
            last = told.now;
        }
    }
}
