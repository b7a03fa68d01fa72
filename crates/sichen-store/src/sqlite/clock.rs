//! A clock's step that is accepted.

use jiff::SignedDuration;

use super::row::at;
use super::sql;
use super::tx::{Result, Tx};

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
    Ok(Some(step))
}
