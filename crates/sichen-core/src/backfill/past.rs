//! The planned instants of a job's past, each by the revision that had it.
//!
//! # Invariants
//! - A revision names the instants after the mark at which it began, up to and with the mark at
//!   which the next one did.
//! - Before the first known beginning, the newest revision names them: a backfill may reach before
//!   the job's creation, where the schedule in force is the only one there is.
//!
//! # Not here
//! What became of these instants (`super::Facts`).

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::document::Timing;

/// The schedules that named a job's instants, one after the other.
#[derive(Clone, Debug)]
pub struct Past {
    /// Each names the instants after its first; in order. Never empty.
    segments: Vec<(Timestamp, Arc<Timing>)>,
}

impl Past {
    /// `revisions` with the marks at which they began, in their order; `newest` names what is before
    /// the first of them.
    #[must_use]
    pub fn new(newest: Arc<Timing>, revisions: Vec<(Timestamp, Arc<Timing>)>) -> Self {
        let mut segments = vec![(Timestamp::MIN, newest)];
        segments.extend(revisions);
        Self { segments }
    }

    /// The schedule that names the instants right after `after`.
    fn segment(&self, after: Timestamp) -> usize {
        let begun = self.segments.partition_point(|(begin, _)| *begin <= after);
        begun.saturating_sub(1)
    }

    fn end(&self, segment: usize) -> Timestamp {
        let next = self.segments.get(segment + 1);
        next.map_or(Timestamp::MAX, |(begin, _)| *begin)
    }

    /// The schedule that names `at`, if it is an instant of the job.
    #[must_use]
    pub fn timing(&self, at: Timestamp) -> &Arc<Timing> {
        let before = at.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(at);
        &self.segments[self.segment(before)].1
    }

    /// The first instant in `[from, below)`.
    #[must_use]
    pub fn first(&self, from: Timestamp, below: Timestamp) -> Option<Timestamp> {
        let mut after = from.checked_sub(SignedDuration::from_nanos(1)).ok()?;
        for segment in self.segment(after)..self.segments.len() {
            let (begin, timing) = &self.segments[segment];
            after = after.max(*begin);
            if after >= below {
                return None;
            }
            let found = timing.next(after);
            if let Some(at) = found.filter(|at| *at <= self.end(segment)) {
                return Some(at).filter(|at| *at < below);
            }
        }
        None
    }

    /// The last instant in `[from, below)`.
    #[must_use]
    pub fn last(&self, from: Timestamp, below: Timestamp) -> Option<Timestamp> {
        let after = from.checked_sub(SignedDuration::from_nanos(1)).ok()?;
        let mut below = below;
        let last = below.checked_sub(SignedDuration::from_nanos(1)).ok()?;
        // The schedule of the instant right before `below` is the one that began before that.
        let newest = last.checked_sub(SignedDuration::from_nanos(1)).ok()?;
        for segment in (0..=self.segment(newest)).rev() {
            let (begin, timing) = &self.segments[segment];
            let end = self.end(segment);
            below = below.min(
                end.checked_add(SignedDuration::from_nanos(1))
                    .unwrap_or(end),
            );
            if below <= from {
                return None;
            }
            let found = timing.prev(below);
            if let Some(at) = found.filter(|at| at > begin) {
                return Some(at).filter(|at| *at > after);
            }
        }
        None
    }

    /// How many instants are in `[from, below)`: arithmetic, whatever their number.
    #[must_use]
    pub fn count(&self, from: Timestamp, below: Timestamp) -> u64 {
        let Ok(after) = from.checked_sub(SignedDuration::from_nanos(1)) else {
            return 0;
        };
        let mut count = 0;
        for segment in self.segment(after)..self.segments.len() {
            let (begin, timing) = &self.segments[segment];
            let end = self.end(segment);
            let after = after.max(*begin);
            let end = end
                .checked_add(SignedDuration::from_nanos(1))
                .unwrap_or(end);
            let before = below.min(end);
            if after >= before {
                break;
            }
            count += timing.count(after, before);
        }
        count
    }
}
