//! The clock a store decides by.
//!
//! # Not here
//! What is made of it ([`sichen_core::timekeeping`]), workers' own deadlines (boot clock, SDK), pacing of loops (engine).

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use nix::time::{ClockId, clock_gettime};
use sichen_core::timekeeping::{Kept, Reading, Standing, Timekeeper, Told};

/// Where a store takes its time from.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present instant, in whole microseconds.
    fn now(&self) -> Timestamp;
    /// What has passed since some beginning, also while the machine slept; it never steps.
    fn elapsed(&self) -> SignedDuration;
    /// Both.
    fn reading(&self) -> Reading {
        Reading {
            wall: self.now(),
            elapsed: self.elapsed(),
        }
    }
}

/// The machine's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where a store reads the clock"
    )]
    fn now(&self) -> Timestamp {
        let micros = Timestamp::now().as_microsecond();
        Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX)
    }
    fn elapsed(&self) -> SignedDuration {
        // Unlike CLOCK_MONOTONIC it counts the time in suspend.
        #[cfg(target_os = "linux")]
        let id = ClockId::CLOCK_BOOTTIME;
        #[cfg(not(target_os = "linux"))]
        let id = ClockId::CLOCK_MONOTONIC;
        clock_gettime(id).map_or(SignedDuration::ZERO, |time| {
            #[allow(clippy::useless_conversion, reason = "of another width elsewhere")]
            let (seconds, nanos) = (i64::from(time.tv_sec()), i32::try_from(time.tv_nsec()));
            SignedDuration::new(seconds, nanos.unwrap_or(0))
        })
    }
}

/// A clock that stands still until it is moved: for tests and simulation.
#[derive(Debug)]
pub struct ManualClock {
    wall: AtomicI64,
    elapsed: AtomicI64,
}

impl ManualClock {
    /// A clock that stands at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self {
            wall: AtomicI64::new(start.as_microsecond()),
            elapsed: AtomicI64::new(0),
        }
    }

    /// Moves it to `to`: forwards by time that passes, or back.
    pub fn set(&self, to: Timestamp) {
        let before = self.wall.swap(to.as_microsecond(), Ordering::SeqCst);
        let passed = to.as_microsecond().saturating_sub(before).max(0);
        self.elapsed.fetch_add(passed, Ordering::SeqCst);
    }

    /// Lets time pass.
    pub fn advance(&self, by: SignedDuration) {
        self.step(by);
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.elapsed.fetch_add(micros, Ordering::SeqCst);
    }

    /// Steps, without any time that passes.
    pub fn step(&self, by: SignedDuration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.wall.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.wall.load(Ordering::SeqCst)).unwrap_or(Timestamp::MAX)
    }
    fn elapsed(&self) -> SignedDuration {
        SignedDuration::from_micros(self.elapsed.load(Ordering::SeqCst))
    }
}

/// Keeps the time of a store in this process.
#[derive(Debug)]
pub(crate) struct Keeper {
    clock: Arc<dyn Clock>,
    state: Mutex<(Timekeeper, Kept)>,
    standing: Mutex<Standing>,
}

impl Keeper {
    /// A keeper that goes on from what was kept.
    pub fn new(clock: Arc<dyn Clock>, kept: Kept) -> Self {
        let standing = if kept.held {
            Standing::Ahead
        } else {
            Standing::Right
        };
        Self {
            clock,
            state: Mutex::new((Timekeeper::default(), kept)),
            standing: Mutex::new(standing),
        }
    }

    /// The time now, which is kept.
    pub fn read(&self) -> Told {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (keeper, kept) = &mut *state;
        let told = keeper.read(self.clock.reading(), kept);
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        report(&told, &mut standing);
        (kept.mark, kept.held) = (told.now, told.held);
        told
    }

    /// What is kept now.
    pub fn kept(&self) -> Kept {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Believes the clock from now on: it was the acceptance of this number.
    pub fn accept(&self, accepts: u32) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.1.held, state.1.accepts) = (false, accepts);
    }
}

/// Says it loudly when the clock begins to be wrong, and when it is right again.
pub(crate) fn report(told: &Told, was: &mut Standing) {
    let before = std::mem::replace(was, told.standing());
    if *was == before {
        return;
    }
    let ahead_seconds = told.wall.duration_since(told.now).as_secs();
    match *was {
        Standing::Ahead => tracing::error!(
            ahead_seconds,
            "SC4020: the store's clock stepped ahead: nothing fires until it is accepted (sichen \
             clock accept) or right again"
        ),
        Standing::Behind => tracing::warn!(
            ahead_seconds,
            "SC4021: the store's clock stepped back: time stands still until it has caught up, \
             nothing is repeated or left out"
        ),
        Standing::Right => tracing::warn!("the store's clock is believed again"),
    }
}
