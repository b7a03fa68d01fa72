//! Which grants of a session have come: their numbers, and which below the highest are still awaited.
//!
//! Two transactions that end side by side may be told in either order, so a lower number can come after
//! a higher one. One that was taken for lost is not awaited any more: the server gives back what two
//! beats running do not list, and an attempt begun after that would run under a token that is past.
//!
//! # Invariants
//! - A number is new once.
//! - A missing number is awaited until a second beat is sent that covers it, no longer.
//! - Never more than [`MAX_AWAITED`] are awaited.
//!
//! # Not here
//! What a grant is about, and whether it is taken (`attempts`).

use std::collections::BTreeMap;

/// Grants that are awaited below the highest that has come.
pub const MAX_AWAITED: u64 = 1_000;

/// The numbers that have come.
#[derive(Debug, Default)]
pub(super) struct Seen {
    highest: u64,
    /// Missing numbers, and whether a beat was sent since.
    awaited: BTreeMap<u64, bool>,
}

impl Seen {
    /// The highest number that has come.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// A grant has come; whether it is to be looked at, or has come before.
    pub fn take(&mut self, seq: u64) -> bool {
        if seq <= self.highest {
            return self.awaited.remove(&seq).is_some();
        }
        let first = (self.highest + 1).max(seq.saturating_sub(MAX_AWAITED));
        self.awaited.extend((first..seq).map(|n| (n, false)));
        self.highest = seq;
        let excess = self.awaited.len().saturating_sub(MAX_AWAITED as usize);
        for _ in 0..excess {
            self.awaited.pop_first();
        }
        true
    }

    /// A beat was sent.
    pub fn told(&mut self) {
        self.awaited
            .retain(|_, once| !std::mem::replace(once, true));
    }
}

#[cfg(test)]
mod tests;
