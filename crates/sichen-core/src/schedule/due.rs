//! What is due now, and what becomes of what was missed.
//!
//! [`due`] is the one function that turns schedules into runs and skips: the trigger calls it, the
//! catch-up after an outage is it, and `sichen due` shows its answer without a server.
//!
//! # Invariants
//! - Every planned instant in `(high_water, DuePlan::high_water]` is in exactly one run (as planned
//!   or covered) or one skip.
//! - The answer takes time in proportion to `limit`, to the schedules, and to the months and clock
//!   changes in between; never to the number of missed instants.
//! - A run is never planned after `now`, nor at or before the high-water mark.
//! - Instants are judged by lateness from their own `planned + jitter`; exactly at the window's end
//!   counts as in time.
//!
//! # Not here
//! Overlap with runs that are still active (`super::overlap`), writing any of it down.

mod begin;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::model::Period;

use super::rule::Schedule;
use super::union::Union;
use super::zone;

/// Lateness up to which a planned instant is simply on time, whatever the catch-up policy: the
/// trigger may change hands in between.
pub const ON_TIME: SignedDuration = SignedDuration::from_secs(15);
/// The most runs one decision makes.
pub const MAX_LIMIT: u32 = 10_000;

/// The highest rate of a catch-up, runs a minute.
pub const MAX_RATE: u32 = 600_000;

/// The most that a run may start after its planned instant.
pub const MAX_JITTER: SignedDuration = SignedDuration::from_hours(24);

/// Clock changes recorded for one schedule in one decision: a century of them.
const MAX_GAPS: usize = 200;

/// What becomes of instants that were missed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// They are skipped.
    None,
    /// The newest runs, unless a newer one is on time.
    #[default]
    Latest,
    /// The newest so many run, oldest first.
    All(u32),
    /// One run at the newest stands for all of them.
    Coalesce,
}

/// How many late instants may become runs in a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// 1 to [`MAX_RATE`].
    pub per_minute: u32,
    /// Whether all are decided at once and only start at this rate: where nothing may stay
    /// undecided. Else the rest waits for later decisions.
    pub spread: bool,
}

impl Rate {
    /// Late runs of one decision.
    fn batch(self) -> u32 {
        self.per_minute.clamp(1, MAX_RATE).div_ceil(60)
    }

    /// How long one batch lasts: a second at least.
    fn interval(self) -> SignedDuration {
        let per_minute = i64::from(self.per_minute.clamp(1, MAX_RATE));
        SignedDuration::from_micros((i64::from(self.batch()) * 60_000_000).div_euclid(per_minute))
    }
}

/// What a run's period reaches over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PeriodRule {
    /// From the planned instant before to this one.
    #[default]
    Elapsed,
    /// Whole days of the schedule's zone, from the date of the last planned instant on an earlier
    /// date up to this one's date, itself left out.
    CivilDay,
}

/// The facts a decision rests on.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DueInput<'a> {
    /// All schedules of the job; an instant that several name counts once.
    pub schedules: &'a [Schedule],
    /// The instant that follows the job's last run, and the one before it, as its
    /// [`Chain`](super::follow::Chain) has them.
    pub pending: Option<Timestamp>,
    pub before_pending: Option<Timestamp>,
    /// Everything up to here is decided. A new job's is its creation: it never looks backwards.
    pub high_water: Timestamp,
    pub now: Timestamp,
    /// Where this revision of the schedules ends: nothing after it is decided here.
    pub until: Option<Timestamp>,
    /// Whether the job was paused all along: everything is skipped.
    pub paused: bool,
    /// Whether the job is being deleted: nothing of it runs any more.
    pub deleted: bool,
    pub catch_up: CatchUp,
    /// The latest start after `planned + jitter` (`startingDeadline`).
    pub window: Option<SignedDuration>,
    /// See [`ON_TIME`].
    pub on_time: SignedDuration,
    /// Runs start up to this much after their planned instant, each by its own fixed share.
    pub jitter: SignedDuration,
    /// What the shares derive from: a hash of the job's uid.
    pub jitter_seed: u64,
    pub period: PeriodRule,
    /// How fast late instants become runs; as fast as they can if `None`.
    pub rate: Option<Rate>,
    /// Runs of one decision, 1 to [`MAX_LIMIT`]; the rest waits for the next one.
    pub limit: u32,
}

impl<'a> DueInput<'a> {
    /// The facts of an unpaused job with the default policy.
    pub fn new(schedules: &'a [Schedule], high_water: Timestamp, now: Timestamp) -> DueInput<'a> {
        DueInput {
            schedules,
            pending: None,
            before_pending: None,
            high_water,
            now,
            until: None,
            paused: false,
            deleted: false,
            catch_up: CatchUp::default(),
            window: None,
            on_time: ON_TIME,
            jitter: SignedDuration::ZERO,
            jitter_seed: 0,
            period: PeriodRule::default(),
            rate: None,
            limit: 100,
        }
    }
}

/// Why planned instants do not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The window had passed.
    Deadline,
    /// The catch-up policy leaves them out.
    CatchUp,
    /// The run planned at this instant stands for them.
    Coalesced { into: Timestamp },
    /// The job was paused.
    Paused,
    /// The job was deleted before they were decided.
    Deleted,
    /// A clock change left the local time out, and the schedule says to skip it. Stands at the
    /// instant of the change, which may carry a planned instant of its own.
    Gap,
}

impl Reason {
    /// The word that is stored and shown.
    pub fn as_str(&self) -> &'static str {
        match self {
            Reason::Deadline => "deadline",
            Reason::CatchUp => "catch_up",
            Reason::Coalesced { .. } => "coalesced",
            Reason::Paused => "paused",
            Reason::Deleted => "deleted",
            Reason::Gap => "gap",
        }
    }
}

/// An instant that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedRun {
    /// The nominal instant: the run's identity.
    pub planned: Timestamp,
    /// The wall-clock time that it stands for, in its schedule's zone.
    pub civil: DateTime,
    /// `planned` plus jitter: not to be granted before.
    pub not_before: Timestamp,
    /// The same, or later where a catch-up is spread over time.
    pub ready_at: Timestamp,
    pub period_start: Timestamp,
    pub period_end: Timestamp,
    /// How many planned instants it stands for: 1, or more when coalesced.
    pub covers: u64,
    /// The schedule that named it, by its place in the list; `None` for a pending one if no schedule
    /// follows runs.
    pub schedule: Option<usize>,
    /// Later than [`DueInput::on_time`].
    pub late: bool,
}

impl PlannedRun {
    /// What it stands for, half open.
    #[must_use]
    pub fn period(&self) -> Period {
        Period {
            start: self.period_start,
            end: self.period_end,
        }
    }
}

/// A range of instants that do not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skip {
    /// The first instant.
    pub from: Timestamp,
    /// The last instant, included.
    pub to: Timestamp,
    pub count: u64,
    pub reason: Reason,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuePlan {
    /// Oldest first.
    pub runs: Vec<PlannedRun>,
    /// Oldest first.
    pub skips: Vec<Skip>,
    /// Everything up to here is decided by this plan.
    pub high_water: Timestamp,
    /// When to ask again: the next planned instant after `now`, if there is one; with
    /// [`DuePlan::more`] now, or when the rate allows.
    pub next_wake: Option<Timestamp>,
    /// Something before `now` is still to be decided: ask again with the new high-water mark.
    pub more: bool,
}

impl DuePlan {
    /// Planned instants that do not run. Local times that a clock change left out never were
    /// instants and do not count.
    pub fn missed(&self) -> u64 {
        let skips = self.skips.iter();
        skips
            .filter(|skip| skip.reason != Reason::Gap)
            .map(|skip| skip.count)
            .sum()
    }
}

/// Decides everything between the high-water mark and now, or as much as the limit allows.
pub fn due(input: &DueInput<'_>) -> DuePlan {
    Decision::new(input).decide()
}

struct Decision<'a> {
    input: &'a DueInput<'a>,
    union: Union<'a>,
    /// The last nanosecond decided here.
    until: Timestamp,
    /// Late runs so far.
    late: u32,
    /// Whether more of them would be too many for now.
    paced: bool,
    plan: DuePlan,
}

impl<'a> Decision<'a> {
    fn new(input: &'a DueInput<'a>) -> Decision<'a> {
        let until = input.until.map_or(input.now, |until| until.min(input.now));
        Decision {
            input,
            union: Union {
                schedules: input.schedules,
                pending: input.pending,
                before_pending: input.before_pending,
            },
            until,
            late: 0,
            paced: false,
            plan: DuePlan {
                runs: Vec::new(),
                skips: Vec::new(),
                high_water: input.high_water,
                next_wake: None,
                more: false,
            },
        }
    }

    fn decide(mut self) -> DuePlan {
        if self.until > self.input.high_water {
            self.walk();
            self.record_gaps();
        }
        let decided = self.plan.high_water.max(self.input.high_water);
        self.plan.next_wake = if self.paced {
            let wait = self.input.rate.map(Rate::interval).unwrap_or_default();
            Some(self.input.now.checked_add(wait).unwrap_or(self.input.now))
        } else if self.plan.more {
            Some(self.input.now)
        } else {
            self.union
                .next(decided)
                .filter(|at| self.input.until.is_none_or(|until| *at <= until))
        };
        self.plan
    }

    /// Records the local times that clock changes left out, at the instant of the change.
    fn record_gaps(&mut self) {
        let (after, through) = (self.input.high_water, self.plan.high_water);
        for schedule in self.input.schedules {
            let gaps = schedule.left_out(after, through, MAX_GAPS);
            self.plan
                .skips
                .extend(gaps.into_iter().map(|(at, count)| Skip {
                    from: at,
                    to: at,
                    count,
                    reason: Reason::Gap,
                }));
        }
        self.plan.skips.sort_by_key(|skip| skip.from);
    }

    /// Skips up to where the policy lets runs begin, then runs from there on.
    fn walk(&mut self) {
        let input = self.input;
        let beyond = later(self.until, 1);
        if input.paused || input.deleted {
            let reason = if input.paused {
                Reason::Paused
            } else {
                Reason::Deleted
            };
            if self.skip(input.high_water, beyond, reason) {
                self.plan.high_water = self.until;
            }
            return;
        }
        // Instants before this have passed their window whatever their jitter is.
        let expired_before = input.window.map_or(Timestamp::MIN, |window| {
            earlier(input.now, window.saturating_add(input.jitter))
        });
        let (begin, reason) = self.begin(expired_before, beyond);
        let expired_to = expired_before.min(beyond);
        if !self.skip(input.high_water, expired_to, Reason::Deadline) {
            return;
        }
        let kept_from = input.high_water.max(later(expired_to, -1));
        let skipped_before = self.plan.skips.len();
        if !self.skip(kept_from, begin.min(beyond), reason) {
            return;
        }
        let coalesced = match reason {
            Reason::Coalesced { .. } => self.plan.skips.get(skipped_before).copied(),
            _ => None,
        };
        self.run(kept_from.max(later(begin, -1)), beyond);
        if let Some(skip) = coalesced {
            let (schedule, civil) = self.named(skip.from);
            let (period_start, _) = self.period(skip.from, schedule, civil);
            if let Some(run) = self.plan.runs.first_mut() {
                run.covers += skip.count;
                run.period_start = period_start;
            }
        }
    }

    /// Runs the instants strictly between, as many as the limit allows.
    fn run(&mut self, after: Timestamp, before: Timestamp) {
        let limit = self.input.limit.clamp(1, MAX_LIMIT);
        let mut at = after;
        for _ in 0..limit {
            match self.union.next(at).filter(|next| *next < before) {
                Some(planned) if self.is_too_fast(planned) => {
                    self.paced = true;
                    self.plan.more = true;
                    self.plan.high_water = at;
                    return;
                }
                Some(planned) => {
                    self.run_or_expire(planned);
                    at = planned;
                }
                None => {
                    self.plan.high_water = self.until;
                    return;
                }
            }
        }
        self.plan.more = self.union.next(at).is_some_and(|next| next < before);
        self.plan.high_water = if self.plan.more { at } else { self.until };
    }

    fn is_late(&self, planned: Timestamp) -> bool {
        self.input.now.duration_since(planned) > self.input.on_time
    }

    /// Whether the rate lets this instant wait for another decision.
    fn is_too_fast(&self, planned: Timestamp) -> bool {
        let rate = self.input.rate.filter(|rate| !rate.spread);
        rate.is_some_and(|rate| self.late >= rate.batch()) && self.is_late(planned)
    }

    /// When a late run may start where a catch-up is spread over time.
    fn ready_at(&self, not_before: Timestamp) -> Timestamp {
        let Some(rate) = self.input.rate.filter(|rate| rate.spread) else {
            return not_before;
        };
        let batches = i32::try_from(self.late / rate.batch()).unwrap_or(i32::MAX);
        let wait = rate.interval().saturating_mul(batches);
        not_before.max(self.input.now.checked_add(wait).unwrap_or(not_before))
    }

    fn run_or_expire(&mut self, planned: Timestamp) {
        let not_before = self.not_before(planned);
        if self.has_expired(planned) {
            self.plan.skips.push(Skip {
                from: planned,
                to: planned,
                count: 1,
                reason: Reason::Deadline,
            });
            return;
        }
        let (schedule, civil) = self.named(planned);
        let (period_start, period_end) = self.period(planned, schedule, civil);
        let late = self.is_late(planned);
        let ready_at = if late {
            self.ready_at(not_before)
        } else {
            not_before
        };
        self.late += u32::from(late);
        self.plan.runs.push(PlannedRun {
            planned,
            civil,
            not_before,
            ready_at,
            period_start,
            period_end,
            covers: 1,
            schedule,
            late,
        });
    }

    /// The schedule that names an instant, and the wall-clock time that it stands for.
    fn named(&self, planned: Timestamp) -> (Option<usize>, DateTime) {
        let schedules = self.input.schedules;
        let follows = || schedules.iter().position(|one| one.follow().is_some());
        let schedule = self.union.source(planned).or_else(follows);
        let civil = match schedule {
            Some(at) => self.input.schedules[at].nominal(planned),
            None => self.zone(schedule).to_datetime(planned),
        };
        (schedule, civil)
    }

    /// Records the instants strictly between as skipped. False if there were too many for once:
    /// then the plan is complete as it stands, and has no run that they could be coalesced into.
    fn skip(&mut self, after: Timestamp, before: Timestamp, reason: Reason) -> bool {
        let Some(counted) = self.union.count(after, before) else {
            return true;
        };
        let reason = match reason {
            Reason::Coalesced { .. } if !counted.whole => Reason::CatchUp,
            other => other,
        };
        self.plan.skips.push(Skip {
            from: counted.first,
            to: counted.last,
            count: counted.count,
            reason,
        });
        if !counted.whole {
            self.plan.high_water = counted.last;
            self.plan.more = true;
        }
        counted.whole
    }

    fn period(
        &self,
        planned: Timestamp,
        schedule: Option<usize>,
        civil: DateTime,
    ) -> (Timestamp, Timestamp) {
        match self.input.period {
            PeriodRule::Elapsed => self.union_period(planned),
            PeriodRule::CivilDay => {
                let zone = self.zone(schedule);
                let day = |date: jiff::civil::Date| {
                    date.to_zoned_datetime(zone.clone())
                        .map_or(planned, |day| day.timestamp())
                };
                let end = day(civil.date());
                let start = self
                    .union
                    .prev_unbounded(end)
                    .map_or(end, |before| day(zone.to_datetime(before).date()));
                (start, end)
            }
        }
    }

    fn union_period(&self, planned: Timestamp) -> (Timestamp, Timestamp) {
        (
            self.union.prev_unbounded(planned).unwrap_or(planned),
            planned,
        )
    }

    fn zone(&self, schedule: Option<usize>) -> TimeZone {
        let at = schedule.unwrap_or(0);
        self.input
            .schedules
            .get(at)
            .map_or(TimeZone::UTC, |schedule| schedule.zone().clone())
    }
}

/// An instant so many nanoseconds later, held to the engine's range.
fn later(at: Timestamp, nanoseconds: i64) -> Timestamp {
    at.checked_add(SignedDuration::from_nanos(nanoseconds))
        .unwrap_or(at)
}

fn earlier(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_sub(by).unwrap_or(zone::instant(zone::FIRST))
}
