//! The calendars of a job's schedules: looked up, pinned, put together.
//!
//! # Invariants
//! - A schedule with a calendar that is not at hand is never read without it: it is a problem.
//! - Pinning changes versions alone.
//!
//! # Not here
//! What calendars do to times ([`crate::schedule`]).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::read::Wrong;
use super::spec::CalendarUse;
use crate::document::calendar::{Calendars, named_in};
use crate::document::{Document, Problem};
use crate::name::JobName;
use crate::schedule::calendar::Use;
use crate::schedule::{Days, Error, MAX_CALENDARS, Schedule};

/// The schedule on the days of its calendars; without them at hand, as it stands.
pub(super) fn keep(
    schedule: Schedule,
    uses: &[CalendarUse],
    namespace: &str,
    calendars: Option<&Calendars>,
) -> Result<Schedule, Vec<Wrong>> {
    if uses.is_empty() {
        return Ok(schedule);
    }
    let mut wrong: Vec<Wrong> = Vec::new();
    let mut add = |field: String, message: String| wrong.push((Cow::Owned(field), message));
    if uses.len() > MAX_CALENDARS {
        let given = uses.len();
        let message =
            format!("SC1002: {given} calendars are too many, the limit is {MAX_CALENDARS}");
        add("calendars".to_owned(), message);
    }
    let mut found = Vec::new();
    for (i, one) in uses.iter().enumerate() {
        let rolls = matches!(one.usage, Use::RollForward | Use::RollBack);
        if rolls && !schedule.can_roll() {
            add(format!("calendars[{i}].use"), Error::Rolled.to_string());
        }
        let name = match named_in(namespace, &one.name) {
            Ok(name) => name,
            Err(error) => {
                let message = format!("SC1001: the calendar's name {:?} {error}", one.name);
                add(format!("calendars[{i}].name"), message);
                continue;
            }
        };
        let Some(calendars) = calendars else { continue };
        match calendars.find(&name, one.version) {
            Some(calendar) => found.push((Arc::clone(calendar), one.usage)),
            None => add(format!("calendars[{i}].name"), unknown(&name, one.version)),
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    if calendars.is_none() {
        return Ok(schedule);
    }
    let days = Days::new(found).map_err(Error::from);
    let kept = days.and_then(|days| schedule.on_days(days));
    kept.map_err(|error| vec![("calendars".into(), error.to_string())])
}

fn unknown(name: &JobName, version: Option<u32>) -> String {
    match version {
        Some(version) => format!("SC1044: there is no version {version} of calendar `{name}`"),
        None => format!("SC1044: there is no calendar `{name}`; apply it first"),
    }
}

impl Document {
    fn calendar_uses(&self) -> impl Iterator<Item = (String, &CalendarUse)> {
        let schedules = self.spec.schedules.iter().enumerate();
        schedules.flat_map(|(i, schedule)| {
            let uses = schedule.calendars.iter().enumerate();
            uses.map(move |(k, one)| (format!("spec.schedules[{i}].calendars[{k}].name"), one))
        })
    }

    /// Whether any schedule has a calendar.
    #[must_use]
    pub fn has_calendars(&self) -> bool {
        self.calendar_uses().next().is_some()
    }

    /// The calendars that its schedules name, each with the first place that does and the version
    /// that stands there; what is no name is left out.
    #[must_use]
    pub fn calendars(&self) -> BTreeMap<JobName, (String, Option<u32>)> {
        let mut found = BTreeMap::new();
        for (path, one) in self.calendar_uses() {
            if let Ok(name) = named_in(&self.metadata.namespace, &one.name) {
                found.entry(name).or_insert((path, one.version));
            }
        }
        found
    }

    /// The same document with each calendar in the version that `newest` knows.
    ///
    /// # Errors
    /// Every calendar that is not there, by `unknown` in words.
    pub fn pinned(
        &self,
        newest: &BTreeMap<JobName, u32>,
        unknown: impl Fn(&JobName) -> String,
    ) -> Result<Document, Vec<Problem>> {
        let mut problems = Vec::new();
        for (path, one) in self.calendar_uses() {
            let Ok(name) = named_in(&self.metadata.namespace, &one.name) else {
                continue;
            };
            if !newest.contains_key(&name) {
                let message = unknown(&name);
                problems.push(Problem { path, message });
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut pinned = self.clone();
        for one in pinned
            .spec
            .schedules
            .iter_mut()
            .flat_map(|s| &mut s.calendars)
        {
            let name = named_in(&self.metadata.namespace, &one.name);
            one.version = name.ok().and_then(|name| newest.get(&name).copied());
        }
        Ok(pinned)
    }

    /// The same document without versions of calendars: as a user writes it.
    #[must_use]
    pub fn unpinned(&self) -> Document {
        let mut plain = self.clone();
        for one in plain
            .spec
            .schedules
            .iter_mut()
            .flat_map(|s| &mut s.calendars)
        {
            one.version = None;
        }
        plain
    }
}
