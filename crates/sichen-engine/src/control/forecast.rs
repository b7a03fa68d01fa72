//! What a pool will have to do, from the schedules of all jobs and from how long their runs took.
//!
//! # Invariants
//! - Planned times come from the schedules that the trigger uses.
//! - A job that has never succeeded is reckoned with no load and named: nothing is guessed.
//! - What it costs is bounded by numbers of jobs and of planned instants, whatever the store holds; an
//!   answer that had to leave something out says so.
//!
//! # Not here
//! The arithmetic ([`sichen_core::forecast`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sichen_core::capacity::{Limits, Rate};
use sichen_core::document::{Document, Timing};
use sichen_core::forecast::{self, Expected, Forecast, MAX_RUNS, Window};
use sichen_core::lifecycle::RunState;
use sichen_core::model::{Job, Run};
use sichen_core::name::{JobName, Name};
use sichen_core::port::{self, MAX_PAGE, Page, RunFilter};

use super::{Control, Error};
use crate::sessions::is_live;

/// Jobs whose schedules one forecast reads.
pub const MAX_FORECAST_JOBS: usize = 10_000;
/// The last runs of a job that tell how long the next one takes: the middle one of them counts.
pub const MAX_PAST_RUNS: u32 = 20;
/// A run that takes longer than this is reckoned with as if it took so long.
const LONGEST: SignedDuration = SignedDuration::from_hours(7 * 24);

/// What a forecast is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The pool.
    pub pool: Name,
    /// The time.
    pub window: Window,
    /// Slots to reckon with; those of the pool's live workers if it is left out.
    pub slots: Option<u32>,
}

/// What is to be expected of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// Slots that were reckoned with.
    pub slots: u32,
    /// How the slots stand.
    pub pool: Forecast,
    /// The same of each capacity that the pool's jobs use, with its units: all jobs that use it count,
    /// whatever their pool.
    pub capacities: Vec<(Name, u32, Forecast)>,
    /// The same of each rate of those: what is wanted are tokens, and what there is, is one at a time.
    pub rates: Vec<(Name, Rate, Forecast)>,
    /// The jobs that have planned instants in the time; the numbers in the forecasts count them.
    pub jobs: Vec<JobLoad>,
    /// Whether jobs or planned instants were left out, being too many.
    pub cut: bool,
}

/// What a job brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLoad {
    /// The job.
    pub name: JobName,
    /// Planned instants within the time.
    pub runs: u64,
    /// Slots that a run takes; `None` with its length.
    pub slots: u32,
    /// Shards of a run, each of which starts once.
    pub starts: u32,
    /// How long a run takes; `None` if none has succeeded yet.
    pub length: Option<SignedDuration>,
    /// Whether its runs go to the pool that was asked for.
    pub in_pool: bool,
    uses: BTreeMap<String, u32>,
    begins: Vec<Timestamp>,
}

impl JobLoad {
    /// Its runs as far as a limit is concerned of which each wants so much.
    fn expected(&self, job: u32, wants: u32) -> impl Iterator<Item = Expected> {
        let length = self.length.unwrap_or_default();
        self.begins.iter().map(move |at| Expected {
            job,
            at: *at,
            length,
            wants,
        })
    }
}

impl Control {
    /// What is to be expected.
    ///
    /// # Errors
    /// As the store.
    pub async fn forecast(&self, asked: Asked) -> Result<Outlook, Error> {
        let slots = match asked.slots {
            Some(slots) => slots,
            None => self.slots_of(&asked.pool).await?,
        };
        let (jobs, cut) = self.loads(&asked).await?;
        let numbered = || (0_u32..).zip(&jobs);
        let of_pool = numbered().filter(|(_, job)| job.in_pool);
        let expected: Vec<Expected> = of_pool
            .flat_map(|(no, job)| job.expected(no, job.slots))
            .collect();
        let pool = forecast::forecast(slots, &expected, asked.window);
        let (mut capacities, mut rates) = (Vec::new(), Vec::new());
        for (name, limits) in self.limits_of(&jobs).await? {
            if let Some(rate) = limits.rate {
                rates.push((name.clone(), rate, paced(&name, rate, &jobs, asked.window)));
            }
            let Some(units) = limits.units else {
                continue;
            };
            let users = numbered().filter_map(|(no, job)| {
                let uses = job.uses.get(name.as_str())?;
                Some(job.expected(no, uses.saturating_mul(job.slots)))
            });
            let expected: Vec<Expected> = users.flatten().collect();
            let told = forecast::forecast(units, &expected, asked.window);
            capacities.push((name, units, told));
        }
        Ok(Outlook {
            slots,
            pool,
            capacities,
            rates,
            jobs,
            cut,
        })
    }

    /// Slots of the pool's live workers that are not leaving.
    async fn slots_of(&self, pool: &Name) -> Result<u32, Error> {
        let store = &*self.context.store;
        let now = store.now().await?;
        let sessions = store.list_sessions(Some(pool.clone())).await?;
        let staying = sessions
            .iter()
            .map(|(session, _)| session)
            .filter(|session| is_live(session, now) && !session.draining);
        Ok(staying.fold(0, |sum, session| session.slots.saturating_add(sum)))
    }

    /// The capacities that jobs of the pool use.
    async fn limits_of(&self, jobs: &[JobLoad]) -> Result<Vec<(Name, Limits)>, Error> {
        let of_pool = jobs.iter().filter(|job| job.in_pool);
        let names: BTreeSet<&str> = of_pool
            .flat_map(|job| job.uses.keys().map(String::as_str))
            .collect();
        let mut found = Vec::new();
        for name in names.into_iter().filter_map(|name| Name::new(name).ok()) {
            let standing = self.standing(&name).await?;
            found.extend(standing.map(|standing| (name, standing.capacity.limits)));
        }
        Ok(found)
    }

    /// The jobs that have something planned in the time; whether anything was left out.
    async fn loads(&self, asked: &Asked) -> Result<(Vec<JobLoad>, bool), Error> {
        let store = &*self.context.store;
        let (mut loads, mut left, mut read) = (Vec::new(), MAX_RUNS, 0);
        let mut after = None;
        loop {
            let page = Page {
                after,
                limit: MAX_PAGE,
            };
            let jobs = store.list_jobs(page).await?;
            let full = jobs.len() >= MAX_PAGE as usize;
            after = jobs.last().map(|job| job.name.clone());
            for job in jobs {
                read += 1;
                if read > MAX_FORECAST_JOBS {
                    return Ok((loads, true));
                }
                let Some(load) = self.load(&job, asked, left).await? else {
                    continue;
                };
                left -= load.begins.len();
                loads.push(load);
                // Beats and grants have their turn between two jobs.
                tokio::task::yield_now().await;
                if left == 0 {
                    return Ok((loads, true));
                }
            }
            if !full {
                return Ok((loads, false));
            }
        }
    }

    /// What one job brings, with at most `most` planned instants; `None` if nothing is planned.
    async fn load(&self, job: &Job, asked: &Asked, most: usize) -> Result<Option<JobLoad>, Error> {
        if job.paused {
            return Ok(None);
        }
        // A document that can't be read stops nobody else's forecast, as it stops nobody else's runs.
        let Some((document, timing)) = self.schedules_of(job).await? else {
            return Ok(None);
        };
        let in_pool = document.spec.pool == asked.pool.as_str();
        let uses = document.uses();
        if !in_pool && uses.is_empty() {
            return Ok(None);
        }
        let Window { from, to, .. } = asked.window;
        // What began as long ago as a run may take is still going on.
        let earliest = from.checked_sub(LONGEST).unwrap_or(Timestamp::MIN);
        if timing.next(earliest).is_none_or(|at| at >= to) {
            return Ok(None);
        }
        let past = self.past(job).await?;
        let length = length(&past);
        let since = from.checked_sub(length.unwrap_or_default());
        // The first one may be at the very beginning.
        let before = SignedDuration::from_micros(1);
        let since = since.and_then(|since| since.checked_sub(before));
        let begins = begins(&timing, since.unwrap_or(Timestamp::MIN), to, most);
        if begins.is_empty() {
            return Ok(None);
        }
        let inside = begins.iter().filter(|at| **at >= from).count();
        Ok(Some(JobLoad {
            name: job.name.clone(),
            runs: u64::try_from(inside).unwrap_or(u64::MAX),
            slots: slots(&document, past.first()),
            length,
            in_pool,
            starts: past.first().map_or(1, |run| run.counters.total),
            uses: uses.iter().map(|(name, n)| (name.to_string(), n)).collect(),
            begins,
        }))
    }

    async fn schedules_of(&self, job: &Job) -> Result<Option<(Arc<Document>, Timing)>, Error> {
        let document = match self.documents.of(job) {
            Ok(document) => document,
            Err(port::Error::Corrupt(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let calendars = self.calendars_of(&document).await?;
        let timing = document.timing(job.uid, &calendars).ok();
        Ok(timing.map(|timing| (document, timing.of(job))))
    }

    /// The newest runs of the job that succeeded.
    async fn past(&self, job: &Job) -> Result<Vec<Run>, Error> {
        let filter = RunFilter {
            job: Some(job.uid),
            state: Some(RunState::Succeeded),
            ..RunFilter::default()
        };
        let page = Page {
            after: None,
            limit: MAX_PAST_RUNS,
        };
        Ok(self.context.store.list_runs(filter, page).await?)
    }
}

/// What is to be expected of a rate: each token keeps it busy for as long as the next one takes to come. Where
/// no more is wanted than may gather, nothing waits.
fn paced(name: &Name, rate: Rate, jobs: &[JobLoad], window: Window) -> Forecast {
    let token = rate.per.micros() / i64::from(rate.count.max(1));
    let length = SignedDuration::from_micros(token);
    let users = (0_u32..).zip(jobs).flat_map(|(no, job)| {
        let uses = job.uses.get(name.as_str()).copied().unwrap_or(0);
        let wants = uses.saturating_mul(job.starts);
        job.begins.iter().map(move |at| Expected {
            job: no,
            at: *at,
            length,
            wants,
        })
    });
    let expected: Vec<Expected> = users.filter(|run| run.wants > 0).collect();
    let mut told = forecast::forecast(1, &expected, window);
    let gathered = SignedDuration::from_micros(token.saturating_mul(i64::from(rate.burst)));
    told.overbooked.retain(|span| {
        let until = span.until;
        until.is_none_or(|until| until.duration_since(span.from) > gathered)
    });
    told
}

/// When the job's runs may begin: after `since`, before `to`, the first `most`.
fn begins(timing: &Timing, since: Timestamp, to: Timestamp, most: usize) -> Vec<Timestamp> {
    let mut found = Vec::new();
    let mut last = since;
    while found.len() < most
        && let Some(next) = timing.next(last).filter(|next| *next < to)
    {
        let planned = timing.run_at(next);
        found.push(planned.map_or(next, |planned| planned.not_before));
        last = next;
    }
    found
}

/// How long the middle one of these runs took, from its first grant to its end.
fn length(past: &[Run]) -> Option<SignedDuration> {
    let took = |run: &Run| Some(run.ended_at?.duration_since(run.started_at?));
    let mut lengths: Vec<SignedDuration> = past.iter().filter_map(took).collect();
    lengths.sort_unstable();
    let middle = lengths.get(lengths.len() / 2)?;
    Some((*middle).clamp(SignedDuration::ZERO, LONGEST))
}

/// How many slots a run takes at once: as many as its newest one had shards, within the job's limits.
fn slots(document: &Document, newest: Option<&Run>) -> u32 {
    let spec = &document.spec;
    let at_once = |run: &Run| run.counters.total.min(run.terms.parallelism);
    let shards = newest.map_or(1, at_once);
    let within = [spec.parallelism, spec.max_running_shards];
    within.into_iter().flatten().fold(shards, u32::min).max(1)
}
