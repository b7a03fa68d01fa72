//! All schedules of a job as one row of planned instants.
//!
//! # Invariants
//! - An instant that several schedules name stands once.
//! - Counting is bounded: one schedule by arithmetic, several by walking at most [`MAX_WALK`]
//!   instants, or else day by day through at most [`MAX_TALLIED_DAYS`], after which the caller is
//!   told how far it got.

use jiff::Timestamp;

use super::rule::Schedule;
use super::tally::Tally;
use super::zone;

/// Instants walked in one count over several schedules.
pub(super) const MAX_WALK: u64 = 2_000;
/// Days tallied in one count over several schedules.
pub(super) const MAX_TALLIED_DAYS: u32 = 4_000;

#[derive(Debug, Clone, Copy)]
pub(super) struct Union<'a> {
    pub schedules: &'a [Schedule],
    /// An instant that no rule makes: the one that follows the job's last run.
    pub pending: Option<Timestamp>,
    /// The one before it, for periods only.
    pub before_pending: Option<Timestamp>,
}

/// A count, and how far it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    pub count: u64,
    pub first: Timestamp,
    /// The last instant counted.
    pub last: Timestamp,
    /// Whether that is the last of the range.
    pub whole: bool,
}

impl Union<'_> {
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let pending = self.pending.filter(|at| *at > after);
        self.schedules
            .iter()
            .filter_map(|schedule| schedule.next(after))
            .chain(pending)
            .min()
    }

    pub(super) fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        let pending = self.pending.filter(|at| *at < before);
        self.schedules
            .iter()
            .filter_map(|schedule| schedule.prev(before))
            .chain(pending)
            .max()
    }

    pub(super) fn prev_unbounded(&self, before: Timestamp) -> Option<Timestamp> {
        let followed = self.pending.into_iter().chain(self.before_pending);
        self.schedules
            .iter()
            .filter_map(|schedule| schedule.prev_unbounded(before))
            .chain(followed.filter(|at| *at < before))
            .max()
    }

    /// The first schedule that names an instant.
    pub(super) fn source(&self, planned: Timestamp) -> Option<usize> {
        let just_before = Timestamp::from_nanosecond(planned.as_nanosecond() - 1).ok()?;
        self.schedules
            .iter()
            .position(|schedule| schedule.next(just_before) == Some(planned))
    }

    /// Counts the instants strictly after `after` and strictly before `before`; `None` if there are
    /// none.
    pub(super) fn count(&self, after: Timestamp, before: Timestamp) -> Option<Counted> {
        let first = self.next(after).filter(|first| *first < before)?;
        let last = self.prev(before)?;
        if let ([schedule], None) = (self.schedules, self.pending) {
            return Some(Counted {
                count: schedule.count(after, last),
                first,
                last,
                whole: true,
            });
        }
        let (mut count, mut at) = (1, first);
        while at < last && count < MAX_WALK {
            at = self.next(at)?;
            count += 1;
        }
        if at < last {
            let (more, reached) = self.tally(at, last);
            return Some(Counted {
                count: count + more,
                first,
                last: reached,
                whole: reached == last,
            });
        }
        Some(Counted {
            count,
            first,
            last,
            whole: true,
        })
    }

    /// Counts the instants after `after` through `last`, or through the last one of the days that
    /// it may look at.
    fn tally(&self, after: Timestamp, last: Timestamp) -> (u64, Timestamp) {
        let mut from = after.as_second() + 1;
        let to = last.as_second() + 1;
        let mut count = 0;
        for _ in 0..MAX_TALLIED_DAYS {
            let mut tally = Tally::of_day_with(from);
            let end = tally.end().min(to);
            for schedule in self.schedules {
                schedule.mark(from, end, &mut tally);
            }
            if let Some(pending) = self
                .pending
                .filter(|at| (from..end).contains(&at.as_second()))
            {
                tally.set(pending.as_second());
            }
            count += tally.count();
            from = end;
            if end == to {
                return (count, last);
            }
        }
        // Some instant lies behind: at the very least the one counted before.
        (count, self.prev(zone::instant(from)).unwrap_or(after))
    }
}

/// How many instants of `schedules` are strictly between; one that several name counts once.
#[must_use]
pub fn count_between(schedules: &[Schedule], after: Timestamp, before: Timestamp) -> u64 {
    let union = Union {
        schedules,
        pending: None,
        before_pending: None,
    };
    let (mut count, mut after) = (0, after);
    // Each count gets farther, by days at least, so this ends.
    while let Some(counted) = union.count(after, before) {
        count += counted.count;
        if counted.whole {
            break;
        }
        after = counted.last;
    }
    count
}
