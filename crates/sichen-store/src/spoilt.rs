//! Rows that make no sense: what an older program can't read, or what was damaged.
//!
//! A listing that a duty works off passes over them, so that one row does not stop the duty for all
//! others. The row stays as it is, until a program that can read it comes, or somebody mends it.
//!
//! # Not here
//! What makes no sense (`crate::row`); calls about one row, which answer that they can't be done.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use sichen_core::port::Error;

/// Rows that one listing passes over at most; behind more of them nothing is found.
const MAX_PASSED_OVER: u32 = 10_000;
/// Different rows that are remembered as told of; behind more of them each is told of again.
const TOLD: usize = 1_000;

/// What the log was told of already: a duty looks many times a minute.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// What was read of a row; nothing if it makes no sense.
///
/// # Errors
/// Any other.
pub(crate) fn pass_over<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error @ Error::Corrupt(_)) => {
            tell(&error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn tell(error: &Error) {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.len() >= TOLD {
        said.clear();
    }
    if said.insert(error.to_string()) {
        tracing::error!(%error, "the row is passed over, its neighbours go on; it may be of a newer version");
    }
}

/// How many rows are to be asked for instead of `most`, of which `sound` of `found` make sense, so that
/// there are `limit` of these; `None` if there are, or if there are no more rows.
pub(crate) fn wider(limit: u32, most: u32, found: usize, sound: usize) -> Option<u32> {
    let full = found >= most as usize && sound < limit as usize;
    let greatest = limit.saturating_add(MAX_PASSED_OVER);
    let passed = u32::try_from(found - sound).unwrap_or(u32::MAX);
    (full && most < greatest).then(|| limit.saturating_add(passed).min(greatest))
}

#[cfg(test)]
mod tests;
