//! Which epoch a store has after it was restored.
//!
//! A fencing token begins with the store's epoch ([`crate::ids::Token`]). After a restore the epoch must
//! be above every one under which the lost tail may have given out tokens. What is restored knows only
//! its own; a store that was restored twice from one backup would take the same next number both times.
//! So time has a say: ten minutes are one epoch.
//!
//! # Invariants
//! - The answer is above `known`.
//! - Restores that are ten minutes apart never get the same epoch, by clocks that agree so far.
//! - Until the year 2066 a token stays below 2^53, so that programs that take numbers for floating
//!   ones read it as it is.
//!
//! # Not here
//! Writing it (`sichen-store`).

use jiff::Timestamp;

/// 2026-01-01T00:00:00Z.
const FIRST_SECOND: i64 = 1_767_225_600;
const SECONDS: i64 = 600;
/// The last epoch: tokens of it are below 2^63.
pub const LAST: u32 = i32::MAX as u32;

/// So many numbers are left out by a raised epoch, of runs, sessions and nodes and of events alike:
/// the lost tail may have given them to others, and nobody is to take one for another.
pub const NUMBERS_LEFT_OUT: u64 = 1_000_000;

/// The epoch of a store that is restored at `now`, where `known` is the highest that is known of.
///
/// ```
/// # use sichen_core::epoch;
/// let at = |text: &str| text.parse().unwrap();
/// assert_eq!(epoch::after(0, at("2026-01-01T00:10:00Z")), 1);
/// assert_eq!(epoch::after(0, at("2026-01-02T00:00:00Z")), 144);
/// // A clock that is wrong, or a second restore soon after the first.
/// assert_eq!(epoch::after(144, at("2026-01-02T00:00:01Z")), 145);
/// ```
#[must_use]
pub fn after(known: u32, now: Timestamp) -> u32 {
    let by_time = now
        .as_second()
        .saturating_sub(FIRST_SECOND)
        .div_euclid(SECONDS);
    let by_time = u32::try_from(by_time.max(0)).unwrap_or(LAST);
    by_time.max(known.saturating_add(1)).min(LAST)
}
