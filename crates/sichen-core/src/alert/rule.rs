//! The rules by which people are told, and how each is applied where nothing else is said.
//!
//! # Not here
//! Their conditions ([`super::judge`]).

use std::fmt;

use jiff::SignedDuration;

use super::{FLAP, doubled};
use crate::lifecycle::words;

words! {
    /// What an alert is about. The names are those of the rules for Prometheus.
    Rule {
        /// The last run of a job failed.
        Failures = "failures",
        /// The last run of a job succeeded in part alone.
        Partial = "partial",
        /// Many things fail at once.
        Surge = "surge",
        /// Shards that failed for good lie there, neither retried nor discarded.
        DeadLetters = "dead_letters",
        /// A run runs for longer than its job usually takes.
        Slower = "slower",
        /// A run did not start before its latest start.
        NotStarted = "not_started",
        /// Planned instants were missed and will not run.
        Missed = "missed",
        /// Planned instants pass undecided.
        Late = "late",
        /// A job has had no success for too long, whether it ran or not.
        NoSuccess = "no_success",
        /// Shards wait in a pool that has no worker.
        NoWorker = "no_worker",
        /// Runs that could begin wait, though their pool has workers.
        Backlog = "backlog",
        /// Shards run under sessions that are over.
        NoLease = "no_lease",
        /// Of a capacity all is held, and somebody waits.
        CapacityExhausted = "capacity_exhausted",
        /// A duty is in no live server's hands.
        NoOwner = "no_owner",
        /// A duty goes from hand to hand.
        OwnerFlapping = "owner_flapping",
        /// A transaction of others holds the database up.
        OldTransaction = "old_transaction",
        /// The store's clock stepped ahead and is not believed.
        ClockStep = "clock_step",
    }
}

impl Rule {
    /// Of rules that have it, where nothing else is said: how long something must have waited;
    /// [`Rule::Slower`]: by how much it must be slower; [`Rule::OwnerFlapping`]: within how long.
    #[must_use]
    pub fn after(self) -> Option<SignedDuration> {
        let minutes = match self {
            Rule::DeadLetters => 60,
            Rule::Backlog | Rule::CapacityExhausted | Rule::OwnerFlapping => 10,
            Rule::OldTransaction => 5,
            Rule::NoLease | Rule::Slower => 1,
            _ => return None,
        };
        Some(SignedDuration::from_mins(minutes))
    }

    /// From how many on, of rules that count, where nothing else is said.
    #[must_use]
    pub fn at_least(self) -> Option<u32> {
        match self {
            Rule::Surge => Some(10),
            Rule::OwnerFlapping => Some(6),
            _ => None,
        }
    }

    /// Whether it is about a job's newest runs.
    #[must_use]
    pub fn is_of_jobs(self) -> bool {
        matches!(self, Rule::Failures | Rule::Partial | Rule::NotStarted)
    }
}

/// How one rule is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Whether it is looked for at all.
    pub on: bool,
    /// How long the condition must hold before it is told.
    pub hold: SignedDuration,
    /// How long it must be gone before its end is told.
    pub clear: SignedDuration,
    /// After how long it is told again while it lasts.
    pub repeat: SignedDuration,
    /// Of [`Rule::Failures`], [`Rule::Partial`] too: how many runs of a job in a row must have failed.
    pub in_a_row: u32,
    /// Of rules that have it: see [`Rule::after`].
    pub after: SignedDuration,
    /// Of rules that count: from how many on.
    pub at_least: u32,
    /// Who is told; empty: everybody.
    pub receivers: Vec<String>,
}

impl Policy {
    /// What holds where nothing else is said.
    #[must_use]
    pub fn usual(rule: Rule) -> Self {
        let (hold, clear) = match rule {
            Rule::Late => (60, 60),
            Rule::NoWorker => (120, 60),
            Rule::NoOwner => (30, 0),
            Rule::Backlog | Rule::CapacityExhausted => (0, 60),
            Rule::Failures
            | Rule::Partial
            | Rule::Surge
            | Rule::DeadLetters
            | Rule::Slower
            | Rule::NotStarted
            | Rule::Missed
            | Rule::NoSuccess
            | Rule::NoLease
            | Rule::OwnerFlapping
            | Rule::OldTransaction
            | Rule::ClockStep => (0, 0),
        };
        Self {
            on: true,
            hold: SignedDuration::from_secs(hold),
            clear: SignedDuration::from_secs(clear),
            repeat: SignedDuration::from_hours(4),
            in_a_row: 1,
            after: rule.after().unwrap_or_default(),
            at_least: rule.at_least().unwrap_or_default(),
            receivers: Vec::new(),
        }
    }

    /// How long the condition of an alert that came back so many times must be gone.
    #[must_use]
    pub fn clear_after(&self, flaps: u32) -> SignedDuration {
        if flaps == 0 {
            return self.clear;
        }
        let doubled = doubled(self.clear.max(FLAP), flaps - 1);
        doubled.min(self.repeat.max(self.clear))
    }
}
