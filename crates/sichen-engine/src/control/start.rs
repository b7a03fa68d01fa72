//! Starting runs: many at a time, each with its own answer.
//!
//! # Invariants
//! - What is remembered of a job's name is only tried: the store refuses another revision, and a run
//!   that is there already is answered only after the name was read anew.
//! - A grant made together with its run is handed over after the commit, never before.
//!
//! # Not here
//! Which requests share a transaction ([`crate::intake`]).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value};
use sichen_core::document::{Calendars, Document, Problem, Request, new_run};
use sichen_core::ids::{Occasion, RunId};
use sichen_core::lifecycle::WaitsFor;
use sichen_core::model::{Counting, Job, Period, Waits};
use sichen_core::name::JobName;
use sichen_core::port::{Counted, CreateVerdict, Granted, MAX_BATCH, MAX_BATCH_SHARDS, NewRun};
use sichen_core::schedule::Nominal;
use sichen_core::schedule::overlap::{Origin, Overlap, Verdict, judge};

use super::{ATTEMPTS, Control, Error};
use crate::broadcast;
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
    /// Not to be granted before, if not at once.
    pub not_before: Option<Timestamp>,
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

/// A wanted run on its way to the store.
struct Asked {
    /// Its place among those wanted.
    place: usize,
    job: JobName,
    run: NewRun,
    /// Whether what is known of the job was only remembered.
    remembered: bool,
}

/// Answers by the places of those who asked.
type Answers = BTreeMap<usize, Result<Started, Error>>;

impl Control {
    /// Starts a run, or finds the one that this occasion has already.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Invalid`]; [`Error::Refused`] if the key was used with another
    /// request; [`Error::Contended`]; the store's.
    pub async fn start_run(&self, actor: &str, wanted: StartRun) -> Result<Started, Error> {
        let contended = Error::Contended(format!("job {}", wanted.job));
        let answers = self.start_runs(actor, vec![wanted]).await;
        answers.into_iter().next().unwrap_or(Err(contended))
    }

    /// [`Control::start_run`] for many, in as few transactions as their number allows; one answer
    /// each, in order.
    pub async fn start_runs(
        &self,
        actor: &str,
        wanted: Vec<StartRun>,
    ) -> Vec<Result<Started, Error>> {
        let mut answers = Answers::new();
        let mut open: Vec<usize> = (0..wanted.len()).collect();
        // Where open runs are counted, each of many callers at once makes the others count anew.
        let counted = wanted.iter().any(|wanted| wanted.overlap.is_some());
        let attempts = if counted { 10 * ATTEMPTS } else { ATTEMPTS };
        for _ in 0..attempts {
            if open.is_empty() {
                break;
            }
            // Names read in this round are no memories.
            let mut fresh = BTreeSet::new();
            let now = match self.context.store.now().await {
                Ok(now) => now,
                Err(error) => {
                    let failed = |place| (place, Err(error.clone().into()));
                    answers.extend(open.drain(..).map(failed));
                    break;
                }
            };
            // Made when their transaction comes: all at once they may be many shards.
            let (mut batch, mut shards) = (Vec::new(), 0);
            for place in std::mem::take(&mut open) {
                let Some(wanted) = wanted.get(place) else {
                    continue;
                };
                match self.ask(place, wanted, now, &mut fresh).await {
                    Ok(made) => {
                        shards += made.run.shards.len();
                        batch.push(made);
                    }
                    Err(error) => drop(answers.insert(place, Err(error))),
                }
                if batch.len() == MAX_BATCH || shards >= MAX_BATCH_SHARDS {
                    let batch = std::mem::take(&mut batch);
                    shards = 0;
                    self.write(actor, now, batch, &mut answers, &mut open).await;
                }
            }
            if !batch.is_empty() {
                self.write(actor, now, batch, &mut answers, &mut open).await;
            }
        }
        let contended = |wanted: &StartRun| Err(Error::Contended(format!("job {}", wanted.job)));
        let each = wanted.iter().enumerate();
        each.map(|(place, wanted)| answers.remove(&place).unwrap_or_else(|| contended(wanted)))
            .collect()
    }

    async fn ask(
        &self,
        place: usize,
        wanted: &StartRun,
        now: Timestamp,
        fresh: &mut BTreeSet<JobName>,
    ) -> Result<Asked, Error> {
        let occasion = occasion(&wanted.which)?;
        let store = &*self.context.store;
        let known = match wanted.which {
            // Whether an instant may be asked for depends on more than the revision.
            Which::Planned(_) => None,
            Which::Manual(_) => self.names.get(&wanted.job),
        };
        // The policy that a caller names, or that the job has for all of its runs, counts those that
        // are open: its job's row is read anew.
        let known = match known {
            Some((uid, revision)) => {
                let document = self.documents.get(store, uid, revision).await?;
                let policy = document.spec.overlap.policy();
                let allowed = policy.of(Origin::Manual(wanted.overlap)) == Overlap::Allow;
                allowed.then_some((uid, revision, document))
            }
            None => None,
        };
        let remembered = known.is_some() && !fresh.contains(&wanted.job);
        let mut read = None;
        let (uid, revision, document) = match known {
            Some(known) => known,
            None => {
                let job = self.job(&wanted.job).await?;
                self.names.keep(&wanted.job, job.uid, job.revision);
                fresh.insert(wanted.job.clone());
                let document = self.documents.get(store, job.uid, job.revision).await?;
                let known = (job.uid, job.revision, document);
                read = Some(job);
                known
            }
        };
        let planned = match (&wanted.which, &read) {
            (Which::Planned(at), Some(job)) => {
                let calendars = self.documents.calendars(store, &document).await?;
                planned(job, &document, &calendars, *at, now)?
            }
            _ => None,
        };
        let (period, nominal) = planned.unzip();
        let request = Request {
            job: uid,
            revision,
            occasion,
            period: wanted.period.or(period),
            parameters: wanted.parameters.clone(),
            digest: wanted.digest.clone(),
        };
        let Some(addressed) = broadcast::addressed(store, &document).await? else {
            return Err(Error::Refused(format!(
                "SC5054: a run of job {} goes to each worker of the pool {} that can take it, and there is none \
                 now; start one (`sichen get workers`)",
                wanted.job, document.spec.pool
            )));
        };
        let mut run = new_run(&addressed, request, now).map_err(|p| Error::Invalid(vec![p]))?;
        run.nominal = nominal;
        if let Some(job) = &read {
            self.judge_overlap(job, &document, wanted, &mut run).await?;
        }
        if let Some(at) = wanted.not_before {
            run.ready_at = run.ready_at.max(at);
        }
        Ok(Asked {
            place,
            job: wanted.job.clone(),
            run,
            remembered,
        })
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
        let mut job = job.clone();
        run.counted = Some(if job.counting == Counting::Never {
            let counted = store.count_open_runs(vec![job.uid]).await?;
            job.active_runs = counted.into_iter().next().unwrap_or(0);
            Counted::running(job.active_runs)
        } else {
            Counted::of(&job)
        });
        let verdicts = judge(policy, most, active(&job, &open), &[run.ready_at]);
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

    /// Writes one batch; who is to be asked anew goes back to `open`.
    async fn write(
        &self,
        actor: &str,
        now: Timestamp,
        mut batch: Vec<Asked>,
        answers: &mut Answers,
        open: &mut Vec<usize>,
    ) {
        let store = &*self.context.store;
        let reserved = self.dispatcher.as_ref().map(|dispatcher| {
            let runs = batch.iter_mut();
            dispatcher.reserve(runs.map(|a| (&a.job.namespace, &mut a.run)), now)
        });
        let fences = reserved.iter().flat_map(|r| r.fences.clone()).collect();
        let runs = batch.iter().map(|asked| asked.run.clone()).collect();
        let written = store
            .create_runs(self.context.op(actor), fences, runs)
            .await;
        let verdicts = match written {
            Ok(verdicts) => verdicts,
            Err(error) => {
                for asked in &batch {
                    answers.insert(asked.place, Err(error.clone().into()));
                }
                return;
            }
        };
        let mut written: Vec<(JobName, NewRun, RunId, Option<Granted>)> = Vec::new();
        for (asked, verdict) in batch.into_iter().zip(verdicts) {
            let remembered = asked.remembered;
            let answer = match verdict {
                CreateVerdict::Created(run, granted) => {
                    let born = granted.is_some() && asked.run.timeouts.active.is_some();
                    let limited = born || asked.run.terms.deadline.is_some();
                    written.push((asked.job, asked.run, run, granted));
                    Ok(Started {
                        run,
                        created: true,
                        limited,
                    })
                }
                CreateVerdict::Full(full) => {
                    self.context.meter.full("request");
                    Err(Error::Full {
                        namespace: asked.job.namespace,
                        most: full.most,
                        queued: full.queued,
                    })
                }
                CreateVerdict::Conflict => {
                    self.names.forget(&asked.job);
                    open.push(asked.place);
                    continue;
                }
                // The name may be another job's by now.
                CreateVerdict::Exists(_) | CreateVerdict::OtherRequest(_) if remembered => {
                    self.names.forget(&asked.job);
                    open.push(asked.place);
                    continue;
                }
                CreateVerdict::Exists(run) => Ok(Started {
                    run,
                    created: false,
                    limited: false,
                }),
                CreateVerdict::OtherRequest(run) => Err(Error::Refused(format!(
                    "SC5011: this key or planned time has run {run} already, with other parameters \
                     or another period; use another key, or the same parameters"
                ))),
            };
            answers.insert(asked.place, answer);
        }
        if let (Some(dispatcher), Some(reserved)) = (&self.dispatcher, reserved) {
            dispatcher.written(reserved, written, now).await;
        }
    }
}

/// What a planned instant that somebody asks for stands for.
fn planned(
    job: &Job,
    document: &Document,
    calendars: &Calendars,
    at: Timestamp,
    now: Timestamp,
) -> Result<Option<(Period, Nominal)>, Error> {
    if at > now {
        return Err(Error::Refused(format!(
            "SC5010: {at} has not come yet; its run will be written at that instant"
        )));
    }
    let timing = document.timing(job.uid, calendars);
    let timing = timing.map_err(Error::Invalid)?.in_zones_of(job);
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

pub(super) fn occasion(which: &Which) -> Result<Occasion, Error> {
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
