//! Parsed documents of the revisions that runs use.
//!
//! # Invariant
//! A revision never changes, so what is kept is never wrong; at most [`LIMIT`] are kept.
//!
//! # Not here
//! Checking a document (done when it was applied).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use sichen_core::document::{Calendars, Document};
use sichen_core::ids::{JobUid, Revision};
use sichen_core::model::Job;
use sichen_core::port::{Error, Store};

use crate::calendars::KeptCalendars;

/// Documents kept in memory.
const LIMIT: usize = 10_000;

/// A bounded memory of documents.
#[derive(Default)]
pub struct Documents(
    Mutex<BTreeMap<(JobUid, Revision), Arc<Document>>>,
    KeptCalendars,
);

impl fmt::Debug for Documents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Documents").finish_non_exhaustive()
    }
}

impl Documents {
    /// The document of a revision.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the store has no such revision or it can't be read; else as the store.
    pub async fn get(
        &self,
        store: &dyn Store,
        job: JobUid,
        revision: Revision,
    ) -> Result<Arc<Document>, Error> {
        let key = (job, revision);
        if let Some(found) = self.lock().get(&key) {
            return Ok(found.clone());
        }
        let text = store.get_revision(job, revision).await?;
        let text =
            text.ok_or_else(|| Error::Corrupt(format!("job {job} has no revision {revision}")))?;
        self.keep(key, &text)
    }

    /// The document of a job's present revision, which its row has: nothing is asked for it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it can't be read.
    pub fn of(&self, job: &Job) -> Result<Arc<Document>, Error> {
        let key = (job.uid, job.revision);
        let found = self.lock().get(&key).cloned();
        match found {
            Some(found) => Ok(found),
            None => self.keep(key, &job.document),
        }
    }

    /// The document of a revision, if it is kept.
    #[must_use]
    pub fn kept(&self, job: JobUid, revision: Revision) -> Option<Arc<Document>> {
        self.lock().get(&(job, revision)).cloned()
    }

    fn keep(&self, key: (JobUid, Revision), text: &str) -> Result<Arc<Document>, Error> {
        let (job, revision) = key;
        let document: Document = serde_json::from_str(text)
            .map_err(|e| Error::Corrupt(format!("job {job}, revision {revision}: {e}")))?;
        let document = Arc::new(document);
        let mut kept = self.lock();
        if kept.len() >= LIMIT {
            kept.clear();
        }
        kept.insert(key, document.clone());
        Ok(document)
    }

    /// The document of a revision, or `None` (said once, in the log) if it makes no sense: one bad
    /// document must not stop its neighbours.
    ///
    /// # Errors
    /// As the store, for anything but a corrupt row.
    pub async fn find(
        &self,
        store: &dyn Store,
        job: JobUid,
        revision: Revision,
    ) -> Result<Option<Arc<Document>>, Error> {
        match self.get(store, job, revision).await {
            Ok(document) => Ok(Some(document)),
            Err(error @ Error::Corrupt(_)) => {
                tracing::error!(%job, %revision, %error, "SC4011: the job is passed over; apply it again");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The calendars that a document's schedules go by, in the versions that it names.
    ///
    /// # Errors
    /// As [`KeptCalendars::of`].
    pub async fn calendars(
        &self,
        store: &dyn Store,
        document: &Document,
    ) -> Result<Calendars, Error> {
        self.1.of(store, document).await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(JobUid, Revision), Arc<Document>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
