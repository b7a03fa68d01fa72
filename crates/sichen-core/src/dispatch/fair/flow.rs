//! The names under which shards are counted.
//!
//! # Not here
//! The counting (`super`).

use crate::dispatch::queue::Lane;
use crate::ids::JobUid;
use crate::model::Run;
use crate::name::Name;

/// Under whose names a run's shards are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// Its namespace.
    pub namespace: Name,
    /// Its lane.
    pub lane: Lane,
    /// Its job.
    pub job: JobUid,
}

impl Flow {
    /// Whether these are its names.
    #[must_use]
    pub fn is(&self, namespace: &Name, lane: Lane, job: JobUid) -> bool {
        (self.lane, self.job) == (lane, job) && self.namespace == *namespace
    }

    /// Under whose names the shards of `run` are counted.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        Self {
            namespace: run.job_name.namespace.clone(),
            lane: Lane::of(run.backfill),
            job: run.job,
        }
    }
}
