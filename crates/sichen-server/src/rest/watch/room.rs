//! How many may watch the log of one node: all together, and each token.
//!
//! # Not here
//! What they are sent ([`super`]).

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{MAX_WATCHERS, MAX_WATCHERS_OF_TOKEN};

/// The places of a node.
#[derive(Debug, Default)]
pub(in crate::rest) struct Room {
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// By whom; only tokens that can be taken back are counted.
    by: HashMap<Arc<str>, usize>,
}

/// A place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    room: Arc<Room>,
    by: Option<Arc<str>>,
}

impl Room {
    /// A place, for the token `by` if it is one of many; or the limit that stands in the way.
    pub(super) fn place(self: &Arc<Self>, by: Option<&Arc<str>>) -> Result<Place, String> {
        let mut taken = self.lock();
        if taken.all >= MAX_WATCHERS {
            return Err(format!("{MAX_WATCHERS} watch this node already"));
        }
        if let Some(by) = by {
            let own = taken.by.entry(by.clone()).or_default();
            if *own >= MAX_WATCHERS_OF_TOKEN {
                return Err(format!(
                    "{MAX_WATCHERS_OF_TOKEN} watch this node with this token already"
                ));
            }
            *own += 1;
        }
        taken.all += 1;
        drop(taken);
        Ok(Place {
            room: self.clone(),
            by: by.cloned(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // Counts are never left half changed.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.room.lock();
        taken.all -= 1;
        if let Some(by) = &self.by
            && let Some(own) = taken.by.get_mut(by)
        {
            *own -= 1;
            if *own == 0 {
                taken.by.remove(by);
            }
        }
    }
}
