//! The checks of a backfill's runs: for each that succeeds, a run of another job counts its business
//! again.
//!
//! # Invariants
//! - One check for each round of a run that succeeded in the backfill's lane: it is written as due in
//!   the transaction that settles the run.
//! - A check moves `due` → `open` → over, or from `due` to over where its run can't be started. What is
//!   over stays.
//! - What the check's run reported decides alone: both numbers, or that there are none.
//!
//! # Not here
//! Counting (the checking job's handler); starting the checks' runs (the `backfill` duty).

use std::fmt;

use jiff::Timestamp;

use crate::ids::{BackfillId, RunId};
use crate::lifecycle::{RunState, words};
use crate::model::Progress;
use crate::name::Name;

/// Checks of one backfill that are open at once, whatever its parallelism.
pub const MAX_OPEN_CHECKS: u32 = 100;
/// The longest text that says why a check could not count, in bytes.
pub const MAX_CHECK_WHY: usize = 512;
/// Checks that a backfill starts in a minute, if nothing is said.
pub const CHECKS_A_MINUTE: u32 = 60;

/// That the runs of a backfill are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verify {
    /// The job that checks, in the namespace of the backfill's job.
    pub job: Name,
    /// Checks started in a minute, 1 to [`super::MAX_RATE`].
    pub rate: u32,
}

words! {
    /// A check's state.
    CheckState {
        /// Its run is still to be started.
        Due = "due",
        /// Its run is not closed.
        Open = "open",
        /// As many were found as expected.
        Agrees = "agrees",
        /// Another number was found than expected.
        Differs = "differs",
        /// Nothing was counted.
        Uncounted = "uncounted",
    }
}

impl CheckState {
    /// Whether nothing more happens to it.
    #[must_use]
    pub fn is_over(self) -> bool {
        !matches!(self, CheckState::Due | CheckState::Open)
    }
}

/// How many checks of a backfill are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    /// Still to be started.
    pub due: u64,
    /// Started and not over.
    pub open: u32,
    /// Over: as many found as expected.
    pub agree: u64,
    /// Over: another number.
    pub differ: u64,
    /// Over: nothing counted.
    pub uncounted: u64,
}

impl Checks {
    /// Those that are not over.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.due + u64::from(self.open)
    }

    /// All.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.pending() + self.agree + self.differ + self.uncounted
    }

    /// Counts a check that went from one state to another. `None`: it was not there.
    pub fn moved(&mut self, from: Option<CheckState>, to: CheckState) {
        match from {
            Some(CheckState::Due) => self.due = self.due.saturating_sub(1),
            Some(CheckState::Open) => self.open = self.open.saturating_sub(1),
            Some(_) | None => {}
        }
        match to {
            CheckState::Due => self.due += 1,
            CheckState::Open => self.open += 1,
            CheckState::Agrees => self.agree += 1,
            CheckState::Differs => self.differ += 1,
            CheckState::Uncounted => self.uncounted += 1,
        }
    }
}

/// A check's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The run that is checked.
    pub run: RunId,
    /// Its round.
    pub round: u32,
    /// The backfill that wants it.
    pub backfill: BackfillId,
    /// State.
    pub state: CheckState,
    /// The run of the checking job.
    pub by: Option<RunId>,
    /// How many it found, and how many there should be.
    pub counts: Option<(u64, u64)>,
    /// Why it could not count.
    pub why: String,
    /// Since when it is in its state.
    pub at: Timestamp,
}

/// How a check ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// So many were found, so many expected.
    Both(u64, u64),
    /// Nothing was counted, for this reason.
    Nothing(String),
}

/// Where a check goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckTo {
    /// Its run was started.
    Open(RunId),
    /// It is over.
    Over(Counted),
}

impl CheckTo {
    /// The state that it leads to.
    #[must_use]
    pub fn state(&self) -> CheckState {
        match self {
            CheckTo::Open(_) => CheckState::Open,
            CheckTo::Over(Counted::Both(found, expected)) if found == expected => {
                CheckState::Agrees
            }
            CheckTo::Over(Counted::Both(..)) => CheckState::Differs,
            CheckTo::Over(Counted::Nothing(_)) => CheckState::Uncounted,
        }
    }
}

/// One check's move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckMove {
    /// The run that is checked.
    pub run: RunId,
    /// Its round.
    pub round: u32,
    /// Where to.
    pub to: CheckTo,
}

impl Check {
    /// The check after `to`; `None` if it may not go there: it has gone farther, or its backfill
    /// (in `state`) starts none now. Every store asks this under its lock.
    #[must_use]
    pub fn moved(&self, state: super::State, to: &CheckTo, now: Timestamp) -> Option<Check> {
        let starts = matches!(state, super::State::Running | super::State::Finished);
        let may = match (self.state, to) {
            (CheckState::Due, CheckTo::Open(_)) => starts,
            (CheckState::Due, CheckTo::Over(Counted::Nothing(_)))
            | (CheckState::Open, CheckTo::Over(_)) => true,
            _ => false,
        };
        if !may {
            return None;
        }
        let mut after = Check {
            state: to.state(),
            at: now,
            ..self.clone()
        };
        match to {
            CheckTo::Open(by) => after.by = Some(*by),
            CheckTo::Over(Counted::Both(found, expected)) => {
                after.counts = Some((*found, *expected));
            }
            CheckTo::Over(Counted::Nothing(why)) => {
                let mut end = why.len().min(MAX_CHECK_WHY);
                while !why.is_char_boundary(end) {
                    end -= 1;
                }
                after.why = why[..end].to_owned();
            }
        }
        Some(after)
    }
}

/// Moves of one backfill's checks, already decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckStep {
    /// The backfill.
    pub id: BackfillId,
    /// The moves; one that no longer fits is passed over.
    pub moves: Vec<CheckMove>,
    /// From when on the next check is due.
    pub next_at: Option<Timestamp>,
}

/// What became of a [`CheckStep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckVerdict {
    /// So many moved.
    Moved(u32),
    /// No such backfill.
    Missing,
    /// The caller no longer owns the job's partition. Nothing was written.
    OldTerm,
}

/// What a check's run says; `None` while it is open.
#[must_use]
pub fn counted(state: RunState, reason: &str, progress: &Progress) -> Option<Counted> {
    if !state.is_closed() {
        return None;
    }
    // A handler may have counted and then failed for it (`countsMustMatch`): the numbers stand.
    Some(match progress.expected {
        Some(expected) if state == RunState::Succeeded || expected != progress.done => {
            Counted::Both(progress.done, expected)
        }
        _ if state == RunState::Succeeded => {
            Counted::Nothing("its check reported no counts".to_owned())
        }
        _ if reason.is_empty() => Counted::Nothing(format!("its check is {state}")),
        _ => Counted::Nothing(format!("its check is {state} ({reason})")),
    })
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
