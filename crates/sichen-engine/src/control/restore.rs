//! What a store that went back asks of people, and what they decide.
//!
//! # Invariants
//! - What is decided of one job or run is carried out at once, and no longer listed: what is decided of the rest
//!   leaves it alone.
//! - Only with the rest does anything fire, run or end by a duty again.
//! - A decision is about the restore that it was made for, and about no later one.
//!
//! # Not here
//! Writing it (`sichen-store`); what holds everything up meanwhile: no duty can be claimed.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use sichen_core::access::AccessToken;
use sichen_core::document::Close;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::RunId;
use sichen_core::lifecycle::RunState;
use sichen_core::model::{Job, Run};
use sichen_core::name::JobName;
use sichen_core::port::{self, Advance, EventFilter, MAX_PAGE, Page, RunFilter};
use sichen_core::restore::{Decided, How, LOST_TAIL, MAX_REASON_BYTES, Restore, Subject, Verdict};

use super::{ATTEMPTS, Control, Error};

/// Jobs, and as many runs and reports, that one look at a restore shows; it says if there are more.
const MAX_SHOWN: usize = 1_000;

/// What is to be decided.
#[derive(Clone, Debug)]
pub struct Undecided {
    /// The restore.
    pub restore: Restore,
    /// Jobs with instants since their marks.
    pub jobs: Vec<Missed>,
    /// Runs that were open.
    pub runs: Vec<Run>,
    /// Reports under tokens that the lost tail gave out: what surely ran.
    pub lost: Vec<Event>,
    /// Access tokens of before that are live: one that was revoked in the lost time is valid again.
    pub tokens: Vec<AccessToken>,
    /// Whether there are more jobs, runs or reports than are listed.
    pub more: bool,
}

/// What the events of the wait tell.
#[derive(Debug, Default)]
struct Told {
    lost: Vec<Event>,
    more: bool,
    /// Runs that were decided about.
    runs: BTreeSet<RunId>,
}

/// A job's instants since its mark.
#[derive(Clone, Debug)]
pub struct Missed {
    /// The job.
    pub job: Job,
    /// The first of them.
    pub first: Timestamp,
    /// The last of them.
    pub last: Timestamp,
    /// How many.
    pub count: u64,
}

/// What a decision is about.
#[derive(Clone, Debug)]
pub enum About {
    /// One job's instants.
    Job(JobName),
    /// One run.
    Run(RunId),
    /// All that is left.
    Rest,
}

impl Control {
    /// What a restore asks; `None` if there is none to decide.
    ///
    /// # Errors
    /// The store's.
    pub async fn undecided(&self) -> Result<Option<Undecided>, Error> {
        let store = &self.context.store;
        let Some(restore) = store.get_restore().await? else {
            return Ok(None);
        };
        let told = self.told(&restore).await?;
        let (jobs, more_jobs) = self.missed(restore.at, MAX_SHOWN).await?;
        let (runs, more_runs) = self.open_at(restore.mark, &told.runs, MAX_SHOWN).await?;
        Ok(Some(Undecided {
            restore,
            jobs,
            runs,
            lost: told.lost,
            tokens: self.tokens_of_before(&restore).await?,
            more: more_jobs || more_runs || told.more,
        }))
    }

    /// Whether no instant of the job's waits for a decision: its policy would decide it in passing.
    pub(super) async fn is_not_lost(&self, job: &Job) -> Result<(), Error> {
        let Some(restore) = self.context.store.get_restore().await? else {
            return Ok(());
        };
        if job.paused || job.next_due.is_none_or(|at| at > restore.at) {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "SC5062: what becomes of the planned times of job {} from before the restore is not decided: \
             sichen restore decide --job {}",
            job.name, job.name
        )))
    }

    /// Jobs that were due by `at`, by name, at most so many; whether there are more.
    async fn missed(&self, at: Timestamp, most: usize) -> Result<(Vec<Missed>, bool), Error> {
        let store = &self.context.store;
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let limit = MAX_PAGE;
            let page = store.list_jobs(Page { after, limit }).await?;
            let due = |job: &&Job| !job.paused && job.next_due.is_some_and(|next| next <= at);
            for job in page.iter().filter(due) {
                if found.len() == most {
                    return Ok((found, true));
                }
                found.extend(self.missed_of(job, at).await?);
            }
            after = page.last().map(|job| job.name.clone());
            if page.len() < MAX_PAGE as usize {
                return Ok((found, false));
            }
        }
    }

    async fn missed_of(&self, job: &Job, at: Timestamp) -> Result<Option<Missed>, Error> {
        let step = match self.close_at(job, Close::Paused, at).await {
            Ok(step) => step,
            // What can't be read has no instants, and must not hide the others.
            Err(Error::Store(port::Error::Corrupt(_))) => return Ok(None),
            Err(error) => return Err(error),
        };
        let instants = || step.decisions.iter().filter(|d| d.reason == "paused");
        let (Some(first), Some(last)) = (instants().next(), instants().next_back()) else {
            return Ok(None);
        };
        Ok(Some(Missed {
            job: job.clone(),
            first: first.from,
            last: last.to,
            count: instants().map(|d| d.count).sum(),
        }))
    }

    /// Runs that were open at `mark` and are so yet, without those of `decided`, newest first of each state; whether
    /// there are more.
    async fn open_at(
        &self,
        mark: Timestamp,
        decided: &BTreeSet<RunId>,
        most: usize,
    ) -> Result<(Vec<Run>, bool), Error> {
        let store = &self.context.store;
        let mut found = Vec::new();
        for state in [RunState::Running, RunState::Scheduled] {
            let filter = RunFilter {
                state: Some(state),
                ..RunFilter::default()
            };
            let mut after = None;
            loop {
                let limit = MAX_PAGE;
                let page = store
                    .list_runs(filter.clone(), Page { after, limit })
                    .await?;
                after = page.last().map(|run| run.id);
                let full = page.len() == MAX_PAGE as usize;
                let then = |run: &Run| {
                    run.created_at <= mark && run.stop.is_none() && !decided.contains(&run.id)
                };
                found.extend(page.into_iter().filter(then));
                if found.len() > most {
                    found.truncate(most);
                    return Ok((found, true));
                }
                if !full {
                    break;
                }
            }
        }
        Ok((found, false))
    }

    /// What was told since the restore began: its events have numbers above the newest that it has left.
    async fn told(&self, restore: &Restore) -> Result<Told, Error> {
        let store = &self.context.store;
        let mut told = Told::default();
        let mut after = Some(restore.newest);
        loop {
            let limit = MAX_PAGE;
            let page = Page { after, limit };
            let events = store.list_events(EventFilter::default(), page).await?;
            let full = events.len() == MAX_PAGE as usize;
            after = events.last().map(|event| event.seq);
            for event in events {
                match (event.kind, &event.entity) {
                    (Kind::RestoreDecided, Entity::Run(run)) => {
                        told.runs.insert(*run);
                    }
                    (Kind::ReportRefused, _) if event.cause == LOST_TAIL => {
                        told.more |= told.lost.len() >= MAX_SHOWN;
                        if !told.more {
                            told.lost.push(event);
                        }
                    }
                    _ => {}
                }
            }
            if !full {
                return Ok(told);
            }
        }
    }

    /// Tokens that were made before the lost time and hold.
    async fn tokens_of_before(&self, restore: &Restore) -> Result<Vec<AccessToken>, Error> {
        let store = &self.context.store;
        let now = store.now().await?;
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let limit = MAX_PAGE;
            let page = store.list_access_tokens(Page { after, limit }).await?;
            let full = page.len() == MAX_PAGE as usize;
            after = page.last().map(|token| token.asked.name.clone());
            let holds =
                |token: &AccessToken| token.created_at <= restore.mark && token.is_live(now);
            found.extend(page.into_iter().filter(holds));
            if !full {
                return Ok(found);
            }
        }
    }

    /// Believes a clock that stepped ahead; by how much, if time was held.
    ///
    /// # Errors
    /// The store's.
    pub async fn accept_clock(&self, actor: &str) -> Result<Option<SignedDuration>, Error> {
        let op = self.context.op(actor);
        Ok(self.context.store.accept_clock(op).await?)
    }

    /// Notes that the store went back.
    ///
    /// # Errors
    /// The store's.
    pub async fn begin_restore(&self, actor: &str) -> Result<Restore, Error> {
        let op = self.context.op(actor);
        Ok(self.context.store.begin_restore(op, 0).await?)
    }

    /// Decides; how many jobs and runs were decided by it.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Refused`]; [`Error::Contended`]; the store's.
    pub async fn decide_restore(
        &self,
        actor: &str,
        about: About,
        how: How,
        reason: &str,
        evidence: &str,
    ) -> Result<u64, Error> {
        check(how, reason, evidence)?;
        let restore = self.context.store.get_restore().await?;
        let restore = restore.ok_or_else(nothing)?;
        let decided = |subject| Decided {
            epoch: restore.epoch,
            subject,
            how,
            reason: reason.to_owned(),
            evidence: evidence.to_owned(),
        };
        match about {
            About::Job(name) => {
                let job = self.job(&name).await?;
                self.decide_job(actor, &restore, job, &decided).await?;
                Ok(1)
            }
            About::Run(run) => {
                self.record(actor, decided(Subject::Run(run))).await?;
                Ok(1)
            }
            About::Rest => {
                let mut count = 0;
                if how != How::Again {
                    count = self.decide_each(actor, &restore, &decided).await?;
                }
                self.record(actor, decided(Subject::Rest)).await?;
                Ok(count)
            }
        }
    }

    /// Decides all that is listed, job by job and run by run.
    async fn decide_each(
        &self,
        actor: &str,
        restore: &Restore,
        decided: &(impl Fn(Subject) -> Decided + Sync),
    ) -> Result<u64, Error> {
        let mut count = 0;
        for missed in self.missed(restore.at, usize::MAX).await?.0 {
            self.decide_job(actor, restore, missed.job, decided).await?;
            count += 1;
        }
        let told = self.told(restore).await?;
        let open = self.open_at(restore.mark, &told.runs, usize::MAX).await?;
        for run in open.0 {
            match self.record(actor, decided(Subject::Run(run.id))).await {
                Ok(()) => count += 1,
                // A report has ended it meanwhile, or somebody else has stopped it.
                Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    async fn decide_job(
        &self,
        actor: &str,
        restore: &Restore,
        mut job: Job,
        decided: &(impl Fn(Subject) -> Decided + Sync),
    ) -> Result<(), Error> {
        for _ in 0..ATTEMPTS {
            let step = self.step_of(restore, &job, &decided(Subject::Rest)).await?;
            let op = self.context.op(actor);
            let decision = decided(Subject::Job(job.uid, step));
            match self.context.store.decide_restore(op, decision).await? {
                Verdict::Recorded => return Ok(()),
                Verdict::NothingToDecide => return Err(nothing()),
                Verdict::Another => return Err(another()),
                Verdict::Conflict | Verdict::Missing => job = self.job(&job.name).await?,
            }
        }
        Err(Error::Contended(format!("job {}", job.name)))
    }

    /// What becomes of the job's instants; `None` if it is paused and its resume is to decide.
    async fn step_of(
        &self,
        restore: &Restore,
        job: &Job,
        decided: &Decided,
    ) -> Result<Option<Advance>, Error> {
        let Some(reason) = decided.how.reason() else {
            if job.paused {
                return Ok(None);
            }
            let now = self.context.store.now().await?;
            return Ok(Some(self.close_at(job, Close::Live, now).await?));
        };
        // What was due later is late, and not lost.
        let until = restore.at.max(job.high_water);
        let mut step = self.close_at(job, Close::Paused, until).await?;
        for skipped in step.decisions.iter_mut().filter(|d| d.reason == "paused") {
            reason.clone_into(&mut skipped.reason);
            skipped.reference.clone_from(&decided.evidence);
        }
        Ok(Some(step))
    }

    async fn record(&self, actor: &str, decided: Decided) -> Result<(), Error> {
        let name = match decided.subject {
            Subject::Run(run) => run.to_string(),
            Subject::Job(..) | Subject::Rest => String::new(),
        };
        let op = self.context.op(actor);
        match self.context.store.decide_restore(op, decided).await? {
            Verdict::Recorded => Ok(()),
            Verdict::NothingToDecide => Err(nothing()),
            Verdict::Another => Err(another()),
            Verdict::Conflict | Verdict::Missing => Err(Error::NotFound {
                what: "open run",
                name,
            }),
        }
    }
}

fn nothing() -> Error {
    Error::Refused(
        "SC5060: there is no restore to decide about; `sichen restore show` says so too".to_owned(),
    )
}

fn another() -> Error {
    Error::Refused(
        "SC5063: another restore has begun meanwhile: look at what it asks (`sichen restore show`) and decide anew"
            .to_owned(),
    )
}

fn check(how: How, reason: &str, evidence: &str) -> Result<(), Error> {
    let refused = |why: &str| Err(Error::Refused(format!("SC5061: {why}")));
    if reason.trim().is_empty() {
        return refused("a decision about a restore wants a reason: say who decided it, and why");
    }
    if how == How::Done && evidence.trim().is_empty() {
        return refused(
            "what is taken as done wants evidence: say what shows it, such as rows of your data",
        );
    }
    if reason.contains('\0') || evidence.contains('\0') {
        return refused("reason and evidence have no NUL character; take it out");
    }
    if reason.len().max(evidence.len()) > MAX_REASON_BYTES {
        return refused(&format!(
            "reason and evidence have at most {MAX_REASON_BYTES} bytes each"
        ));
    }
    Ok(())
}
