//! The days that a schedule's calendars let through, together.
//!
//! # Invariants
//! - A date counts if every calendar lets it through: one that excludes and one that includes are
//!   both asked, in any order.
//! - A schedule rolls one way, and only over days that working days decide: so that a rolled time
//!   always lands, no combined stretch off is longer than [`MAX_OFF_RUN`].
//!
//! # Not here
//! One calendar ([`super::calendar`]); the instants ([`super::rule`]).

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use jiff::ToSpan;
use jiff::civil::Date;

use super::calendar::{Calendar, Error, MAX_OFF_RUN, Use, long_run};

/// Calendars of one schedule.
pub const MAX_CALENDARS: usize = 8;

/// One or more calendars and what each does.
#[derive(Debug, Clone)]
pub struct Days {
    filters: Vec<(Arc<Calendar>, Use)>,
    roll: Option<Use>,
    /// The first and the last date that any calendar names, where on no weekday beyond them a date
    /// counts: there is nothing to search for.
    only_within: Option<(Date, Date)>,
}

/// Why a date does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why<'a> {
    /// The first calendar that does not let it through.
    pub calendar: &'a Calendar,
    /// What the calendar calls the date, such as `Spring Festival`.
    pub day: Option<&'a str>,
    /// Whether it is a working day, which a schedule of days off does not want.
    pub working: bool,
}

impl Days {
    /// The days that all of `filters` let through; each calendar must hold by
    /// [`Calendar::check`].
    ///
    /// # Errors
    /// Two directions to roll, rolling together with days off, or, where times roll, calendars
    /// that are off together for too long.
    pub fn new(filters: Vec<(Arc<Calendar>, Use)>) -> Result<Days, Error> {
        let first = filters.first();
        let name = first.map_or(String::new(), |(calendar, _)| calendar.name.clone());
        let refused = |message: &str| Error {
            name: name.clone(),
            message: message.to_owned(),
        };
        let uses = filters.iter().map(|(_, usage)| *usage);
        let rolls: Vec<Use> = uses.filter(|usage| usage.rolls()).collect();
        let roll = rolls.first().copied();
        if rolls.windows(2).any(|pair| pair[0] != pair[1]) {
            return Err(refused(
                "times can roll forward or back, not both; keep one",
            ));
        }
        if roll.is_some() && filters.iter().any(|(_, usage)| *usage == Use::DaysOff) {
            return Err(refused(
                "times that roll go to working days, so `days-off` beside them says nothing; \
                 leave one out",
            ));
        }
        let mut days = Days {
            filters,
            roll,
            only_within: None,
        };
        days.only_within = days.bounds();
        if days.filters.len() > 1 && roll.is_some() {
            days.check_together().map_err(|message| refused(&message))?;
        }
        Ok(days)
    }

    /// Calendars that are fine alone may leave no common working day for long.
    fn check_together(&self) -> Result<(), String> {
        let calendars = || self.filters.iter().map(|(calendar, _)| calendar);
        let common = (0..7).any(|day| calendars().all(|c| !c.weekend.contains(&day)));
        if !common {
            return Err("its weekend and those of the calendars beside it leave no day".to_owned());
        }
        let off: BTreeSet<Date> = calendars().flat_map(|c| c.off.iter().copied()).collect();
        match long_run(off.into_iter(), |day| !self.keeps(day)) {
            None => Ok(()),
            Some(first) => Err(format!(
                "with the calendars beside it more than {MAX_OFF_RUN} days are off in a row from \
                 {first}"
            )),
        }
    }

    fn bounds(&self) -> Option<(Date, Date)> {
        let plain = |weekday: u8| {
            let mut filters = self.filters.iter();
            filters.all(|(calendar, usage)| usage.keeps(!calendar.weekend.contains(&weekday)))
        };
        if (0..7).any(plain) {
            return None;
        }
        let named = self.filters.iter();
        let named = named.flat_map(|(calendar, _)| calendar.off.iter().chain(&calendar.work));
        let first = named.clone().min().copied().unwrap_or(Date::MAX);
        Some((first, named.max().copied().unwrap_or(Date::MIN)))
    }

    /// Whether no date from `date` on counts, or (back) none up to it.
    pub(super) fn none_beyond(&self, date: Date, back: bool) -> bool {
        self.only_within
            .is_some_and(|(first, last)| if back { date < first } else { date > last })
    }

    /// The first date after `date` that a calendar lists, or (back) the last before it.
    pub(super) fn listed(&self, date: Date, forward: bool) -> Option<Date> {
        let lists = self
            .filters
            .iter()
            .flat_map(|(one, _)| [&one.off, &one.work]);
        if forward {
            let after = (Bound::Excluded(date), Bound::Unbounded);
            lists
                .filter_map(|list| list.range(after).next())
                .min()
                .copied()
        } else {
            lists
                .filter_map(|list| list.range(..date).next_back())
                .max()
                .copied()
        }
    }

    /// Whether times of a date count as they stand.
    #[must_use]
    pub fn keeps(&self, date: Date) -> bool {
        let mut filters = self.filters.iter();
        filters.all(|(calendar, usage)| usage.keeps(calendar.is_working(date)))
    }

    /// Whether times of other days move to the next day that counts, and which way.
    #[must_use]
    pub fn roll(&self) -> Option<Use> {
        self.roll
    }

    /// The days whose times roll onto a day that counts.
    pub(super) fn rolled_onto(&self, date: Date) -> Vec<Date> {
        let step = if self.roll == Some(Use::RollForward) {
            -1
        } else {
            1
        };
        let neighbours = date.series(step.days()).skip(1);
        neighbours
            .take_while(|day| !self.keeps(*day))
            .take(MAX_OFF_RUN)
            .collect()
    }

    /// Where the times of a day that does not count go, if they go anywhere.
    #[must_use]
    pub fn rolled_to(&self, date: Date) -> Option<Date> {
        let step = match self.roll? {
            Use::RollForward => 1,
            _ => -1,
        };
        let mut days = date.series(step.days()).skip(1).take(MAX_OFF_RUN + 1);
        days.find(|day| self.keeps(*day))
    }

    /// Why a date does not count; `None` if it does.
    #[must_use]
    pub fn why_not(&self, date: Date) -> Option<Why<'_>> {
        let mut filters = self.filters.iter();
        let (calendar, _) =
            filters.find(|(calendar, usage)| !usage.keeps(calendar.is_working(date)))?;
        Some(Why {
            calendar,
            day: calendar.names.get(&date).map(String::as_str),
            working: calendar.is_working(date),
        })
    }

    /// Each calendar with what it does.
    #[must_use]
    pub fn filters(&self) -> &[(Arc<Calendar>, Use)] {
        &self.filters
    }
}
