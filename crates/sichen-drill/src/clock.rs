//! The one place where a drill reads clocks.
//!
//! # Not here
//! Any judgement: that is done on what was written down.

use std::time::{Duration, Instant};

/// This machine's wall clock, in microseconds: tasks, faults and the timeline are told by it.
#[expect(
    clippy::disallowed_methods,
    reason = "evidence is told by this machine's clock"
)]
pub(crate) fn wall_us() -> i64 {
    jiff::Timestamp::now().as_microsecond()
}

/// Time that passes, whatever becomes of the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "waiting is measured by the monotonic clock"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn ms(self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn is_past(self, limit: Duration) -> bool {
        self.0.elapsed() >= limit
    }
}
