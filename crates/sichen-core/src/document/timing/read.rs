//! From what a user wrote to schedules that can be asked.
//!
//! # Invariant
//! A mistake in one schedule says nothing about another: each is read by itself, and those that can
//! be read are there whatever the others are like.
//!
//! # Not here
//! The shapes ([`super::spec`]), what instants they have ([`crate::schedule`]).

use std::borrow::Cow;

use jiff::Timestamp;

use super::days;
use super::spec::ScheduleSpec;
use crate::document::check::Problem;
use crate::document::{Calendars, Duration, Spec};
use crate::schedule::cron::Dialect;
use crate::schedule::follow::{MAX_WAIT, MIN_WAIT};
use crate::schedule::{Schedule, zone_by_name};

/// A field of the schedule and what is wrong with it.
pub(super) type Wrong = (Cow<'static, str>, String);

/// Those schedules of a job of `namespace` that can be read, and what is wrong with the others.
/// Without `calendars` only what can be told without them is.
pub(in crate::document) fn schedules(
    namespace: &str,
    spec: &Spec,
    seed: u64,
    calendars: Option<&Calendars>,
) -> (Vec<Schedule>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut schedules = Vec::new();
    let zone = zone_by_name(&spec.time_zone);
    if let Err(error) = &zone {
        let path = "spec.timeZone".to_owned();
        let message = error.to_string();
        problems.push(Problem { path, message });
    }
    let has_zone = |one: &ScheduleSpec| zone.is_ok() || one.time_zone.is_some();
    // Under a zone that does not exist the rest is still read, so that all is told at once.
    let zone = zone.as_ref().map_or("UTC", |_| &spec.time_zone);
    for (i, one) in spec.schedules.iter().enumerate() {
        let read = schedule(one, zone, seed)
            .and_then(|schedule| days::keep(schedule, &one.calendars, namespace, calendars));
        match read {
            Ok(schedule) if has_zone(one) => schedules.push(schedule),
            Ok(_) => {}
            Err(wrong) => problems.extend(wrong.into_iter().map(|(field, message)| {
                let path = match &*field {
                    "" => format!("spec.schedules[{i}]"),
                    field => format!("spec.schedules[{i}].{field}"),
                };
                Problem { path, message }
            })),
        }
    }
    (schedules, problems)
}

fn schedule(spec: &ScheduleSpec, job_zone: &str, seed: u64) -> Result<Schedule, Vec<Wrong>> {
    let mut wrong = misplaced(spec);
    let zone = spec.time_zone.as_deref().unwrap_or(job_zone);
    if let Err(error) = zone_by_name(zone) {
        wrong.push(("timeZone".into(), error.to_string()));
    }
    let mut bound = |field: &'static str, text: &Option<String>| {
        let text = text.as_ref()?;
        instant(text)
            .map_err(|message| wrong.push((Cow::Borrowed(field), message)))
            .ok()
    };
    let (from, until) = (bound("from", &spec.from), bound("until", &spec.until));
    if !wrong.is_empty() {
        return Err(wrong);
    }
    rule(spec, zone, seed)
        .and_then(|schedule| {
            let within = schedule.within(from, until);
            within.map_err(|error| ("until".into(), error.to_string()))
        })
        .map_err(|wrong| vec![wrong])
}

fn rule(spec: &ScheduleSpec, zone: &str, seed: u64) -> Result<Schedule, Wrong> {
    // A fixed rate keeps to one grid for ever, whoever computes it: the one that starts in 1970,
    // moved by its phase.
    let phase = spec.phase.unwrap_or(Duration::from_secs(0));
    let anchor = Timestamp::UNIX_EPOCH.checked_add(phase.0);
    let anchor = anchor.map_err(|_| ("phase".into(), format!("SC1016: {phase} is too long")))?;
    let kinds = (
        &spec.cron,
        spec.every,
        &spec.at,
        spec.after,
        spec.continuous,
    );
    match kinds {
        (Some(text), None, None, None, None) => {
            let dialect = spec.dialect.unwrap_or_else(|| Dialect::of(text));
            let (gap, fold) = dialect.default_policy();
            let cron = Schedule::cron(text, dialect, zone, Some(seed), anchor);
            let cron = cron.map_err(|error| ("cron".into(), error.to_string()))?;
            Ok(cron.with_policy(spec.gap.unwrap_or(gap), spec.fold.unwrap_or(fold)))
        }
        (None, Some(period), None, None, None) => {
            let every = Schedule::every(period.0, anchor).and_then(|s| s.shown_in(zone));
            every.map_err(|error| ("every".into(), error.to_string()))
        }
        (None, None, Some(text), None, None) => {
            let at = instant(text).map_err(|message| ("at".into(), message))?;
            let once = Schedule::at(at).shown_in(zone);
            once.map_err(|error| ("at".into(), error.to_string()))
        }
        (None, None, None, Some(delay), None) => {
            let after = Schedule::after(delay.0).and_then(|s| s.shown_in(zone));
            after.map_err(|error| ("after".into(), error.to_string()))
        }
        (None, None, None, None, Some(continuous)) => {
            let min = continuous.min_wait.map_or(MIN_WAIT, |wait| wait.0);
            let max = continuous.max_wait.map_or(MAX_WAIT.max(min), |wait| wait.0);
            let kept = Schedule::continuous(min, max).and_then(|s| s.shown_in(zone));
            kept.map_err(|error| ("continuous".into(), error.to_string()))
        }
        _ => {
            let message = "SC1017: has to have exactly one of `cron`, `every`, `at`, `after` and \
                           `continuous`";
            Err(("".into(), message.to_owned()))
        }
    }
}

/// Fields that say nothing about the kind of schedule they stand beside.
fn misplaced(spec: &ScheduleSpec) -> Vec<Wrong> {
    let of_cron = [
        ("dialect", spec.dialect.is_some()),
        ("gap", spec.gap.is_some()),
        ("fold", spec.fold.is_some()),
    ];
    let mut wrong = Vec::new();
    for (field, _) in of_cron
        .iter()
        .filter(|(_, there)| *there && spec.cron.is_none())
    {
        wrong.push((
            Cow::Borrowed(*field),
            format!("SC1018: `{field}` goes with `cron` alone; leave it out"),
        ));
    }
    let has_grid = spec.every.is_some()
        || spec
            .cron
            .as_ref()
            .is_some_and(|text| text.trim_start().starts_with("@every"));
    if spec.phase.is_some() && !has_grid {
        wrong.push((
            "phase".into(),
            "SC1018: `phase` goes with `every` alone; leave it out".to_owned(),
        ));
    }
    let follows = spec.after.is_some() || spec.continuous.is_some();
    if follows && !spec.calendars.is_empty() {
        let message = "SC1018: what follows a run follows it on any day; leave `calendars` out";
        wrong.push(("calendars".into(), message.to_owned()));
    }
    wrong
}

fn instant(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| {
        format!("SC1014: {text:?} is no instant; write it like 2026-08-30T00:00:00+08:00")
    })
}
