//! The store's time: the database's clock, or one given for tests, and a step of it that is accepted.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::event::Entity;
use sichen_core::port::{Error, Fence, Holder, Shorter};
use sichen_core::timekeeping::{CLOCK_KEY, Kept, MAX_STEP, Reading, Standing, Timekeeper, Told};

use super::param::Param;
use super::row::{at, int};
use super::sql;
use super::tx::{Result, Tx};
use crate::clock::{Clock, SystemClock, report};
use crate::happened::clock_accepted;

/// How far the stored mark may lie behind.
const MARK_LAG_MICROS: i64 = 1_000_000;
/// How far a clock is set back and not merely kept in step with others.
const SET_BACK_MICROS: i64 = 20_000;

#[derive(Debug)]
pub(super) struct Time {
    given: Option<Arc<dyn Clock>>,
    keeper: Mutex<Keeper>,
}

#[derive(Debug, Default)]
struct Keeper {
    time: Timekeeper,
    /// What the database had kept when it was last read.
    kept: Kept,
    standing: Standing,
}

impl Time {
    pub fn new(given: Option<Arc<dyn Clock>>) -> Self {
        let keeper = Mutex::default();
        Self { given, keeper }
    }

    /// What statements that read the clock themselves must know of it (`sichen_now` in
    /// `sql/postgres/migrations/0006_hot.sql`): the time to use instead of the database's, the time by
    /// the monotonic clock alone, and the furthest step that is believed.
    pub fn known(&self) -> Param {
        let step = i64::try_from(MAX_STEP.as_micros()).unwrap_or(i64::MAX);
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let (given, steady) = match &self.given {
            Some(clock) => {
                let (kept, reading) = (keeper.kept, clock.reading());
                let now = keeper.time.read(reading, &kept).now;
                // A step ahead is for the statement to judge; a step back is not to be seen.
                (Some(reading.wall.max(now)), Some(now))
            }
            None => (None, keeper.time.steady(SystemClock.elapsed())),
        };
        Param::OptInts(vec![given.map(at), steady.map(at), Some(step)])
    }

    /// The present by the given clock, if there is one.
    pub fn given(&self) -> Option<Timestamp> {
        self.given.as_ref().map(|clock| clock.now())
    }

    /// The present, from what the database says of it and has kept.
    pub fn read(&self, database: Timestamp, kept: &Kept) -> Told {
        let reading = match &self.given {
            Some(clock) => clock.reading(),
            None => Reading {
                wall: database,
                elapsed: SystemClock.elapsed(),
            },
        };
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let told = keeper.time.read(reading, kept);
        report(&told, &mut keeper.standing);
        keeper.kept = *kept;
        told
    }

    /// Whether the stored mark is to be raised to what was told. Where the clock was set back it does not lag at
    /// all: statements that read the clock themselves have the mark alone to go by, and would else find nothing
    /// that was written for now to be due before the clock has caught up.
    pub fn is_behind(stored: Timestamp, told: &Told) -> bool {
        let now = told.now.as_microsecond();
        let lag = now.saturating_sub(stored.as_microsecond());
        let back = now.saturating_sub(told.wall.as_microsecond());
        lag >= MARK_LAG_MICROS || lag > 0 && back >= SET_BACK_MICROS
    }
}

/// Believes the clock, and gives all that is not over as much more time as it stepped ahead. To be called
/// in turn ([`Turn::Clock`](super::kept::Turn)), or two would both see the step that one of them accepts.
pub(super) async fn accept(tx: &mut Tx) -> Result<Option<SignedDuration>> {
    let told = tx.told();
    if !told.held {
        return Ok(None);
    }
    let step = told.wall.duration_since(told.now);
    let micros = i64::try_from(step.as_micros()).unwrap_or(i64::MAX);
    let now = at(told.now);
    tx.run(sql::SHIFT_RUNS, (micros, now)).await?;
    tx.run(sql::SHIFT_DEAD_BY, (micros, now)).await?;
    tx.run(sql::SHIFT_HOLDS, (micros, now)).await?;
    tx.run(sql::SHIFT_SHARDS, [micros]).await?;
    tx.run(sql::SHIFT_SESSIONS, (micros, now)).await?;
    tx.run(sql::SHIFT_NODES, (micros, now)).await?;
    // Last, for others write this row behind what they lock.
    let params = (at(told.wall), tx.accepts());
    if !tx.run_one(sql::ACCEPT_CLOCK, params).await? {
        return Err(Error::Busy("another step of the clock was accepted".into()));
    }
    let happened = clock_accepted(told.now, told.wall);
    tx.event(&Entity::Duty(CLOCK_KEY.to_owned()), 0, &happened)?;
    Ok(Some(step))
}

/// Earlier ends of leases, while time stands still.
pub(super) async fn shorten(tx: &mut Tx, fence: &Fence, leases: &[Shorter]) -> Result<u32> {
    tx.lock_duties(vec![fence.key.text()], true).await?;
    tx.tell_time().await?;
    let behind = tx.told().standing() == Standing::Behind;
    if !behind || !tx.under(fence).await? {
        return Ok(0);
    }
    let mut changed = 0;
    for lease in leases
        .iter()
        .filter(|lease| lease.is_worn_under(&fence.key))
    {
        let (from, to) = (at(lease.from), at(lease.to));
        let done = match lease.of {
            Holder::Session(id) => {
                tx.run_one(sql::SHORTEN_SESSION, (int(id.0), from, to))
                    .await?
            }
            Holder::Node(id) => tx.run_one(sql::SHORTEN_NODE, (int(id.0), from, to)).await?,
        };
        changed += u32::from(done);
    }
    Ok(changed)
}
