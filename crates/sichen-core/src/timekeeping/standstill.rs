//! Leases while time stands still: a clock that was set back must not keep the dead alive.
//!
//! While the wall clock is behind, the store's time stands still ([`super`]), and so would the end of
//! every lease that nobody renews. What has passed by the monotonic clock is taken off such a lease
//! instead, so that it ends when it would have. One that is renewed is full again.
//!
//! # Invariants
//! - No lease (whose length does not change meanwhile) ends earlier than by the monotonic clock: only what has passed since it was last found
//!   unchanged is taken off it. That it was renewed shows in its end, since each look leaves a mark
//!   there: a microsecond less.
//! - Nothing is taken while time goes on.
//!
//! # Not here
//! Listing and writing leases, where one renewed meanwhile is left alone (`TimeStore::shorten_leases`).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{Standing, Told};

/// Taken off a lease that was renewed since the last look, so that the next one sees whether it was
/// renewed again.
const MARK: SignedDuration = SignedDuration::from_micros(1);

/// What was seen of leases since time began to stand still. Losing it makes them longer by a look.
#[derive(Clone, Debug)]
pub struct Standstill<K> {
    /// By the monotonic clock, after the last look's ends were written.
    since: Option<Timestamp>,
    /// The ends as they were left.
    left: BTreeMap<K, Timestamp>,
}

impl<K> Default for Standstill<K> {
    fn default() -> Self {
        Self {
            since: None,
            left: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Copy> Standstill<K> {
    /// The new ends of the leases `live`, which were listed after `told` was: each with the one from
    /// which it is to be changed. None while time goes on.
    pub fn look(&mut self, told: &Told, live: &[(K, Timestamp)]) -> Vec<(K, Timestamp, Timestamp)> {
        if told.standing() != Standing::Behind {
            *self = Self::default();
            return Vec::new();
        }
        let passed = self.since.map(|since| told.steady.duration_since(since));
        // Whole microseconds, as stores keep them: an end that comes back cut off would look like a renewal.
        let passed = passed.map_or(0, |passed| passed.as_micros());
        let passed = SignedDuration::from_micros(i64::try_from(passed).unwrap_or(0)).max(MARK);
        let shorter = live.iter().map(|(id, end)| {
            let unchanged = self.left.get(id) == Some(end);
            let less = if unchanged { passed } else { MARK };
            (*id, *end, end.checked_sub(less).unwrap_or(*end))
        });
        let shorter: Vec<_> = shorter.collect();
        self.left = shorter.iter().map(|(id, _, to)| (*id, *to)).collect();
        self.since = None;
        shorter
    }

    /// They were written before `told` was.
    pub fn written(&mut self, told: &Told) {
        self.since = Some(told.steady);
    }
}

#[cfg(test)]
#[path = "standstill_tests.rs"]
mod tests;
