//! A document's schedules and policies, ready to decide with.
//!
//! # Invariant
//! What is due comes from [`Timing::due`] alone, and that from [`crate::schedule::due`]: the
//! trigger, an edit, a pause and a preview answer alike.
//!
//! # Not here
//! Writing what was decided (the trigger duty).

mod read;
mod spec;

use jiff::{SignedDuration, Timestamp};

use super::check::Problem;
use super::{Document, Spec};
use crate::ids::JobUid;
use crate::model::Period;
use crate::schedule::{
    CatchUp, DueInput, DuePlan, MAX_JITTER, PeriodRule, Schedule, due, hash_of_key,
};

pub use spec::{CatchUpPolicySpec, CatchUpSpec, OverlapSpec, PeriodSpec, ScheduleSpec};

/// Schedules of one job; a document with more is refused.
pub const MAX_SCHEDULES: usize = 100;

/// When a job is to run, and what becomes of what was missed.
#[derive(Clone, Debug)]
pub struct Timing {
    schedules: Vec<Schedule>,
    catch_up: CatchUp,
    window: Option<SignedDuration>,
    jitter: SignedDuration,
    period: PeriodRule,
    seed: u64,
    /// What happens when an instant comes while a run is active.
    pub overlap: OverlapSpec,
}

impl Timing {
    /// Decides everything in `(high_water, now]`, or as much as the limit of one decision allows.
    #[must_use]
    pub fn due(&self, high_water: Timestamp, now: Timestamp, paused: bool) -> DuePlan {
        let mut input = self.input(high_water, now);
        input.paused = paused;
        due(&input)
    }

    fn input(&self, high_water: Timestamp, now: Timestamp) -> DueInput<'_> {
        let mut input = DueInput::new(&self.schedules, high_water, now);
        input.catch_up = self.catch_up;
        input.window = self.window;
        input.jitter = self.jitter;
        input.jitter_seed = self.seed;
        input.period = self.period;
        input
    }

    /// The next planned instant after `after`.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedules.iter().filter_map(|s| s.next(after)).min()
    }

    /// Whether the job has any schedule.
    #[must_use]
    pub fn has_schedules(&self) -> bool {
        !self.schedules.is_empty()
    }

    /// The period of the planned instant `at`; `None` if no schedule names it.
    #[must_use]
    pub fn period_of(&self, at: Timestamp) -> Option<Period> {
        let before = at.checked_sub(SignedDuration::from_micros(1)).ok()?;
        let mut input = self.input(before, at);
        input.catch_up = CatchUp::All(1);
        let run = due(&input).runs.into_iter().find(|run| run.planned == at)?;
        Some(Period {
            start: run.period_start,
            end: run.period_end,
        })
    }
}

impl Document {
    /// The job's timing; `H` and jitter are spread by the uid.
    ///
    /// # Errors
    /// Every schedule that can't be read, with its path.
    pub fn timing(&self, job: JobUid) -> Result<Timing, Vec<Problem>> {
        let (timing, problems) = self.sound_timing(job);
        if problems.is_empty() {
            Ok(timing)
        } else {
            Err(problems)
        }
    }

    /// The timing of those schedules that can be read, and what is wrong with the others: a zone
    /// that is gone from the database stops its own schedule alone.
    #[must_use]
    pub fn sound_timing(&self, job: JobUid) -> (Timing, Vec<Problem>) {
        let seed = hash_of_key(&job.to_string());
        let spec = &self.spec;
        let (schedules, problems) = read::schedules(spec, seed);
        let catch_up = match spec.catch_up.policy {
            CatchUpPolicySpec::None => CatchUp::None,
            CatchUpPolicySpec::Latest => CatchUp::Latest,
            CatchUpPolicySpec::All(n) => CatchUp::All(n),
            CatchUpPolicySpec::Coalesce => CatchUp::Coalesce,
        };
        let timing = Timing {
            schedules,
            catch_up,
            window: spec.catch_up.starting_deadline.map(|d| d.0),
            jitter: spec.jitter.map_or(SignedDuration::ZERO, |d| d.0),
            period: match spec.period {
                PeriodSpec::Elapsed => PeriodRule::Elapsed,
                PeriodSpec::CivilDay => PeriodRule::CivilDay,
            },
            seed,
            overlap: spec.overlap,
        };
        (timing, problems)
    }
}

/// What is wrong with the part of a document that says when the job runs.
pub(super) fn check(spec: &Spec) -> Vec<Problem> {
    let (_, mut problems) = read::schedules(spec, 0);
    let mut add = |path: &str, message: String| {
        let path = path.to_owned();
        problems.push(Problem { path, message });
    };
    if let CatchUpPolicySpec::All(n) = spec.catch_up.policy
        && !(1..=crate::schedule::MAX_LIMIT).contains(&n)
    {
        let most = crate::schedule::MAX_LIMIT;
        add(
            "spec.catchUp.policy.all",
            format!("SC1002: {n} is outside 1 to {most}"),
        );
    }
    if spec.schedules.len() > MAX_SCHEDULES {
        let given = spec.schedules.len();
        let message =
            format!("SC1002: {given} schedules are too many, the limit is {MAX_SCHEDULES}");
        add("spec.schedules", message);
    }
    if let Some(jitter) = spec.jitter
        && jitter.0 > MAX_JITTER
    {
        add(
            "spec.jitter",
            format!("SC1019: {jitter} is longer than {MAX_JITTER:#}"),
        );
    }
    problems
}

#[cfg(test)]
mod tests;
