//! The one place where the command line reads clocks and draws ids.
//!
//! # Not here
//! Any decision: those use the store's clock.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use uuid::Uuid;

/// This machine's wall clock, to show ages by.
#[expect(
    clippy::disallowed_methods,
    reason = "ages are shown by the reader's own clock"
)]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// A new idempotency key: 78 random bits, short enough to be read and copied.
#[expect(
    clippy::disallowed_methods,
    reason = "the command line is an edge, which makes ids"
)]
pub fn new_key() -> String {
    let drawn = Uuid::new_v4().as_u128();
    // The last 80 bits, of which two are fixed.
    let letters = (0..16u32).rev().map(|place| {
        let index = usize::try_from(drawn >> (5 * place) & 31).unwrap_or_default();
        char::from(b"0123456789abcdefghjkmnpqrstvwxyz"[index])
    });
    letters.collect()
}

/// A span of waiting that ends.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// `length` from now; `None` never ends.
    #[expect(
        clippy::disallowed_methods,
        reason = "waiting is measured by the monotonic clock"
    )]
    pub fn after(length: Option<Duration>) -> Self {
        Self(length.and_then(|l| Instant::now().checked_add(l)))
    }

    /// Whether it has ended.
    pub fn has_passed(self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// What is left of it; `None` if it never ends.
    #[expect(
        clippy::disallowed_methods,
        reason = "waiting is measured by the monotonic clock"
    )]
    pub fn left(self) -> Option<Duration> {
        self.0
            .map(|end| end.saturating_duration_since(Instant::now()))
    }
}

/// Counts how long something has taken.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// From now.
    #[expect(
        clippy::disallowed_methods,
        reason = "waiting is measured by the monotonic clock"
    )]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// So far.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
