//! The walk: stretch by stretch of constant offset, day by day, hour by hour, minute by minute.
//!
//! # Invariants
//! - Every local second of a named day is looked at; only days that the tables rule out are passed
//!   over whole.
//! - Instants come in order and once.

use std::collections::{BTreeSet, VecDeque};

use crate::DAY;
use crate::days::Date;
use crate::text::Expression;
use crate::timetable::{Fold, Gap, Rule, Timetable};
use crate::zone::Zone;

/// No gap is longer than this.
const LONGEST_GAP: i64 = 2 * DAY;

/// The instants of a timetable within bounds, oldest first.
#[derive(Debug)]
pub struct Instants<'a> {
    timetable: &'a Timetable,
    /// The next second to look at.
    at: i64,
    through: i64,
    /// The local day looked at last.
    day: Option<(Date, bool)>,
    found: VecDeque<i64>,
    /// Instants to which a gap has moved times, ahead of the walk.
    moved: BTreeSet<i64>,
}

impl<'a> Instants<'a> {
    pub(crate) fn new(timetable: &'a Timetable, after: i64, through: i64) -> Instants<'a> {
        let mut instants = Instants {
            timetable,
            at: after + 1,
            through,
            day: None,
            found: VecDeque::new(),
            moved: BTreeSet::new(),
        };
        // What an earlier gap has moved to here.
        let at = instants.at;
        for (change, _) in timetable.zone.changes() {
            if (at.saturating_sub(LONGEST_GAP)..at).contains(change) {
                instants.cross(*change);
            }
        }
        instants.moved.retain(|moved| *moved >= at);
        instants
    }

    /// Looks at what a change at this instant leaves out.
    fn cross(&mut self, change: i64) {
        let Timetable {
            rule, zone, gap, ..
        } = self.timetable;
        let Rule::Clock(expression) = rule else {
            return;
        };
        if expression.interval {
            return;
        }
        let before = zone.offset(change - 1);
        for local in missing(expression, zone, change) {
            match gap {
                Gap::FirstValid => self.moved.insert(change),
                Gap::Shift => self.moved.insert(local - before),
                Gap::Skip => false,
            };
        }
    }

    /// Looks at the rest of a local day, or at the part of it up to the next change.
    fn look(&mut self, expression: &Expression) {
        let zone = &self.timetable.zone;
        let (at, offset) = (self.at, zone.offset(self.at));
        if zone.offset(at - 1) != offset {
            self.cross(at);
        }
        let date = self.date((at + offset).div_euclid(DAY), expression);
        let midnight = (date.0.number + 1) * DAY - offset;
        let change = zone.next_change(at).unwrap_or(i64::MAX);
        let end = midnight.min(change).min(self.through.saturating_add(1));
        let mut found: BTreeSet<i64> = self.moved.iter().copied().filter(|m| *m < end).collect();
        self.moved.retain(|moved| *moved >= end);
        let once = self.timetable.fold == Fold::First && !expression.interval;
        if date.1 {
            times(expression, date.0, &mut |local| {
                let instant = local - offset;
                if (at..end).contains(&instant) && !(once && zone.shown_before(instant, local)) {
                    found.insert(instant);
                }
            });
        }
        self.found.extend(found);
        self.at = end;
    }

    /// The date of a local day, and whether the expression names it.
    fn date(&mut self, number: i64, expression: &Expression) -> (Date, bool) {
        let date = match self.day {
            Some((date, named)) if date.number == number => return (date, named),
            Some((date, _)) if date.number + 1 == number => date.next(),
            _ => Date::of(number),
        };
        let day = (date, expression.has_date(date));
        self.day = Some(day);
        day
    }
}

impl Iterator for Instants<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let timetable = self.timetable;
        match &timetable.rule {
            Rule::Clock(expression) => {
                while self.found.is_empty() && self.at <= self.through {
                    self.look(expression);
                }
                self.found.pop_front()
            }
            Rule::Every { period, anchor } => {
                let past = (self.at - anchor).rem_euclid(*period);
                let next = if past == 0 {
                    self.at
                } else {
                    self.at.checked_add(period - past)?
                };
                self.at = next.checked_add(1)?;
                (next <= self.through).then_some(next)
            }
            Rule::Once(instant) => {
                let due = (self.at..=self.through).contains(instant);
                self.at = self.through.saturating_add(1);
                due.then_some(*instant)
            }
            Rule::Listed(instants) => {
                let next = *instants.get(instants.partition_point(|one| *one < self.at))?;
                self.at = next.checked_add(1)?;
                (next <= self.through).then_some(next)
            }
        }
    }
}

/// The local times named on a date, in local seconds since 1970.
pub(crate) fn times(expression: &Expression, date: Date, hand_out: &mut dyn FnMut(i64)) {
    for hour in (0..24).filter(|hour| expression.hour.has(*hour)) {
        for minute in (0..60).filter(|minute| expression.minute.has(*minute)) {
            for second in (0..60).filter(|second| expression.second.has(*second)) {
                hand_out(date.number * DAY + hour * 3_600 + minute * 60 + second);
            }
        }
    }
}

/// The named local times that a change leaves out; none where clocks are set back. What a clock that was
/// set back shortly before had shown by then is not left out.
pub(crate) fn missing(expression: &Expression, zone: &Zone, change: i64) -> Vec<i64> {
    let gap = change + zone.offset(change - 1)..change + zone.offset(change);
    let mut found = Vec::new();
    let mut date = Date::of(gap.start.div_euclid(DAY));
    while date.number * DAY < gap.end {
        if expression.has_date(date) {
            times(expression, date, &mut |local| {
                if gap.contains(&local) && !zone.shown_before(change, local) {
                    found.push(local);
                }
            });
        }
        date = date.next();
    }
    found
}
