//! Judging the demo's result by the business data alone.
//!
//! The expected totals come from the input by one SQL statement that knows nothing of runs, shards
//! or batches; they are compared with what the workers wrote, over all runs.
//!
//! # Not here
//! The scheduler's own history (`sichen-check`).

use serde::Serialize;

use super::database::{Database, Error};

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

/// Accounts whose totals differ from the input's.
const BY_ACCOUNT: &str = "
    SELECT account, CAST(sum(expected) AS BIGINT) AS expected,
           CAST(sum(settled) AS BIGINT) AS settled,
           CAST(sum(input) AS BIGINT) AS input, CAST(sum(counted) AS BIGINT) AS counted
      FROM (SELECT account, amount_minor AS expected, 1 AS input, 0 AS settled, 0 AS counted
              FROM ledger
            UNION ALL
            SELECT account, 0, 0, amount_minor, entries FROM settlement_totals) AS both_sides
     GROUP BY account
    HAVING sum(expected) <> sum(settled) OR sum(input) <> sum(counted)";

/// Pairs of run and account whose total differs from the entries with that run's mark.
const BY_RUN: &str = "
    SELECT 1 AS wrong
      FROM (SELECT settled_run AS run, account, amount_minor AS expected, 1 AS input,
                   0 AS settled, 0 AS counted
              FROM ledger WHERE settled_run IS NOT NULL
            UNION ALL
            SELECT run, account, 0, 0, amount_minor, entries FROM settlement_totals) AS both_sides
     GROUP BY run, account
    HAVING sum(expected) <> sum(settled) OR sum(input) <> sum(counted)";

/// Compares input and totals over one snapshot.
///
/// # Errors
/// When the database can't be read, or a sum does not fit 64 bits.
pub fn verify(database: &Database) -> Result<Verification, Error> {
    let count_of = |query: &str| database.number(&format!("SELECT count(*) FROM ({query}) AS q"));
    database.in_snapshot(|| {
        let examples = database.rows(
            &format!("{BY_ACCOUNT} ORDER BY account LIMIT {EXAMPLES}"),
            &[],
            |row| {
                Ok(Mismatch {
                    account: row.text(0)?,
                    expected_minor: row.int(1)?,
                    settled_minor: row.int(2)?,
                    expected_entries: row.count(3)?,
                    settled_entries: row.count(4)?,
                })
            },
        )?;
        let runs = database.rows(
            "SELECT run, CAST(sum(entries) AS BIGINT), count(*),
                    CAST(sum(amount_minor) AS BIGINT)
               FROM settlement_totals GROUP BY run ORDER BY run",
            &[],
            |row| {
                Ok(RunTotals {
                    run: row.text(0)?,
                    entries: row.count(1)?,
                    accounts: row.count(2)?,
                    amount_minor: row.int(3)?,
                })
            },
        )?;
        let total = "SELECT CAST(coalesce(sum(entries), 0) AS BIGINT) FROM settlement_totals";
        let marked = "SELECT count(*) FROM ledger WHERE settled_run IS NOT NULL";
        Ok(Verification {
            entries: database.number("SELECT count(*) FROM ledger")?,
            accounts: database.number("SELECT count(DISTINCT account) FROM ledger")?,
            marked: database.number(marked)?,
            counted: database.number(total)?,
            wrong_accounts: count_of(BY_ACCOUNT)?,
            examples,
            wrong_in_runs: count_of(BY_RUN)?,
            runs,
        })
    })
}
