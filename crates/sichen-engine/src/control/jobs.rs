//! Jobs: applied, paused, resumed, deleted.

use sichen_core::document::{Document, check};
use sichen_core::ids::{JobUid, Revision};
use sichen_core::model::Job;
use sichen_core::name::JobName;
use sichen_core::port::{Advance, ApplyJob, ApplyVerdict, Page};

use super::{ATTEMPTS, Control, Error};
use crate::trigger::{advance, open_runs};

/// What an apply did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The job is new.
    Created,
    /// It has a new revision.
    Updated,
    /// It was like this already.
    Unchanged,
}

/// The answer to an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The job.
    pub uid: JobUid,
    /// Its revision now.
    pub revision: Revision,
    /// What was done.
    pub change: Change,
}

impl Control {
    /// Creates the job that `document` describes, or makes the document its next revision.
    ///
    /// The same document again changes nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] with every problem of the document; [`Error::Contended`]; the store's.
    pub async fn apply(&self, actor: &str, document: &Document) -> Result<Applied, Error> {
        let problems = check(document);
        if !problems.is_empty() {
            return Err(Error::Invalid(problems));
        }
        let name = document
            .job_name()
            .map_err(|e| Error::Refused(format!("SC1001: {e}")))?;
        let text = serde_json::to_string(document)
            .map_err(|e| Error::Refused(format!("SC1015: the document can't be stored: {e}")))?;
        for _ in 0..ATTEMPTS {
            let existing = self.context.store.get_job(name.clone()).await?;
            if let Some(applied) = self
                .try_apply(actor, document, &text, &name, existing)
                .await?
            {
                return Ok(applied);
            }
        }
        Err(Error::Contended(format!("job {name}")))
    }

    /// One attempt; `None` on a conflict.
    async fn try_apply(
        &self,
        actor: &str,
        document: &Document,
        text: &str,
        name: &JobName,
        existing: Option<Job>,
    ) -> Result<Option<Applied>, Error> {
        let store = &*self.context.store;
        let new_uid = JobUid(self.context.ids.uuid());
        let uid = existing.as_ref().map_or(new_uid, |job| job.uid);
        let timing = document.timing(uid).map_err(Error::Invalid)?;
        let now = store.now().await?;
        let closing = match &existing {
            // What was paused up to here is recorded as that, by the revision that was paused.
            Some(job) if job.document != text => Some(self.close(job, job.paused).await?),
            Some(_) | None => None,
        };
        let high_water = closing.as_ref().map_or(now, |c| c.to);
        let paused = existing.as_ref().is_some_and(|job| job.paused);
        let apply = ApplyJob {
            name: name.clone(),
            new_uid,
            expected_ver: existing.map(|job| job.ver),
            document: text.to_owned(),
            high_water,
            next_due: if paused {
                None
            } else {
                timing.next(high_water)
            },
            closing,
        };
        let verdict = store.apply_job(self.context.op(actor), apply).await?;
        let applied = |uid, revision, change| {
            Some(Applied {
                uid,
                revision,
                change,
            })
        };
        Ok(match verdict {
            ApplyVerdict::Created(uid) => applied(uid, Revision(1), Change::Created),
            ApplyVerdict::Updated(uid, revision) => applied(uid, revision, Change::Updated),
            ApplyVerdict::Unchanged(uid, revision) => applied(uid, revision, Change::Unchanged),
            ApplyVerdict::Conflict => None,
        })
    }

    /// What the job's present revision still decides, up to now. `paused`: everything in it is
    /// skipped.
    async fn close(&self, job: &Job, paused: bool) -> Result<Advance, Error> {
        let store = &*self.context.store;
        let document = self.documents.get(store, job.uid, job.revision).await?;
        let timing = document.timing(job.uid).map_err(Error::Invalid)?;
        let now = store.now().await?;
        let plan = timing.due(job.high_water, now, paused);
        let open = open_runs(store, job).await?;
        Ok(advance(job, &document, &timing, plan, &open, now))
    }

    /// Pauses or resumes a job's schedules. What fell into a pause is recorded as skipped.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Contended`]; the store's.
    pub async fn set_paused(
        &self,
        actor: &str,
        name: &JobName,
        paused: bool,
    ) -> Result<Applied, Error> {
        for _ in 0..ATTEMPTS {
            let job = self.job(name).await?;
            if job.paused == paused {
                let change = Change::Unchanged;
                return Ok(Applied {
                    uid: job.uid,
                    revision: job.revision,
                    change,
                });
            }
            // Before a pause the schedule decides as usual; before a resume, what was paused.
            let mut closing = self.close(&job, !paused).await?;
            if paused {
                closing.next_due = None;
            }
            let op = self.context.op(actor);
            let verdict = self
                .context
                .store
                .set_job_paused(op, paused, closing, job.ver)
                .await?;
            if let ApplyVerdict::Updated(uid, revision) = verdict {
                return Ok(Applied {
                    uid,
                    revision,
                    change: Change::Updated,
                });
            }
        }
        Err(Error::Contended(format!("job {name}")))
    }

    /// Deletes a job: its name is free again, its open runs go on, its history stays.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Contended`]; the store's.
    pub async fn delete(&self, actor: &str, name: &JobName) -> Result<JobUid, Error> {
        for _ in 0..ATTEMPTS {
            let job = self.job(name).await?;
            if self
                .context
                .store
                .delete_job(self.context.op(actor), job.uid, job.ver)
                .await?
            {
                return Ok(job.uid);
            }
        }
        Err(Error::Contended(format!("job {name}")))
    }

    /// A job by its exact name.
    ///
    /// # Errors
    /// [`Error::NotFound`] names near ones; the store's.
    pub async fn job(&self, name: &JobName) -> Result<Job, Error> {
        let found = self.context.store.get_job(name.clone()).await?;
        found.ok_or_else(|| Error::NotFound {
            what: "job",
            name: name.to_string(),
        })
    }

    /// The document of one of the job's revisions.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the store's.
    pub async fn revision(&self, job: &Job, revision: Revision) -> Result<String, Error> {
        let found = self.context.store.get_revision(job.uid, revision).await?;
        found.ok_or_else(|| Error::NotFound {
            what: "revision",
            name: format!(
                "{} of job {} (the newest is {})",
                revision, job.name, job.revision
            ),
        })
    }

    /// Jobs by name.
    ///
    /// # Errors
    /// The store's.
    pub async fn jobs(&self, page: Page<JobName>) -> Result<Vec<Job>, Error> {
        Ok(self.context.store.list_jobs(page).await?)
    }
}
