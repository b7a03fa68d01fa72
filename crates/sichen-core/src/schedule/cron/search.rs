//! From civil matches to instants: gaps, folds, and the two classes of expression.
//!
//! A zone is a row of stretches of constant offset. Within one, civil time and elapsed time run
//! alike, so a civil match is an instant; only at a stretch's start something special can happen:
//! civil times that were left out (a gap) or that come again (a fold).
//!
//! # Invariants
//! - [`next`] is strictly after its argument, [`prev`] strictly before, and each undoes the other.
//! - An instant is found once, however many civil times lead to it.
//! - The number of stretches walked is bounded by the number of transitions within days of a civil
//!   match; where there is none for long, they are not looked at.

use jiff::tz::TimeZone;

use super::pattern::{DAY, Pattern};
use super::{Class, Fold, Gap};
use crate::schedule::tally::Tally;
use crate::schedule::zone::{FIRST, LAST, Stretch};
use crate::zoo;

/// What is searched: a pattern with the policy that applies to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Search<'a> {
    pub pattern: &'a Pattern,
    pub gap: Gap,
    pub fold: Fold,
    pub zone: &'a TimeZone,
}

impl<'a> Search<'a> {
    /// An interval class follows elapsed time whatever the policy says.
    pub(super) fn new(
        pattern: &'a Pattern,
        class: Class,
        gap: Gap,
        fold: Fold,
        zone: &'a TimeZone,
    ) -> Search<'a> {
        let (gap, fold) = match class {
            Class::Interval => (Gap::Skip, Fold::Both),
            Class::Fixed => (gap, fold),
        };
        Search {
            pattern,
            gap,
            fold,
            zone,
        }
    }

    /// The first instant at or after `from`, all in seconds.
    pub(super) fn next(&self, from: i64) -> Option<i64> {
        let from = from.max(FIRST);
        if from > LAST {
            return None;
        }
        let mut stretch = self.stretch(from);
        let mut at = from;
        loop {
            if let Some(found) = self.next_in(&stretch, at) {
                return (found <= LAST).then_some(found);
            }
            // A fold goes back by a day at most; if there is nothing from there on, there is nothing,
            // and if there is nothing for long, the clock changes in between are passed over.
            let civil = self.pattern.next(at + stretch.offset - 2 * DAY)?;
            let far = civil - stretch.offset - 2 * DAY;
            if far > LAST {
                return None;
            }
            if far > stretch.end {
                (at, stretch) = (far, self.stretch(far));
            } else {
                stretch = stretch.next(self.zone)?;
                at = stretch.start;
            }
        }
    }

    /// The last instant at or before `to`.
    pub(super) fn prev(&self, to: i64) -> Option<i64> {
        let to = to.min(LAST);
        if to < FIRST {
            return None;
        }
        let mut stretch = Stretch::at(self.zone, to);
        let mut at = to;
        loop {
            if let Some(found) = self.prev_in(&stretch, at) {
                return (found >= FIRST).then_some(found);
            }
            let civil = self.pattern.prev(at + stretch.offset + 2 * DAY)?;
            let far = civil - stretch.offset + 2 * DAY;
            if far < FIRST {
                return None;
            }
            if far < stretch.start.saturating_sub(1) {
                (at, stretch) = (far, Stretch::at(self.zone, far));
            } else {
                stretch = stretch.prev(self.zone)?;
                at = stretch.end - 1;
            }
        }
    }

    /// How many instants lie in `[from, to)`. Walks transitions and months, not instants.
    pub(super) fn count(&self, from: i64, to: i64) -> u64 {
        let (from, to) = (from.max(FIRST), to.min(LAST + 1));
        if from >= to {
            return 0;
        }
        let mut total = 0;
        let mut stretch = Stretch::at(self.zone, from);
        let mut at = from;
        loop {
            let end = to.min(stretch.end);
            total += self.count_in(&stretch, at, end);
            if end == to {
                return total;
            }
            let Some(next) = stretch.next(self.zone) else {
                return total;
            };
            stretch = next;
            at = stretch.start;
        }
    }

    /// Marks the instants in `[from, to)`, which lie within the tally's day.
    pub(super) fn mark(&self, from: i64, to: i64, tally: &mut Tally) {
        let (from, to) = (from.max(FIRST), to.min(LAST + 1));
        if from >= to {
            return;
        }
        let mut stretch = Stretch::at(self.zone, from);
        let mut at = from;
        loop {
            let end = to.min(stretch.end);
            let (start, until) = (at + stretch.offset, end + stretch.offset);
            let lower = self.lower(&stretch, start);
            self.pattern.each_minute(lower, until, |civil, seconds| {
                tally.mark(civil - stretch.offset, seconds)
            });
            let mut civil = start;
            while let Some(moved) = self
                .moved_at_or_after(&stretch, civil)
                .filter(|moved| *moved < until)
            {
                tally.set(moved - stretch.offset);
                civil = moved + 1;
            }
            if end == to {
                return;
            }
            let Some(next) = stretch.next(self.zone) else {
                return;
            };
            stretch = next;
            at = stretch.start;
        }
    }

    /// The clock changes in `[from, to)` whose gap holds matches, and how many; at most `limit`.
    pub(super) fn left_out(&self, from: i64, to: i64, limit: usize) -> Vec<(i64, u64)> {
        let (from, to) = (from.max(FIRST), to.min(LAST + 1));
        let mut found = Vec::new();
        if from >= to {
            return found;
        }
        let mut stretch = Stretch::at(self.zone, from);
        // The stretch at hand began before, unless it begins right here.
        let mut begins_here = stretch.start == from;
        while found.len() < limit && stretch.start < to {
            if let (true, Some((gap, width))) = (begins_here, missing(&stretch)) {
                let count = self.pattern.count(gap, gap + width);
                if count > 0 {
                    found.push((stretch.start, count));
                }
            }
            let Some(next) = stretch.next(self.zone) else {
                break;
            };
            stretch = next;
            begins_here = true;
        }
        found
    }

    /// The nominal civil second of an instant that was found: before any gap moved it.
    pub(super) fn nominal(&self, found: i64) -> i64 {
        let stretch = Stretch::at(self.zone, found);
        let civil = found + stretch.offset;
        if self.pattern.next(civil) == Some(civil) {
            return civil;
        }
        let Some((gap, width)) = missing(&stretch) else {
            return civil;
        };
        match self.gap {
            Gap::Skip => civil,
            Gap::FirstValid => self.pattern.next(gap).unwrap_or(civil),
            Gap::Shift => civil - width,
        }
    }

    /// The stretch from a second on; with its start, if that matters.
    fn stretch(&self, at: i64) -> Stretch {
        if self.starts_matter() {
            Stretch::at(self.zone, at)
        } else {
            Stretch::from(self.zone, at)
        }
    }

    /// Whether anything special happens at the start of a stretch.
    fn starts_matter(&self) -> bool {
        self.gap != Gap::Skip || self.fold != Fold::Both
    }

    fn next_in(&self, stretch: &Stretch, at: i64) -> Option<i64> {
        let end = stretch.end.saturating_add(stretch.offset);
        let lower = self.lower(stretch, at + stretch.offset);
        let plain = self.pattern.next(lower).filter(|civil| *civil < end);
        let moved = self
            .moved_at_or_after(stretch, at + stretch.offset)
            .filter(|civil| *civil < end);
        earliest(plain, moved).map(|civil| civil - stretch.offset)
    }

    fn prev_in(&self, stretch: &Stretch, at: i64) -> Option<i64> {
        let civil = at + stretch.offset;
        let start = stretch.start.saturating_add(stretch.offset);
        let lower = self.lower(stretch, start);
        let plain = self.pattern.prev(civil).filter(|found| *found >= lower);
        let moved = self.moved_at_or_before(stretch, civil);
        plain.max(moved).map(|civil| civil - stretch.offset)
    }

    fn count_in(&self, stretch: &Stretch, from: i64, to: i64) -> u64 {
        let (from, to) = (from + stretch.offset, to + stretch.offset);
        let plain = self.pattern.count(self.lower(stretch, from), to);
        let mut moved = 0;
        let mut at = from;
        while let Some(civil) = self
            .moved_at_or_after(stretch, at)
            .filter(|civil| *civil < to)
        {
            // Counted already where a plain match falls on the same second.
            moved += u64::from(self.pattern.next(civil) != Some(civil));
            at = civil + 1;
        }
        plain + moved
    }

    /// The first civil second of a stretch that counts: a repeated one may count in the first pass
    /// alone.
    fn lower(&self, stretch: &Stretch, civil: i64) -> i64 {
        match (self.fold, stretch.offset_before) {
            (Fold::First, Some(before))
                if before > stretch.offset && !zoo::is("fold-counts-twice") =>
            {
                civil.max(stretch.start + before)
            }
            _ => civil,
        }
    }

    /// The first civil second at or after `civil` to which a gap has moved a match.
    fn moved_at_or_after(&self, stretch: &Stretch, civil: i64) -> Option<i64> {
        if self.gap == Gap::Skip || zoo::is("gap-loses-times") {
            return None;
        }
        let (gap, width) = missing(stretch)?;
        match self.gap {
            Gap::Skip => None,
            Gap::FirstValid => {
                let first = gap + width;
                (civil <= first && self.pattern.next(gap)? < first).then_some(first)
            }
            Gap::Shift if civil >= gap + 2 * width => None,
            Gap::Shift => {
                let match_in_gap = self.pattern.next((civil - width).max(gap))?;
                (match_in_gap < gap + width).then_some(match_in_gap + width)
            }
        }
    }

    fn moved_at_or_before(&self, stretch: &Stretch, civil: i64) -> Option<i64> {
        if self.gap == Gap::Skip || zoo::is("gap-loses-times") {
            return None;
        }
        let (gap, width) = missing(stretch)?;
        match self.gap {
            Gap::Skip => None,
            Gap::FirstValid => {
                let first = gap + width;
                (civil >= first && self.pattern.next(gap)? < first).then_some(first)
            }
            Gap::Shift => {
                let match_in_gap = self.pattern.prev((civil - width).min(gap + width - 1))?;
                (match_in_gap >= gap).then_some(match_in_gap + width)
            }
        }
    }
}

/// The civil seconds left out at a stretch's start: the first of them, and how many.
fn missing(stretch: &Stretch) -> Option<(i64, i64)> {
    let before = stretch
        .offset_before
        .filter(|before| *before < stretch.offset)?;
    Some((stretch.start + before, stretch.offset - before))
}

fn earliest(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (found, None) | (None, found) => found,
    }
}
