//! The calendar document: which dates are off and which are made up for, as a user writes it.
//!
//! `apiVersion: sichen/v1, kind: Calendar`. A calendar is stored in versions that never change; a
//! job's revision names the version that it goes by.
//!
//! # Not here
//! What a calendar does to times ([`crate::schedule`]); which schedule uses which
//! ([`super::timing`]); iCalendar files (the importer).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::ToSpan;
use jiff::civil::Date;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::check::{Problem, Problems};
use super::{API_VERSION, Metadata};
use crate::name::{JobName, Name};
use crate::schedule::calendar::{Calendar, MAX_DATES};

/// Bytes of what a date is called.
pub const MAX_DAY_NAME: usize = 128;
/// Bytes of the text that says where the dates come from.
pub const MAX_SOURCE: usize = 1_024;

/// A whole calendar document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CalendarDocument {
    /// `sichen/v1`.
    #[schemars(extend("const" = API_VERSION))]
    pub api_version: String,
    /// `Calendar`.
    #[schemars(extend("const" = "Calendar"))]
    pub kind: String,
    /// Name and labels.
    pub metadata: Metadata,
    /// The dates.
    pub spec: CalendarSpec,
}

/// The dates of a calendar. What the lists don't name follows the weekend.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CalendarSpec {
    /// Where the dates come from: an announcement, an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Weekdays that are off unless made up for; Saturday and Sunday if left out.
    #[serde(default = "weekend")]
    pub weekend: Vec<Weekday>,
    /// Dates off. Not `off`, which to older readers of YAML is the word for `false`.
    #[serde(default, rename = "daysOff", skip_serializing_if = "Vec::is_empty")]
    pub off: Vec<DaySpec>,
    /// Working dates that the weekend would make off.
    #[serde(default, rename = "workingDays", skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<DaySpec>,
}

fn weekend() -> Vec<Weekday> {
    vec![Weekday::Saturday, Weekday::Sunday]
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Weekday {
    /// 0 in a calendar's rules.
    Sunday,
    /// 1.
    Monday,
    /// 2.
    Tuesday,
    /// 3.
    Wednesday,
    /// 4.
    Thursday,
    /// 5.
    Friday,
    /// 6.
    Saturday,
}

/// One entry of a list: a date, or days with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DaySpec {
    /// One date, such as `2026-10-01`.
    Date(String),
    /// One date or several in a row, with a name.
    Days(DaysSpec),
}

/// One date, or several in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DaysSpec {
    /// One date; or `from` and `through`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// The first of several dates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The last of them, included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// What the days are called, such as `Spring Festival`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl<'de> Deserialize<'de> for DaySpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Seen;
        impl<'de> Visitor<'de> for Seen {
            type Value = DaySpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a date such as 2026-10-01, or `{date: …, name: …}`, or \
                     `{from: …, through: …, name: …}`",
                )
            }
            fn visit_str<E>(self, text: &str) -> Result<DaySpec, E> {
                Ok(DaySpec::Date(text.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<DaySpec, A::Error> {
                DaysSpec::deserialize(MapAccessDeserializer::new(map)).map(DaySpec::Days)
            }
        }
        deserializer.deserialize_any(Seen)
    }
}

/// What one entry stands for.
struct Range<'a> {
    first: Date,
    last: Date,
    name: Option<&'a str>,
}

impl DaySpec {
    /// The dates, or the field at fault and what is wrong with it.
    fn range(&self) -> Result<Range<'_>, (&'static str, String)> {
        let days = match self {
            DaySpec::Date(text) => {
                let date = date(text).map_err(|message| ("", message))?;
                let (first, last, name) = (date, date, None);
                return Ok(Range { first, last, name });
            }
            DaySpec::Days(days) => days,
        };
        let name = days.name.as_deref();
        if name.is_some_and(|name| name.len() > MAX_DAY_NAME || name.trim().is_empty()) {
            let message = format!("SC1040: a name has 1 to {MAX_DAY_NAME} bytes");
            return Err(("name", message));
        }
        let read = |field, text: &str| date(text).map_err(|message| (field, message));
        let (first, last) = match (&days.date, &days.from, &days.through) {
            (Some(text), None, None) => {
                let date = read("date", text)?;
                (date, date)
            }
            (None, Some(from), Some(through)) => (read("from", from)?, read("through", through)?),
            _ => {
                let message = "SC1041: has to have `date`, or `from` and `through`".to_owned();
                return Err(("", message));
            }
        };
        if last < first {
            let message = format!("SC1042: {last} is before {first}; `through` is the last day");
            return Err(("through", message));
        }
        Ok(Range { first, last, name })
    }
}

fn date(text: &str) -> Result<Date, String> {
    let plain = text.len() == 10 && text.is_ascii();
    let date = text.parse().ok().filter(|_| plain);
    let date = date.filter(|date: &Date| date.year() >= 1);
    date.ok_or_else(|| format!("SC1043: {text:?} is no date; write it like 2026-10-01"))
}

impl CalendarDocument {
    /// A calendar of weekends alone.
    #[must_use]
    pub fn new(metadata: Metadata) -> Self {
        let spec = CalendarSpec {
            weekend: weekend(),
            ..CalendarSpec::default()
        };
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "Calendar".to_owned(),
            metadata,
            spec,
        }
    }

    /// The calendar's name.
    ///
    /// # Errors
    /// A part that is no name.
    pub fn calendar_name(&self) -> Result<JobName, crate::name::Error> {
        JobName::new(&self.metadata.namespace, &self.metadata.name)
    }

    /// Everything that is wrong with it beyond its shape; empty if nothing is.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let mut p = Problems(Vec::new());
        let kind = (self.kind != "Calendar").then_some(self.kind.as_str());
        super::check::check_head(&self.api_version, kind, &self.metadata, &mut p);
        if self
            .spec
            .source
            .as_ref()
            .is_some_and(|s| s.len() > MAX_SOURCE)
        {
            let message = format!("SC1006: is longer than {MAX_SOURCE} bytes");
            p.add("spec.source", message);
        }
        let (_, problems) = self.read(1);
        p.0.extend(problems);
        p.0
    }

    /// The rules that the document stands for, as `version` of it.
    ///
    /// # Errors
    /// Every entry that can't be read, with its path.
    pub fn calendar(&self, version: u32) -> Result<Calendar, Vec<Problem>> {
        let (calendar, problems) = self.read(version);
        if problems.is_empty() {
            Ok(calendar)
        } else {
            Err(problems)
        }
    }

    fn read(&self, version: u32) -> (Calendar, Vec<Problem>) {
        let mut p = Problems(Vec::new());
        let mut calendar = Calendar::new(&self.metadata.name);
        if let Ok(name) = self.calendar_name() {
            calendar.name = name.to_string();
        }
        calendar.version = version;
        calendar.weekend = self.spec.weekend.iter().map(|day| *day as u8).collect();
        let lists = [
            ("daysOff", &self.spec.off, &mut calendar.off),
            ("workingDays", &self.spec.work, &mut calendar.work),
        ];
        let mut names = BTreeMap::new();
        for (field, entries, dates) in lists {
            for (i, entry) in entries.iter().enumerate() {
                match entry.range() {
                    Ok(range) => {
                        let left = (MAX_DATES + 1).saturating_sub(dates.len());
                        let days = range.first.series(1.day());
                        let days = days.take_while(|day| *day <= range.last).take(left);
                        for day in days {
                            dates.insert(day);
                            if let Some(name) = range.name {
                                names.entry(day).or_insert_with(|| name.to_owned());
                            }
                        }
                    }
                    Err((inside, message)) => {
                        let dot = if inside.is_empty() { "" } else { "." };
                        p.add(&format!("spec.{field}[{i}]{dot}{inside}"), message);
                    }
                }
            }
        }
        calendar.names = names;
        if let Err(error) = calendar.check() {
            p.add("spec", error.to_string());
        }
        (calendar, p.0)
    }
}

/// The calendars that a document's schedules go by, each in the version that it names.
#[derive(Clone, Debug, Default)]
pub struct Calendars(BTreeMap<JobName, BTreeMap<u32, Arc<Calendar>>>);

impl Calendars {
    /// Adds one.
    pub fn add(&mut self, name: JobName, calendar: Arc<Calendar>) {
        let versions = self.0.entry(name).or_default();
        versions.insert(calendar.version, calendar);
    }

    /// A calendar in a version, or the newest one that is here.
    #[must_use]
    pub fn find(&self, name: &JobName, version: Option<u32>) -> Option<&Arc<Calendar>> {
        let versions = self.0.get(name)?;
        match version {
            Some(version) => versions.get(&version),
            None => versions.values().next_back(),
        }
    }
}

/// A calendar's name as a schedule of `namespace` writes it: `name`, or `namespace/name`.
///
/// # Errors
/// A part that is no name.
pub fn named_in(namespace: &str, text: &str) -> Result<JobName, crate::name::Error> {
    let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
    Ok(JobName {
        namespace: Name::new(namespace)?,
        name: Name::new(name)?,
    })
}

#[cfg(test)]
mod tests;
