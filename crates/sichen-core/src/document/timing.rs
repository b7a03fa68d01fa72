//! A document's schedules and policies, ready to decide with.
//!
//! # Not here
//! What is due ([`crate::schedule::due`]); writing it.

use jiff::{SignedDuration, Timestamp};

use super::check::Problem;
use super::{CatchUpPolicySpec, Document, OverlapSpec, ScheduleSpec};
use crate::ids::JobUid;
use crate::model::Period;
use crate::schedule::cron::Dialect;
use crate::schedule::{CatchUp, DueInput, DuePlan, Schedule, due, hash_of_key};

/// When a job is to run, and what becomes of what was missed.
#[derive(Clone, Debug)]
pub struct Timing {
    schedules: Vec<Schedule>,
    catch_up: CatchUp,
    window: Option<SignedDuration>,
    seed: u64,
    /// What happens when an instant comes while a run is active.
    pub overlap: OverlapSpec,
}

impl Timing {
    /// Decides everything in `(high_water, now]`, or as much as the limit of one decision allows.
    #[must_use]
    pub fn due(&self, high_water: Timestamp, now: Timestamp, paused: bool) -> DuePlan {
        let mut input = DueInput::new(&self.schedules, high_water, now);
        input.catch_up = self.catch_up;
        input.window = self.window;
        input.jitter_seed = self.seed;
        input.paused = paused;
        due(&input)
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
        let mut input = DueInput::new(&self.schedules, before, at);
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
        let seed = hash_of_key(&job.to_string());
        let schedules = schedules(&self.spec.schedules, &self.spec.time_zone, seed)?;
        let catch_up = match self.spec.catch_up.policy {
            CatchUpPolicySpec::None => CatchUp::None,
            CatchUpPolicySpec::Latest => CatchUp::Latest,
            CatchUpPolicySpec::All(n) => CatchUp::All(n),
            CatchUpPolicySpec::Coalesce => CatchUp::Coalesce,
        };
        let window = self.spec.catch_up.starting_deadline.map(|d| d.0);
        Ok(Timing {
            schedules,
            catch_up,
            window,
            seed,
            overlap: self.spec.overlap,
        })
    }
}

/// Reads every schedule, in one zone.
pub(super) fn schedules(
    specs: &[ScheduleSpec],
    zone: &str,
    seed: u64,
) -> Result<Vec<Schedule>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut schedules = Vec::new();
    for (i, schedule) in specs.iter().enumerate() {
        match read(schedule, zone, seed) {
            Ok(schedule) => schedules.push(schedule),
            Err((field, message)) => {
                let path = format!("spec.schedules[{i}].{field}");
                problems.push(Problem { path, message });
            }
        }
    }
    if problems.is_empty() {
        Ok(schedules)
    } else {
        Err(problems)
    }
}

fn read(spec: &ScheduleSpec, zone: &str, seed: u64) -> Result<Schedule, (&'static str, String)> {
    // A fixed rate keeps to one grid for ever, whoever computes it: the one that starts in 1970.
    let anchor = Timestamp::UNIX_EPOCH;
    match spec {
        ScheduleSpec::Cron(text) => {
            let dialect = Dialect::of(text);
            Schedule::cron(text, dialect, zone, Some(seed), anchor)
                .map_err(|e| ("cron", e.to_string()))
        }
        ScheduleSpec::Every(period) => {
            let every = Schedule::every(period.0, anchor).and_then(|s| s.shown_in(zone));
            every.map_err(|e| ("every", e.to_string()))
        }
        ScheduleSpec::At(text) => {
            let at: Timestamp = text.parse().map_err(|_| {
                let message = format!(
                    "SC1014: {text:?} is no instant; write it like 2026-08-30T00:00:00+08:00"
                );
                ("at", message)
            })?;
            Schedule::at(at)
                .shown_in(zone)
                .map_err(|e| ("at", e.to_string()))
        }
    }
}
