//! The coming times of a stored job, and what falls out of them.
//!
//! # Invariants
//! - Times come from the schedules that the trigger uses (`Document::timing`), never from a search of
//!   its own.
//!
//! # Not here
//! Reading expressions without a job ([`super::next`]); the month's picture ([`super::calendar`]).

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use sichen_core::document::{Calendars, Document, ScheduleSpec, Timing};
use sichen_core::ids::JobUid;
use sichen_core::name::JobName;
use sichen_core::schedule::cron::Language;
use sichen_core::schedule::zones::{self, Zones};
use sichen_core::schedule::{Schedule, zone_by_name, zone_data_version};
use sichen_server::rest::wire::Job;

use super::next_calendar;
use crate::client::{Client, Connection};
use crate::failure::{Exit, Failure};

/// Clock changes looked at in one preview.
const MAX_CHANGES: usize = 1_000;

/// A job's schedules, ready to be asked.
#[derive(Debug)]
pub struct Preview {
    pub name: JobName,
    pub paused: bool,
    pub zone: TimeZone,
    pub zone_name: String,
    document: Document,
    timing: Timing,
    /// What follows its last run, unless the end of an open run has yet to make it.
    following: Option<Timestamp>,
    uid: String,
}

/// The zone that a job's times are shown in: its own, or the one that all its schedules name.
fn shown_zone(document: &Document) -> &str {
    let job = &document.spec.time_zone;
    let schedules = document.spec.schedules.iter();
    let mut zones = schedules.map(|s| s.time_zone.as_ref().unwrap_or(job));
    let first = zones.next().unwrap_or(job);
    match zones.all(|zone| zone == first) {
        true => first,
        false => job,
    }
}

/// A planned time, or one that falls out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// In the zone that the job is shown in.
    pub at: String,
    /// The wall-clock time that it stands for.
    pub local: String,
    /// Whether it is a planned time.
    pub planned: bool,
    /// `gap` or `fold`, where a clock change has to do with it; `calendar`, where a calendar has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
    /// The same in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(skip)]
    pub instant: Timestamp,
}

impl Preview {
    /// Asks a server for the job.
    pub async fn of(connection: &Connection, name: JobName) -> Result<Preview, Failure> {
        let client = Client::new(connection)?;
        let path = ["jobs", name.namespace.as_str(), name.name.as_str()];
        let job: Job = match client.get(&path, Vec::new()).await {
            Ok(job) => job,
            Err(failure) => return Err(client.with_candidates(failure, &name).await),
        };
        let following = job.following_at.as_ref().and_then(|at| at.parse().ok());
        let document = read(job.document.unwrap_or_default())?;
        let zones = job
            .zones
            .and_then(|zones| serde_json::from_value(zones).ok());
        let mark = job.decided_until.parse().unwrap_or(Timestamp::MIN);
        let calendars = super::calendars::of(&client, &document).await?;
        let preview = Self::new(name, job.paused, &job.uid, document, &calendars)?;
        let preview = preview.knowing(zones, mark);
        Ok(Preview {
            timing: preview.timing.following(following),
            following,
            ..preview
        })
    }

    /// From what a server says of the job.
    pub fn new(
        name: JobName,
        paused: bool,
        uid: &str,
        document: Document,
        calendars: &Calendars,
    ) -> Result<Preview, Failure> {
        let job = uid
            .parse()
            .map(JobUid)
            .map_err(|_| bad(format!("its uid is {uid:?}")))?;
        let timing = document.timing(job, calendars).map_err(|problems| {
            let lines = problems
                .iter()
                .map(|p| format!("{}: {}", p.path, p.message));
            bad(lines.collect::<Vec<_>>().join("; "))
        })?;
        let zone_name = shown_zone(&document).to_owned();
        let zone = zone_by_name(&zone_name).unwrap_or(TimeZone::UTC);
        Ok(Preview {
            name,
            paused,
            zone,
            zone_name,
            document,
            timing,
            following: None,
            uid: uid.to_owned(),
        })
    }

    /// With the zones as the job knows them, whose mark is `mark`: where newer zone data was adopted, no
    /// civil date comes twice or is left out.
    fn knowing(self, zones: Option<Zones>, mark: Timestamp) -> Preview {
        let adopt = |zones: Zones| zones.adopt(zone_data_version(), mark, zones::taken_now);
        Preview {
            timing: self.timing.knowing(zones.map(adopt)),
            ..self
        }
    }

    /// The schedules of the job.
    pub fn schedules(&self) -> &[Schedule] {
        self.timing.schedules()
    }

    /// The next planned time.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.timing.next(after)
    }

    /// What there is to know before the times: each schedule in words, its bounds, a pause.
    pub fn notes(&self, language: Language) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        if self.paused {
            let job = &self.name;
            notes.push(format!(
                "paused: none of these runs before `sichen resume {job}`"
            ));
        }
        for (i, spec) in self.document.spec.schedules.iter().enumerate() {
            let mut note = match (&spec.cron, spec.every, &spec.at) {
                (Some(text), ..) => {
                    let words = spec.cron_in_words(&self.uid, language).unwrap_or_default();
                    format!("{text}: {words}")
                }
                (None, Some(every), _) => format!("every {every}"),
                (None, None, Some(at)) => format!("once, at {at}"),
                (None, None, None) => match self.follows(spec) {
                    Some(note) => note,
                    None => continue,
                },
            };
            if let Some(zone) = &spec.time_zone {
                note.push_str(&format!("; in {zone}"));
            }
            // All are there, or there were no preview.
            if let Some(uses) = self.schedules().get(i).and_then(next_calendar::uses) {
                note.push_str(&format!("; {uses}"));
            }
            if let Some(from) = &spec.from {
                note.push_str(&format!("; no time before {from}"));
            }
            if let Some(until) = &spec.until {
                note.push_str(&format!("; no time from {until} on"));
            }
            notes.push(note);
        }
        if self.document.spec.schedules.is_empty() {
            notes.push("no schedule: it runs only when it is asked for".to_owned());
        }
        notes
    }

    /// Whether the end of a run makes the next one, so that no time stands after the first.
    pub fn has_followers(&self) -> bool {
        self.timing.follow().is_some()
    }

    /// A schedule that follows the job's runs, in words.
    fn follows(&self, spec: &ScheduleSpec) -> Option<String> {
        let mut note = match (spec.after, spec.continuous) {
            (Some(delay), _) => format!("{delay} after the end of its last run"),
            (None, Some(_)) => "always one run: at once after the last".to_owned(),
            (None, None) => return None,
        };
        if self.following.is_none() {
            note.push_str("; the end of an open run makes the next time");
        }
        Some(note)
    }

    /// Planned times after `after` and up to `through`, at most `count`, and what falls out among
    /// them.
    pub fn moments(&self, after: Timestamp, through: Timestamp, count: usize) -> Vec<Moment> {
        let mut planned = Vec::new();
        let mut at = after;
        while planned.len() < count
            && let Some(next) = self.next(at).filter(|next| *next <= through)
        {
            planned.push(next);
            at = next;
        }
        let end = if planned.len() == count { at } else { through };
        let mut moments: Vec<Moment> = planned.iter().flat_map(|at| self.moment(*at)).collect();
        moments.retain(|moment| moment.instant <= end);
        moments.extend(self.gaps(after, end));
        for schedule in self.schedules() {
            moments.extend(next_calendar::displaced(self, schedule, after, end));
        }
        moments.sort_by_key(|moment| (moment.instant, !moment.planned));
        moments.dedup();
        moments
    }

    /// What clock changes take out: those a schedule skips, between `after` and `through`.
    pub fn gaps(&self, after: Timestamp, through: Timestamp) -> Vec<Moment> {
        let of = |schedule: &Schedule| schedule.left_out(after, through, MAX_CHANGES);
        let found = self.schedules().iter().flat_map(of);
        found
            .map(|(at, count)| {
                let times = if count == 1 {
                    "1 local time is".to_owned()
                } else {
                    format!("{count} local times are")
                };
                let note =
                    format!("does not run: {times} left out by the clock change (gap: skip)");
                self.told(at, self.zone.to_datetime(at), false, Some(("gap", note)))
            })
            .collect()
    }

    /// A planned time, with what a clock change does about it; a pass that does not run follows it.
    fn moment(&self, at: Timestamp) -> Vec<Moment> {
        let just_before = at.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(at);
        let names = |schedule: &&Schedule| schedule.next(just_before) == Some(at);
        let Some(schedule) = self.schedules().iter().find(names) else {
            return vec![self.told(at, self.zone.to_datetime(at), true, None)];
        };
        let zone = schedule.zone();
        let (local, nominal) = (zone.to_datetime(at), schedule.nominal(at));
        if nominal != local {
            let note = format!("{} is left out by the clock change", nominal.time());
            return vec![self.told(at, nominal, true, Some(("gap", note)))];
        }
        let AmbiguousOffset::Fold { before, after } = zone.to_ambiguous_timestamp(local).offset()
        else {
            return vec![self.told(at, nominal, true, None)];
        };
        let time = local.time();
        let pass = |offset: jiff::tz::Offset| offset.to_timestamp(local).ok();
        let (first, second) = (pass(before), pass(after));
        let of_pass = |n: &str| Some(("fold", format!("the {n} of two times that are {time}")));
        if second == Some(at) {
            return vec![self.told(at, nominal, true, of_pass("second"))];
        }
        let mut told = vec![self.told(at, nominal, true, of_pass("first"))];
        if let (Some(first), Some(second)) = (first, second)
            && first == at
            && self.next(
                second
                    .checked_sub(SignedDuration::from_nanos(1))
                    .unwrap_or(second),
            ) != Some(second)
        {
            let note = format!("does not run: {time} for the second time (fold: first)");
            told.push(self.told(second, nominal, false, Some(("fold", note))));
        }
        told
    }

    /// An instant in the zone that the job is shown in.
    pub fn shown(&self, at: Timestamp) -> String {
        at.display_with_offset(self.zone.to_offset(at)).to_string()
    }

    pub fn told(
        &self,
        at: Timestamp,
        local: DateTime,
        planned: bool,
        why: Option<(&'static str, String)>,
    ) -> Moment {
        let (why, note) = why.unzip();
        Moment {
            at: self.shown(at),
            local: local.to_string(),
            planned,
            why,
            note,
            instant: at,
        }
    }
}

fn bad(why: String) -> Failure {
    Failure::new(Exit::Failed, format!("SC7004: the job's document: {why}"))
}

/// A document as a server has it.
pub fn read(document: serde_json::Value) -> Result<Document, Failure> {
    serde_json::from_value(document).map_err(|e| bad(e.to_string()))
}

/// One moment a line: when, and what there is to say.
pub fn line(moment: &Moment) -> String {
    match &moment.note {
        Some(note) => format!("{}  {note}\n", moment.at),
        None => format!("{}\n", moment.at),
    }
}

#[cfg(test)]
#[path = "next_job_tests.rs"]
pub(super) mod tests;
