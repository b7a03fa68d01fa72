//! Where runs begin under the catch-up policy, and which instants are still in time.
//!
//! # Invariants
//! - An instant is in time or not by its own share of the jitter, and by nothing else.
//! - An instant that others are coalesced into is in time.
//!
//! # Not here
//! What is made of either side ([`super`]).

use jiff::{SignedDuration, Timestamp};

use super::super::cron::mix;
use super::{CatchUp, Decision, MAX_LIMIT, Reason, earlier, later};

/// Instants looked at, from the newest on, for one that has not passed its window. Where jitter alone
/// decides that, so many in a row pass it as good as never; if they do, none of them runs.
const MAX_LOOKED: u32 = 1_000;

impl Decision<'_> {
    /// The earliest instant that may run under the catch-up policy, and why those before it do not.
    /// Only instants that are in time by their own share of the jitter are chosen.
    pub(super) fn begin(
        &self,
        expired_before: Timestamp,
        beyond: Timestamp,
    ) -> (Timestamp, Reason) {
        let input = self.input;
        let floor = later(input.high_water, 1).max(expired_before);
        let on_time = earlier(input.now, input.on_time);
        let (newest, _) = self.nth_in_time(1, floor, beyond);
        let (begin, reason) = match (input.catch_up, newest) {
            (CatchUp::None, _) => (on_time, Reason::CatchUp),
            (_, None) => (on_time, Reason::Deadline),
            (CatchUp::Latest, Some(newest)) => (newest.min(on_time), Reason::CatchUp),
            (CatchUp::All(count), Some(_)) => {
                let (begin, all) = self.nth_in_time(count, floor, beyond);
                // With fewer than that, those before have all passed their window.
                let reason = if all {
                    Reason::CatchUp
                } else {
                    Reason::Deadline
                };
                (begin.unwrap_or(beyond).min(on_time), reason)
            }
            (CatchUp::Coalesce, Some(into)) => {
                let (late, _) = self.nth_in_time(1, floor, on_time.min(beyond));
                match late {
                    Some(_) => (into, Reason::Coalesced { into }),
                    None => (on_time, Reason::Deadline),
                }
            }
        };
        (begin.max(floor), reason)
    }

    /// The `n`th instant in time before `before`, counted from the newest, or the last one that there is
    /// from `floor` on; and whether it is the `n`th.
    fn nth_in_time(
        &self,
        n: u32,
        floor: Timestamp,
        before: Timestamp,
    ) -> (Option<Timestamp>, bool) {
        let n = n.min(MAX_LIMIT);
        let (mut at, mut found, mut nth) = (before, 0, None);
        for _ in 0..n.saturating_add(MAX_LOOKED) {
            match self.union.prev(at).filter(|at| *at >= floor) {
                Some(earlier) if found < n => at = earlier,
                _ => break,
            }
            if !self.has_expired(at) {
                nth = Some(at);
                found += 1;
            }
        }
        (nth, found == n)
    }

    /// From when on an instant may start.
    pub(super) fn not_before(&self, planned: Timestamp) -> Timestamp {
        planned.checked_add(self.jitter(planned)).unwrap_or(planned)
    }

    /// Whether an instant has passed its window, counted from its own share of the jitter on.
    pub(super) fn has_expired(&self, planned: Timestamp) -> bool {
        let lateness = self.input.now.duration_since(self.not_before(planned));
        self.input.window.is_some_and(|window| lateness > window)
    }

    /// This instant's own share of the jitter.
    fn jitter(&self, planned: Timestamp) -> SignedDuration {
        let range = self.input.jitter.as_millis();
        if range <= 0 {
            return SignedDuration::ZERO;
        }
        let spread = mix(self.input.jitter_seed ^ mix(planned.as_second() as u64));
        let share = u128::from(spread) % (range as u128 + 1);
        SignedDuration::from_millis(share as i64)
    }
}
