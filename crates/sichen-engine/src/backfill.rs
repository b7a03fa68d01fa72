//! The backfills of this node's partitions, each moved on a step at a time.
//!
//! # Invariants
//! - What a step starts and how far it comes is one transaction, conditional on the backfill's
//!   version: a crash between two steps neither repeats nor loses an instant, and two nodes never
//!   start one twice.
//! - A step looks at a bounded number of instants, however long the range.
//! - A backfill that can't go on is paused and says why; its neighbours go on.
//! - The checks of its runs ([`checks`]) go on while it is paused, or after its end, as far as they had
//!   come.
//!
//! # Not here
//! What becomes of an instant (`sichen_core::backfill`); who runs it ([`crate::dispatch`]).

mod checks;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::backfill::past::Past;
use sichen_core::backfill::{
    self, Action, Advance, AdvanceVerdict, Backfill, Facts, Look, MAX_STEP, Rest, Start, State,
    Turn, look, step,
};
use sichen_core::document::{Document, Problem, Request, Timing, new_run};
use sichen_core::ids::{BackfillId, Occasion, Revision};
use sichen_core::model::{DutyKey, Job, PARTITIONS, partition_of};
use sichen_core::port::{Error, MAX_PAGE, NewRun, Page, Store};

use crate::broadcast;
use crate::context::Context;
use crate::control::Control;
use crate::coordinator::Coordinator;
use crate::documents::Documents;

/// Running backfills moved on in one pass, of each node; more have their turn in the next.
const MAX_BACKFILLS: u32 = 500;
/// Steps of one backfill in one pass.
const STEPS: usize = 8;
/// How long to wait for room, if no hint comes before.
const ROOM: SignedDuration = SignedDuration::from_millis(200);
/// How long a backfill waits whose namespace has no room for another queued run, or that has nobody to be
/// broadcast to.
const FULL: SignedDuration = SignedDuration::from_secs(1);
/// Revisions that may share the range of one backfill.
pub const MAX_REVISIONS_OF_RANGE: usize = 1_000;

/// Moves backfills on.
#[derive(Debug)]
pub struct Backfiller {
    context: Context,
    coordinator: Arc<Coordinator>,
    documents: Arc<Documents>,
    /// Starts the checks of runs.
    control: Control,
    round: Mutex<Round>,
}

/// How far the passes have come among the running backfills, by id.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    after: Option<BackfillId>,
    /// Met before.
    met: usize,
}

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Runs started, those that check others too.
    pub started: u32,
    /// Backfills that go on.
    pub running: usize,
    /// When to look again.
    pub next: Option<Timestamp>,
}

impl Pass {
    fn again(&mut self, at: Timestamp) {
        self.next = self.next.into_iter().chain([at]).min();
    }
}

/// What became of a step.
enum Went {
    /// It was written.
    On,
    /// The backfill is to be decided anew, or by another node.
    Nowhere,
    /// Its namespace has room for so many more queued runs only.
    Full(u32),
}

/// Why a backfill does not go on for now.
enum Stop {
    /// It has to be paused: a person must see to it.
    Pause(String),
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error {
            Error::Corrupt(why) => Stop::Pause(why),
            error => Stop::Error(error),
        }
    }
}

impl Backfiller {
    /// A backfiller for the partitions that `coordinator` owns.
    #[must_use]
    pub fn new(context: Context, coordinator: Arc<Coordinator>, documents: Arc<Documents>) -> Self {
        Self {
            control: Control::new(context.clone()),
            round: Mutex::default(),
            context,
            coordinator,
            documents,
        }
    }

    /// One pass.
    ///
    /// # Errors
    /// As the store; what was started before it stays.
    pub async fn run_once(&self, now: Timestamp) -> Result<Pass, Error> {
        let mut pass = Pass::default();
        let owned = |p: &u8| self.coordinator.fence(&DutyKey::Trigger(*p), now).is_some();
        let owned: Vec<u8> = (0..PARTITIONS).filter(owned).collect();
        if owned.is_empty() {
            return Ok(pass);
        }
        let round = std::mem::take(&mut *self.round());
        let page = Page {
            after: round.after,
            limit: MAX_BACKFILLS,
        };
        let store = &*self.context.store;
        let running = store.list_running_backfills(owned, page).await?;
        pass.running = round.met + running.len();
        if running.len() == MAX_BACKFILLS as usize {
            *self.round() = Round {
                after: running.last().map(|backfill| backfill.id),
                met: pass.running,
            };
            pass.again(now);
        }
        for backfill in running {
            let id = backfill.id;
            match self.go_on(backfill, now, &mut pass).await {
                Ok(()) => {}
                Err(Stop::Pause(why)) => {
                    tracing::error!(backfill = %id, "SC4013: the backfill is paused: {why}");
                    self.turn(id, Turn::Pause, why, now).await?;
                }
                // Somebody holds its job's row: its neighbours are not to wait.
                Err(Stop::Error(error @ Error::Busy(_))) => {
                    tracing::warn!(backfill = %id, %error, "a backfill could not go on now");
                    pass.again(now + ROOM);
                }
                Err(Stop::Error(error)) => return Err(error),
            }
        }
        Ok(pass)
    }

    fn round(&self) -> MutexGuard<'_, Round> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Steps of one backfill, until it has to wait or others have their turn.
    async fn go_on(&self, backfill: Backfill, now: Timestamp, pass: &mut Pass) -> Result<(), Stop> {
        let store = &*self.context.store;
        let live = live_job(store, &backfill).await?;
        let seen_to = self.see_to_checks(backfill, live.as_ref(), now, pass);
        let Some(mut backfill) = seen_to.await? else {
            return Ok(());
        };
        if backfill.state != State::Running {
            return Ok(());
        }
        let Some(job) = live else {
            let why = "its job was deleted".to_owned();
            return Ok(self.turn(backfill.id, Turn::Cancel, why, now).await?);
        };
        let document = self.documents.get(store, job.uid, job.revision).await?;
        let Some(document) = broadcast::addressed(store, &document).await? else {
            pass.again(now + FULL);
            return Ok(());
        };
        let past = past(store, &self.documents, &job, &backfill.wanted).await;
        let past = past?.map_err(Stop::Pause)?;
        let free = backfill
            .wanted
            .parallelism
            .saturating_sub(backfill.runs.open) as usize;
        // Most of the time a run or two may start: then there is no need to look far.
        let mut size = (2 * free).clamp(16, MAX_STEP);
        for _ in 0..STEPS {
            let looked = look(&backfill.wanted, backfill.place, job.high_water);
            if looked == Look::Wait {
                return Ok(());
            }
            if looked == Look::Done && (backfill.runs.open > 0 || backfill.checks.pending() > 0) {
                pass.again(now + ROOM);
                return Ok(());
            }
            let (instants, whole) = instants(&past, looked, size);
            let facts = match instants.is_empty() {
                true => Vec::new(),
                false => store.list_instants(job.uid, instants).await?,
            };
            let step = step(&backfill, looked, &facts, whole, now);
            let starts = self.starts(&backfill, &job, &document, &past, &facts, &step.starts, now);
            let advance = Advance {
                id: backfill.id,
                ver: backfill.ver,
                revision: job.revision,
                place: step.place,
                next_at: step.next_at,
                left: step.left,
                starts: starts.await?,
                finish: looked == Look::Done,
            };
            let moved = advance.finish || advance.place != backfill.place;
            if moved {
                match self.advance(advance, now, pass).await? {
                    Went::On => {}
                    Went::Nowhere => return Ok(()),
                    Went::Full(0) => {
                        pass.again(now + FULL);
                        return Ok(());
                    }
                    // A smaller step fits.
                    Went::Full(room) => {
                        backfill.wanted.parallelism = backfill.runs.open.saturating_add(room);
                        continue;
                    }
                }
            }
            match step.rest {
                Rest::Room => pass.again(now + ROOM),
                Rest::Rate(at) => pass.again(at),
                Rest::Seen if looked != Look::Done && moved => {
                    size = MAX_STEP;
                    match store.get_backfill(backfill.id).await? {
                        Some(newer) => backfill = newer,
                        None => return Ok(()),
                    }
                    continue;
                }
                Rest::Seen => {}
            }
            return Ok(());
        }
        pass.again(now);
        Ok(())
    }

    /// Writes a step.
    async fn advance(
        &self,
        advance: Advance,
        now: Timestamp,
        pass: &mut Pass,
    ) -> Result<Went, Stop> {
        let store = &*self.context.store;
        let id = advance.id;
        let Some(fence) = self.fence(store, id, now).await? else {
            return Ok(Went::Nowhere);
        };
        let op = self.context.op(self.coordinator.actor());
        match store.advance_backfill(op, fence, advance).await? {
            AdvanceVerdict::Advanced(started) => {
                pass.started += started;
                self.context.meter.backfilled(started);
                Ok(Went::On)
            }
            AdvanceVerdict::Conflict => {
                pass.again(now + ROOM);
                Ok(Went::Nowhere)
            }
            AdvanceVerdict::Full(full) => {
                self.context.meter.full("backfill");
                Ok(Went::Full(full.room()))
            }
            AdvanceVerdict::OldTerm => Ok(Went::Nowhere),
        }
    }

    async fn fence(
        &self,
        store: &dyn Store,
        id: BackfillId,
        now: Timestamp,
    ) -> Result<Option<sichen_core::port::Fence>, Error> {
        let backfill = store.get_backfill(id).await?;
        let partition = backfill.map(|backfill| partition_of(backfill.job));
        Ok(partition.and_then(|p| self.coordinator.fence(&DutyKey::Trigger(p), now)))
    }

    async fn turn(
        &self,
        id: BackfillId,
        turn: Turn,
        why: String,
        now: Timestamp,
    ) -> Result<(), Error> {
        let store = &*self.context.store;
        if let Some(fence) = self.fence(store, id, now).await? {
            let op = self.context.op(self.coordinator.actor());
            store.turn_backfill(op, Some(fence), id, turn, why).await?;
        }
        Ok(())
    }

    /// The runs that a step starts.
    #[expect(clippy::too_many_arguments, reason = "what a run is made of")]
    async fn starts(
        &self,
        backfill: &Backfill,
        job: &Job,
        document: &Document,
        past: &Past,
        facts: &[Facts],
        starts: &[(Timestamp, Action)],
        now: Timestamp,
    ) -> Result<Vec<Start>, Stop> {
        let mut made = Vec::with_capacity(starts.len());
        for (at, action) in starts {
            let start = match *action {
                Action::Create => {
                    let run = instant_run(job, document, past.timing(*at), *at, 0, now);
                    Start::Write(Box::new(run.map_err(|p| invalid(*at, &p))?))
                }
                Action::Rerun(rerun) => {
                    let run = instant_run(job, document, past.timing(*at), *at, rerun, now);
                    let mut run = run.map_err(|p| invalid(*at, &p))?;
                    let last = facts.iter().find(|facts| facts.at == *at);
                    if let Some(last) = last.and_then(|facts| facts.run)
                        && let Some((last, _)) = self.context.store.get_run(last.id).await?
                        && last.period.is_some()
                    {
                        // A rerun stands for what the run before it did, coalesced or not.
                        let again = with_period(job, document, &last, run.occasion.clone(), now);
                        run = again.map_err(|p| invalid(*at, &p))?;
                    }
                    Start::Write(Box::new(run))
                }
                Action::Reopen(run, round) => Start::Reopen(run, round),
                Action::Leave(_) => continue,
            };
            made.push(match start {
                Start::Write(mut run) => {
                    run.backfill = Some(backfill.id);
                    Start::Write(run)
                }
                reopen @ Start::Reopen(..) => reopen,
            });
        }
        Ok(made)
    }
}

fn invalid(at: Timestamp, problem: &Problem) -> Stop {
    Stop::Pause(format!(
        "the run of {at} can't be made: {}: {}",
        problem.path, problem.message
    ))
}

/// The job of a backfill, unless it was deleted.
async fn live_job(store: &dyn Store, backfill: &Backfill) -> Result<Option<Job>, Error> {
    let Some(job) = store.get_job_by_uid(backfill.job).await? else {
        return Ok(None);
    };
    let live = store.get_job(job.name).await?;
    Ok(live.filter(|live| live.uid == backfill.job))
}

/// The run of an instant, by the job's newest document; what it stands for, by the schedule that
/// named the instant.
fn instant_run(
    job: &Job,
    document: &Document,
    timing: &Timing,
    at: Timestamp,
    rerun: u32,
    now: Timestamp,
) -> Result<NewRun, Problem> {
    let planned = timing.run_at(at);
    let request = Request {
        job: job.uid,
        revision: job.revision,
        occasion: Occasion::Planned { at, rerun },
        period: planned
            .as_ref()
            .map(sichen_core::schedule::PlannedRun::period),
        parameters: serde_json::Map::new(),
        digest: String::new(),
    };
    let mut run = new_run(document, request, now)?;
    run.nominal = planned.as_ref().map(|planned| timing.nominal(planned));
    Ok(run)
}

fn with_period(
    job: &Job,
    document: &Document,
    last: &sichen_core::model::Run,
    occasion: Occasion,
    now: Timestamp,
) -> Result<NewRun, Problem> {
    let request = Request {
        job: job.uid,
        revision: job.revision,
        occasion,
        period: last.period,
        parameters: serde_json::Map::new(),
        digest: String::new(),
    };
    let mut run = new_run(document, request, now)?;
    run.nominal.clone_from(&last.nominal);
    Ok(run)
}

/// The next instants of a look, at most `size`, and whether they are all that it has.
pub(crate) fn instants(past: &Past, looked: Look, size: usize) -> (Vec<Timestamp>, bool) {
    let mut found = Vec::new();
    let (mut from, mut below, down) = match looked {
        Look::Up { from, below } => (from, below, false),
        Look::Down { from, below } => (from, below, true),
        Look::Wait | Look::Done => return (found, true),
    };
    loop {
        let next = if down {
            past.last(from, below)
        } else {
            past.first(from, below)
        };
        let Some(at) = next else {
            return (found, true);
        };
        if found.len() == size {
            return (found, false);
        }
        found.push(at);
        if down {
            below = at;
        } else {
            from = at.checked_add(SignedDuration::from_nanos(1)).unwrap_or(at);
        }
    }
}

/// The instants of a job's past as far as a range needs them; or why they are not known.
pub(crate) async fn past(
    store: &dyn Store,
    documents: &Documents,
    job: &Job,
    wanted: &backfill::Wanted,
) -> Result<Result<Past, String>, Error> {
    let newest = timing(store, documents, job, job.revision).await?;
    let mut begun: Vec<(Revision, Timestamp)> = Vec::new();
    let mut after = None;
    loop {
        let page = Page {
            after,
            limit: MAX_PAGE,
        };
        let rows = store.list_revisions(job.uid, page).await?;
        let full = rows.len() == MAX_PAGE as usize;
        after = rows.last().map(|(revision, _)| *revision);
        for (revision, at) in rows {
            let Some(at) = at else { continue };
            if at >= wanted.to {
                break;
            }
            if at < wanted.from {
                // The one before it is over before the range begins.
                begun.clear();
            }
            begun.push((revision, at));
        }
        if !full {
            break;
        }
    }
    if begun.len() > MAX_REVISIONS_OF_RANGE {
        return Ok(Err(format!(
            "{} revisions share its range, at most {MAX_REVISIONS_OF_RANGE} may; take a shorter one",
            begun.len()
        )));
    }
    let mut segments = Vec::with_capacity(begun.len());
    for (revision, at) in begun {
        segments.push((at, timing(store, documents, job, revision).await?));
    }
    Ok(Ok(Past::new(newest, segments)))
}

async fn timing(
    store: &dyn Store,
    documents: &Documents,
    job: &Job,
    revision: Revision,
) -> Result<Arc<Timing>, Error> {
    let document = documents.get(store, job.uid, revision).await?;
    let calendars = documents.calendars(store, &document).await?;
    let (timing, _) = document.sound_timing(job.uid, &calendars);
    Ok(Arc::new(timing.in_zones_of(job)))
}
