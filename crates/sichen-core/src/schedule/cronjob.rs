//! A Kubernetes CronJob's next step, as that system's controller takes it.
//!
//! Serves the importer's preview and `sichen due`: it maps a CronJob onto [`due`] and
//! [`overlap`](super::overlap) and puts the answer in the controller's words. Two of its habits
//! differ from Sichen's own and are kept here alone: the look-back by `startingDeadlineSeconds` is
//! exclusive, and `@every` counts from wherever the look-back begins.
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
    /// Planned times of the jobs in the status list.
    pub active: Vec<Timestamp>,
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
            requeue_after: None,
            plan: None,
        }
    }

    /// `none`, `few`, or `many` for a hundred and more besides the one planned.
    pub fn missed_in_words(&self) -> &'static str {
        match self.missed {
            0 => "none",
            1..100 => "few",
            _ => "many",
        }
    }
}

/// Decides the step at `now`.
pub fn step(job: &CronJob, now: Timestamp) -> Step {
    let zone = job.time_zone.as_deref().unwrap_or("UTC");
    if super::zone_by_name(zone).is_err() {
        return Step::nothing(Because::UnknownTimeZone);
    }
    if job.suspend {
        return Step::nothing(Because::Suspended);
    }
    let base = job.last_scheduled.unwrap_or(job.created_at);
    let lookback = job
        .starting_deadline
        .and_then(|deadline| now.checked_sub(deadline).ok());
    let from = lookback.map_or(base, |lookback| lookback.max(base));
    let schedule = match Schedule::cron(&job.schedule, Dialect::Kubernetes, zone, None, from) {
        // Six fields are this dialect's extension, not a CronJob's.
        Ok(_) if Dialect::of(&job.schedule) == Dialect::Seconds => {
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
    let wake = plan
        .next_wake
        .map(|wake| wake.duration_since(now) + SignedDuration::from_millis(100));
    let left_out = plan
        .skips
        .iter()
        .filter(|skip| skip.reason == Reason::CatchUp);
    let missed = left_out.map(|skip| skip.count).sum();
    let planned = plan.runs.first().map(|run| run.planned);
    let (action, because) = match planned {
        None => (Action::None, Because::NotDue),
        Some(planned) if job.active.contains(&planned) => (Action::None, Because::AlreadyStarted),
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
        requeue_after: wake,
        plan: Some(plan),
    }
}
