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

use super::database::{Database, Error as DatabaseError, Value};
use super::fence::{self, Fence};

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
    Fence(#[from] fence::Error),
    #[error(transparent)]
    Database(#[from] DatabaseError),
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
    database: &Database,
    after: i64,
    upper: i64,
    run: &str,
    limit: u32,
) -> Result<Option<Batch>, Error> {
    let rows = database.rows(
        "SELECT id, account, amount_minor FROM ledger
          WHERE id > $1 AND id <= $2 AND (settled_run IS NULL OR settled_run = $3)
          ORDER BY id LIMIT $4",
        &[
            after.into(),
            upper.into(),
            run.into(),
            i64::from(limit).into(),
        ],
        |row| Ok((row.int(0)?, row.text(1)?, row.int(2)?)),
    )?;
    let mut batch = Batch {
        run: run.to_owned(),
        ids: Vec::new(),
        totals: BTreeMap::new(),
    };
    for (id, account, amount) in rows {
        batch.ids.push(id);
        let (sum, entries) = batch.totals.get(&account).copied().unwrap_or((0, 0));
        let Some(sum) = sum.checked_add(amount) else {
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
    database: &Database,
    fence: &Fence,
    batch: &Batch,
    zoo: Option<Zoo>,
) -> Result<(), Error> {
    database.in_transaction(|| {
        match zoo {
            None => fence.save(database, batch.last_id())?,
            Some(Zoo::NoFence) => save_unchecked(database, fence, batch.last_id())?,
            // Begins below what is committed, so it can't save those positions again.
            Some(Zoo::StartFromDisplayCheckpoint)
                if fence.opened().checkpoint >= Some(batch.last_id()) =>
            {
                fence.check(database)?;
            }
            Some(Zoo::StartFromDisplayCheckpoint) => fence.save(database, batch.last_id())?,
        }
        add(database, batch)?;
        mark(database, batch)
    })
}

/// Adds a batch to its run's totals.
fn add(database: &Database, batch: &Batch) -> Result<(), Error> {
    let totals: Vec<_> = batch
        .totals
        .iter()
        .map(|(account, (sum, entries))| (account, sum, entries))
        .collect();
    let totals = serde_json::json!(totals).to_string();
    let add = format!(
        "INSERT INTO settlement_totals (run, account, amount_minor, entries)
           SELECT CAST($1 AS TEXT), value ->> 0, CAST(value ->> 1 AS BIGINT),
                  CAST(value ->> 2 AS BIGINT)
             FROM {} WHERE TRUE
           ON CONFLICT (run, account) DO UPDATE SET
             amount_minor = settlement_totals.amount_minor + excluded.amount_minor,
             entries = settlement_totals.entries + excluded.entries",
        database.each(2)
    );
    database.execute(&add, &[batch.run.as_str().into(), Value::Text(&totals)])?;
    Ok(())
}

/// Marks each entry that was read, and not the range: an entry that committed into it meanwhile was
/// not read.
fn mark(database: &Database, batch: &Batch) -> Result<(), Error> {
    let ids: Vec<[i64; 1]> = batch.ids.iter().map(|id| [*id]).collect();
    let ids = serde_json::json!(ids).to_string();
    let values = [batch.run.as_str().into(), Value::Text(&ids)];
    let read = format!(
        "id IN (SELECT CAST(value ->> 0 AS BIGINT) FROM {})",
        database.each(2)
    );
    let mark = format!(
        "UPDATE ledger SET settled_run = $1
          WHERE {read} AND (settled_run IS NULL OR settled_run = $1)"
    );
    if database.execute(&mark, &values)? == batch.ids.len() as u64 {
        return Ok(());
    }
    let other = format!("SELECT min(id) FROM ledger WHERE settled_run <> $1 AND {read}");
    let id = database.row(&other, &values, |row| row.maybe_int(0))?;
    Err(Error::SettledElsewhere {
        id: id.flatten().unwrap_or_else(|| batch.last_id()),
    })
}

/// The mistake [`Zoo::NoFence`]: stores the position whoever asks.
fn save_unchecked(database: &Database, fence: &Fence, checkpoint: i64) -> Result<(), Error> {
    database.execute(
        "UPDATE sichen_fence SET checkpoint = $1
          WHERE fence_key = $2 AND (checkpoint IS NULL OR checkpoint < $1)",
        &[checkpoint.into(), fence.key().into()],
    )?;
    Ok(())
}

/// Entries of `from..=upper` that `run` has settled, and those behind `after` that nobody has.
///
/// What lies unsettled at or before `after` came late: it is the next run's.
pub fn count(
    database: &Database,
    from: i64,
    after: i64,
    upper: i64,
    run: &str,
) -> Result<(u64, u64), DatabaseError> {
    let counted = database.row(
        "SELECT count(*) FILTER (WHERE settled_run = $4),
                count(*) FILTER (WHERE settled_run IS NULL AND id > $2)
           FROM ledger WHERE id BETWEEN $1 AND $3",
        &[from.into(), after.into(), upper.into(), run.into()],
        |row| Ok((row.count(0)?, row.count(1)?)),
    )?;
    Ok(counted.unwrap_or_default())
}
