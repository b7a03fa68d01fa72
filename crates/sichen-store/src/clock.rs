//! The clock a store decides by.
//!
//! # Invariant
//! [`Mark::read`] never goes back, whatever the clock below it does.
//!
//! # Not here
//! Workers' own deadlines (boot clock, SDK), pacing of loops (engine).

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

/// Where a store takes its time from.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present instant, in whole microseconds.
    fn now(&self) -> Timestamp;
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
}

/// A clock that stands still until it is moved: for tests and simulation.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that stands at `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self(AtomicI64::new(start.as_microsecond()))
    }

    /// Moves it to `to`, forwards or back.
    pub fn set(&self, to: Timestamp) {
        self.0.store(to.as_microsecond(), Ordering::SeqCst);
    }

    /// Moves it on.
    pub fn advance(&self, by: jiff::SignedDuration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.0.load(Ordering::SeqCst)).unwrap_or(Timestamp::MAX)
    }
}

/// The highest instant a store has used; what it reads never lies before it.
#[derive(Debug)]
pub struct Mark(AtomicI64);

impl Mark {
    /// A mark at `at`.
    #[must_use]
    pub fn new(at: Timestamp) -> Self {
        Self(AtomicI64::new(at.as_microsecond()))
    }

    /// Reads `clock` and raises the mark.
    pub fn read(&self, clock: &dyn Clock) -> Timestamp {
        let now = clock.now().as_microsecond();
        let before = self.0.fetch_max(now, Ordering::SeqCst);
        Timestamp::from_microsecond(before.max(now)).unwrap_or(Timestamp::MAX)
    }
}
