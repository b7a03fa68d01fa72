//! Simulated hours, and which of them count.
//!
//! Time in which nothing happens shows nothing. An hour is the time of one seed after another until
//! 3,600 seconds are full; it counts when enough runs settled in it and enough faults hit something.
//!
//! # Not here
//! What a fault hit (`sim`).

use std::collections::BTreeMap;

use sichen_check::Sight;

use crate::sim::Outcome;

/// Runs that must have settled in an hour.
pub const RUNS: u64 = 1_000;
/// Faults in an hour that must have hit a live lease, an open transaction or an unsent report.
pub const HITS: u64 = 10;
const HOUR_SECS: i64 = 3_600;

/// What one seed came to.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Simulated seconds.
    pub secs: i64,
    /// Runs that settled.
    pub runs: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Faults that hit something, by what.
    pub hits: BTreeMap<&'static str, u64>,
}

impl Part {
    /// The part of an outcome.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        let settled = outcome.verdict.counts.get(&Sight::RunSettled);
        Self {
            secs: outcome.simulated_secs,
            runs: settled.copied().unwrap_or(0),
            faults: outcome.faults.clone(),
            hits: outcome.hits.clone(),
        }
    }

    fn add(&mut self, other: &Part) {
        self.secs += other.secs;
        self.runs += other.runs;
        for (kind, n) in &other.faults {
            *self.faults.entry(kind).or_default() += n;
        }
        for (kind, n) in &other.hits {
            *self.hits.entry(kind).or_default() += n;
        }
    }
}

/// All seeds so far.
#[derive(Clone, Debug, Default)]
pub struct Hours {
    /// Their sums.
    pub all: Part,
    /// Hours that count.
    pub counted: u64,
    /// Hours in which too little happened.
    pub empty: u64,
    open: Part,
}

impl Hours {
    /// Adds a seed.
    pub fn add(&mut self, part: &Part) {
        self.all.add(part);
        self.open.add(part);
        if self.open.secs < HOUR_SECS {
            return;
        }
        let hour = std::mem::take(&mut self.open);
        if hour.runs >= RUNS && hour.hits.values().sum::<u64>() >= HITS {
            self.counted += 1;
        } else {
            self.empty += 1;
        }
    }

    /// Faults of all kinds.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.all.faults.values().sum()
    }
}

#[cfg(test)]
mod tests;
