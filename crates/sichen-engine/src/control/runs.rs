//! Runs: started, found, stopped, retried.

use jiff::Timestamp;
use serde_json::{Map, Value};
use sichen_core::document::{Document, Problem, Request, new_run};
use sichen_core::ids::{JobUid, Occasion, RunId, ShardKey};
use sichen_core::lifecycle::{RunState, StopCause, WaitsFor};
use sichen_core::model::{Job, Period, Waits};
use sichen_core::name::JobName;
use sichen_core::port::{Counted, CreateVerdict, NewRun, RequestVerdict};
use sichen_core::schedule::Nominal;
use sichen_core::schedule::overlap::{Origin, Overlap, Verdict, judge};

use super::{ATTEMPTS, Control, Error};
use crate::trigger::{active, blocker, open_runs};

/// The longest idempotency key, in bytes.
const MAX_KEY: usize = 128;

/// A run that somebody wants.
#[derive(Clone, Debug)]
pub struct StartRun {
    /// The job.
    pub job: JobName,
    /// The occasion.
    pub which: Which,
    /// Parameters that take the place of the document's.
    pub parameters: Map<String, Value>,
    /// Its period, if it is not that of the schedule.
    pub period: Option<Period>,
    /// What happens if others of the job are active; `None`: it starts beside them.
    pub overlap: Option<Overlap>,
    /// Digest of the request, so that the same key with another body is seen.
    pub digest: String,
}

/// Which occasion a wanted run stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// A planned instant of the past or present.
    Planned(Timestamp),
    /// By idempotency key.
    Manual(String),
}

/// The answer to a [`StartRun`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The run.
    pub run: RunId,
    /// Whether it was written now; else it was there already.
    pub created: bool,
    /// Whether it has a deadline from now on.
    pub limited: bool,
}

impl Control {
    /// Starts a run, or finds the one that this occasion has already.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`]; [`Error::Refused`] if the key was used with another
    /// request; [`Error::Contended`]; the store's.
    pub async fn start_run(&self, actor: &str, wanted: StartRun) -> Result<Started, Error> {
        let occasion = occasion(&wanted.which)?;
        // Where open runs are counted, each of many callers at once makes the others count anew.
        let attempts = if wanted.overlap.is_some() {
            10 * ATTEMPTS
        } else {
            ATTEMPTS
        };
        for _ in 0..attempts {
            let job = self.job(&wanted.job).await?;
            let store = &*self.context.store;
            let document = self.documents.get(store, job.uid, job.revision).await?;
            let now = store.now().await?;
            let planned = match wanted.which {
                Which::Planned(at) => planned(&job, &document, at, now)?,
                Which::Manual(_) => None,
            };
            let (period, nominal) = planned.unzip();
            let request = Request {
                job: job.uid,
                revision: job.revision,
                occasion: occasion.clone(),
                period: wanted.period.or(period),
                parameters: wanted.parameters.clone(),
                digest: wanted.digest.clone(),
            };
            let mut run = new_run(&document, request, now).map_err(|p| Error::Invalid(vec![p]))?;
            run.nominal = nominal;
            self.judge_overlap(&job, &document, &wanted, &mut run)
                .await?;
            let limited = run.terms.deadline.is_some();
            let op = self.context.op(actor);
            let verdicts = store.create_runs(op, Vec::new(), vec![run]).await?;
            match verdicts.into_iter().next() {
                Some(CreateVerdict::Created(run, _)) => {
                    return Ok(Started {
                        run,
                        created: true,
                        limited,
                    });
                }
                Some(CreateVerdict::Exists(run)) => {
                    return Ok(Started {
                        run,
                        created: false,
                        limited: false,
                    });
                }
                Some(CreateVerdict::OtherRequest(run)) => {
                    return Err(Error::Refused(format!(
                        "SC5011: run {run} was made for this occasion by another request; \
                         use another key, or the same parameters"
                    )));
                }
                Some(CreateVerdict::Conflict) | None => {}
            }
        }
        Err(Error::Contended(format!("job {}", wanted.job)))
    }

    /// Makes `run` wait if the policy that its caller named wants that.
    async fn judge_overlap(
        &self,
        job: &Job,
        document: &Document,
        wanted: &StartRun,
        run: &mut NewRun,
    ) -> Result<(), Error> {
        let spec = &document.spec;
        let policy = spec.overlap.policy().of(Origin::Manual(wanted.overlap));
        if policy == Overlap::Allow {
            return Ok(());
        }
        let store = &*self.context.store;
        if store
            .find_run(job.uid, run.occasion.clone())
            .await?
            .is_some()
        {
            // The answer is that run, whatever is active beside it.
            return Ok(());
        }
        let most = spec.max_active_runs.unwrap_or(1);
        let open = open_runs(store, job).await?;
        let verdicts = judge(policy, most, active(job, &open), &[run.ready_at]);
        run.counted = Some(Counted::of(job));
        let what = match verdicts.into_iter().next() {
            Some(Verdict::Skip { blocked_by }) => {
                let waiting = job.waiting_runs;
                return Err(Error::Refused(format!(
                    "SC5016: run {} of job {} is active ({waiting} more wait); ask again when it has \
                     ended, or let it wait with the overlap `queue`",
                    blocker(&blocked_by),
                    job.name
                )));
            }
            Some(Verdict::Queue { .. }) => WaitsFor::Queue,
            Some(Verdict::Replace { .. }) => WaitsFor::Replaced,
            Some(Verdict::Run) | None => return Ok(()),
        };
        run.waits = Some(Waits { what, most });
        Ok(())
    }

    /// The run of an occasion.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the store's.
    pub async fn find_run(&self, job: &Job, which: &Which) -> Result<RunId, Error> {
        let occasion = occasion(which)?;
        let name = format!("{}:{}", job.name, occasion.key());
        let found = self.context.store.find_run(job.uid, occasion).await?;
        found.ok_or(Error::NotFound { what: "run", name })
    }

    /// Stops a run. What waits is cancelled now; what runs is told to stop.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Refused`] if the run is closed; the store's.
    pub async fn cancel(&self, actor: &str, run: RunId) -> Result<Option<RunState>, Error> {
        let op = self.context.op(actor);
        let verdict = self
            .context
            .store
            .request_stop(op, None, run, StopCause::Cancel)
            .await?;
        answer(run, verdict, |state| {
            format!("is {state} already; there is nothing to cancel")
        })
    }

    /// Retries the failed shards of a closed run, or only some of them.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Refused`] if the run is open or nothing of it failed; the
    /// store's.
    pub async fn retry(
        &self,
        actor: &str,
        run: RunId,
        only: Option<Vec<ShardKey>>,
    ) -> Result<(), Error> {
        let now = self.context.store.now().await?;
        let op = self.context.op(actor);
        let verdict = self.context.store.reopen_run(op, run, only, now).await?;
        answer(run, verdict, why_not_retried).map(|_| ())
    }

    /// The job of a uid, deleted or not.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the store's.
    pub async fn job_by_uid(&self, uid: JobUid) -> Result<Job, Error> {
        let found = self.context.store.get_job_by_uid(uid).await?;
        found.ok_or_else(|| Error::NotFound {
            what: "job",
            name: uid.to_string(),
        })
    }
}

/// Why a run in this state is not retried, and what to do instead.
fn why_not_retried(state: RunState) -> String {
    let why = match state {
        RunState::Scheduled | RunState::Running => {
            "has not ended; wait for it, or cancel it and start another"
        }
        RunState::Succeeded => "has succeeded; for the same work again start a run with a key",
        RunState::Cancelled => "was cancelled, and that is final; start a new run with a key",
        RunState::Failed | RunState::Partial => "has no failed shard (of those asked for)",
    };
    why.to_owned()
}

fn answer(
    run: RunId,
    verdict: RequestVerdict,
    why_not: impl FnOnce(RunState) -> String,
) -> Result<Option<RunState>, Error> {
    match verdict {
        RequestVerdict::Done(outcome) => Ok(outcome),
        RequestVerdict::Already => Ok(None),
        RequestVerdict::NotNow(state) => Err(Error::Refused(format!(
            "SC5012: run {run} {}",
            why_not(state)
        ))),
        RequestVerdict::Missing | RequestVerdict::OldTerm => Err(Error::NotFound {
            what: "run",
            name: run.to_string(),
        }),
    }
}

/// What a planned instant that somebody asks for stands for.
fn planned(
    job: &Job,
    document: &Document,
    at: Timestamp,
    now: Timestamp,
) -> Result<Option<(Period, Nominal)>, Error> {
    if at > now {
        return Err(Error::Refused(format!(
            "SC5010: {at} has not come yet; its run will be written at that instant"
        )));
    }
    let timing = document.timing(job.uid).map_err(Error::Invalid)?;
    if at > job.high_water && timing.has_schedules() {
        // The trigger would find this very run in its own way and record the instant as skipped.
        let until = if job.paused {
            "the job is resumed"
        } else {
            "the trigger has, in a moment"
        };
        return Err(Error::Refused(format!(
            "SC5015: {at} is not decided yet; wait until {until}, or give a key instead"
        )));
    }
    let run = timing.run_at(at);
    if run.is_none() && timing.has_schedules() {
        let next = timing.next(at);
        let next = next.map_or(String::new(), |next| {
            format!(" (the next one after it is {next})")
        });
        return Err(Error::Refused(format!(
            "SC5014: {at} is no planned instant of job {}{next}; \
             for a run outside its schedule give a key instead",
            job.name
        )));
    }
    Ok(run.map(|run| (run.period(), timing.nominal(&run))))
}

fn occasion(which: &Which) -> Result<Occasion, Error> {
    match which {
        Which::Planned(at) => Ok(Occasion::Planned { at: *at, rerun: 0 }),
        Which::Manual(key) if (1..=MAX_KEY).contains(&key.len()) => {
            Ok(Occasion::Manual { key: key.clone() })
        }
        Which::Manual(key) => {
            let path = "key".to_owned();
            let message = format!(
                "SC5013: has {} bytes; 1 to {MAX_KEY} are allowed",
                key.len()
            );
            Err(Error::Invalid(vec![Problem { path, message }]))
        }
    }
}
