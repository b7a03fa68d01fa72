//! The store's time.

use jiff::{SignedDuration, Timestamp};

use super::{Answer, Fence, Op, Shorter, Usage};
use crate::timekeeping::Told;

/// The store's time. A part of [`Store`](super::Store).
pub trait TimeStore: Send + Sync + 'static {
    /// The store's clock: the one authority on what is due and what has expired.
    fn now(&self) -> Answer<'_, Timestamp>;
    /// The same, with what is wrong with it. While time is held nothing is due.
    fn clock(&self) -> Answer<'_, Told>;
    /// Believes a clock that stepped ahead: by how much, or `None` if time is not held. What runs is
    /// given as much more time: sessions, nodes' leases, attempts' timeouts and runs' deadlines.
    fn accept_clock(&self, op: Op) -> Answer<'_, Option<SignedDuration>>;
    /// While the clock is behind, and time stands still: gives leases that nobody renews the ends that
    /// they would have ([`crate::timekeeping::standstill`]). One that was renewed meanwhile is passed
    /// over. How many were changed: none while time goes on or under an old term, no session's but under the
    /// janitor's ([`Shorter::is_worn_under`]).
    fn shorten_leases(&self, op: Op, fence: Fence, leases: Vec<Shorter>) -> Answer<'_, u32>;
    /// What the store has been asked, as it counts itself: asks nobody.
    fn usage(&self) -> Usage {
        Usage::default()
    }
}
