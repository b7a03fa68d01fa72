//! A document's schedules and policies, ready to decide with.
//!
//! # Invariant
//! What is due comes from [`crate::schedule::due`] alone, whoever asks ([`Timing::due`] and
//! [`Timing::due_at_most`] for the trigger, [`Timing::close`] for an edit or a pause,
//! [`Timing::run_at`] for a backfill): all answer alike.
//!
//! # Not here
//! Writing what was decided (the trigger duty).

mod days;
mod read;
mod spec;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::calendar::Calendars;
use super::check::Problem;
use super::{Document, Spec};
use crate::ids::JobUid;
use crate::model::Job;
use crate::schedule::follow::Follow;
use crate::schedule::overlap::Overlap;
use crate::schedule::zones::{self, Zones};
use crate::schedule::{
    CatchUp, DueInput, DuePlan, MAX_JITTER, MAX_LIMIT, MAX_RATE, Nominal, PeriodRule, PlannedRun,
    Rate, Schedule, count_between, due, hash_of_key, overlap, zone_data_version,
};

pub use spec::{
    CalendarUse, CatchUpPolicySpec, CatchUpSpec, ContinuousSpec, OnResumeSpec, OverlapSpec,
    PeriodSpec, QueueSpec, ScheduleSpec,
};

/// Schedules of one job; a document with more is refused.
pub const MAX_SCHEDULES: usize = 100;

/// Runs of one job that may wait for their turn.
pub const MAX_QUEUE: u32 = 1_000;
/// Runs of one job that may be active at once, unless `overlap: allow` sets no limit.
pub const MAX_ACTIVE_RUNS: u32 = 1_000;

/// What becomes of the instants that a revision leaves undecided when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// Its own policy decides them, all of them.
    Live,
    /// As much as one decision makes runs by its own policy; the rest counts as paused.
    Pausing,
    /// They are recorded as paused.
    Paused,
    /// They are recorded as deleted.
    Deleted,
}

/// When a job is to run, and what becomes of what was missed.
#[derive(Clone, Debug)]
pub struct Timing {
    schedules: Vec<Schedule>,
    catch_up: CatchUp,
    window: Option<SignedDuration>,
    rate: Option<u32>,
    jitter: SignedDuration,
    period: PeriodRule,
    seed: u64,
    /// The instant that follows the job's last run, and the one before it.
    pending: Option<Timestamp>,
    before_pending: Option<Timestamp>,
    /// What the job's zones were taken for, with the steps of its past.
    zones: Option<Zones>,
    /// Whether a resume applies the catch-up policy to what fell into the pause.
    pub catch_up_on_resume: bool,
    /// What happens when an instant comes while a run is active.
    pub overlap: Overlap,
    /// How many runs may be active before that happens; at least 1.
    pub most_active: u32,
}

impl Timing {
    /// The same of `job` as it stands: with the instant that follows its last run, without which what
    /// follows runs has none, and with its zones as it knows them.
    #[must_use]
    pub fn of(self, job: &Job) -> Timing {
        Timing {
            pending: job.pending(),
            before_pending: job.chain.as_ref().and_then(|chain| chain.before),
            ..self.in_zones_of(job)
        }
    }

    /// The same with its zones as `job` knows them.
    #[must_use]
    pub fn in_zones_of(self, job: &Job) -> Timing {
        let zones = job.zones.as_ref();
        let data = zone_data_version();
        let adopted = zones.map(|one| one.adopt(data, job.high_water, zones::taken_now));
        self.knowing(adopted)
    }

    /// The same with the zones as a job knows them.
    #[must_use]
    pub fn knowing(self, zones: Option<Zones>) -> Timing {
        let known = |schedule: Schedule| {
            let zone = zones.as_ref().and_then(|zones| zones.zone(schedule.zone()));
            match zone.filter(|_| schedule.goes_by_the_wall_clock()) {
                Some(zone) => schedule.in_zone(zone),
                None => schedule,
            }
        };
        Timing {
            schedules: self.schedules.into_iter().map(known).collect(),
            zones,
            ..self
        }
    }

    /// What is to be written of the job's zones with the mark `mark`.
    #[must_use]
    pub fn zones_at(&self, mark: Timestamp) -> Option<Zones> {
        // A server of an older release goes by its own data, and leaves the newer one's word alone.
        let newer = self
            .zones
            .as_ref()
            .filter(|zones| zones.data.as_str() > zone_data_version());
        let data = newer.map_or(zone_data_version(), |zones| zones.data.as_str());
        zones::at_mark(&self.schedules, data, mark, self.zones.as_ref())
    }

    /// The same of a job whose runs are followed by this instant.
    #[must_use]
    pub fn following(self, pending: Option<Timestamp>) -> Timing {
        Timing { pending, ..self }
    }

    /// The rule by which the end of one run makes the next, if a schedule has such a rule.
    #[must_use]
    pub fn follow(&self) -> Option<Follow> {
        self.schedules.iter().find_map(Schedule::follow)
    }

    /// Whether something decides on how many of the job's runs are open: an instant that may not start
    /// beside them, or one that follows the last of them.
    #[must_use]
    pub fn counts_runs(&self) -> bool {
        self.follow().is_some() || self.overlap != Overlap::Allow && !self.schedules.is_empty()
    }

    /// Decides everything in `(high_water, now]`, or as much as the limit of one decision allows.
    #[must_use]
    pub fn due(&self, high_water: Timestamp, now: Timestamp, paused: bool) -> DuePlan {
        let mut input = self.input(high_water, now);
        input.paused = paused;
        due(&input)
    }

    /// As [`Timing::due`] of a job that is not paused, with `runs` runs at most.
    #[must_use]
    pub fn due_at_most(&self, high_water: Timestamp, now: Timestamp, runs: u32) -> DuePlan {
        let mut input = self.input(high_water, now);
        input.limit = input.limit.min(runs.max(1));
        due(&input)
    }

    /// Decides everything in `(high_water, now]`, whatever there is: nothing may be left to the
    /// revision that comes next, which does not have these instants.
    #[must_use]
    pub fn close(&self, high_water: Timestamp, now: Timestamp, how: Close) -> DuePlan {
        let decide = |from| {
            let mut input = self.input(from, now);
            input.paused = how == Close::Paused;
            input.deleted = how == Close::Deleted;
            if how == Close::Live {
                input.limit = MAX_LIMIT;
                input.rate = input.rate.map(|rate| Rate {
                    spread: true,
                    ..rate
                });
            }
            due(&input)
        };
        let mut whole = decide(high_water);
        while whole.more {
            // Who pauses a job wants no more of it to start than was being decided.
            let next = if how == Close::Pausing {
                self.close(whole.high_water, now, Close::Paused)
            } else {
                decide(whole.high_water)
            };
            // Each decision moves the mark, so this ends.
            debug_assert!(next.high_water > whole.high_water);
            whole.runs.extend(next.runs);
            whole.skips.extend(next.skips);
            (whole.high_water, whole.more) = (next.high_water, next.more);
            whole.next_wake = next.next_wake;
        }
        whole
    }

    fn input(&self, high_water: Timestamp, now: Timestamp) -> DueInput<'_> {
        let mut input = DueInput::new(&self.schedules, high_water, now);
        input.catch_up = self.catch_up;
        input.window = self.window;
        input.rate = self.rate.map(|per_minute| Rate {
            per_minute,
            spread: false,
        });
        input.jitter = self.jitter;
        input.jitter_seed = self.seed;
        input.period = self.period;
        input.pending = self.pending;
        input.before_pending = self.before_pending;
        input
    }

    /// The next planned instant after `after`.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let pending = self.pending.filter(|at| *at > after);
        let named = self.schedules.iter().filter_map(|s| s.next(after));
        named.chain(pending).min()
    }

    /// The last planned instant before `before`.
    #[must_use]
    pub fn prev(&self, before: Timestamp) -> Option<Timestamp> {
        self.schedules.iter().filter_map(|s| s.prev(before)).max()
    }

    /// How many planned instants are strictly between.
    #[must_use]
    pub fn count(&self, after: Timestamp, before: Timestamp) -> u64 {
        count_between(&self.schedules, after, before)
    }

    /// The job's schedules, in their order.
    #[must_use]
    pub fn schedules(&self) -> &[Schedule] {
        &self.schedules
    }

    /// Whether the job has any schedule.
    #[must_use]
    pub fn has_schedules(&self) -> bool {
        !self.schedules.is_empty()
    }

    /// The run of the planned instant `at`; `None` if no schedule names it.
    #[must_use]
    pub fn run_at(&self, at: Timestamp) -> Option<PlannedRun> {
        let before = at.checked_sub(SignedDuration::from_micros(1)).ok()?;
        let mut input = self.input(before, at);
        input.catch_up = CatchUp::All(1);
        due(&input).runs.into_iter().find(|run| run.planned == at)
    }

    /// What a planned run stands for in the words of its schedule.
    #[must_use]
    pub fn nominal(&self, run: &PlannedRun) -> Nominal {
        let zone = run.schedule.and_then(|at| self.schedules.get(at));
        let zone = zone.map_or(TimeZone::UTC, |schedule| schedule.zone().clone());
        Nominal {
            civil: run.civil,
            zone: zone.iana_name().unwrap_or("UTC").to_owned(),
            zone_data: zone_data_version().to_owned(),
            first_day: zone.to_datetime(run.period_start).date(),
            end_day: zone.to_datetime(run.period_end).date(),
            covers: run.covers,
        }
    }

    /// The latest start of a planned run.
    #[must_use]
    pub fn start_by(&self, run: &PlannedRun) -> Option<Timestamp> {
        overlap::start_by(run.not_before, self.window)
    }
}

impl Document {
    /// The job's timing with the calendars that it names; `H` and jitter are spread by the uid.
    ///
    /// # Errors
    /// Every schedule that can't be read, with its path.
    pub fn timing(&self, job: JobUid, calendars: &Calendars) -> Result<Timing, Vec<Problem>> {
        let (timing, problems) = self.sound_timing(job, calendars);
        if problems.is_empty() {
            Ok(timing)
        } else {
            Err(problems)
        }
    }

    /// The timing of those schedules that can be read, and what is wrong with the others: a zone
    /// that is gone from the database stops its own schedule alone.
    #[must_use]
    pub fn sound_timing(&self, job: JobUid, calendars: &Calendars) -> (Timing, Vec<Problem>) {
        let seed = hash_of_key(&job.to_string());
        let spec = &self.spec;
        let (schedules, problems) =
            read::schedules(&self.metadata.namespace, spec, seed, Some(calendars));
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
            rate: spec.catch_up.rate,
            jitter: spec.jitter.map_or(SignedDuration::ZERO, |d| d.0),
            period: match spec.period {
                PeriodSpec::Elapsed => PeriodRule::Elapsed,
                PeriodSpec::CivilDay => PeriodRule::CivilDay,
            },
            seed,
            pending: None,
            before_pending: None,
            zones: None,
            catch_up_on_resume: spec.on_resume == OnResumeSpec::CatchUp,
            overlap: spec.overlap.policy(),
            most_active: spec.max_active_runs.unwrap_or(1).max(1),
        };
        (timing, problems)
    }
}

/// What is wrong with the part of a document that says when the job runs.
pub(super) fn check(namespace: &str, spec: &Spec) -> Vec<Problem> {
    let (_, mut problems) = read::schedules(namespace, spec, 0, None);
    let mut add = |path: &str, message: String| {
        let path = path.to_owned();
        problems.push(Problem { path, message });
    };
    if let OverlapSpec::Queue(queue) = spec.overlap
        && !(1..=MAX_QUEUE).contains(&queue.limit)
    {
        let message = format!("SC1002: {} is outside 1 to {MAX_QUEUE}", queue.limit);
        add("spec.overlap.queue.limit", message);
    }
    match (spec.max_active_runs, spec.overlap) {
        (Some(n), _) if !(1..=MAX_ACTIVE_RUNS).contains(&n) => {
            let message = format!("SC1002: {n} is outside 1 to {MAX_ACTIVE_RUNS}");
            add("spec.maxActiveRuns", message);
        }
        (Some(n), OverlapSpec::Allow) => {
            let message =
                format!("SC1020: with `overlap: allow` there is no limit, so {n} says nothing");
            add("spec.maxActiveRuns", message);
        }
        (Some(2..), OverlapSpec::Replace) => {
            let message = "SC1020: `overlap: replace` keeps one run; leave it out".to_owned();
            add("spec.maxActiveRuns", message);
        }
        _ => {}
    }
    if let CatchUpPolicySpec::All(n) = spec.catch_up.policy
        && !(1..=crate::schedule::MAX_LIMIT).contains(&n)
    {
        let most = crate::schedule::MAX_LIMIT;
        add(
            "spec.catchUp.policy.all",
            format!("SC1002: {n} is outside 1 to {most}"),
        );
    }
    let follows = |one: &&ScheduleSpec| one.after.is_some() || one.continuous.is_some();
    if spec.schedules.iter().filter(follows).count() > 1 {
        let message = "SC1020: a job has at most one of `after` and `continuous`: the end of a run \
                       makes one next instant";
        add("spec.schedules", message.to_owned());
    }
    if let Some(rate) = spec.catch_up.rate
        && !(1..=MAX_RATE).contains(&rate)
    {
        let message = format!("SC1002: {rate} is outside 1 to {MAX_RATE}");
        add("spec.catchUp.rate", message);
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
