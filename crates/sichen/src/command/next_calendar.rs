//! What calendars do to a job's coming times, in words.
//!
//! # Not here
//! The times ([`super::next_job`]), calendars as documents ([`super::calendars`]).

use jiff::Timestamp;
use sichen_core::schedule::{Displaced, Schedule, Why};

use super::next_job::{Moment, Preview};

/// Days of one schedule that are told.
const MAX_TOLD: usize = 200;

/// Why a day does not count, such as `Spring Festival, off by calendar cn-holidays (version 3)`.
fn reason(why: &Why<'_>) -> String {
    let calendar = format!(
        "calendar {} (version {})",
        why.calendar.name, why.calendar.version
    );
    let what = if why.working { "a working day" } else { "off" };
    match why.day {
        Some(day) => format!("{day}, {what} by {calendar}"),
        None => format!("{what} by {calendar}"),
    }
}

fn note(one: &Displaced<'_>, preview: &Preview) -> String {
    let why = reason(&one.why);
    match (one.to, one.count) {
        (Some(to), _) => format!("moves to {}: {why}", preview.shown(to)),
        (None, 1) => format!("does not run: {why}"),
        (None, count) => format!("{count} times of the day do not run: {why}"),
    }
}

/// What the calendars of a schedule take away or move, of the times in `(after, through]`.
pub fn displaced(
    preview: &Preview,
    schedule: &Schedule,
    after: Timestamp,
    through: Timestamp,
) -> Vec<Moment> {
    let found = schedule.displaced(after, through, MAX_TOLD);
    let told = found.iter().map(|one| {
        let local = schedule.zone().to_datetime(one.own);
        let why = Some(("calendar", note(one, preview)));
        preview.told(one.own, local, false, why)
    });
    told.collect()
}

/// The calendars of a schedule and what they do, for its line.
pub fn uses(schedule: &Schedule) -> Option<String> {
    let filters = schedule.days()?.filters().iter();
    let uses = filters.map(|(calendar, usage)| {
        format!(
            "{} of {} (version {})",
            usage.as_str(),
            calendar.name,
            calendar.version
        )
    });
    Some(uses.collect::<Vec<_>>().join(", "))
}

/// Calendars that say nothing of the year of `last`, up to which times were shown.
pub fn beyond(schedules: &[Schedule], last: Timestamp) -> Vec<String> {
    let mut found = Vec::new();
    for schedule in schedules {
        let date = schedule.zone().to_datetime(last).date();
        for (calendar, _) in schedule.days().into_iter().flat_map(|days| days.filters()) {
            if let Some(covers) = calendar.covers_through().filter(|covers| *covers < date) {
                found.push(format!(
                    "calendar {} (version {}) has no entries after {covers}: later times go by its \
                     weekend alone",
                    calendar.name, calendar.version
                ));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}
