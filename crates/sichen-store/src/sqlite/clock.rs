//! A clock's step that is accepted, and leases while it is behind.

use jiff::SignedDuration;
use sichen_core::event::Entity;
use sichen_core::port::{Fence, Holder, Shorter};
use sichen_core::timekeeping::{CLOCK_KEY, Standing};

use super::row::{at, int};
use super::sql;
use super::tx::{Result, Tx};
use crate::happened::clock_accepted;

/// Believes the clock, and gives all that is not over as much more time as it stepped ahead.
pub(super) fn accept(tx: &mut Tx<'_>) -> Result<Option<SignedDuration>> {
    let told = tx.told;
    if !told.held {
        return Ok(None);
    }
    let step = told.wall.duration_since(told.now);
    let micros = i64::try_from(step.as_micros()).unwrap_or(i64::MAX);
    let now = at(told.now);
    tx.run(sql::SHIFT_RUNS, (micros, now))?;
    tx.run(sql::SHIFT_DEAD_BY, (micros, now))?;
    tx.run(sql::SHIFT_HOLDS, (micros, now))?;
    tx.run(sql::SHIFT_SHARDS, [micros])?;
    tx.run(sql::SHIFT_SESSIONS, (micros, now))?;
    tx.run(sql::SHIFT_NODES, (micros, now))?;
    tx.must(sql::ACCEPT_CLOCK, [at(told.wall)])?;
    tx.counters.accepts += 1;
    let happened = clock_accepted(told.now, told.wall);
    tx.event(&Entity::Duty(CLOCK_KEY.to_owned()), 0, &happened)?;
    Ok(Some(step))
}

/// Earlier ends of leases, while time stands still.
pub(super) fn shorten(tx: &mut Tx<'_>, fence: &Fence, leases: &[Shorter]) -> Result<u32> {
    let behind = tx.told.standing() == Standing::Behind;
    if !behind || !tx.under(fence)? {
        return Ok(0);
    }
    let mut changed = 0;
    for lease in leases
        .iter()
        .filter(|lease| lease.is_worn_under(&fence.key))
    {
        let (from, to) = (at(lease.from), at(lease.to));
        let done = match lease.of {
            Holder::Session(id) => tx.run_one(sql::SHORTEN_SESSION, (int(id.0), from, to))?,
            Holder::Node(id) => tx.run_one(sql::SHORTEN_NODE, (int(id.0), from, to))?,
        };
        changed += u32::from(done);
    }
    Ok(changed)
}
