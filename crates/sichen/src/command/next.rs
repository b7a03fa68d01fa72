//! `sichen next`: the next planned instants of an expression, without a server, or of a job.
//!
//! # Not here
//! The search itself (`sichen_core::schedule`); what falls out of a job's times ([`super::next_job`]).

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use clap::{Args as ClapArgs, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;
use sichen_core::schedule::calendar::Use;
use sichen_core::schedule::cron::{Cron, Dialect, Error, Fold, Gap, Language};
use sichen_core::schedule::{Schedule, hash_of_key, zone_by_name};

use crate::client::Connection;
use crate::command::next_job::{Preview, line};
use crate::command::{import, next_calendar};
use crate::failure::Failure;
use crate::names;

/// Exit code of an expression, zone or combination that is refused.
const REFUSED: u8 = 2;
/// The most instants shown at once.
const MAX_COUNT: u32 = 10_000;

/// Show the next planned instants of a job, or of a cron expression without a server, across clock
/// changes: what they move, repeat or leave out is said.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The job, `name` or `namespace/name`, exactly.
    #[arg(
        value_name = "JOB",
        required_unless_present = "cron",
        conflicts_with_all = ["cron", "dialect", "tz", "gap", "fold", "key", "calendar"]
    )]
    pub job: Option<String>,
    /// The expression, such as `30 2 * * 1-5`.
    #[arg(
        long,
        value_name = "EXPR",
        allow_hyphen_values = true,
        default_value = "",
        hide_default_value = true
    )]
    pub cron: String,
    /// The rules it is read by; `crontab` and `seconds` are told apart by the number of fields.
    #[arg(long, value_enum)]
    pub dialect: Option<DialectArg>,
    /// IANA time zone [default: UTC].
    #[arg(long, value_name = "ZONE")]
    pub tz: Option<String>,
    /// A fixed time that a clock change leaves out [default: first-valid; kubernetes: skip].
    #[arg(long, value_enum)]
    pub gap: Option<GapArg>,
    /// A fixed time that a clock change repeats [default: first; kubernetes: both].
    #[arg(long, value_enum)]
    pub fold: Option<FoldArg>,
    /// A calendar's document, or an iCalendar file: whose days the expression keeps to.
    #[arg(long, value_name = "FILE", requires = "cron")]
    pub calendar: Option<PathBuf>,
    /// What the calendar does.
    #[arg(
        long = "use",
        value_enum,
        value_name = "USE",
        requires = "calendar",
        default_value = "working-days"
    )]
    pub usage: UseArg,
    /// Show instants strictly after this one (RFC 3339) [default: now].
    #[arg(long, value_name = "TIME", value_parser = instant, allow_hyphen_values = true)]
    pub after: Option<Timestamp>,
    /// How many.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_COUNT)))]
    pub count: u32,
    /// The job's key, which spreads `H`.
    #[arg(long, value_name = "KEY", default_value = "default/preview")]
    pub key: String,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "text")]
    pub output: Output,
    #[command(flatten)]
    pub connection: Connection,
}

/// A dialect by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DialectArg {
    /// Five fields of crontab(5), with L, W, #, H and @every.
    Crontab,
    /// As a system's crontab reads five fields, nothing more.
    CrontabPlain,
    /// The default rules with leading seconds.
    Seconds,
    /// As a Kubernetes CronJob; six fields have leading seconds.
    Kubernetes,
    /// Six or seven fields, weekday 1 = Sunday.
    Quartz,
}

/// See [`Gap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GapArg {
    /// Once, at the first instant after the gap.
    FirstValid,
    /// Not at all.
    Skip,
    /// Later by the length of the gap.
    Shift,
}

/// See [`Fold`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FoldArg {
    /// In the first pass only.
    First,
    /// In both.
    Both,
}

/// See [`Use`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UseArg {
    /// Times on working days alone.
    WorkingDays,
    /// Times on days off alone.
    DaysOff,
    /// Times on days off move to the next working day.
    RollForward,
    /// Times on days off move to the working day before.
    RollBack,
}

impl Args {
    /// Whether people read the answer.
    pub fn for_people(&self) -> bool {
        self.output == Output::Text
    }
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people: the meaning in words, then one instant a line.
    Text,
    /// For programs.
    Json,
}

/// Writes a job's instants, and what falls out among them, to `out`.
///
/// # Errors
/// The server can't be asked or has no such job, or `out` can't be written to.
pub async fn of_job(args: &Args, job: &str, out: &mut dyn Write) -> Result<ExitCode, Failure> {
    let preview = Preview::of(&args.connection, names::job(job)?).await?;
    let after = args.after.unwrap_or_else(now);
    let moments = preview.moments(after, Timestamp::MAX, args.count as usize);
    let last = moments.last().map_or(after, |moment| moment.instant);
    let beyond = next_calendar::beyond(preview.schedules(), last);
    if args.output == Output::Json {
        let planned = moments.iter().filter(|moment| moment.planned);
        let planned: Vec<&str> = planned.map(|moment| moment.at.as_str()).collect();
        let answer = json!({
            "job": preview.name.to_string(), "time_zone": preview.zone_name,
            "paused": preview.paused, "next": planned, "moments": moments, "warnings": beyond,
        });
        writeln!(out, "{answer}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "job {}, {}", preview.name, preview.zone_name)?;
    for note in preview.notes(Language::English) {
        writeln!(out, "  {note}")?;
    }
    for moment in &moments {
        write!(out, "{}", line(moment))?;
    }
    let planned = moments.iter().filter(|moment| moment.planned).count();
    if planned < args.count as usize && !preview.schedules().is_empty() {
        let why = if preview.has_followers() {
            "(the end of a run makes the next time)"
        } else {
            "(none after that)"
        };
        writeln!(out, "{why}")?;
    }
    for warning in beyond {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the instants to `out`. A refused expression exits with 2; its reason goes to the error
/// output, and with `-o json` to `out` as well.
///
/// # Errors
/// `out` cannot be written to.
pub fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let dialect = args
        .dialect
        .map_or_else(|| Dialect::of(&args.cron), Dialect::from);
    let cron = match Cron::parse(&args.cron, dialect, Some(hash_of_key(&args.key))) {
        Ok(cron) => cron,
        Err(error) => return refuse(args, &error, out),
    };
    let zone = match zone(args, &cron) {
        Ok(zone) => zone,
        Err(error) => {
            eprintln!("error: --tz: {error}");
            if args.output == Output::Json {
                writeln!(
                    out,
                    "{}",
                    json!({"error": {"field": "zone", "message": error.to_string()}})
                )?;
            }
            return Ok(ExitCode::from(REFUSED));
        }
    };
    let (gap, fold) = (
        args.gap.map_or(cron.gap(), Gap::from),
        args.fold.map_or(cron.fold(), Fold::from),
    );
    let cron = cron.with_gap(gap).with_fold(fold);
    let kept = match kept(args, dialect, &zone, gap, fold) {
        Ok(kept) => kept,
        Err(why) => {
            eprintln!("error: --calendar: {why}");
            if args.output == Output::Json {
                let answer = json!({"error": {"field": "calendar", "message": why.to_string()}});
                writeln!(out, "{answer}")?;
            }
            return Ok(ExitCode::from(REFUSED));
        }
    };
    let mut at = args.after.unwrap_or_else(now);
    let mut found = Vec::new();
    while found.len() < args.count as usize
        && let Some(next) = match &kept {
            Some(schedule) => schedule.next(at),
            None => cron.next(at, &zone),
        }
    {
        found.push(next.display_with_offset(zone.to_offset(next)).to_string());
        at = next;
    }
    // A year that is over is as good as a day that never was: what counts is what is to come.
    let never = found.is_empty();
    if args.output == Output::Json {
        let answer = if never {
            json!({"next": found, "never": true})
        } else {
            json!({"next": found})
        };
        writeln!(out, "{answer}")?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "{}", cron.explain(Language::English))?;
    writeln!(out, "{}", cron.explain(Language::Chinese))?;
    for next in &found {
        writeln!(out, "{next}")?;
    }
    if !cron.is_never() && found.len() < args.count as usize {
        let none = if never {
            "(never)"
        } else {
            "(none after that)"
        };
        writeln!(out, "{none}")?;
    }
    for warning in next_calendar::beyond(kept.as_slice(), at) {
        writeln!(out, "warning: {warning}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The expression on the days of the calendar that was given, if one was.
fn kept(
    args: &Args,
    dialect: Dialect,
    zone: &TimeZone,
    gap: Gap,
    fold: Fold,
) -> anyhow::Result<Option<Schedule>> {
    let Some(path) = &args.calendar else {
        return Ok(None);
    };
    let calendar = import::calendar_of(path).map_err(|failure| anyhow!("{}", failure.text))?;
    let zone = zone.iana_name().unwrap_or("UTC");
    let hash = Some(hash_of_key(&args.key));
    let schedule = Schedule::cron(&args.cron, dialect, zone, hash, Timestamp::UNIX_EPOCH)?;
    let schedule = schedule.with_policy(gap, fold);
    Ok(Some(schedule.on(Arc::new(calendar), args.usage.into())?))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a preview starts at the reader's own clock"
)]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

fn instant(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| {
        format!(
            "write a time of RFC 3339 such as `2026-03-01T00:00:00Z`, from {} to {}",
            Timestamp::MIN,
            Timestamp::MAX
        )
    })
}

fn zone(args: &Args, cron: &Cron) -> anyhow::Result<TimeZone> {
    match (cron.zone(), &args.tz) {
        // The dialect's own rule: its prefix is before the zone that it is read in. A job that names
        // both is refused.
        (Some(in_text), Some(beside)) => {
            zone_by_name(beside)?;
            if in_text != beside {
                eprintln!(
                    "warning: the expression names the zone `{in_text}`, which counts; --tz `{beside}` does not"
                );
            }
            Ok(zone_by_name(in_text)?)
        }
        (Some(in_text), None) => Ok(zone_by_name(in_text)?),
        (None, Some(name)) => Ok(zone_by_name(name)?),
        (None, None) => Ok(TimeZone::UTC),
    }
}

fn refuse(args: &Args, error: &Error, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    eprintln!("error: {error}");
    // A caret below each character in question; tabs would shift them.
    let shown = args.cron.replace(|c: char| c.is_control(), " ");
    eprintln!("  {shown}");
    let width = (error.chars.end - error.chars.start).max(1);
    eprintln!("  {}{}", " ".repeat(error.chars.start), "^".repeat(width));
    if args.output == Output::Json {
        let answer = json!({"error": {
            "code": error.code(),
            "field": error.field.as_str(),
            "position": {"start": error.chars.start + 1, "end": error.chars.end.max(error.chars.start + 1)},
            "found": error.found,
            "message": error.message,
            "intended": error.intended,
        }});
        writeln!(out, "{answer}")?;
    }
    Ok(ExitCode::from(REFUSED))
}

impl From<DialectArg> for Dialect {
    fn from(dialect: DialectArg) -> Dialect {
        match dialect {
            DialectArg::Crontab => Dialect::Crontab,
            DialectArg::CrontabPlain => Dialect::CrontabPlain,
            DialectArg::Seconds => Dialect::Seconds,
            DialectArg::Kubernetes => Dialect::Kubernetes,
            DialectArg::Quartz => Dialect::Quartz,
        }
    }
}

impl From<UseArg> for Use {
    fn from(usage: UseArg) -> Use {
        match usage {
            UseArg::WorkingDays => Use::WorkingDays,
            UseArg::DaysOff => Use::DaysOff,
            UseArg::RollForward => Use::RollForward,
            UseArg::RollBack => Use::RollBack,
        }
    }
}

impl From<GapArg> for Gap {
    fn from(gap: GapArg) -> Gap {
        match gap {
            GapArg::FirstValid => Gap::FirstValid,
            GapArg::Skip => Gap::Skip,
            GapArg::Shift => Gap::Shift,
        }
    }
}

impl From<FoldArg> for Fold {
    fn from(fold: FoldArg) -> Fold {
        match fold {
            FoldArg::First => Fold::First,
            FoldArg::Both => Fold::Both,
        }
    }
}

#[cfg(test)]
#[path = "next_tests.rs"]
mod tests;
