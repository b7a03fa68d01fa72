//! Matches what was planned with what was done, without believing what the scheduler says it was for.
//!
//! Each planned instant has a window in which a task must have begun; each task that did its work is
//! the witness of at most one instant. The most instants are matched by giving each task, in the
//! order of their begins, the open window that closes first.
//!
//! # Invariants
//! - Injective: a task is the witness of one instant, an instant has one witness.
//!
//! # Not here
//! How wide a window is ([`super::widths`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// When a task must begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Window {
    /// The planned instant.
    pub planned_us: i64,
    /// Not before.
    pub from_us: i64,
    /// Not after.
    pub to_us: i64,
}

/// What fits and what does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// Planned instant and begin.
    pub pairs: Vec<(i64, i64)>,
    /// Planned instants without a witness.
    pub missed: Vec<i64>,
    /// Begins that witness nothing.
    pub extra: Vec<i64>,
}

/// Matches `begins` with `windows`.
#[must_use]
pub fn matched(windows: &[Window], begins: &[i64]) -> Matched {
    let mut windows = windows.to_vec();
    windows.sort_unstable_by_key(|w| (w.from_us, w.to_us));
    let mut begins = begins.to_vec();
    begins.sort_unstable();
    let mut matched = Matched::default();
    let mut coming = windows.into_iter().peekable();
    let mut open: BinaryHeap<Reverse<(i64, i64)>> = BinaryHeap::new();
    for begin in begins {
        while let Some(window) = coming.next_if(|w| w.from_us <= begin) {
            open.push(Reverse((window.to_us, window.planned_us)));
        }
        let fits = loop {
            match open.pop() {
                Some(Reverse((to, planned))) if to < begin => matched.missed.push(planned),
                Some(Reverse((_, planned))) => break Some(planned),
                None => break None,
            }
        };
        match fits {
            Some(planned) => matched.pairs.push((planned, begin)),
            None => matched.extra.push(begin),
        }
    }
    let left = open.into_iter().map(|Reverse((_, planned))| planned);
    matched.missed.extend(left);
    matched.missed.extend(coming.map(|w| w.planned_us));
    matched.missed.sort_unstable();
    matched
}

#[cfg(test)]
mod tests;
