//! The demo's business database: a ledger of entries, the totals settled from it, and its fence.
//!
//! This is the user's side of the story. Sichen never looks into it; the workers do.
//!
//! # Invariants
//! - `settled_run` is NULL until exactly one run has counted the entry.
//! - A generated ledger depends on its number of entries alone.
//!
//! # Not here
//! Reading a CSV file (`csv_input`), settling (`settle`), judging the result (`verify`).

use anyhow::Context;
use jiff::Timestamp;

use super::database::{Database, Error, Value};
use super::fence;

/// Accounts of a generated ledger.
pub const ACCOUNTS: u64 = 500;
/// Most entries that the demo takes, generated or read.
pub const MAX_ENTRIES: u64 = 20_000_000;
/// Generated entries a transaction.
const LOAD_BATCH: usize = 20_000;
/// Start of the generated ledger's day (2026-08-29 in Asia/Shanghai), in seconds since 1970.
const DAY_START_S: i64 = 1_788_019_200 - 86_400;
const DAY_S: i64 = 86_400;

/// One business entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// From 1; the key that the ledger is settled by.
    pub id: i64,
    pub account: String,
    /// In the currency's smallest unit; of both signs.
    pub amount_minor: i64,
    pub occurred_at: Timestamp,
}

/// What SQLite and PostgreSQL spell differently in a table: an integer key, and the table's end.
fn dialect(database: &Database) -> (&'static str, &'static str) {
    match database {
        Database::Sqlite(_) => ("INTEGER", "WITHOUT ROWID"),
        Database::Postgres(_) => ("BIGINT", ""),
    }
}

/// Makes the tables of the business database, the fence kit's among them.
pub fn create(database: &Database) -> anyhow::Result<()> {
    let (integer, end) = dialect(database);
    let tables = format!(
        "CREATE TABLE ledger (
           id           {integer} PRIMARY KEY,
           account      TEXT NOT NULL,
           amount_minor {integer} NOT NULL,
           occurred_at  TEXT NOT NULL,
           settled_run  TEXT
         );
         CREATE INDEX ledger_unsettled ON ledger (id) WHERE settled_run IS NULL;
         CREATE TABLE settlement_totals (
           run          TEXT NOT NULL,
           account      TEXT NOT NULL,
           amount_minor {integer} NOT NULL,
           entries      {integer} NOT NULL CHECK (entries > 0),
           PRIMARY KEY (run, account)
         ) {end};"
    );
    database
        .batch(&tables)
        .context("the business database could not be made (does it exist already?)")?;
    fence::install(database)?;
    Ok(())
}

/// Adds one entry; `false` if its id is taken.
pub fn insert(database: &Database, entry: &Entry) -> Result<bool, Error> {
    let added = database.execute(
        "INSERT INTO ledger (id, account, amount_minor, occurred_at) VALUES ($1, $2, $3, $4)
           ON CONFLICT (id) DO NOTHING",
        &[
            entry.id.into(),
            entry.account.as_str().into(),
            entry.amount_minor.into(),
            entry.occurred_at.to_string().as_str().into(),
        ],
    )?;
    Ok(added == 1)
}

/// Adds entries with ids that are free.
fn insert_all(database: &Database, entries: &[Entry]) -> Result<u64, Error> {
    let rows: Vec<_> = entries
        .iter()
        .map(|e| (e.id, &e.account, e.amount_minor, e.occurred_at.to_string()))
        .collect();
    let rows = serde_json::json!(rows).to_string();
    let statement = format!(
        "INSERT INTO ledger (id, account, amount_minor, occurred_at)
           SELECT CAST(value ->> 0 AS BIGINT), value ->> 1, CAST(value ->> 2 AS BIGINT), value ->> 3
             FROM {} WHERE TRUE
           ON CONFLICT (id) DO NOTHING",
        database.each(1)
    );
    database.execute(&statement, &[Value::Text(&rows)])
}

/// Number of entries, least and greatest id.
pub fn extent(database: &Database) -> Result<(u64, Option<(i64, i64)>), Error> {
    let extent = database.row(
        "SELECT count(*), min(id), max(id) FROM ledger",
        &[],
        |row| Ok((row.count(0)?, row.maybe_int(1)?.zip(row.maybe_int(2)?))),
    )?;
    Ok(extent.unwrap_or_default())
}

/// The least id above `from` that no entry has: where a late entry can still turn up.
pub fn free_id(database: &Database, from: i64) -> Result<Option<i64>, Error> {
    database.row(
        "SELECT l.id + 1 FROM ledger l
          WHERE l.id >= $1 AND NOT EXISTS (SELECT 1 FROM ledger n WHERE n.id = l.id + 1)
          ORDER BY l.id LIMIT 1",
        &[from.into()],
        |row| row.int(0),
    )
}

/// The mark of an entry; `None` if there is no such entry or nobody has settled it.
pub fn mark(database: &Database, id: i64) -> Result<Option<String>, Error> {
    let statement = "SELECT settled_run FROM ledger WHERE id = $1";
    let mark = database.row(statement, &[id.into()], |row| row.maybe_text(0))?;
    Ok(mark.flatten())
}

/// Fills the ledger with `count` generated entries, telling `progress` how many are in.
///
/// One id near the start is left out ([`reserved_id`]): the entry that will commit late.
pub fn generate(
    database: &Database,
    count: u64,
    progress: &mut dyn FnMut(u64),
) -> anyhow::Result<()> {
    anyhow::ensure!(
        (1..=MAX_ENTRIES).contains(&count),
        "--entries {count}: 1 to {MAX_ENTRIES} are possible"
    );
    let mut done = 0;
    let mut entries = Generator::new(count);
    while done < count {
        let batch: Vec<Entry> = entries.by_ref().take(LOAD_BATCH).collect();
        let added = insert_all(database, &batch)?;
        anyhow::ensure!(
            added == batch.len() as u64,
            "the ledger holds entries already"
        );
        done += added;
        progress(done);
    }
    Ok(())
}

/// The id that a generated ledger of `count` entries leaves out.
pub fn reserved_id(count: u64) -> i64 {
    i64::try_from(count / 200).unwrap_or(i64::MAX / 2) + 2
}

/// Generated entries in order of id: the same for the same count, on every machine.
#[derive(Debug)]
pub struct Generator {
    count: u64,
    made: u64,
    random: SplitMix64,
}

impl Generator {
    pub fn new(count: u64) -> Self {
        Generator {
            count,
            made: 0,
            random: SplitMix64(0x5349_4348_454e ^ count),
        }
    }

    /// The `n`-th entry from 0, with the id given.
    fn entry(&mut self, id: i64, n: u64) -> Entry {
        // Each account once, then a quarter of the entries crowded on few, as in a real ledger.
        let draw = match (self.random.below(4), self.random.below(ACCOUNTS)) {
            _ if n < ACCOUNTS => n,
            (0, draw) => self.random.below(ACCOUNTS) * draw / ACCOUNTS,
            (_, draw) => draw,
        };
        let minor = i64::try_from(self.random.below(200_001)).unwrap_or(0) - 100_000;
        let offset = i64::try_from(u128::from(n) * DAY_S as u128 / u128::from(self.count.max(1)))
            .unwrap_or(0);
        Entry {
            id,
            account: format!("acct-{draw:04}"),
            amount_minor: minor,
            occurred_at: Timestamp::from_second(DAY_START_S + offset)
                .expect("a day in 2026 is within the range of instants"),
        }
    }
}

impl Iterator for Generator {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if self.made == self.count {
            return None;
        }
        let n = self.made;
        self.made += 1;
        let dense = i64::try_from(n).ok()? + 1;
        let id = if dense < reserved_id(self.count) {
            dense
        } else {
            dense + 1
        };
        Some(self.entry(id, n))
    }
}

/// Steele, Lea and Flood's SplitMix64: small, and fixed for ever, which a library's default
/// generator is not.
#[derive(Debug)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly in `0..bound`, by the high part of a product; the bias is below 2^-40 here.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
