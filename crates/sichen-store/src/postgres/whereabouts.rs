//! Where the database is, as the connections of this store find it.
//!
//! A standby that is promoted under a living server is noticed by the first connection to it. What this
//! process was promised by the one before tells whether the standby had lagged: it must be there.
//!
//! # Invariants
//! - A connection that ends elsewhere than was noted is not used before that is settled
//!   ([`super::restored::settle`]): nothing is written there under the old epoch.
//! - No connection is made to a standby: it could take over under it, unseen.
//! - Only a commit that was acknowledged is a promise, so what is missing is a loss and no false alarm.
//!
//! # Not here
//! What is done about it ([`super::restored`]). Through a pooler a connection may be led elsewhere at any
//! time: there it is asked each time that the clock is ([`super::engine`]).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::ids::OpId;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::sql;

/// Commits that are remembered. More than there are connections, so that whichever was lost first, one that was
/// promised later is remembered and lost too.
const MAX_PROMISED: usize = 256;
/// What was promised longer ago tells nothing.
const YOUNG: SignedDuration = SignedDuration::from_mins(10);

/// Where a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The installation of PostgreSQL, the database in it, and the table: a dump that is read in makes another
    /// table, if not another database too.
    pub place: String,
    pub timeline: u64,
}

/// Where it was settled to be, where the last connection found it, and what was promised there.
#[derive(Debug, Default)]
pub(super) struct Whereabouts {
    known: Mutex<Known>,
    moved: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    noted: Option<Place>,
    found: Option<Place>,
    promised: VecDeque<(OpId, Timestamp)>,
}

impl Whereabouts {
    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing is left half done under it.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a connection ends elsewhere than was settled.
    pub fn have_moved(&self) -> bool {
        self.moved.load(Ordering::Acquire)
    }

    /// Whether it is watched at all: not while a store opens, nor where that can't be asked.
    pub fn are_noted(&self) -> bool {
        self.known().noted.is_some()
    }

    /// That a connection ends there.
    pub fn found(&self, place: Place) {
        let mut known = self.known();
        known.found = Some(place);
        self.judge(&known);
    }

    /// That everything is settled for this place; what was promised elsewhere has been looked for.
    pub fn settled(&self, place: Place) {
        let mut known = self.known();
        known.promised.clear();
        known.found.get_or_insert_with(|| place.clone());
        known.noted = Some(place);
        self.judge(&known);
    }

    fn judge(&self, known: &Known) {
        let moved = known.noted.is_some() && known.found.is_some() && known.noted != known.found;
        self.moved.store(moved, Ordering::Release);
    }

    /// That the commit of `op`, whose transaction read the clock `at` then, was acknowledged.
    pub fn promised(&self, op: OpId, at: Timestamp) {
        let mut known = self.known();
        if known.promised.len() == MAX_PROMISED {
            known.promised.pop_front();
        }
        known.promised.push_back((op, at));
    }

    /// Operations whose commit was acknowledged last, if that was not so long before `now` that their history may
    /// have been removed.
    pub fn promises(&self, now: Timestamp) -> Vec<OpId> {
        let known = self.known();
        let young = |at: &Timestamp| at.duration_until(now) <= YOUNG;
        let promised = known.promised.iter().filter(|(_, at)| young(at));
        promised.map(|(op, _)| *op).collect()
    }

    /// Asks a connection that was just made where it ends.
    ///
    /// # Errors
    /// Why it is not to be used.
    pub async fn ask(&self, client: &Client) -> Result<(), Unfit> {
        if !self.are_noted() {
            return Ok(());
        }
        let row = match client.query_typed_one(sql::GET_WHEREABOUTS, &[]).await {
            Ok(row) => row,
            Err(e) if e.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => return Ok(()),
            Err(e) => return Err(Unfit::Broken(e)),
        };
        let place = row.try_get::<_, Option<String>>(0);
        let timeline = row.try_get::<_, Option<i64>>(1);
        let (place, timeline) = (
            place.map_err(Unfit::Broken)?,
            timeline.map_err(Unfit::Broken)?,
        );
        let Some(timeline) = timeline else {
            return Err(Unfit::Standby);
        };
        if let (Some(place), Ok(timeline)) = (place, u64::try_from(timeline)) {
            self.found(Place { place, timeline });
        }
        Ok(())
    }
}

/// Why a new connection is not used.
#[derive(Debug)]
pub(super) enum Unfit {
    Broken(tokio_postgres::Error),
    Standby,
}

#[cfg(test)]
mod tests;
