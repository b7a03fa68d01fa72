//! Activities that were woken by one another, such as by a lock that came free.
//!
//! # Not here
//! Calls of the store, whose answers come at a time of their own (`crate::store`).

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// Those woken since they were last asked for.
#[derive(Debug, Default)]
pub(super) struct Woken(Arc<Mutex<Vec<u64>>>);

struct One(u64, Arc<Mutex<Vec<u64>>>);

impl Wake for One {
    fn wake(self: Arc<Self>) {
        let mut woken = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        woken.push(self.0);
    }
}

impl Woken {
    /// A waker of the activity `id`.
    pub fn waker(&self, id: u64) -> Waker {
        Waker::from(Arc::new(One(id, self.0.clone())))
    }

    /// Takes those that were woken, in their order.
    pub fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
