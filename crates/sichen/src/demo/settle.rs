//! Settling a key range of the ledger, batch by batch, under a fence.
//!
//! Inside a run the checkpoint decides what is done; between runs the mark on the entry decides.
//! A batch reads the unsettled entries above the checkpoint in order of id, adds them up, and one
//! transaction checks the token, adds to the totals, marks exactly the entries that were read and
//! moves the checkpoint. So an entry with a low id that commits after the checkpoint has passed it
//! stays unmarked, is not counted by this run, and the next run begins below it.
//!
//! # Invariants
//! - An entry's mark, its share of a total and the checkpoint above it commit together.
//! - A batch is counted once, whoever settles it: the fence refuses the second one.
//!
//! # Not here
//! The worker session; when to stop. [`Zoo`] breaks these rules on purpose.

use std::collections::BTreeMap;

use rusqlite::{Connection, TransactionBehavior, params};
use sichen_sdk::fence::sqlite::Fence;

/// Entries a batch.
pub const BATCH: u32 = 500;

/// Deliberate mistakes, to show that the verification finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Zoo {
    /// Commit without checking the fencing token.
    NoFence,
    /// Start from the checkpoint that the grant shows, not from the one that `open` returned.
    StartFromDisplayCheckpoint,
}

/// What was read and is ready to be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub run: String,
    pub ids: Vec<i64>,
    /// Per account: sum in minor units, number of entries.
    pub totals: BTreeMap<String, (i64, i64)>,
}

impl Batch {
    /// The new checkpoint: the greatest id read.
    pub fn last_id(&self) -> i64 {
        self.ids.last().copied().unwrap_or(i64::MIN)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The fence refused, or its database failed.
    #[error(transparent)]
    Fence(#[from] sichen_sdk::fence::sqlite::Error),
    #[error(transparent)]
    Database(#[from] rusqlite::Error),
    /// Two runs of the job were at work at once.
    #[error("entry {id} was settled by another run meanwhile")]
    SettledElsewhere { id: i64 },
    #[error("the total of account {account} does not fit 64 bits")]
    Overflow { account: String },
}

/// Where an attempt starts: behind this id.
///
/// `display` is Sichen's copy of the checkpoint and may be older than what is committed; it is used
/// only where a [`Zoo`] asks for the mistake. `from` is the first id of the shard.
pub fn start_after(fence: &Fence, display: Option<i64>, from: i64, zoo: Option<Zoo>) -> i64 {
    let truth = fence.opened().checkpoint;
    let at = if zoo == Some(Zoo::StartFromDisplayCheckpoint) {
        display
    } else {
        truth
    };
    at.unwrap_or(i64::MIN).max(from.saturating_sub(1))
}

/// Reads the next unsettled entries with `after < id <= upper`; `None` when there are none left.
pub fn read_batch(
    conn: &Connection,
    after: i64,
    upper: i64,
    run: &str,
    limit: u32,
) -> Result<Option<Batch>, Error> {
    let mut statement = conn.prepare_cached(
        "SELECT id, account, amount_minor FROM ledger
          WHERE id > ?1 AND id <= ?2 AND (settled_run IS NULL OR settled_run = ?3)
          ORDER BY id LIMIT ?4",
    )?;
    let mut rows = statement.query(params![after, upper, run, limit])?;
    let mut batch = Batch {
        run: run.to_owned(),
        ids: Vec::new(),
        totals: BTreeMap::new(),
    };
    while let Some(row) = rows.next()? {
        let account: String = row.get(1)?;
        batch.ids.push(row.get(0)?);
        let (sum, entries) = batch.totals.get(&account).copied().unwrap_or((0, 0));
        let Some(sum) = sum.checked_add(row.get(2)?) else {
            return Err(Error::Overflow { account });
        };
        batch.totals.insert(account, (sum, entries + 1));
    }
    Ok((!batch.ids.is_empty()).then_some(batch))
}

/// Commits a batch in one transaction: fence, totals, marks, checkpoint.
///
/// # Errors
/// [`Error::Fence`] when a newer holder has taken over: nothing of the batch is written.
pub fn commit_batch(
    conn: &mut Connection,
    fence: &Fence,
    batch: &Batch,
    zoo: Option<Zoo>,
) -> Result<(), Error> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match zoo {
        None => fence.save(&tx, batch.last_id(), None)?,
        Some(Zoo::NoFence) => save_unchecked(&tx, fence, batch.last_id())?,
        // Begins below what is committed, so it can't save those positions again.
        Some(Zoo::StartFromDisplayCheckpoint)
            if fence.opened().checkpoint >= Some(batch.last_id()) =>
        {
            fence.check(&tx)?;
        }
        Some(Zoo::StartFromDisplayCheckpoint) => fence.save(&tx, batch.last_id(), None)?,
    }
    let mut add = tx.prepare_cached(
        "INSERT INTO settlement_totals (run, account, amount_minor, entries)
           VALUES (?1, ?2, ?3, ?4)
           ON CONFLICT (run, account) DO UPDATE SET
             amount_minor = amount_minor + excluded.amount_minor,
             entries = entries + excluded.entries",
    )?;
    for (account, (sum, entries)) in &batch.totals {
        add.execute(params![batch.run, account, sum, entries])?;
    }
    drop(add);
    // One by one and not by range: an entry that committed into the range meanwhile was not read.
    let mut mark = tx.prepare_cached(
        "UPDATE ledger SET settled_run = ?1
          WHERE id = ?2 AND (settled_run IS NULL OR settled_run = ?1)",
    )?;
    for id in &batch.ids {
        if mark.execute(params![batch.run, id])? != 1 {
            return Err(Error::SettledElsewhere { id: *id });
        }
    }
    drop(mark);
    tx.commit()?;
    Ok(())
}

/// The mistake [`Zoo::NoFence`]: stores the position whoever asks.
fn save_unchecked(conn: &Connection, fence: &Fence, checkpoint: i64) -> Result<(), Error> {
    conn.execute(
        "UPDATE sichen_fence SET checkpoint = max(coalesce(checkpoint, ?2), ?2)
          WHERE fence_key = ?1",
        params![fence.key(), checkpoint],
    )?;
    Ok(())
}

/// Entries of `from..=upper` that `run` has settled, and those behind `after` that nobody has.
///
/// What lies unsettled at or before `after` came late: it is the next run's.
pub fn count(
    conn: &Connection,
    from: i64,
    after: i64,
    upper: i64,
    run: &str,
) -> rusqlite::Result<(u64, u64)> {
    conn.query_row(
        "SELECT count(*) FILTER (WHERE settled_run = ?4),
                count(*) FILTER (WHERE settled_run IS NULL AND id > ?2)
           FROM ledger WHERE id BETWEEN ?1 AND ?3",
        params![from, after, upper, run],
        |row| {
            Ok((
                row.get::<_, i64>(0)?.unsigned_abs(),
                row.get::<_, i64>(1)?.unsigned_abs(),
            ))
        },
    )
}
