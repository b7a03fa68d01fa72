//! Runs: found, stopped, retried.
//!
//! # Not here
//! Starting them ([`super::start`]).

use sichen_core::document::Problem;
use sichen_core::ids::{JobUid, RunId, ShardKey};
use sichen_core::lifecycle::{RunState, StopCause};
use sichen_core::model::Job;
use sichen_core::port::{Discard, RequestVerdict};

use super::start::{Which, occasion};
use super::{Control, Error};

/// The longest reason for which a dead letter is discarded, in bytes.
const MAX_REASON_BYTES: usize = 1_024;
/// The longest name of who discards a dead letter, in bytes.
const MAX_BY_BYTES: usize = 128;

impl Control {
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
        if let RequestVerdict::Done(Some(state)) = verdict {
            self.context.meter.settled(state);
        }
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

    /// Strikes the failed shards of a closed run, or only some of them, off the dead letters.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Invalid`] if the reason is missing or too long;
    /// [`Error::Refused`] if the run is open or nothing of it is a dead letter; the store's.
    pub async fn discard(
        &self,
        actor: &str,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        why: Discard,
    ) -> Result<(), Error> {
        for (path, text, least, longest) in [
            ("reason", &why.reason, 1, MAX_REASON_BYTES),
            ("by", &why.by, 0, MAX_BY_BYTES),
        ] {
            let (length, nul) = (text.len(), text.contains('\0'));
            if nul || text.trim().len() < least || length > longest {
                let message = match nul {
                    true => "SC5019: has a NUL character; take it out".to_owned(),
                    false => {
                        format!("SC5019: has {length} bytes; {least} to {longest} are allowed")
                    }
                };
                let path = path.to_owned();
                return Err(Error::Invalid(vec![Problem { path, message }]));
            }
        }
        let op = self.context.op(actor);
        let store = &self.context.store;
        let verdict = store.discard_shards(op, run, only, why).await?;
        let answered = answer(run, verdict, |state| match state {
            RunState::Failed | RunState::Partial => {
                "has no dead letter (of those asked for)".to_owned()
            }
            _ => format!("is {state}; only failed and partial runs have dead letters"),
        });
        answered.map(|_| ())
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
        RunState::Succeeded => {
            "has succeeded; `sichen run JOB` of its job does the same work again, in a new run"
        }
        RunState::Cancelled => {
            "was cancelled, and that is final; `sichen run JOB` of its job starts a new run"
        }
        RunState::Failed | RunState::Partial => {
            "has no failed shard (of those asked for; what was discarded must be named)"
        }
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
