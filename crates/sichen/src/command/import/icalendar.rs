//! Days off and made-up working days from an iCalendar file (RFC 5545).
//!
//! The file's lines are read here and not by a library: each remark names its line, and of the format
//! only all-day events matter.
//!
//! # Invariants
//! - What is passed over is remarked upon, by line: events with a time of day, rules other than a
//!   plain yearly one, exceptions, to-dos.
//! - An end is not part of its event (RFC 5545), so the last day is the one before it.
//!
//! # Not here
//! Whether the dates make a calendar (`sichen_core::document`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use jiff::{Span, ToSpan};
use sichen_core::document::{CalendarDocument, DaySpec, DaysSpec, MAX_DAY_NAME, Metadata};
use sichen_core::schedule::calendar::MAX_DATES;

use super::source::{Level, Remark, slug};

/// Days of one event.
const MAX_EVENT_DAYS: usize = 400;

/// How a file is read.
#[derive(Clone, Debug)]
pub struct Options {
    /// The calendar's name; made of the file's own title if none.
    pub name: Option<String>,
    pub namespace: String,
    /// Text in the summary of a made-up working day; empty: there are none.
    pub work_mark: String,
    /// The last year for which yearly events are written out.
    pub through: i16,
}

/// What a file gives.
#[derive(Debug)]
pub struct Dates {
    pub document: CalendarDocument,
    pub remarks: Vec<Remark>,
}

/// One content line, unfolded.
struct Line {
    number: u64,
    name: String,
    params: String,
    value: String,
}

/// A date with the line that says it.
#[derive(Clone, Copy)]
struct Dated {
    date: Date,
    line: u64,
}

#[derive(Default)]
struct Event {
    line: u64,
    start: Option<Dated>,
    end: Option<Dated>,
    days: Option<i64>,
    summary: String,
    rule: Option<(u64, String)>,
    except: BTreeSet<Date>,
    /// Why it is passed over.
    odd: Option<(u64, String)>,
}

/// Reads a file's text.
pub fn read(text: &str, options: &Options) -> Dates {
    let mut reader = Reader {
        options,
        off: BTreeMap::new(),
        work: BTreeMap::new(),
        remarks: Vec::new(),
        title: String::new(),
    };
    reader.lines(&unfold(text));
    reader.finish()
}

struct Reader<'a> {
    options: &'a Options,
    off: BTreeMap<Date, (u64, String)>,
    work: BTreeMap<Date, (u64, String)>,
    remarks: Vec<Remark>,
    title: String,
}

impl Reader<'_> {
    fn say(&mut self, line: u64, level: Level, field: &str, message: String) {
        self.remarks.push(Remark {
            line,
            level,
            field: field.to_owned(),
            message,
        });
    }

    fn lines(&mut self, lines: &[Line]) {
        let mut inside: Vec<String> = Vec::new();
        let mut event = Event::default();
        for line in lines {
            let value = line.value.trim();
            match line.name.as_str() {
                "BEGIN" => {
                    let what = value.to_ascii_uppercase();
                    if inside.len() == 1 && what == "VEVENT" {
                        event = Event {
                            line: line.number,
                            ..Event::default()
                        };
                    } else if inside.len() == 1 && what != "VTIMEZONE" {
                        let message = format!("{what} is passed over; only events name dates");
                        self.say(line.number, Level::Warning, "BEGIN", message);
                    }
                    inside.push(what);
                }
                "END" => {
                    let ended = inside.pop();
                    if inside.len() == 1 && ended.as_deref() == Some("VEVENT") {
                        self.event(std::mem::take(&mut event));
                    }
                }
                "X-WR-CALNAME" if inside.len() == 1 => self.title = plain(&line.value),
                _ if inside.len() == 2 && inside.last().is_some_and(|what| what == "VEVENT") => {
                    property(&mut event, line);
                }
                _ => {}
            }
        }
        if !inside.is_empty() {
            let last = lines.last().map_or(1, |line| line.number);
            let message = format!(
                "the file ends inside {}; it is cut off",
                inside.join(" in ")
            );
            self.say(last, Level::Refused, "END", message);
        }
    }

    fn event(&mut self, event: Event) {
        if let Some((line, why)) = &event.odd {
            let message = format!("`{}` is passed over: {why}", event.summary);
            return self.say(*line, Level::Warning, "VEVENT", message);
        }
        let Some(start) = event.start else {
            let message = format!("`{}` is passed over: it has no DTSTART", event.summary);
            return self.say(event.line, Level::Warning, "VEVENT", message);
        };
        let one = start.date.saturating_add(1.day());
        let end = match (event.end, event.days) {
            (Some(end), _) if end.date == start.date => {
                let message = "ends where it starts; taken as one day".to_owned();
                self.say(end.line, Level::Note, "DTEND", message);
                one
            }
            (Some(end), _) if end.date < start.date => {
                let message = format!("`{}` ends before it starts; passed over", event.summary);
                return self.say(end.line, Level::Warning, "DTEND", message);
            }
            (Some(end), _) => end.date,
            (None, Some(days)) => start.date.saturating_add(days.days()),
            (None, None) => one,
        };
        let long = start.date.series(1.day()).take_while(|day| *day < end);
        let long = i64::try_from(long.take(MAX_EVENT_DAYS + 1).count()).unwrap_or(i64::MAX);
        if long > MAX_EVENT_DAYS as i64 {
            let message = format!("`{}` is longer than {MAX_EVENT_DAYS} days", event.summary);
            return self.say(start.line, Level::Refused, "DTEND", message);
        }
        let starts = match &event.rule {
            None => vec![start.date],
            Some((line, rule)) => match yearly(rule, start.date, self.options.through) {
                Ok((starts, cut)) => {
                    if cut {
                        let through = self.options.through;
                        let message = format!(
                            "`{}` goes on after {through}; written out through {through} \
                             (--through)",
                            event.summary
                        );
                        self.say(*line, Level::Note, "RRULE", message);
                    }
                    starts
                }
                Err(why) => {
                    let message = format!("`{}` is passed over: {why}", event.summary);
                    return self.say(*line, Level::Warning, "RRULE", message);
                }
            },
        };
        let mark = &self.options.work_mark;
        let works = !mark.is_empty() && event.summary.contains(mark.as_str());
        let list = if works { &mut self.work } else { &mut self.off };
        for first in starts {
            if event.except.contains(&first) {
                continue;
            }
            for day in first.series(1.day()).take(long as usize) {
                if list.len() > MAX_DATES {
                    return;
                }
                list.entry(day)
                    .or_insert_with(|| (start.line, event.summary.clone()));
            }
        }
    }

    fn finish(mut self) -> Dates {
        let both = self.work.iter().filter_map(|(date, (line, _))| {
            let (other, name) = self.off.get(date)?;
            Some((*line, *date, *other, name.clone()))
        });
        for (line, date, other, name) in both.collect::<Vec<_>>() {
            let message = format!("{date} is worked here and off by `{name}` in line {other}");
            self.say(line, Level::Refused, "DTSTART", message);
        }
        if self.off.is_empty() && self.work.is_empty() {
            let message = "there is no all-day event in this file".to_owned();
            self.say(1, Level::Refused, "", message);
        }
        let name = match (&self.options.name, self.title.as_str()) {
            (Some(name), _) => name.clone(),
            (None, "") => "holidays".to_owned(),
            (None, title) => match slug(title, 63) {
                // Nothing of the title can be in a name.
                name if name == "job" => "holidays".to_owned(),
                name => name,
            },
        };
        let mut document = CalendarDocument::new(Metadata {
            name,
            namespace: self.options.namespace.clone(),
            title: (!self.title.is_empty()).then(|| self.title.clone()),
            labels: BTreeMap::new(),
        });
        document.spec.off = entries(&self.off);
        document.spec.work = entries(&self.work);
        Dates {
            document,
            remarks: self.remarks,
        }
    }
}

fn property(event: &mut Event, line: &Line) {
    let value = line.value.trim();
    let odd = |why: String| Some((line.number, why));
    match line.name.as_str() {
        "SUMMARY" => event.summary = plain(&line.value),
        "DTSTART" | "DTEND" => match all_day(line) {
            Ok(date) => {
                let dated = Some(Dated {
                    date,
                    line: line.number,
                });
                if line.name == "DTSTART" {
                    event.start = dated;
                } else {
                    event.end = dated;
                }
            }
            Err(why) => event.odd = odd(why),
        },
        "DURATION" => match days_of(value) {
            Some(days) => event.days = Some(days),
            None => event.odd = odd(format!("its duration {value:?} is no number of days")),
        },
        "RRULE" => event.rule = Some((line.number, value.to_owned())),
        "RDATE" => event.odd = odd("it has dates of its own (RDATE), which are not read".into()),
        "RECURRENCE-ID" => {
            event.odd = odd("it changes one date of another event (RECURRENCE-ID)".into());
        }
        "EXDATE" => {
            for one in value.split(',') {
                match one
                    .get(..8)
                    .and_then(|day| Date::strptime("%Y%m%d", day).ok())
                {
                    Some(date) => drop(event.except.insert(date)),
                    None => event.odd = odd(format!("its exception {one:?} is no date")),
                }
            }
        }
        "STATUS" if value.eq_ignore_ascii_case("CANCELLED") => {
            event.odd = odd("it is cancelled".to_owned());
        }
        _ => {}
    }
}

/// The date of an all-day event.
fn all_day(line: &Line) -> Result<Date, String> {
    let value = line.value.trim();
    if value.len() != 8 {
        let why = format!("it has a time of day ({value}); only all-day events name dates");
        return Err(why);
    }
    let date = Date::strptime("%Y%m%d", value);
    let params = line.params.to_ascii_uppercase();
    if params.contains("VALUE=DATE-TIME") {
        return Err(format!(
            "{value:?} is said to have a time of day and has none"
        ));
    }
    date.map_err(|_| format!("{value:?} is no date such as 20261001"))
}

/// `P3D`, `P1W`.
fn days_of(value: &str) -> Option<i64> {
    let span: Span = value.parse().ok()?;
    let days = i64::from(span.get_weeks()) * 7 + i64::from(span.get_days());
    let rest = span.weeks(0).days(0);
    (days > 0 && rest.is_zero()).then_some(days)
}

/// The starts of a plain yearly rule, and whether it goes on beyond the last year.
fn yearly(rule: &str, first: Date, through: i16) -> Result<(Vec<Date>, bool), String> {
    let not_read = || format!("its rule {rule:?} is not read; only a plain FREQ=YEARLY is");
    let (mut freq, mut interval, mut count, mut until) = (false, 1, None, None);
    for part in rule.split(';').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').ok_or_else(not_read)?;
        let same = |own: i8| value.parse::<i8>() == Ok(own);
        match key.to_ascii_uppercase().as_str() {
            "FREQ" if value.eq_ignore_ascii_case("YEARLY") => freq = true,
            "INTERVAL" => interval = value.parse().map_err(|_| not_read())?,
            "COUNT" => count = Some(value.parse::<usize>().map_err(|_| not_read())?),
            "UNTIL" => {
                let day = value
                    .get(..8)
                    .and_then(|day| Date::strptime("%Y%m%d", day).ok());
                until = Some(day.ok_or_else(not_read)?);
            }
            // They say what the start says already.
            "BYMONTH" if same(first.month()) => {}
            "BYMONTHDAY" if same(first.day()) => {}
            "WKST" => {}
            _ => return Err(not_read()),
        }
    }
    if !freq || interval < 1 {
        return Err(not_read());
    }
    let years = (first.year()..=through.max(first.year())).step_by(interval);
    let dates = years.filter_map(|year| Date::new(year, first.month(), first.day()).ok());
    let dates = dates.take_while(|date| until.is_none_or(|until| *date <= until));
    let dates: Vec<Date> = dates.take(count.unwrap_or(usize::MAX)).collect();
    let ended = until.is_some_and(|until| until.year() <= through)
        || count.is_some_and(|count| dates.len() == count);
    Ok((dates, !ended))
}

/// Dates in a row with one name as one entry.
fn entries(dates: &BTreeMap<Date, (u64, String)>) -> Vec<DaySpec> {
    let mut rows: Vec<(Date, Date, &str)> = Vec::new();
    for (date, (_, name)) in dates {
        match rows.last_mut() {
            Some((_, last, before)) if last.tomorrow().ok() == Some(*date) && *before == name => {
                *last = *date;
            }
            _ => rows.push((*date, *date, name)),
        }
    }
    let entry = |(first, last, name): (Date, Date, &str)| {
        let name = shortened(name);
        match (first == last, name.is_empty()) {
            (true, true) => DaySpec::Date(first.to_string()),
            (true, false) => DaySpec::Days(DaysSpec {
                date: Some(first.to_string()),
                name: Some(name),
                ..DaysSpec::default()
            }),
            (false, _) => DaySpec::Days(DaysSpec {
                from: Some(first.to_string()),
                through: Some(last.to_string()),
                name: (!name.is_empty()).then_some(name),
                ..DaysSpec::default()
            }),
        }
    };
    rows.into_iter().map(entry).collect()
}

/// A name as long as a calendar takes it.
fn shortened(name: &str) -> String {
    let mut end = name.len().min(MAX_DAY_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].trim().to_owned()
}

/// A text value without its escapes.
fn plain(value: &str) -> String {
    let mut text = String::new();
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n' | 'N') => text.push(' '),
                Some(other) => text.push(other),
                None => {}
            },
            c if c.is_control() => text.push(' '),
            c => text.push(c),
        }
    }
    text.trim().to_owned()
}

/// Content lines, each with the number of its first line; `\r\n`, `\n` and a mark at the
/// beginning of the file are all taken.
fn unfold(text: &str) -> Vec<Line> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut joined: Vec<(u64, String)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        match (line.strip_prefix([' ', '\t']), joined.last_mut()) {
            (Some(more), Some((_, last))) => last.push_str(more),
            _ => joined.push((number, line.to_owned())),
        }
    }
    joined
        .into_iter()
        .filter_map(|(number, line)| content(number, &line))
        .collect()
}

/// `NAME;PARAM="a:b":value`: the colon that ends the name is the first outside quotes.
fn content(number: u64, line: &str) -> Option<Line> {
    let mut quoted = false;
    let colon = line.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        (c == ':' && !quoted).then_some(at)
    })?;
    let (head, value) = (&line[..colon], &line[colon + 1..]);
    let (name, params) = head.split_once(';').unwrap_or((head, ""));
    Some(Line {
        number,
        name: name.trim().to_ascii_uppercase(),
        params: params.to_owned(),
        value: value.to_owned(),
    })
}

#[cfg(test)]
#[path = "icalendar_tests.rs"]
mod tests;
