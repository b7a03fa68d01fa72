//! Jobs: applied, paused, resumed, deleted.

use jiff::Timestamp;
use sichen_core::document::{Close, Document, check};
use sichen_core::ids::{JobUid, Revision};
use sichen_core::layout::MAX_SHARDS;
use sichen_core::model::{Counting, Job};
use sichen_core::name::JobName;
use sichen_core::port::{self, Advance, ApplyJob, ApplyVerdict, MAX_BATCH, Page};

use super::calendars::Pinned;
use super::{ATTEMPTS, Control, Error, Precondition};
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

/// A pause or a resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Its schedules stop.
    Pause,
    /// They go on.
    Resume {
        /// Whether the catch-up policy decides what fell into the pause; as the job says if `None`.
        catch_up: Option<bool>,
    },
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
        self.apply_if(actor, document, Precondition::None).await
    }

    /// [`Control::apply`], if the job is what `condition` says.
    ///
    /// # Errors
    /// [`Error::Changed`]; those of [`Control::apply`].
    pub async fn apply_if(
        &self,
        actor: &str,
        document: &Document,
        condition: Precondition,
    ) -> Result<Applied, Error> {
        let problems = check(document);
        if !problems.is_empty() {
            return Err(Error::Invalid(problems));
        }
        let name = document
            .job_name()
            .map_err(|e| Error::Refused(format!("SC1001: {e}")))?;
        for _ in 0..ATTEMPTS {
            let pinned = self.pin(document).await?;
            self.keep_pace(actor, document).await?;
            self.check_uses(document).await?;
            let existing = self.context.store.get_job(name.clone()).await?;
            condition.judge(&name, existing.as_ref())?;
            let paced = existing.as_ref().is_some_and(had_rate) && document.pace().is_none();
            let applied = self.try_apply(actor, &pinned, &name, existing, String::new());
            if let Some(applied) = applied.await? {
                if paced {
                    self.end_pace(actor, &name).await;
                }
                return Ok(applied);
            }
        }
        Err(Error::Contended(format!("job {name}")))
    }

    /// One attempt; `None` on a conflict.
    pub(super) async fn try_apply(
        &self,
        actor: &str,
        pinned: &Pinned,
        name: &JobName,
        existing: Option<Job>,
        cause: String,
    ) -> Result<Option<Applied>, Error> {
        let document = &pinned.document;
        let text = serde_json::to_string(document)
            .map_err(|e| Error::Refused(format!("SC1015: the document can't be stored: {e}")))?;
        let store = &*self.context.store;
        let new_uid = JobUid(self.context.ids.uuid());
        let uid = existing.as_ref().map_or(new_uid, |job| job.uid);
        let timing = document.timing(uid, &pinned.calendars);
        let timing = timing.map_err(Error::Invalid)?;
        let now = store.now().await?;
        let closing = match &existing {
            // What was paused up to here is recorded as that, by the revision that was paused.
            Some(job) if job.document != text => {
                let how = if job.paused {
                    Close::Paused
                } else {
                    Close::Live
                };
                Some(self.close(job, how).await?)
            }
            Some(_) | None => None,
        };
        let high_water = closing.as_ref().map_or(now, |c| c.to);
        // The steps that its zones have had are the job's, whatever its document says by now.
        let zones = closing.as_ref().and_then(|closing| closing.zones.clone());
        let timing = timing.knowing(zones.or_else(|| existing.as_ref()?.zones.clone()));
        let paused = existing.as_ref().is_some_and(|job| job.paused);
        let apply = ApplyJob {
            name: name.clone(),
            new_uid,
            expected_ver: existing.map(|job| job.ver),
            document: text,
            high_water,
            next_due: if paused {
                None
            } else {
                timing.next(high_water)
            },
            follow: timing.follow(),
            counted: timing.counts_runs(),
            zones: timing.zones_at(high_water),
            closing,
            calendars: pinned.uses.clone(),
            uses: document.uses(),
            cause,
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

    /// What the job's present revision still decides, up to now.
    async fn close(&self, job: &Job, how: Close) -> Result<Advance, Error> {
        let store = &*self.context.store;
        let now = store.now().await?;
        if matches!(how, Close::Live | Close::Pausing) {
            self.is_not_lost(job).await?;
        }
        self.close_at(job, how, now).await
    }

    /// The same up to `now`.
    pub(super) async fn close_at(
        &self,
        job: &Job,
        how: Close,
        now: Timestamp,
    ) -> Result<Advance, Error> {
        let store = &*self.context.store;
        let document = self.documents.get(store, job.uid, job.revision).await?;
        let calendars = self.documents.calendars(store, &document).await?;
        let (timing, _) = document.sound_timing(job.uid, &calendars);
        let timing = timing.of(job);
        let plan = timing.close(job.high_water, now, how);
        let open = open_runs(store, job).await?;
        let document = match plan.runs.is_empty() {
            true => std::borrow::Cow::Borrowed(&*document),
            false => crate::broadcast::owed(store, &document).await?,
        };
        let closing = advance(job, &document, &timing, plan, &open, now);
        let shards: usize = closing.runs.iter().map(|run| run.shards.len()).sum();
        if shards > MAX_SHARDS as usize {
            return Err(Error::Refused(format!(
                "SC5017: revision {} of job {} still has {} runs to start for missed times; they \
                 are being started, try again in a moment",
                job.revision,
                job.name,
                closing.runs.len()
            )));
        }
        Ok(closing)
    }

    /// What a pause or a resume leaves of the stretch before it, and whether that changes the job.
    async fn turn(&self, job: &Job, turn: Turn) -> Result<Option<Advance>, Error> {
        if job.paused == (turn == Turn::Pause) {
            return Ok(None);
        }
        let how = match turn {
            // Before a pause the schedule decides as usual; before a resume, what was paused.
            Turn::Pause => Close::Pausing,
            Turn::Resume {
                catch_up: Some(true),
            } => Close::Live,
            Turn::Resume {
                catch_up: Some(false),
            } => Close::Paused,
            Turn::Resume { catch_up: None } => {
                let store = &*self.context.store;
                let document = self.documents.get(store, job.uid, job.revision).await?;
                let calendars = self.documents.calendars(store, &document).await?;
                let (timing, _) = document.sound_timing(job.uid, &calendars);
                if timing.catch_up_on_resume {
                    Close::Live
                } else {
                    Close::Paused
                }
            }
        };
        let mut closing = self.close(job, how).await?;
        if turn == Turn::Pause {
            closing.next_due = None;
        }
        Ok(Some(closing))
    }

    /// What a pause or a resume would do now; `None` if the job is so already. Nothing is written.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Refused`]; the store's.
    pub async fn preview(&self, name: &JobName, turn: Turn) -> Result<Option<Advance>, Error> {
        let job = self.job(name).await?;
        self.turn(&job, turn).await
    }

    /// Pauses or resumes a job's schedules. What fell into a pause is recorded as skipped, unless
    /// the resume, or the job, says that the catch-up policy decides it.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Refused`]; [`Error::Contended`]; the store's.
    pub async fn set_paused(
        &self,
        actor: &str,
        name: &JobName,
        turn: Turn,
    ) -> Result<Applied, Error> {
        for _ in 0..ATTEMPTS {
            let job = self.job(name).await?;
            let Some(closing) = self.turn(&job, turn).await? else {
                let change = Change::Unchanged;
                return Ok(Applied {
                    uid: job.uid,
                    revision: job.revision,
                    change,
                });
            };
            let op = self.context.op(actor);
            let verdict = self
                .context
                .store
                .set_job_paused(op, turn == Turn::Pause, closing, job.ver)
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

    /// Deletes a job: its name is free again, its open runs go on, its history stays. What its
    /// schedules leave undecided is recorded.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Contended`]; the store's.
    pub async fn delete(&self, actor: &str, name: &JobName) -> Result<JobUid, Error> {
        self.delete_if(actor, name, Precondition::None).await
    }

    /// [`Control::delete`], if the job is what `condition` says.
    ///
    /// # Errors
    /// [`Error::Changed`]; those of [`Control::delete`].
    pub async fn delete_if(
        &self,
        actor: &str,
        name: &JobName,
        condition: Precondition,
    ) -> Result<JobUid, Error> {
        for _ in 0..ATTEMPTS {
            let job = self.job(name).await?;
            condition.judge(name, Some(&job))?;
            let closing = self.last(&job).await?;
            let op = self.context.op(actor);
            let store = &self.context.store;
            if store.delete_job(op, job.uid, closing, job.ver).await? {
                if had_rate(&job) {
                    self.end_pace(actor, name).await;
                }
                return Ok(job.uid);
            }
        }
        Err(Error::Contended(format!("job {name}")))
    }

    /// What a deletion would record now. Nothing is written.
    ///
    /// # Errors
    /// [`Error::NotFound`]; the store's.
    pub async fn preview_deletion(&self, name: &JobName) -> Result<Option<Advance>, Error> {
        let job = self.job(name).await?;
        let closing = self.last(&job).await?;
        Ok(closing.map(|closing| Advance {
            next_due: None,
            ..closing
        }))
    }

    /// What the schedules of a job that is deleted leave undecided.
    async fn last(&self, job: &Job) -> Result<Option<Advance>, Error> {
        let how = if job.paused {
            Close::Paused
        } else {
            Close::Deleted
        };
        match self.close(job, how).await {
            Ok(closing) => Ok(Some(closing)),
            // What can't be read has no instants, and must not keep its job from being deleted.
            Err(Error::Store(port::Error::Corrupt(_))) => Ok(None),
            Err(error) => Err(error),
        }
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
        found.ok_or_else(|| Error::NoRevision {
            job: job.name.clone(),
            revision,
            newest: job.revision,
        })
    }

    /// Jobs by name.
    ///
    /// # Errors
    /// The store's.
    pub async fn jobs(&self, page: Page<JobName>) -> Result<Vec<Job>, Error> {
        Ok(self.context.store.list_jobs(page).await?)
    }

    /// One job, as [`Control::all_with_open_runs`].
    ///
    /// # Errors
    /// The store's.
    pub async fn with_open_runs(&self, job: Job) -> Result<Job, Error> {
        let jobs = self.all_with_open_runs(vec![job.clone()]).await?;
        Ok(jobs.into_iter().next().unwrap_or(job))
    }

    /// Jobs with the numbers of their open runs as people are shown them: where the row does not count them, up
    /// to [`MAX_COUNTED_RUNS`](sichen_core::port::MAX_COUNTED_RUNS).
    ///
    /// # Errors
    /// The store's.
    pub async fn all_with_open_runs(&self, mut jobs: Vec<Job>) -> Result<Vec<Job>, Error> {
        let uncounted = jobs
            .iter_mut()
            .filter(|job| job.counting == Counting::Never);
        let mut uncounted: Vec<&mut Job> = uncounted.collect();
        for some in uncounted.chunks_mut(MAX_BATCH) {
            let uids = some.iter().map(|job| job.uid).collect();
            let open = self.context.store.count_open_runs(uids).await?;
            for (job, open) in some.iter_mut().zip(open) {
                job.active_runs = open;
            }
        }
        Ok(jobs)
    }
}

/// Whether the job may have had a rate: only then is there anything that stood for it.
fn had_rate(job: &Job) -> bool {
    job.document.contains("\"rate\"")
}
