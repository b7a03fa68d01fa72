//! The trigger's duty: what is due becomes runs and decisions.
//!
//! # Invariants
//! - The high-water mark moves in the transaction that writes the runs and decisions behind it.
//! - A fire is conditional on the revision, the mark and (where overlap matters) the number of
//!   active runs it was computed from; a conflict is decided anew in the next pass.
//! - A job that can't be decided is reported and put off; its neighbours fire, however many such jobs
//!   there are.
//!
//! # Not here
//! What is due (`sichen_core::schedule::due`); who runs it ([`crate::dispatch`]).

mod crowded;
mod tails;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::document::{Document, Problem, Request, Timing, new_run};
use sichen_core::ids::{JobUid, Occasion, RunId};
use sichen_core::lifecycle::{StopCause, WaitsFor};
use sichen_core::model::{Counting, Decision, DutyKey, Job, PARTITIONS, Waits, partition_of};
use sichen_core::name::JobName;
use sichen_core::port::{
    Advance, AdvanceVerdict, Counted, CreateVerdict, Error, Fence, MAX_BATCH_SHARDS, Page,
    RequestVerdict, RunFilter, Store,
};
use sichen_core::schedule::overlap::{Active, Blocker, Origin, Overlap, Verdict, judge};
use sichen_core::schedule::stretch::join;
use sichen_core::schedule::{DuePlan, PlannedRun, Reason, Skip, zone_data_version};

use crate::blocked::{Blocked, told};
use crate::broadcast;
use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::dispatch::Dispatcher;
use crate::documents::Documents;

use crowded::Crowded;
use tails::Tails;

/// Rows looked at in one pass.
const LIMIT: u32 = 500;
/// How long an instant that this machine's clock has reached, and the store's has not, is left alone at
/// least: the store's may stand still.
const EARLY: SignedDuration = SignedDuration::from_millis(5);
/// How often runs that were left unsettled are looked for.
const SWEEP: SignedDuration = SignedDuration::from_secs(60);
/// Jobs due within this time are looked at; a timer waits for the first of them.
const HORIZON: SignedDuration = SignedDuration::from_secs(60);

/// How soon the end of a run is noticed that makes a job's next instant.
const FOLLOWED: SignedDuration = SignedDuration::from_secs(1);
/// Documents read ahead in one pass.
const PREPARED: usize = 100;

/// For how long a job that can't be decided is left alone.
const POSTPONED: SignedDuration = SignedDuration::from_mins(10);

/// Fires schedules, stops late runs, settles what was left unsettled.
#[derive(Debug)]
pub struct Trigger {
    context: Context,
    coordinator: Arc<Coordinator>,
    documents: Arc<Documents>,
    /// Jobs whose rows another program holds.
    blocked: Blocked<JobUid>,
    dispatcher: Arc<Dispatcher>,
    /// When complete runs without an outcome were last looked for.
    swept: Mutex<Option<Timestamp>>,
    /// Whether a job was fired whose next instant the end of its run will make, wherever that is
    /// reported: then a look is taken often. A hint; the usual round finds it too.
    follows: AtomicBool,
    /// The next instant that the last look has seen.
    ahead: Mutex<Ahead>,
    tails: Tails,
    /// Jobs whose namespaces had room for fewer runs than were due.
    crowded: Crowded,
}

/// What the last look has seen of the next instant.
#[derive(Debug, Default)]
struct Ahead {
    at: Option<Timestamp>,
    /// The jobs that are due then, as they were; none if they are to be read at that instant. A step
    /// made of one is refused by the store if the job was changed meanwhile, and the look behind it
    /// finds the job as it is.
    jobs: Vec<(Job, Arc<Document>)>,
}

/// What one pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Runs written.
    pub runs: usize,
    /// Instants decided not to run.
    pub skipped: u64,
    /// Runs stopped because their deadline has passed; who runs their shards is to be told.
    pub stopped: Vec<RunId>,
    /// When to look again.
    pub next: Option<Timestamp>,
    /// What the store's clock said, if that is behind what this pass was begun by.
    pub told: Option<Timestamp>,
}

/// Steps of jobs that are written together.
#[derive(Debug, Default)]
struct Batch {
    items: Vec<Advance>,
    names: Vec<JobName>,
    /// Shards of their runs.
    shards: usize,
}

impl Batch {
    fn add(&mut self, item: Advance, name: JobName) {
        self.shards += item.runs.iter().map(|run| run.shards.len()).sum::<usize>();
        self.items.push(item);
        self.names.push(name);
    }

    /// Whether it takes no more: one transaction writes as many shards as it has, or more.
    fn is_full(&self) -> bool {
        self.shards >= MAX_BATCH_SHARDS
    }
}

impl Trigger {
    /// A trigger for the partitions that `coordinator` owns.
    #[must_use]
    pub fn new(
        context: Context,
        coordinator: Arc<Coordinator>,
        documents: Arc<Documents>,
        dispatcher: Arc<Dispatcher>,
    ) -> Self {
        Self {
            context,
            coordinator,
            documents,
            blocked: Blocked::default(),
            dispatcher,
            swept: Mutex::default(),
            follows: AtomicBool::new(false),
            ahead: Mutex::default(),
            tails: Tails::default(),
            crowded: Crowded::default(),
        }
    }

    fn lock_ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One pass.
    ///
    /// # Errors
    /// As the store; what was fired before it stays.
    pub async fn run_once(&self, now: Timestamp) -> Result<Pass, Error> {
        let fences = self.coordinator.trigger_fences(now);
        if fences.is_empty() {
            return Ok(Pass::default());
        }
        let sweep = self.sweep_is_due(now);
        let adopted = if sweep {
            self.adopt(now).await?
        } else {
            Pass::default()
        };
        let mut pass = self.fire(now).await?;
        pass.runs += adopted.runs;
        pass.skipped += adopted.skipped;
        pass.next = pass.next.into_iter().chain(adopted.next).min();
        pass.told = pass.told.or(adopted.told);
        self.stop_late(now, &mut pass).await?;
        if !sweep {
            return Ok(pass);
        }
        let op = self.context.op(self.coordinator.actor());
        match self.context.store.settle_runs(op, fences, LIMIT).await {
            Ok(settled) => {
                for run in settled {
                    tracing::error!(%run, "SC4010: a run with complete counters had not been settled");
                }
            }
            // There should be none to settle, and the others are not to wait for one that makes no sense.
            Err(error @ Error::Corrupt(_)) => {
                tracing::error!(%error, "runs that may have been left unsettled can't be looked at");
            }
            Err(error) => return Err(error),
        }
        Ok(pass)
    }

    /// Looks at jobs whose marks were set by older zone data than is built in: what they have next may
    /// have moved to another instant, or lie behind.
    async fn adopt(&self, now: Timestamp) -> Result<Pass, Error> {
        let store = &*self.context.store;
        let data = zone_data_version().to_owned();
        let outdated = store
            .list_outdated_jobs(self.owned(now), data, LIMIT)
            .await?;
        let mut pass = Pass::default();
        let full = outdated.len() == LIMIT as usize;
        let (mut batch, mut jobs) = (Batch::default(), 0);
        let now = match outdated.is_empty() {
            true => now,
            false => self.by_the_store(now, &mut pass).await?,
        };
        let free = |job: &Job| !self.blocked.is_paused(job.uid, now);
        for job in outdated.into_iter().filter(free) {
            // One that can't be decided is reported where it is due.
            let Some((item, more)) = self.decide_job(&job, now).await? else {
                continue;
            };
            let again = if more { Some(now) } else { item.next_due };
            pass.next = pass.next.into_iter().chain(again).min();
            batch.add(item, job.name);
            jobs += 1;
            if batch.is_full() {
                self.write(std::mem::take(&mut batch), now, &mut pass)
                    .await?;
            }
        }
        if jobs > 0 {
            let data = zone_data_version();
            tracing::info!(jobs, data, "newer zone data is adopted");
            if full {
                // The rest has its turn with the next pass. Not if none of these could be moved on:
                // the same ones would come again and again.
                *self.swept.lock().unwrap_or_else(PoisonError::into_inner) = None;
                pass.next = Some(now);
            }
        }
        self.write(batch, now, &mut pass).await?;
        Ok(pass)
    }

    /// Whether runs that were left unsettled are looked for: there should be none.
    fn sweep_is_due(&self, now: Timestamp) -> bool {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        let due = swept.is_none_or(|last| now.duration_since(last) >= SWEEP);
        if due {
            *swept = Some(now);
        }
        due
    }

    async fn fire(&self, now: Timestamp) -> Result<Pass, Error> {
        let store = &*self.context.store;
        let mut pass = Pass::default();
        let ahead = std::mem::take(&mut *self.lock_ahead());
        let mut awaited = ahead.at.is_some_and(|at| at <= now);
        if awaited && !ahead.jobs.is_empty() {
            // Nothing is to be read first, and what else is due is looked at after them.
            awaited = false;
            let due = ahead.jobs.into_iter().map(|(job, doc)| (job, Some(doc)));
            self.fire_jobs(due.collect(), now, &mut pass).await?;
        }
        // At an instant that was waited for, only what is due is read; what comes next is looked at after it.
        let until = match awaited {
            true => now,
            false => now.checked_add(HORIZON).unwrap_or(Timestamp::MAX),
        };
        let near = store.list_due_jobs(self.owned(now), until, LIMIT).await?;
        pass.next = pass.next.into_iter().chain(awaited.then_some(now)).min();
        // A full page asks for another pass only if all of it is due: else a timer will do.
        let last_is_due = near
            .last()
            .and_then(|job| job.next_due)
            .is_some_and(|at| at <= now);
        if near.len() == LIMIT as usize && last_is_due {
            pass.next = Some(now);
        }
        let follows = near.iter().any(|job| job.chain.is_some());
        if self.follows.fetch_or(follows, Ordering::Relaxed) || follows {
            let soon = now.checked_add(FOLLOWED).unwrap_or(now);
            pass.next = pass.next.into_iter().chain([soon]).min();
        }
        let due = |job: &Job| job.next_due.is_some_and(|at| at <= now);
        let (due, soon): (Vec<Job>, Vec<Job>) = near.into_iter().partition(due);
        let first = soon.iter().filter_map(|job| job.next_due).min();
        pass.next = pass.next.into_iter().chain(first).min();
        if due.is_empty() {
            *self.lock_ahead() = self.prepare(soon, first);
        } else {
            self.lock_ahead().at = first;
        }
        let due = due.into_iter().map(|job| (job, None)).collect();
        self.fire_jobs(due, now, &mut pass).await?;
        Ok(pass)
    }

    /// `now`, but no later than the store's own clock: what woke this pass is a reading that was counted on
    /// by this machine's, and the store's may have been set back since.
    async fn by_the_store(&self, now: Timestamp, pass: &mut Pass) -> Result<Timestamp, Error> {
        let told = self.context.store.now().await?;
        // An ordinary reading is no news, and would be old by the time the pass has ended.
        if told < now {
            pass.told = Some(told);
        }
        Ok(now.min(told))
    }

    /// Decides about jobs that are due, with their documents where those were read ahead, and writes that.
    async fn fire_jobs(
        &self,
        jobs: Vec<(Job, Option<Arc<Document>>)>,
        now: Timestamp,
        pass: &mut Pass,
    ) -> Result<(), Error> {
        if jobs.is_empty() {
            return Ok(());
        }
        let now = self.by_the_store(now, pass).await?;
        let mut batch = Batch::default();
        for (job, document) in jobs {
            if let Some(early) = job.next_due.filter(|at| *at > now) {
                let later = now.checked_add(EARLY).unwrap_or(now);
                pass.next = pass.next.into_iter().chain([early.max(later)]).min();
                continue;
            }
            if self.blocked.is_paused(job.uid, now) {
                pass.next = pass.next.into_iter().chain(self.blocked.next(now)).min();
                continue;
            }
            let decided = match document {
                Some(document) => self.decide(&job, &document, now).await?,
                None => self.decide_job(&job, now).await?,
            };
            match decided {
                Some((item, more)) => {
                    let again = if more { Some(now) } else { item.next_due };
                    pass.next = pass.next.into_iter().chain(again).min();
                    batch.add(item, job.name);
                }
                None => {
                    tracing::error!(job = %job.name, "SC4011: the job's document can't be decided; apply it again");
                    batch.add(postponed(&job, now), job.name);
                }
            }
            if batch.is_full() {
                self.write(std::mem::take(&mut batch), now, pass).await?;
            }
        }
        self.write(batch, now, pass).await
    }

    /// Writes steps of jobs, in one transaction.
    async fn write(&self, batch: Batch, now: Timestamp, pass: &mut Pass) -> Result<(), Error> {
        let Batch {
            mut items, names, ..
        } = batch;
        if items.is_empty() {
            return Ok(());
        }
        let store = &*self.context.store;
        let skipped: Vec<u64> = items
            .iter()
            .map(|i| {
                i.decisions
                    .iter()
                    .chain(&i.lengthens)
                    .map(|d| d.count)
                    .sum()
            })
            .collect();
        let tails = Vec::from_iter(items.iter().map(|i| self.tails.after(i)));
        let owned_runs = items.iter_mut().zip(&names).flat_map(|(item, name)| {
            let runs = item.runs.iter_mut();
            runs.map(move |run| (&name.namespace, run))
        });
        let reserved = self.dispatcher.reserve(owned_runs, now);
        let advance = |items: Vec<Advance>| {
            let op = self.context.op(self.coordinator.actor());
            let mut fences = self.fences_of(&items, now);
            fences.extend(reserved.fences.iter().cloned());
            store.advance_schedules(op, fences, items)
        };
        let job = |item: &Advance| item.job;
        let verdicts = self
            .blocked
            .write(&items, job, || told(now), advance)
            .await?;
        let (mut written, mut full) = (Vec::new(), Vec::new());
        let decided = verdicts.into_iter().zip(skipped.into_iter().zip(tails));
        for ((verdict, (skipped, tail)), (item, name)) in decided.zip(items.into_iter().zip(names))
        {
            let advanced = matches!(verdict, Some(AdvanceVerdict::Advanced(_)));
            self.tails.note(item.job, tail.filter(|_| advanced));
            match verdict {
                Some(AdvanceVerdict::Advanced(runs)) => {
                    pass.skipped += skipped;
                    for d in item.decisions.iter().chain(&item.lengthens) {
                        self.context.meter.skipped(&d.reason, d.count);
                    }
                    for (new, verdict) in item.runs.into_iter().zip(runs) {
                        if let CreateVerdict::Created(id, granted) = verdict {
                            pass.runs += 1;
                            written.push((name.clone(), new, id, granted));
                        }
                    }
                }
                Some(AdvanceVerdict::Full(queue)) => full.push((item, name, queue)),
                // Edited, advanced or settled meanwhile: the next pass decides anew.
                Some(AdvanceVerdict::Conflict) => pass.next = Some(now),
                Some(AdvanceVerdict::OldTerm) => {}
                None => pass.next = pass.next.into_iter().chain(self.blocked.next(now)).min(),
            }
        }
        self.dispatcher.written(reserved, written, now).await;
        self.wait_for_room(full, now, pass).await
    }

    /// Reads the documents of jobs that are due soon, so that none is read when their instant comes. One
    /// that makes no sense is told of then. Those due at the `first` instant are kept for it, unless what
    /// they may do depends on what happens until then.
    fn prepare(&self, soon: Vec<Job>, first: Option<Timestamp>) -> Ahead {
        let mut jobs = Vec::new();
        let mut plain = true;
        for mut job in soon.into_iter().take(PREPARED) {
            let Ok(document) = self.documents.of(&job) else {
                plain &= job.next_due != first;
                continue;
            };
            if job.next_due == first {
                let policy = document.spec.overlap.policy().of(Origin::Planned);
                plain &= policy == Overlap::Allow && job.chain.is_none();
                // It is kept read.
                job.document = String::new();
                jobs.push((job, document));
            }
        }
        if !plain {
            jobs.clear();
        }
        Ahead { at: first, jobs }
    }

    /// The fences of the partitions of these jobs.
    fn fences_of(&self, items: &[Advance], now: Timestamp) -> Vec<Fence> {
        let partitions: BTreeSet<u8> = items.iter().map(|i| partition_of(i.job)).collect();
        let keys = partitions.into_iter().map(DutyKey::Trigger);
        keys.filter_map(|key| self.coordinator.fence(&key, now))
            .collect()
    }

    /// What `job` has due; `None` if its document makes no sense.
    async fn decide_job(
        &self,
        job: &Job,
        now: Timestamp,
    ) -> Result<Option<(Advance, bool)>, Error> {
        match self.documents.of(job) {
            Ok(document) => self.decide(job, &document, now).await,
            Err(Error::Corrupt(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What `job` has due by its `document`; `None` if its calendars or open runs make no sense.
    async fn decide(
        &self,
        job: &Job,
        document: &Document,
        now: Timestamp,
    ) -> Result<Option<(Advance, bool)>, Error> {
        let store = &*self.context.store;
        let calendars = match self.documents.calendars(store, document).await {
            Ok(calendars) => calendars,
            Err(Error::Corrupt(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let (timing, problems) = document.sound_timing(job.uid, &calendars);
        let timing = timing.of(job);
        if !timing.has_schedules() {
            return Ok(None);
        }
        // Refused at save, so the zone database has changed since: the other schedules go on.
        for Problem { path, message } in problems {
            tracing::error!(job = %job.name, path, "SC4011: this schedule is passed over: {message}");
        }
        let mut plan = timing.due(job.high_water, now, false);
        let addressed = match plan.runs.is_empty() {
            true => Some(Cow::Borrowed(document)),
            false => broadcast::addressed(store, document).await?,
        };
        let Some(document) = addressed.as_deref() else {
            // Its planned time waits for somebody to broadcast to.
            return Ok(Some((crowded::later(job, now), false)));
        };
        if let [first, _, ..] = plan.runs.as_slice() {
            let most = runs_a_batch(job, document, first, now);
            let most = most.min(self.crowded.room(job.uid).unwrap_or(u32::MAX));
            if plan.runs.len() > most as usize {
                plan = timing.due_at_most(job.high_water, now, most);
            }
        }
        let open = if timing.overlap == Overlap::Allow || plan.runs.is_empty() {
            Vec::new()
        } else {
            match open_runs(store, job).await {
                Ok(open) => open,
                Err(Error::Corrupt(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
        };
        let more = plan.more && plan.next_wake.is_some_and(|wake| wake <= now);
        let mut step = advance(job, document, &timing, plan, &open, now);
        self.tails.lengthen(&mut step);
        Ok(Some((step, more)))
    }

    fn owned(&self, now: Timestamp) -> Vec<u8> {
        (0..PARTITIONS)
            .filter(|p| self.coordinator.fence(&DutyKey::Trigger(*p), now).is_some())
            .collect()
    }

    /// Stops runs that are past their deadline.
    async fn stop_late(&self, now: Timestamp, pass: &mut Pass) -> Result<(), Error> {
        let store = &*self.context.store;
        let found = store.list_late_runs(self.owned(now), LIMIT).await?;
        let full = found.late.len() == LIMIT as usize;
        let again = found.next.into_iter().chain(full.then_some(now));
        pass.next = pass.next.into_iter().chain(again).min();
        for (run, partition) in found.late {
            let Some(fence) = self.coordinator.fence(&DutyKey::Trigger(partition), now) else {
                continue;
            };
            let op = self.context.op(self.coordinator.actor());
            let asked = store.request_stop(op, Some(fence), run, StopCause::Deadline);
            match asked.await {
                Ok(RequestVerdict::Done(settled)) => {
                    if let Some(state) = settled {
                        self.context.meter.settled(state);
                    }
                    tracing::info!(%run, "the run's deadline has passed");
                    pass.stopped.push(run);
                }
                Ok(_) => {}
                // Another program holds the run's row, or it makes no sense: its neighbours are not to wait.
                Err(error) if error.is_of_some_rows() => {
                    tracing::warn!(%run, %error, "a late run could not be stopped now");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// How many runs of `job` one step writes: their shards are to fit into one transaction. Each has
/// about as many as `first`.
fn runs_a_batch(job: &Job, document: &Document, first: &PlannedRun, now: Timestamp) -> u32 {
    let occasion = Occasion::Planned {
        at: first.planned,
        rerun: 0,
    };
    let run = new_run(document, request(job, occasion, first), now);
    let shards = run.map_or(1, |run| run.shards.len());
    u32::try_from(MAX_BATCH_SHARDS / shards.max(1)).map_or(u32::MAX, |most| most.max(1))
}

/// A job that can't be decided makes room for others: it is looked at again later, and its mark
/// stays, so that nothing is lost once it can be.
fn postponed(job: &Job, now: Timestamp) -> Advance {
    Advance {
        job: job.uid,
        revision: job.revision,
        from: job.high_water,
        to: job.high_water,
        next_due: now.checked_add(POSTPONED).ok(),
        zones: None,
        pending: job.pending(),
        counted: None,
        runs: Vec::new(),
        lengthens: None,
        decisions: Vec::new(),
    }
}

/// The job's runs that are open and do not wait for others, oldest first, as many as one decision
/// looks at; not those of backfills.
pub(crate) async fn open_runs(store: &dyn Store, job: &Job) -> Result<Vec<RunId>, Error> {
    let none = job.active_runs == 0 && job.counting != Counting::Never;
    if none {
        return Ok(Vec::new());
    }
    let filter = RunFilter {
        job: Some(job.uid),
        open: true,
        ..RunFilter::default()
    };
    let page = Page {
        after: None,
        limit: LIMIT,
    };
    let runs = store.list_runs(filter, page).await?;
    let running = runs.iter().filter(|run| run.waits.is_none());
    Ok(running.map(|run| run.id).rev().collect())
}

/// What a decision about overlap sees of `job`, of whose open runs `open` do not wait.
pub(crate) fn active<'a>(job: &Job, open: &'a [RunId]) -> Active<'a, RunId> {
    Active {
        runs: open,
        count: job.active_runs.saturating_sub(job.waiting_runs),
        queued: job.waiting_runs,
    }
}

/// The step that a plan stands for: its runs as far as overlap lets them, and a decision for every
/// instant that does not run. `open` are the job's open runs that do not wait.
///
/// Also what an edit and a pause write to close the instants behind them.
#[must_use]
pub fn advance(
    job: &Job,
    document: &Document,
    timing: &Timing,
    plan: DuePlan,
    open: &[RunId],
    now: Timestamp,
) -> Advance {
    let mut decisions: Vec<Decision> = plan.skips.iter().map(skip_decision).collect();
    let mut runs = Vec::new();
    let policy = timing.overlap.of(Origin::Planned);
    let instants: Vec<Timestamp> = plan.runs.iter().map(|run| run.planned).collect();
    let verdicts = judge(policy, timing.most_active, active(job, open), &instants);
    for (planned, verdict) in plan.runs.iter().zip(verdicts) {
        let single =
            |reason: &str, reference: String| Decision::single(planned.planned, reason, reference);
        let waits = match verdict {
            Verdict::Skip { blocked_by } => {
                decisions.push(single("overlap", blocker(&blocked_by)));
                continue;
            }
            Verdict::Run => None,
            Verdict::Queue { .. } => Some(WaitsFor::Queue),
            Verdict::Replace { .. } => Some(WaitsFor::Replaced),
        };
        let occasion = Occasion::Planned {
            at: planned.planned,
            rerun: 0,
        };
        match new_run(document, request(job, occasion, planned), now) {
            Ok(mut run) => {
                run.ready_at = planned.ready_at.max(now);
                run.nominal = Some(timing.nominal(planned));
                run.terms.start_by = timing.start_by(planned);
                run.waits = waits.map(|what| Waits {
                    what,
                    most: timing.most_active,
                });
                runs.push(run);
            }
            Err(problem) => {
                let reference = format!("{}: {}", problem.path, problem.message);
                decisions.push(single("invalid", reference));
            }
        }
    }
    let ran: Vec<Timestamp> = runs
        .iter()
        .filter_map(|r| r.occasion.planned_at())
        .collect();
    // Stores keep whole microseconds; planned instants are whole seconds, so none is jumped over.
    let to = Timestamp::from_microsecond(plan.high_water.as_microsecond());
    let to = to.unwrap_or(plan.high_water);
    Advance {
        job: job.uid,
        revision: job.revision,
        from: job.high_water,
        to,
        next_due: match plan.next_wake {
            // The oldest comes first; unless the rate of its catch-up lets it wait.
            Some(wake) if plan.more && wake <= now => Some(plan.high_water),
            wake => wake,
        },
        zones: timing
            .zones_at(to)
            .filter(|at| job.zones.as_ref() != Some(at)),
        pending: job.pending(),
        counted: (policy != Overlap::Allow && !instants.is_empty()).then(|| Counted::of(job)),
        runs,
        lengthens: None,
        decisions: join(decisions, &ran),
    }
}

/// What blocked, as decisions name it: a run by its id, another instant by its occasion.
pub(crate) fn blocker(blocked_by: &Blocker<RunId>) -> String {
    match blocked_by {
        Blocker::Run(run) => run.to_string(),
        Blocker::Planned(at) => Occasion::Planned { at: *at, rerun: 0 }.key(),
    }
}

fn request(job: &Job, occasion: Occasion, planned: &PlannedRun) -> Request {
    Request {
        job: job.uid,
        revision: job.revision,
        occasion,
        period: Some(planned.period()),
        parameters: serde_json::Map::new(),
        digest: String::new(),
    }
}

fn skip_decision(skip: &Skip) -> Decision {
    let reference = match skip.reason {
        Reason::Coalesced { into } => Occasion::Planned { at: into, rerun: 0 }.key(),
        Reason::Deadline | Reason::CatchUp | Reason::Paused | Reason::Deleted | Reason::Gap => {
            String::new()
        }
    };
    Decision {
        from: skip.from,
        to: skip.to,
        count: skip.count,
        reason: skip.reason.as_str().to_owned(),
        reference,
        filled: 0,
        filled_by: None,
    }
}
