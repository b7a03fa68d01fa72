//! Cron expressions: what they mean, and the instants they name.
//!
//! # Invariants
//! - [`Cron::next`] is strictly after its argument; [`Cron::prev`] is strictly before it.
//! - No expression, zone or instant makes a search long: it walks months and transitions, never
//!   seconds, and at most one 400-year cycle of them.
//! - The time zone database is the one built in, so that all nodes plan the same instants.
//!
//! # Not here
//! Several schedules on one job, catch-up, windows (`super::due`).

mod error;
mod explain;
mod field;
mod parse;
mod pattern;
mod search;
pub(super) mod work;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use error::{Error, FieldName, Kind};
pub use explain::Language;
pub(crate) use field::mix;
use parse::{Body, Parsed};
use search::Search;

use super::tally::Tally;
use super::zone::{self, ceil, floor};

/// The rules that an expression is read by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// Five fields of crontab(5), plus `L`, `W`, `#`, `H` and `@every`.
    Crontab,
    /// Five fields as a system's crontab reads them, nothing more.
    CrontabPlain,
    /// As [`Dialect::Crontab`] with leading seconds; both day fields must match only if one is
    /// exactly `*` or `?`.
    Seconds,
    /// As a Kubernetes CronJob reads it, five fields or six with leading seconds.
    Kubernetes,
    /// Six or seven fields, weekday 1 = Sunday, one day field `?`.
    Quartz,
}

impl Dialect {
    /// The default rules for a text whose dialect nobody named: six fields have seconds.
    pub fn of(text: &str) -> Dialect {
        if parse::field_count(text) == 6 {
            Dialect::Seconds
        } else {
            Dialect::Crontab
        }
    }

    /// What the system that the dialect comes from does about clock changes.
    pub fn default_policy(self) -> (Gap, Fold) {
        match self {
            Dialect::Kubernetes => (Gap::Skip, Fold::Both),
            _ => (Gap::FirstValid, Fold::First),
        }
    }

    fn has_extras(self) -> bool {
        matches!(self, Dialect::Crontab | Dialect::Seconds)
    }

    fn has_modifiers(self) -> bool {
        matches!(self, Dialect::Crontab | Dialect::Seconds | Dialect::Quartz)
    }

    fn steps_from_value(self) -> bool {
        matches!(self, Dialect::Kubernetes | Dialect::Quartz)
    }

    fn form(self) -> &'static str {
        match self {
            Dialect::Crontab => {
                "5 fields (minute hour day-of-month month day-of-week), or 6 with seconds before them \
                 for dialect `seconds`"
            }
            Dialect::CrontabPlain => "5 fields: minute hour day-of-month month day-of-week",
            Dialect::Seconds => "6 fields: second minute hour day-of-month month day-of-week",
            Dialect::Kubernetes => {
                "5 fields (minute hour day-of-month month day-of-week), or 6 with seconds before them"
            }
            Dialect::Quartz => {
                "6 or 7 fields: second minute hour day-of-month month day-of-week [year]"
            }
        }
    }
}

/// What becomes of a fixed time that a clock change leaves out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gap {
    /// One run at the first instant after the gap, however many times fell into it.
    #[default]
    FirstValid,
    /// No run.
    Skip,
    /// Each time is moved by the gap's length.
    Shift,
}

/// What becomes of a fixed time that a clock change repeats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fold {
    /// It counts in the first pass.
    #[default]
    First,
    /// It counts in both.
    Both,
}

/// Whether an expression names wall-clock times or follows elapsed time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Neither minute nor hour starts with `*`.
    Fixed,
    /// Minute or hour starts with `*`: gaps are left out and both passes of a fold count.
    Interval,
}

/// A parsed expression with the policy for clock changes.
#[derive(Debug, Clone)]
pub struct Cron {
    text: String,
    dialect: Dialect,
    body: Body,
    zone: Option<String>,
    hashed: bool,
    never: bool,
    gap: Gap,
    fold: Fold,
}

/// One found instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence {
    pub at: Timestamp,
    /// The wall-clock time that the expression names; differs from the local time of `at` when a
    /// gap moved it.
    pub nominal: DateTime,
}

impl Cron {
    /// Reads an expression with the dialect's own policy for clock changes.
    ///
    /// `hash` spreads `H`; it comes from the job's key and must be the same on every node.
    ///
    /// # Errors
    /// The first mistake in the text, with its place. An expression that can never match is no
    /// error here: see [`Cron::is_never`].
    pub fn parse(text: &str, dialect: Dialect, hash: Option<u64>) -> Result<Cron, Error> {
        let Parsed {
            body,
            zone,
            normal,
            hashed,
        } = parse::parse(text, dialect, hash)?;
        let never = match &body {
            Body::Fields { pattern, .. } => pattern.is_never(),
            Body::Every(_) => false,
        };
        let (gap, fold) = dialect.default_policy();
        Ok(Cron {
            text: normal,
            dialect,
            body,
            zone,
            hashed,
            never,
            gap,
            fold,
        })
    }

    /// The same, refusing what can never match.
    ///
    /// # Errors
    /// As [`Cron::parse`], and [`Kind::Never`].
    pub fn parse_for_job(text: &str, dialect: Dialect, hash: Option<u64>) -> Result<Cron, Error> {
        let cron = Cron::parse(text, dialect, hash)?;
        if cron.never {
            let message = "no date ever matches its day, month and year fields together";
            return Err(Error::new(
                text,
                Kind::Never,
                FieldName::DayOfMonth,
                0..text.len(),
                message,
                "a date that there is, such as `28`, or `L` for a month's last day",
            ));
        }
        Ok(cron)
    }

    #[must_use]
    pub fn with_gap(mut self, gap: Gap) -> Cron {
        self.gap = gap;
        self
    }

    #[must_use]
    pub fn with_fold(mut self, fold: Fold) -> Cron {
        self.fold = fold;
        self
    }

    /// The text with single blanks and without a zone prefix.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub fn gap(&self) -> Gap {
        self.gap
    }

    pub fn fold(&self) -> Fold {
        self.fold
    }

    /// The zone that the text itself names (`TZ=…`, dialect `kubernetes`).
    pub fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// Whether no instant ever matches.
    pub fn is_never(&self) -> bool {
        self.never
    }

    /// Whether some field is spread by `H`.
    pub fn is_hashed(&self) -> bool {
        self.hashed
    }

    /// The class; `@every` follows elapsed time.
    pub fn class(&self) -> Class {
        match self.body {
            Body::Fields { class, .. } => class,
            Body::Every(_) => Class::Interval,
        }
    }

    /// How many times a matching day holds; 0 for `@every`.
    pub fn times_per_day(&self) -> u64 {
        match &self.body {
            Body::Fields { pattern, .. } => pattern.times_per_day(),
            Body::Every(_) => 0,
        }
    }

    /// The wall-clock times that the expression names on a date, whatever clock changes make of them.
    pub(crate) fn times_on(&self, date: Date) -> Vec<Time> {
        let Body::Fields { pattern, .. } = &self.body else {
            return Vec::new();
        };
        let Some(start) = civil_start(date) else {
            return Vec::new();
        };
        let times = pattern.times_of(start.div_euclid(DAY)).into_iter();
        let of_day = |second| Time::midnight().checked_add(SignedDuration::from_secs(second));
        times.filter_map(|second| of_day(second).ok()).collect()
    }

    /// Whether the expression may have instants of a local date: it names the date, or one beside it
    /// whose times a clock change moves here. A look at three days, where a search would go through
    /// years.
    pub(crate) fn may_touch(&self, date: Date) -> bool {
        let (Body::Fields { pattern, .. }, Some(start)) = (&self.body, civil_start(date)) else {
            return true;
        };
        let day = start.div_euclid(DAY);
        (day - 1..=day + 1).any(|day| pattern.day_matches(day))
    }

    /// The first date from `date` on that the expression names, or the last up to it.
    pub(crate) fn named_date(&self, date: Date, forward: bool) -> Option<Date> {
        let Body::Fields { pattern, .. } = &self.body else {
            return None;
        };
        let start = civil_start(date)?;
        let found = if forward {
            pattern.next(start)
        } else {
            pattern.prev(start + DAY - 1)
        };
        let days = (found? - start).div_euclid(DAY);
        date.checked_add(days.days()).ok()
    }

    /// The period of `@every`.
    pub fn every(&self) -> Option<SignedDuration> {
        match self.body {
            Body::Fields { .. } => None,
            Body::Every(period) => Some(SignedDuration::from_secs(period)),
        }
    }

    /// The first instant strictly after `after`, or `None` if there is none before year 9999.
    ///
    /// `@every` counts from `after`; a job's schedule gives it a fixed anchor instead.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let after = floor(after);
        let found = match &self.body {
            Body::Every(period) => after.checked_add(*period).filter(|at| *at <= zone::LAST),
            Body::Fields { .. } if self.never => None,
            Body::Fields { .. } => self.search(zone)?.next(after + 1),
        };
        found.map(zone::instant)
    }

    /// The last instant strictly before `before`. `@every` counts back from `before`.
    pub fn prev(&self, before: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let before = ceil(before);
        let found = match &self.body {
            Body::Every(period) => before.checked_sub(*period).filter(|at| *at >= zone::FIRST),
            Body::Fields { .. } if self.never => None,
            Body::Fields { .. } => self.search(zone)?.prev(before - 1),
        };
        found.map(zone::instant)
    }

    /// How many instants lie in `(after, through]`, without walking them. 0 for `@every`, which has
    /// no grid of its own.
    pub fn count(&self, after: Timestamp, through: Timestamp, zone: &TimeZone) -> u64 {
        if self.never {
            return 0;
        }
        self.search(zone).map_or(0, |search| {
            search.count(floor(after) + 1, floor(through) + 1)
        })
    }

    /// Marks the instants of the seconds `[from, to)`, which lie within the tally's day.
    pub(super) fn mark(&self, from: i64, to: i64, zone: &TimeZone, tally: &mut Tally) {
        if let (false, Some(search)) = (self.never, self.search(zone)) {
            search.mark(from, to, tally);
        }
    }

    /// The clock changes in `(after, through]` at which fixed times fall out under [`Gap::Skip`],
    /// and how many do; at most `limit` of them. Empty under every other policy.
    pub fn left_out(
        &self,
        after: Timestamp,
        through: Timestamp,
        zone: &TimeZone,
        limit: usize,
    ) -> Vec<(Timestamp, u64)> {
        if self.gap != Gap::Skip || self.class() != Class::Fixed || self.never {
            return Vec::new();
        }
        let Some(search) = self.search(zone) else {
            return Vec::new();
        };
        let found = search.left_out(floor(after) + 1, floor(through) + 1, limit);
        found
            .into_iter()
            .map(|(at, count)| (zone::instant(at), count))
            .collect()
    }

    /// The wall-clock time that led to an instant found by [`Cron::next`] or [`Cron::prev`].
    pub fn nominal(&self, found: Timestamp, zone: &TimeZone) -> DateTime {
        let local = zone.to_datetime(found);
        let Some(search) = self.search(zone) else {
            return local;
        };
        let second = floor(found);
        let moved = search.nominal(second) - (second + zone::offset(zone, second));
        local
            .checked_add(SignedDuration::from_secs(moved))
            .unwrap_or(local)
    }

    fn search<'a>(&'a self, zone: &'a TimeZone) -> Option<Search<'a>> {
        match &self.body {
            Body::Fields { pattern, class } => {
                Some(Search::new(pattern, *class, self.gap, self.fold, zone))
            }
            Body::Every(_) => None,
        }
    }
}

/// Seconds of a day on a wall clock that is never changed.
const DAY: i64 = 86_400;

/// The midnight at which a date begins, in seconds of a wall clock that is never changed.
fn civil_start(date: Date) -> Option<i64> {
    let start = date.to_zoned_datetime(TimeZone::UTC).ok()?;
    Some(start.timestamp().as_second())
}
