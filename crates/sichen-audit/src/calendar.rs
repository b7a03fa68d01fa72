//! Calendars, read from their documents by a way of their own, and what they do to instants.
//!
//! # Invariants
//! - A field that is not known here makes the calendar not understood: a date that was passed over
//!   would make every answer wrong.
//!
//! # Not here
//! Walking an expression ([`crate::walk`]).

use std::collections::{BTreeSet, VecDeque};

use serde_json::Value;

use crate::DAY;
use crate::days::{Date, month_days};
use crate::text::Expression;
use crate::timetable::{Rule, Timetable};
use crate::walk::{Instants, times};
use crate::zone::Zone;

/// Days looked at for one that counts: the longest stretch off, and more.
const REACH: i64 = 90;
/// Days worked out at once where times move.
const WINDOW: i64 = 50;

/// Which days are worked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    /// From Sunday on, whether it is off.
    weekend: [bool; 7],
    off: BTreeSet<i64>,
    work: BTreeSet<i64>,
}

/// What a calendar does to a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Times on working days alone.
    WorkingDays,
    /// Times on days off alone.
    DaysOff,
    /// Those of days off move to the next working day.
    RollForward,
    /// They move to the one before.
    RollBack,
}

impl Use {
    /// By the word that documents write.
    #[must_use]
    pub fn named(word: &str) -> Option<Use> {
        Some(match word {
            "working-days" => Use::WorkingDays,
            "days-off" => Use::DaysOff,
            "roll-forward" => Use::RollForward,
            "roll-back" => Use::RollBack,
            _ => return None,
        })
    }
}

/// The number of the day that `2026-10-01` names.
fn day(text: &str) -> Option<i64> {
    let mut parts = text.split('-').map(str::parse::<i64>);
    let (year, month, day) = (
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    );
    let fits = parts.next().is_none()
        && (1..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=month_days(year, month)).contains(&day);
    if !fits {
        return None;
    }
    // Days since 1970 of its January 1st, then month by month.
    let mut number = 0;
    for before in 1970..year {
        number += crate::days::year_days(before);
    }
    for before in year..1970 {
        number -= crate::days::year_days(before);
    }
    for before in 1..month {
        number += month_days(year, before);
    }
    Some(number + day - 1)
}

/// The days of an entry.
fn entry(value: &Value) -> Option<Vec<i64>> {
    if let Some(text) = value.as_str() {
        return Some(vec![day(text)?]);
    }
    let fields = value.as_object()?;
    let known = ["date", "from", "through", "name"];
    if fields.keys().any(|key| !known.contains(&key.as_str())) {
        return None;
    }
    let at = |key: &str| value[key].as_str().and_then(day);
    match (at("date"), at("from"), at("through")) {
        (Some(one), None, None) => Some(vec![one]),
        (None, Some(first), Some(last)) => Some((first..=last).collect()),
        _ => None,
    }
}

impl Calendar {
    /// Reads a document.
    ///
    /// # Errors
    /// What is not understood.
    pub fn read(document: &Value) -> Result<Calendar, String> {
        let spec = document["spec"].as_object().ok_or("it has no spec")?;
        let known = ["source", "weekend", "daysOff", "workingDays"];
        if let Some(odd) = spec.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!("the field `{odd}` is not known here"));
        }
        let names = [
            "sunday",
            "monday",
            "tuesday",
            "wednesday",
            "thursday",
            "friday",
            "saturday",
        ];
        let mut weekend = [true, false, false, false, false, false, true];
        if let Some(days) = spec.get("weekend") {
            let days = days.as_array().ok_or("`weekend` is no list")?;
            weekend = names.map(|name| days.iter().any(|day| day == name));
        }
        let list = |key: &str| {
            let mut days = BTreeSet::new();
            for one in spec
                .get(key)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                days.extend(entry(one).ok_or(format!("`{key}` has {one}"))?);
            }
            Ok::<_, String>(days)
        };
        Ok(Calendar {
            weekend,
            off: list("daysOff")?,
            work: list("workingDays")?,
        })
    }

    fn works(&self, day: i64) -> bool {
        let weekday = Date::of(day).weekday();
        let weekend = usize::try_from(weekday).is_ok_and(|at| self.weekend[at]);
        !self.off.contains(&day) && (self.work.contains(&day) || !weekend)
    }
}

/// The calendars of a schedule.
pub type Filters = Vec<(Calendar, Use)>;

fn keeps(filters: &Filters, day: i64) -> bool {
    filters.iter().all(|(calendar, usage)| match usage {
        Use::DaysOff => !calendar.works(day),
        Use::WorkingDays | Use::RollForward | Use::RollBack => calendar.works(day),
    })
}

/// The way in which days move, if they do.
fn step(filters: &Filters) -> Option<i64> {
    let mut steps = filters.iter().filter_map(|(_, usage)| match usage {
        Use::RollForward => Some(1),
        Use::RollBack => Some(-1),
        Use::WorkingDays | Use::DaysOff => None,
    });
    steps.next()
}

/// The day onto which the times of a day off move.
fn target(filters: &Filters, from: i64, step: i64) -> Option<i64> {
    let mut days = (1..=REACH).map(|n| from + n * step);
    days.find(|day| keeps(filters, *day))
}

/// The instants of a timetable that its calendars let through, oldest first.
#[derive(Debug)]
pub struct Kept<'a> {
    timetable: &'a Timetable,
    filters: &'a Filters,
    raw: Instants<'a>,
    /// Where times move: what was worked out, and the first day that was not.
    ready: VecDeque<i64>,
    day: i64,
    after: i64,
    through: i64,
}

impl<'a> Kept<'a> {
    pub(crate) fn new(
        timetable: &'a Timetable,
        filters: &'a Filters,
        after: i64,
        through: i64,
    ) -> Kept<'a> {
        Kept {
            timetable,
            filters,
            raw: Instants::new(timetable, after, through),
            ready: VecDeque::new(),
            day: after.div_euclid(DAY) - 2,
            after,
            through,
        }
    }

    fn local_day(zone: &Zone, at: i64) -> i64 {
        (at + zone.offset(at)).div_euclid(DAY)
    }

    /// Works out the instants that fall onto the next days.
    fn look(&mut self, step: i64) {
        let zone = &self.timetable.zone;
        let days = self.day..self.day + WINDOW;
        let (first, last) = ((days.start - 2) * DAY, (days.end + 2) * DAY);
        let own = Instants::new(self.timetable, first, last).filter(|at| {
            let day = Self::local_day(zone, *at);
            days.contains(&day) && keeps(self.filters, day)
        });
        let mut found: BTreeSet<i64> = own.collect();
        if let Rule::Clock(expression) = &self.timetable.rule {
            for from in days.start - REACH..days.end + REACH {
                if keeps(self.filters, from) {
                    continue;
                }
                match target(self.filters, from, step) {
                    Some(to) if days.contains(&to) => {
                        found.extend(moved(expression, zone, from, to));
                    }
                    _ => {}
                }
            }
        }
        let within = found
            .into_iter()
            .filter(|at| *at > self.after && *at <= self.through);
        self.ready.extend(within);
        self.day = days.end;
    }
}

/// The instants of a day's named times on another day.
fn moved(expression: &Expression, zone: &Zone, from: i64, to: i64) -> Vec<i64> {
    let mut found = Vec::new();
    let date = Date::of(from);
    if expression.has_date(date) {
        times(expression, date, &mut |local| {
            found.push(first_instant(zone, local + (to - from) * DAY));
        });
    }
    found
}

/// The first instant at which clocks show a local time, or the first after the gap it falls into.
fn first_instant(zone: &Zone, local: i64) -> i64 {
    let near = |at: &i64| (local - 3 * DAY..local + 3 * DAY).contains(at);
    let changes: Vec<i64> = zone
        .changes()
        .iter()
        .map(|(at, _)| *at)
        .filter(near)
        .collect();
    let mut offsets = vec![zone.offset(local - 3 * DAY)];
    offsets.extend(changes.iter().map(|at| zone.offset(*at)));
    let shown = offsets.iter().map(|offset| (local - offset, *offset));
    let first = shown.filter(|(at, offset)| zone.offset(*at) == *offset);
    let gap = changes
        .iter()
        .find(|at| (*at + zone.offset(*at - 1)..*at + zone.offset(**at)).contains(&local));
    first
        .map(|(at, _)| at)
        .min()
        .or(gap.copied())
        .unwrap_or(local)
}

impl Iterator for Kept<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let Some(step) = step(self.filters) else {
            let zone = &self.timetable.zone;
            return self
                .raw
                .by_ref()
                .find(|at| keeps(self.filters, Self::local_day(zone, *at)));
        };
        while self.ready.is_empty() && (self.day - 2).saturating_mul(DAY) <= self.through {
            self.look(step);
        }
        self.ready.pop_front()
    }
}
