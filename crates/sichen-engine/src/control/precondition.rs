//! What a job must be for a change of it to be carried out: so nobody writes over an edit that he has
//! not seen.
//!
//! # Invariants
//! - It is judged on the row whose version guards the write, so nothing comes in between.
//!
//! # Not here
//! How a client says it (`ETag`, `If-Match`: `sichen-server`).

use sichen_core::ids::{JobUid, Revision};
use sichen_core::model::Job;
use sichen_core::name::JobName;

use super::Error;

/// What a job must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Anything, or nothing at all.
    #[default]
    None,
    /// No job has the name.
    Missing,
    /// A job has the name.
    Present,
    /// This very job, with this revision in force.
    Revision(JobUid, Revision),
}

impl Precondition {
    /// Judges the job that has the name now.
    ///
    /// # Errors
    /// [`Error::Changed`] says what is there instead.
    pub(super) fn judge(self, name: &JobName, job: Option<&Job>) -> Result<(), Error> {
        let holds = match (self, job) {
            (Self::None, _) | (Self::Missing, None) | (Self::Present, Some(_)) => true,
            (Self::Revision(uid, revision), Some(job)) => {
                job.uid == uid && job.revision == revision
            }
            (Self::Missing, Some(_)) | (Self::Present | Self::Revision(..), None) => false,
        };
        if holds {
            return Ok(());
        }
        let there = match (self, job) {
            (_, None) => "is not there (any more)".to_owned(),
            (Self::Revision(uid, _), Some(job)) if job.uid != uid => {
                "is another one of that name, made after yours was deleted".to_owned()
            }
            (Self::Revision(_, yours), Some(job)) => {
                format!("has revision {} by now, you go by {yours}", job.revision)
            }
            (_, Some(job)) => format!("is there already, in revision {}", job.revision),
        };
        Err(Error::Changed(format!("job {name} {there}")))
    }
}

#[cfg(test)]
mod tests;
