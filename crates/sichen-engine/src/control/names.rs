//! Which job a name was last seen to stand for.
//!
//! # Invariants
//! - Only tried, never trusted: the store refuses what has changed, and then the name is read anew.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sichen_core::ids::{JobUid, Revision};
use sichen_core::name::JobName;

/// Names kept in memory.
const LIMIT: usize = 10_000;

/// A bounded memory of names.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<BTreeMap<JobName, (JobUid, Revision)>>);

impl Names {
    pub(super) fn get(&self, name: &JobName) -> Option<(JobUid, Revision)> {
        self.lock().get(name).copied()
    }

    pub(super) fn keep(&self, name: &JobName, uid: JobUid, revision: Revision) {
        let mut names = self.lock();
        if names.len() >= LIMIT {
            names.clear();
        }
        names.insert(name.clone(), (uid, revision));
    }

    pub(super) fn forget(&self, name: &JobName) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<JobName, (JobUid, Revision)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
