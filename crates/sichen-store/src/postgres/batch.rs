//! Writes that are gathered and sent as one statement for all rows.
//!
//! # Invariants
//! - A transaction sends what is gathered before any other statement, in the order of [`Batched`]:
//!   so each statement sees what was written before it.
//! - No row is in one batch twice; counts of the same row are summed.
//! - Their columns are unnested in a select list, where the server reads them row by row. In a `from` it
//!   would store each column first, which costs more than the row that is made of them.
//!
//! # Not here
//! When they are sent ([`super::tx`]).

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::param::{Param, Params};
use super::sql;

/// Rows in one statement.
pub(super) const ROWS: usize = 5_000;
/// Rows that are sent while the next ones are made.
const STEP: usize = 100;

/// The statements that take many rows, in the order in which they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Batched {
    AdvanceJob,
    InsertRun,
    InsertShards,
    LeaseShard,
    StartRun,
    EndAttempt,
    InsertHold,
    DeleteHold,
    LimitHold,
    CountRun,
    SettleRun,
    CountActiveRuns,
    CountGrant,
}

impl Batched {
    pub fn statement(self) -> &'static str {
        match self {
            Batched::AdvanceJob => sql::ADVANCE_JOB,
            Batched::InsertRun => sql::INSERT_RUN,
            Batched::InsertShards => sql::INSERT_SHARDS,
            Batched::LeaseShard => sql::LEASE_SHARD,
            Batched::StartRun => sql::START_RUN,
            Batched::EndAttempt => sql::END_ATTEMPT,
            Batched::InsertHold => sql::INSERT_HOLD,
            Batched::DeleteHold => sql::DELETE_HOLD,
            Batched::LimitHold => sql::LIMIT_HOLD,
            Batched::CountRun => sql::COUNT_RUN,
            Batched::SettleRun => sql::SETTLE_RUN,
            Batched::CountActiveRuns => sql::COUNT_ACTIVE_RUNS,
            Batched::CountGrant => sql::COUNT_GRANT,
        }
    }
}

/// What is gathered and not sent yet.
#[derive(Default)]
pub(super) struct Gathered {
    rows: BTreeMap<Batched, Vec<Vec<Param>>>,
    runs: BTreeMap<i64, [i64; 4]>,
    /// Outcomes: state, reason, instant. They are written together with the counts.
    settled: BTreeMap<i64, (&'static str, String, i64)>,
    active: BTreeMap<Uuid, [i64; 2]>,
    grants: BTreeMap<i64, i64>,
    /// Jobs whose marks move.
    advanced: BTreeSet<Uuid>,
}

impl Gathered {
    pub fn add(&mut self, to: Batched, row: impl Params) {
        self.rows.entry(to).or_default().push(row.list());
    }

    /// Whether enough rows of one kind are there for a statement of their own.
    pub fn is_much(&self) -> bool {
        self.rows.values().any(|rows| rows.len() >= STEP)
    }

    /// The rows so far, without what is still summed.
    pub fn take_rows(&mut self) -> Vec<(&'static str, Vec<Param>, u64)> {
        let mut statements = Vec::new();
        for (of, rows) in std::mem::take(&mut self.rows) {
            let mut rows = rows.into_iter();
            loop {
                let chunk: Vec<_> = rows.by_ref().take(ROWS).collect();
                if chunk.is_empty() {
                    break;
                }
                let n = chunk.len() as u64;
                statements.push((of.statement(), columns(chunk), n));
            }
        }
        statements
    }

    pub fn count_run(&mut self, run: i64, by: [i64; 4]) {
        let sums = self.runs.entry(run).or_default();
        for (sum, by) in sums.iter_mut().zip(by) {
            *sum += by;
        }
    }

    pub fn settle(&mut self, run: i64, outcome: &'static str, reason: &str, at: i64) {
        self.settled.insert(run, (outcome, reason.to_owned(), at));
    }

    pub fn count_active(&mut self, job: Uuid, by: [i64; 2]) {
        let sums = self.active.entry(job).or_default();
        for (sum, by) in sums.iter_mut().zip(by) {
            *sum += by;
        }
    }

    /// The mark of `job` moves.
    pub fn advance(&mut self, job: Uuid, row: impl Params) {
        self.advanced.insert(job);
        self.add(Batched::AdvanceJob, row);
    }

    /// Whether its mark is about to move already.
    pub fn advances(&self, job: Uuid) -> bool {
        self.advanced.contains(&job)
    }

    pub fn count_grant(&mut self, session: i64) {
        *self.grants.entry(session).or_default() += 1;
    }

    /// All of it, as statements with a column a parameter and the number of rows.
    pub fn take(&mut self) -> Vec<(&'static str, Vec<Param>, u64)> {
        for (run, (outcome, reason, at)) in std::mem::take(&mut self.settled) {
            let by = self.runs.remove(&run).unwrap_or_default();
            let row = (run, outcome, reason, at, by[0], by[1], by[2], by[3]);
            self.add(Batched::SettleRun, row);
        }
        for (run, by) in std::mem::take(&mut self.runs) {
            self.add(Batched::CountRun, (run, by[0], by[1], by[2], by[3]));
        }
        for (job, by) in std::mem::take(&mut self.active) {
            self.add(Batched::CountActiveRuns, (job, by[0], by[1]));
        }
        for (session, by) in std::mem::take(&mut self.grants) {
            self.add(Batched::CountGrant, (session, by));
        }
        self.advanced.clear();
        self.take_rows()
    }
}

fn columns(rows: Vec<Vec<Param>>) -> Vec<Param> {
    let mut columns: Vec<Vec<Param>> = Vec::new();
    for row in rows {
        columns.resize_with(row.len(), Vec::new);
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(value);
        }
    }
    columns.into_iter().map(Param::Column).collect()
}
