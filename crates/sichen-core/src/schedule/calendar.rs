//! Working days: which dates are off, which are made up for, and what that does to planned times.
//!
//! # Invariants
//! - A date is either working or off, for every date of every year; what the lists don't name
//!   follows the weekend.
//! - No stretch of days off is longer than [`MAX_OFF_RUN`], so a rolled time always lands.
//! - Dates are local dates of the schedule's zone.
//!
//! # Not here
//! Storing and versioning calendars; the files that countries publish.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp, ToSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest stretch of days off.
pub const MAX_OFF_RUN: usize = 60;
/// Dates in one list.
pub const MAX_DATES: usize = 10_000;
/// Days looked at in one search: about forty years, after which weekdays and leap days have met.
pub(super) const MAX_DAYS: usize = 15_000;
/// Times a day that a rolled schedule may have.
pub const MAX_ROLLED_TIMES: u64 = 24;

/// A calendar was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("SC1123 calendar `{name}`: {message}")]
pub struct Error {
    pub name: String,
    pub message: String,
}

/// A named, versioned set of days off and made-up working days, as a user writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Calendar {
    pub name: String,
    /// Raised with each change; a run records the one it was planned with.
    #[serde(default)]
    pub version: u32,
    /// Weekdays that are off unless made up, 0 = Sunday; Saturday and Sunday if left out.
    #[serde(default = "weekend")]
    pub weekend: BTreeSet<u8>,
    /// Dates off.
    #[serde(default)]
    pub off: BTreeSet<Date>,
    /// Working dates that a weekend would make off.
    #[serde(default)]
    pub work: BTreeSet<Date>,
    /// What dates of either list are called.
    #[serde(default)]
    pub names: BTreeMap<Date, String>,
}

fn weekend() -> BTreeSet<u8> {
    BTreeSet::from([0, 6])
}

/// What a calendar does to a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// Only times on working days count.
    WorkingDays,
    /// Only times on days off count.
    DaysOff,
    /// A time on a day off moves to the next working day, at the same wall-clock time.
    RollForward,
    /// The same, to the working day before.
    RollBack,
}

impl Use {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Use::WorkingDays => "working-days",
            Use::DaysOff => "days-off",
            Use::RollForward => "roll-forward",
            Use::RollBack => "roll-back",
        }
    }

    pub(super) fn rolls(self) -> bool {
        matches!(self, Use::RollForward | Use::RollBack)
    }

    /// Whether a time on a day counts as it stands.
    pub(super) fn keeps(self, working: bool) -> bool {
        working != (self == Use::DaysOff)
    }
}

impl Calendar {
    /// A calendar of weekends alone.
    pub fn new(name: &str) -> Calendar {
        Calendar {
            name: name.to_owned(),
            version: 1,
            weekend: weekend(),
            off: BTreeSet::new(),
            work: BTreeSet::new(),
            names: BTreeMap::new(),
        }
    }

    /// Reads all-day events of an iCalendar file (RFC 5545): days off, or made-up working days
    /// where the summary holds `work_mark`, such as `班`. Everything else in it is passed over.
    ///
    /// # Errors
    /// A date that can't be read, an end before its start, or what [`Calendar::check`] refuses.
    pub fn from_ics(name: &str, text: &str, work_mark: &str) -> Result<Calendar, Error> {
        let mut calendar = Calendar::new(name);
        let (mut start, mut end, mut summary) = (None, None, String::new());
        for line in unfold(text) {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let property = key.split(';').next().unwrap_or_default();
            match (property.to_ascii_uppercase().as_str(), value.trim()) {
                ("BEGIN", "VEVENT") => (start, end, summary) = (None, None, String::new()),
                ("DTSTART", value) => start = Some(calendar.ics_date(value)?),
                ("DTEND", value) => end = Some(calendar.ics_date(value)?),
                ("SUMMARY", value) => summary = value.to_owned(),
                ("END", "VEVENT") => {
                    let Some(first) = start else { continue };
                    let end = end.unwrap_or_else(|| first.saturating_add(1.day()));
                    if end <= first {
                        return Err(calendar.refused(format!("`{summary}` ends before it starts")));
                    }
                    let works = !work_mark.is_empty() && summary.contains(work_mark);
                    let days = first
                        .series(1.day())
                        .take_while(|day| *day < end)
                        .take(MAX_DATES);
                    let list = if works {
                        &mut calendar.work
                    } else {
                        &mut calendar.off
                    };
                    list.extend(days);
                }
                _ => {}
            }
        }
        calendar.check()?;
        Ok(calendar)
    }

    fn ics_date(&self, value: &str) -> Result<Date, Error> {
        let date = value
            .get(..8)
            .and_then(|date| Date::strptime("%Y%m%d", date).ok());
        date.ok_or_else(|| self.refused(format!("`{value}` is no date such as 20260101")))
    }

    /// Whether the calendar can be used.
    ///
    /// # Errors
    /// Too many dates, a date in both lists, no working weekday, or too long a stretch off.
    pub fn check(&self) -> Result<(), Error> {
        if self.off.len().max(self.work.len()) > MAX_DATES {
            return Err(self.refused(format!("a list has at most {MAX_DATES} dates")));
        }
        if let Some(both) = self.off.intersection(&self.work).next() {
            return Err(self.refused(format!("{both} is both off and worked; keep one")));
        }
        if (0..7).all(|day| self.weekend.contains(&day)) || self.weekend.iter().any(|day| *day > 6)
        {
            return Err(self.refused(
                "the weekend names days from 0 = Sunday to 6, and not all of them".into(),
            ));
        }
        if let Some(first) = long_run(self.off.iter().copied(), |day| !self.is_working(day)) {
            return Err(self.refused(format!(
                "more than {MAX_OFF_RUN} days off in a row from {first}"
            )));
        }
        Ok(())
    }

    /// Whether people work on a date.
    pub fn is_working(&self, date: Date) -> bool {
        if self.off.contains(&date) {
            return false;
        }
        let weekday = date.weekday().to_sunday_zero_offset() as u8;
        !self.weekend.contains(&weekday) || self.work.contains(&date)
    }

    /// The last date that the lists say anything about: planning beyond it goes by weekends alone.
    pub fn known_through(&self) -> Option<Date> {
        self.off.last().max(self.work.last()).copied()
    }

    /// The end of the last year that the lists say anything about: holidays are published by years,
    /// so from the next one on the calendar is guessing. `None` if it has weekends alone.
    pub fn covers_through(&self) -> Option<Date> {
        Some(self.known_through()?.last_of_year())
    }

    fn refused(&self, message: String) -> Error {
        Error {
            name: self.name.clone(),
            message,
        }
    }
}

/// The first of `dates`, which rise, from which on more than [`MAX_OFF_RUN`] days in a row are off.
pub(super) fn long_run(
    dates: impl Iterator<Item = Date>,
    is_off: impl Fn(Date) -> bool,
) -> Option<Date> {
    let mut counted = Date::MIN;
    for first in dates {
        if first < counted {
            // Within the stretch of an earlier one.
            continue;
        }
        let run = first.series(1.day()).take_while(|day| is_off(*day));
        let run = run.take(MAX_OFF_RUN + 1).count();
        if run > MAX_OFF_RUN {
            return Some(first);
        }
        counted = first.saturating_add(i64::try_from(run).unwrap_or(0).days());
    }
    None
}

/// The instant at which a date begins in a zone.
pub(super) fn day_start(date: Date, zone: &TimeZone) -> Option<Timestamp> {
    date.to_zoned_datetime(zone.clone())
        .ok()
        .map(|start| start.timestamp())
}

/// The instant of a wall-clock time: the first pass of a fold, the first instant after a gap.
pub(super) fn first_instant(at: jiff::civil::DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(at);
    match ambiguous.offset() {
        AmbiguousOffset::Gap { .. } => {
            let before = ambiguous
                .earlier()
                .ok()?
                .checked_sub(SignedDuration::from_secs(1))
                .ok()?;
            zone.following(before)
                .next()
                .map(|change| change.timestamp())
        }
        _ => ambiguous.earlier().ok(),
    }
}

/// Lines with their continuations joined.
fn unfold(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix([' ', '\t']), lines.last_mut()) {
            (Some(more), Some(last)) => last.push_str(more),
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}
