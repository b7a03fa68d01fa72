//! What the last step of each job has ended with, so that the next one may lengthen its record.
//!
//! # Invariants
//! - It is kept in mind only: who has forgotten it, as a new owner has, begins a new record.
//! - A step that was not written leaves nothing in mind of its job.
//!
//! # Not here
//! When a record is lengthened (`sichen_core::schedule::stretch`).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sichen_core::ids::JobUid;
use sichen_core::port::Advance;
use sichen_core::schedule::stretch::Tail;

/// Jobs whose last record is kept in mind; beyond that all are forgotten and begin new ones.
const MAX_TAILS: usize = 10_000;

/// The last records of jobs.
#[derive(Debug, Default)]
pub(super) struct Tails(Mutex<BTreeMap<JobUid, Tail>>);

impl Tails {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<JobUid, Tail>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a step lengthen the record before it, if that is known.
    pub(super) fn lengthen(&self, step: &mut Advance) {
        if let Some(tail) = self.lock().get(&step.job) {
            tail.lengthen(step);
        }
    }

    /// What a step ends with once it is written.
    pub(super) fn after(&self, step: &Advance) -> Option<Tail> {
        Tail::after(step, self.lock().get(&step.job).cloned())
    }

    /// Notes what a written step has ended with; `None` also if it was not written.
    pub(super) fn note(&self, job: JobUid, tail: Option<Tail>) {
        let mut tails = self.lock();
        if tails.len() >= MAX_TAILS {
            tails.clear();
        }
        match tail {
            Some(tail) => tails.insert(job, tail),
            None => tails.remove(&job),
        };
    }
}
