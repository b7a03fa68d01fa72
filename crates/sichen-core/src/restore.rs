//! A store that went back: restored from a backup, or found at an earlier point than it was.
//!
//! What happened between the newest event that is left and now is not known here: work may have been
//! done, by attempts that the store does not know. So nothing fires and nothing is granted until people have
//! decided what is to become of that stretch.
//!
//! # Invariants
//! - While it is not decided, no duty is in anybody's hands: whatever a duty writes needs its term.
//! - Nothing that Sichen has not seen succeed is called succeeded: what is taken as done is recorded as
//!   that, with the evidence.
//!
//! # Not here
//! What of it is shown and worked out (`sichen-engine`), the epoch ([`crate::epoch`]).

use std::fmt;

use jiff::Timestamp;

use crate::ids::{JobUid, RunId};
use crate::lifecycle::words;
use crate::port::Advance;

/// The duty's key under which events about the store as a whole stand.
pub const KEY: &str = "restore";
/// The longest reason and the longest evidence that are recorded, in bytes each; more is refused.
pub const MAX_REASON_BYTES: usize = 2_000;

/// A restore that is not decided yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restore {
    /// The epoch that it has brought.
    pub epoch: u32,
    /// When it was noticed or done.
    pub at: Timestamp,
    /// When the newest event that is left was written: what came after is lost.
    pub mark: Timestamp,
    /// That event's number: events of the wait have higher ones.
    pub newest: u64,
}

impl Restore {
    /// One that begins at `now` under `epoch`, in a store whose newest event has this number and was written
    /// then. If the store waits already for the decisions of `before`, its own events of the wait tell nothing
    /// of what `before` has lost: the marks of the earlier one stay.
    #[must_use]
    pub fn begun(
        epoch: u32,
        now: Timestamp,
        newest: Option<(u64, Timestamp)>,
        before: Option<Restore>,
    ) -> Restore {
        let (newest, mark) = newest.unwrap_or((0, now));
        Restore {
            epoch,
            at: now,
            mark: before.map_or(mark, |before| before.mark.min(mark)),
            newest: before.map_or(newest, |before| before.newest.min(newest)),
        }
    }
}

words! {
    /// What is to become of a job's instants since the mark, or of a run that was open then.
    How {
        /// It may run again: instants follow the job's catch-up policy, a run goes on from its checkpoints.
        Again = "again",
        /// It was done, by the evidence that is given: it does not run again.
        Done = "done",
        /// It stays undone.
        Leave = "leave",
    }
}

impl How {
    /// The reason that instants are recorded with; `None` if the job's policy decides them.
    #[must_use]
    pub fn reason(self) -> Option<&'static str> {
        match self {
            How::Again => None,
            How::Done => Some(TAKEN_AS_DONE),
            How::Leave => Some("left_at_restore"),
        }
    }
}

/// The cause with which a report is refused whose token the store has not given out.
pub const LOST_TAIL: &str = "lost_tail";

/// The reason of instants that people take for done; no backfill runs them.
pub const TAKEN_AS_DONE: &str = "taken_as_done";

/// What is decided.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A job's instants since the mark, which the step decides: by its policy, or as people say.
    Job(JobUid, Option<Advance>),
    /// A run that was open at the mark.
    Run(RunId),
    /// All that is left: from now on everything goes on.
    Rest,
}

/// A decision by people.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The epoch of the restore that it is about: a later one is not decided by who has not seen it.
    pub epoch: u32,
    /// What about.
    pub subject: Subject,
    /// What.
    pub how: How,
    /// Why.
    pub reason: String,
    /// What shows it; empty if nothing.
    pub evidence: String,
}

impl Decided {
    /// What its event says.
    #[must_use]
    pub fn event_data(&self) -> serde_json::Value {
        serde_json::json!({ "reason": self.reason, "evidence": self.evidence })
    }
}

/// What became of a [`Decided`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is recorded, and done.
    Recorded,
    /// There is no restore to decide about.
    NothingToDecide,
    /// Another restore has begun meanwhile. Nothing was written.
    Another,
    /// The job has changed meanwhile: look again. Nothing was written.
    Conflict,
    /// There is no such job or run, or it is over, or being stopped. Nothing was written.
    Missing,
}

#[cfg(test)]
mod tests;
