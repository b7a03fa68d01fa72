//! A job document's schedules, read from its JSON.
//!
//! # Invariants
//! - Each field beside a schedule's rule is known here, or the document is not understood: a field
//!   that moved instants and was passed over would make every answer wrong.
//!
//! # Not here
//! What else a document says. Lateness, overlap and jitter move no planned instant.

use serde_json::Value;

use crate::calendar::{Calendar, Filters, Use};
use crate::instant::{instant, length};
use crate::text::Dialect;
use crate::timetable::{Fold, Gap, Rule, Timetable, hash_of_key};
use crate::zone::Zone;

/// All that a schedule may say.
const FIELDS: &[&str] = &[
    "cron",
    "every",
    "at",
    "after",
    "continuous",
    "dialect",
    "gap",
    "fold",
    "phase",
    "timeZone",
    "from",
    "until",
    "calendars",
];

/// Hands out the document of a calendar: namespace, name, version.
pub type Shelf<'a> = &'a dyn Fn(&str, &str, Option<u64>) -> Option<Value>;

/// A shelf without calendars.
#[must_use]
pub fn no_calendars(_: &str, _: &str, _: Option<u64>) -> Option<Value> {
    None
}

/// The schedules of a document, for the job of this uid, which spreads `H`, with the calendars that
/// it names.
///
/// # Errors
/// The first schedule that is not understood, and why.
pub fn timetables(
    document: &Value,
    job_uid: &str,
    calendars: Shelf<'_>,
) -> Result<Vec<Timetable>, String> {
    let spec = &document["spec"];
    let zone = spec["timeZone"].as_str().unwrap_or("UTC");
    let empty = Vec::new();
    let schedules = match &spec["schedules"] {
        Value::Null => &empty,
        Value::Array(schedules) => schedules,
        _ => return Err("spec.schedules is no list".into()),
    };
    let seed = hash_of_key(job_uid);
    let namespace = document["metadata"]["namespace"].as_str();
    let namespace = namespace.unwrap_or("default");
    let read = |(at, schedule)| {
        let timetable = timetable(schedule, zone, seed).and_then(|timetable| {
            let filters = filters(schedule, namespace, calendars)?;
            Ok(Timetable {
                filters,
                ..timetable
            })
        });
        timetable.map_err(|why| format!("spec.schedules[{at}]: {why}"))
    };
    schedules.iter().enumerate().map(read).collect()
}

fn timetable(schedule: &Value, zone: &str, seed: u64) -> Result<Timetable, String> {
    let fields = schedule.as_object().ok_or("a schedule has fields")?;
    if let Some(odd) = fields.keys().find(|key| !FIELDS.contains(&key.as_str())) {
        return Err(format!("the field `{odd}` is not known here"));
    }
    let text = |key: &str| match &schedule[key] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.as_str())),
        _ => Err(format!("`{key}` is no text")),
    };
    let zone = text("timeZone")?.unwrap_or(zone);
    let anchor = match text("phase")? {
        None => 0,
        Some(phase) => length(phase).ok_or("`phase` is not understood")?.second,
    };
    let follows = match (text("after")?, &schedule["continuous"]) {
        (None, Value::Null) => None,
        (Some(delay), Value::Null) => Some(length(delay).is_some()),
        (None, Value::Object(_)) => Some(true),
        _ => Some(false),
    };
    let kinds = (text("cron")?, text("every")?, text("at")?, follows);
    let mut timetable = match kinds {
        (Some(cron), None, None, None) => {
            let dialect = match text("dialect")? {
                None => Dialect::of(cron),
                Some(name) => {
                    Dialect::named(name).ok_or(format!("the dialect `{name}` is not known here"))?
                }
            };
            Timetable::cron(cron, dialect, zone, Some(seed), anchor)?
        }
        (None, Some(every), None, None) => {
            let period = length(every).ok_or("`every` is not understood")?;
            if period.second < 1 || period.nanosecond > 0 {
                return Err("`every` is at least a whole second".into());
            }
            let period = period.second;
            Timetable::of(Rule::Every { period, anchor }, Zone::named(zone)?)
        }
        (None, None, Some(at), None) => {
            let at = instant(at).ok_or("`at` is no instant")?;
            Timetable::of(Rule::Once(at.second), Zone::named(zone)?)
        }
        // The ends of runs make its instants; who has the records of them lists them beside this.
        (None, None, None, Some(true)) => Timetable::listed(Vec::new()),
        (None, None, None, Some(false)) => {
            return Err("`after` or `continuous` is not understood".into());
        }
        _ => return Err("has to have exactly one of its kinds of rule".into()),
    };
    timetable.gap = match text("gap")? {
        None => timetable.gap,
        Some("first-valid") => Gap::FirstValid,
        Some("skip") => Gap::Skip,
        Some("shift") => Gap::Shift,
        Some(other) => return Err(format!("the gap policy `{other}` is not known here")),
    };
    timetable.fold = match text("fold")? {
        None => timetable.fold,
        Some("first") => Fold::First,
        Some("both") => Fold::Both,
        Some(other) => return Err(format!("the fold policy `{other}` is not known here")),
    };
    let bound = |key: &str| match text(key)? {
        None => Ok(None),
        Some(text) => {
            let at = instant(text).ok_or(format!("`{key}` is no instant"))?;
            Ok::<_, String>(Some(at.rounded_up()))
        }
    };
    timetable.start = bound("from")?;
    timetable.end = bound("until")?;
    Ok(timetable)
}

/// The calendars of a schedule, each by its name in the job's namespace or with one of its own.
fn filters(schedule: &Value, namespace: &str, shelf: Shelf<'_>) -> Result<Filters, String> {
    let uses = match &schedule["calendars"] {
        Value::Null => return Ok(Filters::new()),
        Value::Array(uses) => uses,
        _ => return Err("`calendars` is no list".into()),
    };
    let mut filters = Filters::new();
    for one in uses {
        let known = ["name", "use", "version"];
        let fields = one.as_object().ok_or("a calendar has fields")?;
        if let Some(odd) = fields.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!("the field `{odd}` of a calendar is not known here"));
        }
        let name = one["name"].as_str().ok_or("a calendar has a name")?;
        let usage = one["use"].as_str().and_then(Use::named);
        let usage = usage.ok_or(format!("what calendar `{name}` does is not known here"))?;
        let version = one["version"].as_u64();
        let (space, short) = name.split_once('/').unwrap_or((namespace, name));
        let document = shelf(space, short, version);
        let document = document.ok_or(format!("calendar `{name}` is not in the history"))?;
        let calendar =
            Calendar::read(&document).map_err(|why| format!("calendar {name}: {why}"))?;
        filters.push((calendar, usage));
    }
    Ok(filters)
}
