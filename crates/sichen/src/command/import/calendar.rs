//! `sichen import calendar`: a calendar document from an iCalendar file or a list of dates.
//!
//! # Not here
//! Reading iCalendar ([`super::icalendar`]); storing calendars (`sichen apply`).

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sichen_core::document::CalendarDocument;
use sichen_core::schedule::calendar;
use sichen_server::document::{self, read_foreign};
use sichen_server::rest::wire::Applied;

use super::icalendar::{self, Dates, Options};
use super::source::{Level, Remark, slug};
use super::{read, shown};
use crate::client::{Client, Connection};
use crate::command::calendars::applied_lines;
use crate::failure::{Exit, Failure};
use crate::output::{self, Form, Output};

/// Years beyond the present one for which yearly events are written out.
const YEARS: i16 = 2;

/// Dates of another program.
#[derive(Debug, Args)]
pub struct Calendar {
    /// An iCalendar file, a calendar's document, or YAML or JSON with dates: a list of them, or
    /// `date: name`; `-` reads the standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The calendar's name [default: made of the file's title or name].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The calendar's namespace.
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Text in the summary of a made-up working day; empty: there are none.
    #[arg(long, value_name = "TEXT", default_value = "班")]
    work_mark: String,
    /// The last year for which yearly events are written out [default: two years from now].
    #[arg(long, value_name = "YEAR", value_parser = clap::value_parser!(i16).range(1..=9999))]
    through: Option<i16>,
    /// Apply the calendar to a server.
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

#[expect(
    clippy::disallowed_methods,
    reason = "yearly events are written out from the reader's own present on"
)]
fn this_year() -> i16 {
    jiff::tz::TimeZone::UTC.to_datetime(Timestamp::now()).year()
}

/// The rules of a calendar in a file of any form that is taken, for previews.
pub fn of_file(path: &Path) -> Result<calendar::Calendar, Failure> {
    let options = Options {
        name: None,
        namespace: "default".to_owned(),
        work_mark: "班".to_owned(),
        through: this_year().saturating_add(YEARS),
    };
    let dates = dates(path, &options)?;
    sound(path, &dates)?;
    let rules = dates.document.calendar(1);
    rules.map_err(|_| Failure::usage(format!("SC7032: {} is no calendar", shown(path))))
}

/// Carries out `sichen import calendar`.
pub async fn run(args: &Calendar) -> Result<ExitCode, Failure> {
    let options = Options {
        name: args.name.clone(),
        namespace: args.namespace.clone(),
        work_mark: args.work_mark.clone(),
        through: args
            .through
            .unwrap_or_else(|| this_year().saturating_add(YEARS)),
    };
    let dates = dates(&args.file, &options)?;
    remarks(&shown(&args.file), &dates.remarks);
    sound(&args.file, &dates)?;
    let document = &dates.document;
    if args.apply {
        let client = Client::new(&args.connection)?;
        let text = serde_json::to_string(document)
            .map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
        let applied: Applied = client.post_documents(&["jobs:apply"], text).await?;
        args.output.show(&applied, |all| {
            all.calendars.iter().map(applied_lines).collect()
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.output.output == Form::Table {
        let text = serde_saphyr::to_string(document)
            .map_err(|e| Failure::new(Exit::Failed, e.to_string()))?;
        output::print(&format!("# from {}\n{text}", shown(&args.file)))?;
        return Ok(ExitCode::SUCCESS);
    }
    args.output.show(document, |_| String::new())?;
    Ok(ExitCode::SUCCESS)
}

fn dates(path: &Path, options: &Options) -> Result<Dates, Failure> {
    let bytes = read(path, document::MAX_TEXT_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let error = error.utf8_error();
        Failure::usage(format!("SC7005: {} is not UTF-8: {error}", shown(path)))
    })?;
    let begins = text.trim_start_matches('\u{feff}').trim_start();
    let is_icalendar = begins
        .get(..15)
        .is_some_and(|begin| begin.eq_ignore_ascii_case("BEGIN:VCALENDAR"));
    let mut options = options.clone();
    if !is_icalendar && options.name.is_none() {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        options.name = stem.filter(|stem| *stem != "-").map(|stem| slug(stem, 63));
    }
    if is_icalendar {
        return Ok(icalendar::read(&text, &options));
    }
    plain(&text, &options).map_err(|why| Failure::usage(format!("{}:{why}", shown(path))))
}

/// A calendar's document, or a list of dates, or `date: name`.
fn plain(text: &str, options: &Options) -> Result<Dates, String> {
    let found = read_foreign(text).map_err(|problem| problem.to_string())?;
    let [one] = &found[..] else {
        let count = found.len();
        return Err(format!("SC7032: {count} documents are there; one is taken"));
    };
    let entries = match &one.value {
        Value::Object(fields) if fields.get("kind") == Some(&json!("Calendar")) => {
            let read = document::read_all(text).map_err(|problems| {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                problems.join("; ")
            })?;
            let read = read.calendars.into_iter().next();
            let document = read.ok_or("SC7032: there is no calendar in it")?.document;
            let remarks = Vec::new();
            return Ok(Dates { document, remarks });
        }
        Value::Array(entries) => entries.clone(),
        Value::Object(fields) => fields
            .iter()
            .map(|(date, name)| entry(date, name))
            .collect(),
        _ => return Err("SC7032: a list of dates is taken, or `date: name`".to_owned()),
    };
    let mut metadata = Map::new();
    let name = options
        .name
        .clone()
        .unwrap_or_else(|| "holidays".to_owned());
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("namespace".to_owned(), options.namespace.clone().into());
    let document = json!({
        "apiVersion": "sichen/v1", "kind": "Calendar", "metadata": metadata,
        "spec": {"daysOff": entries},
    });
    let document: CalendarDocument =
        serde_json::from_value(document).map_err(|e| format!("SC7032: {e}"))?;
    let remarks = document.check().into_iter().map(|problem| Remark {
        line: one.line_of(problem.path.trim_start_matches("spec.daysOff")),
        level: Level::Refused,
        field: problem.path,
        message: problem.message,
    });
    let remarks = remarks.collect();
    Ok(Dates { document, remarks })
}

fn entry(date: &str, name: &Value) -> Value {
    match name.as_str().map(str::trim) {
        None | Some("") => json!(date),
        Some(name) => json!({"date": date, "name": name}),
    }
}

/// Refuses what is no calendar.
fn sound(path: &Path, dates: &Dates) -> Result<(), Failure> {
    let mut wrong: Vec<String> = dates
        .remarks
        .iter()
        .filter(|remark| remark.level == Level::Refused)
        .map(|remark| format!("line {}: {}", remark.line, remark.message))
        .collect();
    if wrong.is_empty() {
        let problems = dates.document.check().into_iter();
        wrong = problems
            .map(|p| format!("{}: {}", p.path, p.message))
            .collect();
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let text = format!(
        "SC7032: {} is no calendar: {}",
        shown(path),
        wrong.join("; ")
    );
    Err(Failure::usage(text))
}

#[expect(clippy::print_stderr, reason = "remarks beside the document")]
fn remarks(file: &str, remarks: &[Remark]) {
    for remark in remarks {
        let field = match remark.field.as_str() {
            "" => String::new(),
            field => format!("{field}: "),
        };
        let (line, level) = (remark.line, remark.level.as_str());
        eprintln!(
            "{file}:{line}: {level}: {field}{}",
            output::visible(&remark.message)
        );
    }
}
