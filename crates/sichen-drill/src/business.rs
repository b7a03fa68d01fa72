//! The business data that a drill's tasks work on: accounts and postings, in a SQLite file of their
//! own, behind the fence kit.
//!
//! # Invariants
//! - Nothing in the tables forbids a double posting, so that one can be seen.
//! - What must stand there at the end is worked out from the planned instants alone.
//!
//! # Not here
//! Who posts ([`crate::task`]).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, params};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use sichen_sdk::fence::sqlite as fence;

use crate::drill::Load;
use crate::evidence::Occasion;
use crate::load::{ACCOUNTS, STEPS, posting};

/// How long a task waits for another's transaction.
const PATIENCE: Duration = Duration::from_secs(20);
/// Findings of one kind that are kept.
const MAX_KEPT: usize = 20;

/// Makes the tables, with an opening balance on each account.
///
/// # Errors
/// What the database says.
pub fn create(path: &Path) -> Result<(), rusqlite::Error> {
    let conn = open(path)?;
    conn.execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL) STRICT;
         CREATE TABLE posting(job TEXT NOT NULL, planned_us INTEGER NOT NULL, shard INTEGER NOT NULL,
             step INTEGER NOT NULL, amount INTEGER NOT NULL, token INTEGER NOT NULL) STRICT;
         CREATE INDEX posting_place ON posting(job, planned_us, shard, step);",
    )?;
    fence::install(&conn)?;
    for id in 0..ACCOUNTS {
        conn.execute(
            "INSERT INTO account VALUES (?1, ?2)",
            params![id, opening(id)],
        )?;
    }
    Ok(())
}

fn opening(account: u32) -> i64 {
    1_000 + i64::from(account)
}

/// Opens it, to work on.
///
/// # Errors
/// What the database says.
pub fn open(path: &Path) -> Result<Connection, rusqlite::Error> {
    let conn = Connection::open(path)?;
    conn.busy_timeout(PATIENCE)?;
    conn.execute_batch("PRAGMA synchronous = NORMAL")?;
    Ok(conn)
}

/// One step's effect, in the transaction that `conn` is in.
///
/// # Errors
/// What the database says.
pub fn post(
    conn: &Connection,
    load: Load,
    occasion: &Occasion,
    step: u32,
    token: u64,
) -> Result<(), rusqlite::Error> {
    let (account, amount) = posting(load, occasion, step);
    conn.execute(
        "UPDATE account SET balance = balance + ?2 WHERE id = ?1",
        params![account, amount],
    )?;
    conn.execute(
        "INSERT INTO posting VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![
            occasion.job,
            occasion.planned_us,
            occasion.shard,
            step,
            amount,
            token.cast_signed()
        ],
    )?;
    Ok(())
}

/// Postings that are there more than once: work that was done twice.
///
/// # Errors
/// What the database says.
pub fn doubled(path: &Path) -> Result<Vec<String>, rusqlite::Error> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    conn.busy_timeout(PATIENCE)?;
    let mut found = conn.prepare(
        "SELECT job, planned_us, shard, step, count(*) FROM posting
         GROUP BY 1, 2, 3, 4 HAVING count(*) > 1 ORDER BY planned_us LIMIT ?1",
    )?;
    let rows = found.query_map([u32::try_from(MAX_KEPT).unwrap_or(u32::MAX)], |row| {
        let (job, planned, shard): (String, i64, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let (step, times): (u32, u32) = (row.get(3)?, row.get(4)?);
        Ok(format!(
            "{job} {} shard {shard} step {step}: {times} times",
            shown(planned)
        ))
    })?;
    rows.collect()
}

/// An instant as people read it.
#[must_use]
pub fn shown(us: i64) -> String {
    jiff::Timestamp::from_microsecond(us).map_or_else(|_| us.to_string(), |at| at.to_string())
}

/// The content, and what it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Content {
    /// Of accounts and postings, SHA-256.
    pub checksum: String,
    /// Postings.
    pub postings: u64,
    /// The sum of all balances.
    pub balance: i64,
}

type Postings = BTreeMap<(String, i64, u32, u32), (u32, i64)>;

/// What is there, and what should be, if every one of `must` was done once, and of `may` those that
/// are there at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// What is there.
    pub found: Content,
    /// What should be.
    pub expected: Content,
    /// Postings that should be there and are not, the first.
    pub missing: Vec<String>,
    /// Postings that are there too often or should not be there, the first.
    pub surplus: Vec<String>,
}

/// The content as it is.
///
/// # Errors
/// What the database says.
pub fn content(path: &Path) -> Result<Content, rusqlite::Error> {
    let (balances, postings) = rows(path)?;
    Ok(summed(&balances, &postings))
}

fn rows(path: &Path) -> Result<(Vec<i64>, Postings), rusqlite::Error> {
    let conn = open(path)?;
    let mut accounts = conn.prepare("SELECT balance FROM account ORDER BY id")?;
    let balances = accounts.query_map([], |row| row.get(0))?;
    let balances = balances.collect::<Result<_, _>>()?;
    let mut found = conn.prepare(
        "SELECT job, planned_us, shard, step, count(*), max(amount) FROM posting GROUP BY 1, 2, 3, 4",
    )?;
    let rows = found.query_map([], |row| {
        let place = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        Ok((place, (row.get(4)?, row.get(5)?)))
    })?;
    Ok((balances, rows.collect::<Result<_, _>>()?))
}

fn summed(balances: &[i64], postings: &Postings) -> Content {
    let mut hash = Sha256::new();
    for balance in balances {
        hash.update(balance.to_le_bytes());
    }
    let mut count = 0;
    for ((job, planned, shard, step), (times, amount)) in postings {
        count += u64::from(*times);
        hash.update(format!("{job} {planned} {shard} {step} {times} {amount}\n"));
    }
    let digest = hash.finalize();
    Content {
        checksum: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        postings: count,
        balance: balances.iter().sum(),
    }
}

/// Compares what is there with what should be.
///
/// # Errors
/// What the database says.
pub fn compare(
    path: &Path,
    load: Load,
    must: &[Occasion],
    may: &[Occasion],
) -> Result<Compared, rusqlite::Error> {
    let (balances, postings) = rows(path)?;
    let began = |o: &Occasion| {
        (1..=STEPS).any(|step| postings.contains_key(&(o.job.clone(), o.planned_us, o.shard, step)))
    };
    let wanted = must.iter().chain(may.iter().filter(|o| began(o)));
    let mut expected: Postings = BTreeMap::new();
    let mut should: Vec<i64> = (0..ACCOUNTS).map(opening).collect();
    for occasion in wanted {
        for step in 1..=STEPS {
            let (account, amount) = posting(load, occasion, step);
            let place = (
                occasion.job.clone(),
                occasion.planned_us,
                occasion.shard,
                step,
            );
            if expected.insert(place, (1, amount)).is_none()
                && let Some(balance) = usize::try_from(account)
                    .ok()
                    .and_then(|a| should.get_mut(a))
            {
                *balance += amount;
            }
        }
    }
    let name = |(job, planned, shard, step): &(String, i64, u32, u32)| {
        format!("{job} {} shard {shard} step {step}", shown(*planned))
    };
    let missing = expected
        .keys()
        .filter(|place| !postings.contains_key(*place));
    let surplus = postings
        .iter()
        .filter(|(place, what)| expected.get(*place) != Some(*what));
    Ok(Compared {
        found: summed(&balances, &postings),
        expected: summed(&should, &expected),
        missing: missing.map(name).take(MAX_KEPT).collect(),
        surplus: surplus
            .map(|(place, _)| name(place))
            .take(MAX_KEPT)
            .collect(),
    })
}

#[cfg(test)]
mod tests;
