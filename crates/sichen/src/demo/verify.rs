//! Judging the demo's result by the business data alone.
//!
//! The expected totals come from the input by one SQL statement that knows nothing of runs, shards
//! or batches; they are compared with what the workers wrote, over all runs.
//!
//! # Not here
//! The scheduler's own history (`sichen-check`).

use rusqlite::Connection;
use serde::Serialize;

/// Accounts that differ, kept as examples.
const EXAMPLES: i64 = 10;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Entries in the ledger.
    pub entries: u64,
    pub accounts: u64,
    /// Entries that carry a run's mark.
    pub marked: u64,
    /// Entries counted into totals, over all runs; more than `entries` means counted twice.
    pub counted: u64,
    /// Accounts whose total or number of entries differs from the input's.
    pub wrong_accounts: u64,
    /// The first of them.
    pub examples: Vec<Mismatch>,
    /// (run, account) pairs whose total differs from the sum of the entries with that run's mark.
    pub wrong_in_runs: u64,
    pub runs: Vec<RunTotals>,
}

/// An account that does not add up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    pub account: String,
    pub expected_minor: i64,
    pub settled_minor: i64,
    pub expected_entries: u64,
    pub settled_entries: u64,
}

/// What one run settled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunTotals {
    pub run: String,
    pub entries: u64,
    pub accounts: u64,
    pub amount_minor: i64,
}

impl Verification {
    /// Whether the totals are right and every entry was counted exactly once.
    pub fn ok(&self) -> bool {
        self.entries > 0
            && self.wrong_accounts == 0
            && self.wrong_in_runs == 0
            && self.marked == self.entries
            && self.counted == self.entries
    }
}

/// Compares input and totals in one read transaction.
///
/// # Errors
/// When the database can't be read, or a sum does not fit 64 bits.
pub fn verify(conn: &Connection) -> rusqlite::Result<Verification> {
    let tx = conn.unchecked_transaction()?;
    let number = |query: &str| {
        tx.query_row(query, [], |row| row.get::<_, i64>(0))
            .map(i64::unsigned_abs)
    };
    let by_account = "
        SELECT account, sum(expected) AS expected, sum(settled) AS settled,
               sum(input) AS input, sum(counted) AS counted
          FROM (SELECT account, amount_minor AS expected, 1 AS input, 0 AS settled, 0 AS counted
                  FROM ledger
                UNION ALL
                SELECT account, 0, 0, amount_minor, entries FROM settlement_totals)
         GROUP BY account
        HAVING sum(expected) <> sum(settled) OR sum(input) <> sum(counted)";
    let by_run = "
        SELECT 1
          FROM (SELECT settled_run AS run, account, amount_minor AS expected, 1 AS input,
                       0 AS settled, 0 AS counted
                  FROM ledger WHERE settled_run IS NOT NULL
                UNION ALL
                SELECT run, account, 0, 0, amount_minor, entries FROM settlement_totals)
         GROUP BY run, account
        HAVING sum(expected) <> sum(settled) OR sum(input) <> sum(counted)";
    let examples = tx
        .prepare(&format!("{by_account} ORDER BY account LIMIT {EXAMPLES}"))?
        .query_map([], |row| {
            Ok(Mismatch {
                account: row.get(0)?,
                expected_minor: row.get(1)?,
                settled_minor: row.get(2)?,
                expected_entries: row.get::<_, i64>(3)?.unsigned_abs(),
                settled_entries: row.get::<_, i64>(4)?.unsigned_abs(),
            })
        })?
        .collect::<Result<_, _>>()?;
    let runs = tx
        .prepare(
            "SELECT run, sum(entries), count(*), sum(amount_minor) FROM settlement_totals
              GROUP BY run ORDER BY run",
        )?
        .query_map([], |row| {
            Ok(RunTotals {
                run: row.get(0)?,
                entries: row.get::<_, i64>(1)?.unsigned_abs(),
                accounts: row.get::<_, i64>(2)?.unsigned_abs(),
                amount_minor: row.get(3)?,
            })
        })?
        .collect::<Result<_, _>>()?;
    Ok(Verification {
        entries: number("SELECT count(*) FROM ledger")?,
        accounts: number("SELECT count(DISTINCT account) FROM ledger")?,
        marked: number("SELECT count(*) FROM ledger WHERE settled_run IS NOT NULL")?,
        counted: number("SELECT coalesce(sum(entries), 0) FROM settlement_totals")?,
        wrong_accounts: number(&format!("SELECT count(*) FROM ({by_account})"))?,
        examples,
        wrong_in_runs: number(&format!("SELECT count(*) FROM ({by_run})"))?,
        runs,
    })
}
