//! `sichen calendar`: a job's planned times in a month.
//!
//! # Not here
//! The times ([`super::next_job`]).

use std::process::ExitCode;

use clap::Args;
use jiff::civil::{Date, date};
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde::Serialize;
use sichen_core::schedule::cron::Language;

use crate::client::Connection;
use crate::command::next_calendar;
use crate::command::next_job::{Moment, Preview};
use crate::failure::Failure;
use crate::names;
use crate::output::Output;

/// Times of one day that are walked; of a job with several schedules no more are counted.
const MAX_TIMES_A_DAY: usize = 2_000;
/// Times of one day that are listed for programs.
const MAX_LISTED: usize = 100;

/// Show a month of a job: how often it runs on each day, and where clock changes make a difference.
#[derive(Debug, Args)]
pub struct Calendar {
    /// The job, `name` or `namespace/name`, exactly.
    #[arg(value_name = "JOB")]
    job: String,
    /// The month, such as `2026-11` [default: this one].
    #[arg(long, value_name = "YYYY-MM", value_parser = month)]
    month: Option<Date>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

fn month(text: &str) -> Result<Date, String> {
    let parts = text
        .split_once('-')
        .filter(|(y, m)| y.len() == 4 && m.len() == 2);
    let first = parts.and_then(|(y, m)| Date::new(y.parse().ok()?, m.parse().ok()?, 1).ok());
    // Zones are worked out a little beyond every date that is shown.
    let first = first.filter(|first| (1000..=9000).contains(&first.year()));
    first.ok_or_else(|| "write a month like 2026-11".to_owned())
}

/// The answer for programs.
#[derive(Debug, Serialize)]
struct View {
    job: String,
    month: String,
    time_zone: String,
    paused: bool,
    /// Whether the ends of runs make all of its times, so that none but the next one is known.
    follows_runs: bool,
    notes: Vec<String>,
    days: Vec<Day>,
    /// Where a clock change makes a difference: planned times that it moves or repeats, and times
    /// that it takes out.
    changes: Vec<Moment>,
}

#[derive(Debug, Serialize)]
struct Day {
    date: Date,
    /// Planned times.
    count: u64,
    /// Whether there are more than could be counted.
    more: bool,
    /// The first of them.
    times: Vec<String>,
}

/// Carries out `sichen calendar`.
pub async fn show(args: Calendar) -> Result<ExitCode, Failure> {
    let preview = Preview::of(&args.connection, names::job(&args.job)?).await?;
    let first = args.month.unwrap_or_else(|| this_month(&preview));
    args.output
        .show(&view(&preview, first), |view| text(view, first))?;
    Ok(ExitCode::SUCCESS)
}

#[expect(
    clippy::disallowed_methods,
    reason = "without a month the reader means the present one"
)]
fn this_month(preview: &Preview) -> Date {
    let today = preview.zone.to_datetime(Timestamp::now()).date();
    date(today.year(), today.month(), 1)
}

fn view(preview: &Preview, first: Date) -> View {
    let days: Vec<Date> = first
        .series(1.day())
        .take(first.days_in_month() as usize)
        .collect();
    let (mut shown, mut changes) = (Vec::new(), Vec::new());
    for date in days {
        let start = |date: Date| {
            let start = date.to_zoned_datetime(preview.zone.clone());
            start.map_or(Timestamp::MAX, |start| start.timestamp())
        };
        let before = |at: Timestamp| at.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(at);
        let after = before(start(date));
        let through = before(start(date.saturating_add(1.day())));
        let moments = preview.moments(after, through, MAX_TIMES_A_DAY);
        let planned = moments.iter().filter(|moment| moment.planned);
        let walked = planned.clone().count();
        let times = planned
            .take(MAX_LISTED)
            .map(|moment| moment.at.clone())
            .collect();
        let (count, more) = match preview.schedules() {
            [schedule] if schedule.follow().is_none() => (schedule.count(after, through), false),
            _ => (walked as u64, walked == MAX_TIMES_A_DAY),
        };
        shown.push(Day {
            date,
            count,
            more,
            times,
        });
        // What is beyond the times that were walked is still looked at for gaps.
        let gaps = preview.gaps(after, through);
        let gaps = gaps
            .into_iter()
            .filter(|gap| !moments.contains(gap))
            .collect::<Vec<_>>();
        changes.extend(
            moments
                .into_iter()
                .filter(|moment| moment.why.is_some())
                .chain(gaps),
        );
    }
    View {
        job: preview.name.to_string(),
        month: first.strftime("%Y-%m").to_string(),
        time_zone: preview.zone_name.clone(),
        paused: preview.paused,
        follows_runs: {
            let schedules = preview.schedules();
            !schedules.is_empty() && schedules.iter().all(|one| one.follow().is_some())
        },
        notes: {
            let last = first
                .last_of_month()
                .to_zoned_datetime(preview.zone.clone());
            let last = last.map_or(Timestamp::MAX, |last| last.timestamp());
            let mut notes = preview.notes(Language::English);
            notes.extend(next_calendar::beyond(preview.schedules(), last));
            notes
        },
        days: shown,
        changes,
    }
}

/// A page of a calendar: each day with its only time, or how many it has.
fn text(view: &View, first: Date) -> String {
    const WIDTH: usize = 9;
    let mut text = format!(
        "job {}, {}, {}\n",
        view.job,
        first.strftime("%B %Y"),
        view.time_zone
    );
    for note in &view.notes {
        text.push_str(&format!("  {note}\n"));
    }
    if view.follows_runs {
        let known = view.days.iter().flat_map(|day| &day.times);
        let known: Vec<&str> = known.map(String::as_str).collect();
        text.push_str(match known.is_empty() {
            true => "  no times ahead in this month: the end of each run makes the next one\n",
            false => "  one time is known; the end of each run makes the next one\n",
        });
        known
            .iter()
            .for_each(|at| text.push_str(&format!("{at}\n")));
        return text;
    }
    text.push('\n');
    for name in ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"] {
        text.push_str(&format!("{name:>WIDTH$}"));
    }
    text.push('\n');
    let lead = first.weekday().to_monday_zero_offset() as usize;
    let cells: Vec<Option<&Day>> = std::iter::repeat_n(None, lead)
        .chain(view.days.iter().map(Some))
        .collect();
    for week in cells.chunks(7) {
        let row = |cell: &dyn Fn(&Day) -> String| {
            let cells = week.iter().map(|day| day.map_or(String::new(), cell));
            let row: String = cells.map(|cell| format!("{cell:>WIDTH$}")).collect();
            row.trim_end().to_owned() + "\n"
        };
        text.push_str(&row(&|day| day.date.day().to_string()));
        text.push_str(&row(&|day| cell(day, &view.changes)));
    }
    if !view.changes.is_empty() {
        let by_calendar = view.changes.iter().any(|c| c.why == Some("calendar"));
        let head = match by_calendar {
            true => "a calendar or the clock decides",
            false => "the clock changes",
        };
        text.push_str(&format!("\n* {head}:\n"));
        for change in view.changes.iter().take(MAX_LISTED) {
            text.push_str(&format!("  {}", super::next_job::line(change)));
        }
        let more = view.changes.len().saturating_sub(MAX_LISTED);
        if more > 0 {
            text.push_str(&format!("  … and {more} more\n"));
        }
    }
    text
}

fn cell(day: &Day, changes: &[Moment]) -> String {
    let of_day = day.date.to_string();
    let changed = changes.iter().any(|change| change.at.starts_with(&of_day));
    let mark = if changed { "*" } else { "" };
    let more = if day.more { "+" } else { "" };
    match (day.count, day.times.first()) {
        (0, _) => format!("-{mark}"),
        (1, Some(time)) => format!("{}{mark}", time.get(11..16).unwrap_or("1x")),
        (count, _) => format!("{count}x{more}{mark}"),
    }
}

#[cfg(test)]
#[path = "calendar_tests.rs"]
mod tests;
