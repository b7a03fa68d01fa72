//! A Kubernetes CronJob's next step, as that system's controller takes it.
//!
//! Serves the importer's preview and `sichen due`: it maps a CronJob onto [`due`] and
//! [`overlap`](super::overlap) and puts the answer in the controller's words. Its habits that differ
//! from Sichen's own are kept here alone: the look-back by `startingDeadlineSeconds` is exclusive;
//! `@every` counts from wherever the look-back begins, but when it looks again from where the last
//! time was; a zone within the schedule is before `timeZone`; and how many times it says were
//! missed is what would fit if all were as far apart as the first two.
//!
//! # Not here
//! Reading manifests (the importer).

use jiff::{SignedDuration, Timestamp};

use super::cron::Dialect;
use super::due::{CatchUp, DueInput, DuePlan, Reason, due};
use super::overlap::{Active, Overlap, Verdict, judge};
use super::rule::{Error, Schedule};

/// The fields that matter for time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronJob {
    pub schedule: String,
    pub time_zone: Option<String>,
    pub suspend: bool,
    pub concurrency: Overlap,
    pub starting_deadline: Option<SignedDuration>,
    pub created_at: Timestamp,
    pub last_scheduled: Option<Timestamp>,
    /// Planned times of the jobs in the status list; one that nobody knows counts as active too.
    pub active: Vec<Option<Timestamp>>,
}

/// What the controller would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Create,
    Replace,
    None,
}

/// Why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    Due,
    NotDue,
    Suspended,
    ForbidActive,
    AlreadyStarted,
    UnknownTimeZone,
    UnparseableSchedule,
    /// It can be read but never matches.
    InvalidSchedule,
}

impl Because {
    /// The word that is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Because::Due => "due",
            Because::NotDue => "not-due",
            Because::Suspended => "suspended",
            Because::ForbidActive => "forbid-active",
            Because::AlreadyStarted => "already-started",
            Because::UnknownTimeZone => "unknown-time-zone",
            Because::UnparseableSchedule => "unparseable-schedule",
            Because::InvalidSchedule => "invalid-schedule",
        }
    }
}

/// The controller's step.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub action: Action,
    pub because: Because,
    pub planned: Option<Timestamp>,
    /// Instants that came due since the look-back begins, besides the one planned.
    pub missed: u64,
    /// The same as the controller reckons them.
    pub reckoned: Missed,
    /// When the controller looks again: 0.1 s after the next planned time.
    pub requeue_after: Option<SignedDuration>,
    /// The decision underneath.
    pub plan: Option<DuePlan>,
}

impl Step {
    fn nothing(because: Because) -> Step {
        Step {
            action: Action::None,
            because,
            planned: None,
            missed: 0,
            reckoned: Missed::None,
            requeue_after: None,
            plan: None,
        }
    }
}

/// How many instants came due before the controller looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// One at the most: the one that is planned.
    None,
    Few,
    /// Over a hundred.
    Many,
}

impl Missed {
    /// The word that is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Missed::None => "none",
            Missed::Few => "few",
            Missed::Many => "many",
        }
    }

    fn since(from: Timestamp, now: Timestamp, schedule: &Schedule) -> Missed {
        let first = schedule.next(from).filter(|first| *first <= now);
        let Some((first, second)) = first.and_then(|at| Some((at, schedule.next(at)?))) else {
            return Missed::None;
        };
        let apart = second.duration_since(first).as_secs().max(1);
        match now.duration_since(first).as_secs() / apart {
            _ if now < second => Missed::None,
            0..100 => Missed::Few,
            _ => Missed::Many,
        }
    }
}

/// Decides the step at `now`.
pub fn step(job: &CronJob, now: Timestamp) -> Step {
    let named = job.time_zone.as_deref().unwrap_or("UTC");
    if super::zone_by_name(named).is_err() {
        return Step::nothing(Because::UnknownTimeZone);
    }
    let zone = if job.schedule.contains("TZ=") {
        "UTC"
    } else {
        named
    };
    if job.suspend {
        return Step::nothing(Because::Suspended);
    }
    let base = job.last_scheduled.unwrap_or(job.created_at);
    let lookback = job
        .starting_deadline
        .and_then(|deadline| now.checked_sub(deadline).ok());
    let from = lookback.map_or(base, |lookback| lookback.max(base));
    let anchored = |anchor| Schedule::cron(&job.schedule, Dialect::Kubernetes, zone, None, anchor);
    let schedule = match anchored(from) {
        // Six fields are this dialect's extension, not a CronJob's.
        Ok(_) if has_seconds(&job.schedule) => {
            return Step::nothing(Because::UnparseableSchedule);
        }
        Ok(schedule) => [schedule],
        Err(Error::Cron(error)) if error.kind == super::cron::Kind::Never => {
            return Step::nothing(Because::InvalidSchedule);
        }
        Err(_) => return Step::nothing(Because::UnparseableSchedule),
    };
    let mut input = DueInput::new(&schedule, base, now);
    input.catch_up = CatchUp::Latest;
    input.on_time = SignedDuration::ZERO;
    input.window = job
        .starting_deadline
        .map(|deadline| deadline - SignedDuration::from_nanos(1));
    let plan = due(&input);
    let again = anchored(base)
        .ok()
        .and_then(|schedule| schedule.next(now.max(base)));
    let wake = again.map(|again| again.duration_since(now) + SignedDuration::from_millis(100));
    let left_out = plan
        .skips
        .iter()
        .filter(|skip| skip.reason == Reason::CatchUp);
    let missed = left_out.map(|skip| skip.count).sum();
    let planned = plan.runs.first().map(|run| run.planned);
    let (action, because) = match planned {
        None => (Action::None, Because::NotDue),
        Some(planned) if job.active.contains(&Some(planned)) => {
            (Action::None, Because::AlreadyStarted)
        }
        Some(planned) => {
            match judge(job.concurrency, 1, Active::all(&job.active, 0), &[planned]).first() {
                Some(Verdict::Skip { .. }) => (Action::None, Because::ForbidActive),
                Some(Verdict::Replace { .. }) => (Action::Replace, Because::Due),
                _ => (Action::Create, Because::Due),
            }
        }
    };
    Step {
        action,
        because,
        planned,
        missed,
        reckoned: Missed::since(from, now, &schedule[0]),
        requeue_after: wake,
        plan: Some(plan),
    }
}

fn has_seconds(schedule: &str) -> bool {
    let fields = schedule.split_ascii_whitespace();
    fields.filter(|word| !word.contains("TZ=")).count() == 6
}
