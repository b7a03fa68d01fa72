//! What a check says.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::Token;

macro_rules! numbered {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The promises, by their number in the reliability reference.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Invariant { $($(#[$doc])* $name,)* }

        impl Invariant {
            /// Every invariant this checker judges.
            pub const ALL: &'static [Invariant] = &[$(Invariant::$name,)*];

            /// `I1`, `I13`, …
            #[must_use]
            pub fn id(self) -> &'static str {
                match self { $(Invariant::$name => stringify!($name),)* }
            }
        }
    };
}

numbered! {
    /// One run for each job, planned instant and rerun number.
    I1,
    /// Every planned instant has a run or a recorded decision, never both.
    I2,
    /// No planned run at an instant the schedule does not have.
    I3,
    /// A job's high-water marks form a chain that only rises.
    I5,
    /// A duty's terms rise, and each has one owner.
    I10,
    /// Nothing is written under an older term.
    I11,
    /// Attempts count 1, 2, 3, …, and their tokens rise.
    I13,
    /// An attempt starts only after the one before has ended.
    I14,
    /// Nothing is accepted with another token than the current one; ending an attempt from
    /// outside raises it.
    I15,
    /// An attempt has one result.
    I16,
    /// Checkpoints move forward.
    I24,
    /// An attempt starts from the newest accepted checkpoint.
    I25,
    /// A closed run's state follows from its shards, and all of them are closed.
    I27,
    /// What was acknowledged is in the log.
    I44,
    /// Only moves of the move table.
    I45,
    /// Folding the log gives the rows.
    I46,
    /// A job's count of active runs is the number of its open runs.
    I47,
    /// An entity's time does not go back.
    I48,
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// Something worth having seen; a check without it may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sight {
    /// Any event.
    Event,
    /// A run was written.
    RunCreated,
    /// A run was settled.
    RunSettled,
    /// A run was reopened.
    RunReopened,
    /// A high-water mark moved.
    Advanced,
    /// A planned instant was decided against.
    Decided,
    /// A shard was granted.
    Granted,
    /// A shard was granted again after a lost attempt.
    Takeover,
    /// A checkpoint was stored.
    Checkpoint,
    /// A takeover began from a checkpoint.
    Resumed,
    /// An attempt ended with success.
    Succeeded,
    /// An attempt was lost.
    Lost,
    /// A late or stale report was refused.
    Refused,
    /// A duty changed hands.
    TermChanged,
    /// A session ended.
    SessionEnded,
    /// An acknowledgement was compared with the log.
    Acknowledged,
    /// A row was compared with the fold.
    Row,
}

/// An event, reduced to what a witness needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Place in the log.
    pub seq: u64,
    /// The entity's version after it.
    pub ver: u32,
    /// The store's clock.
    pub at: Timestamp,
    /// What happened.
    pub kind: Kind,
    /// State before, or empty.
    pub from: &'static str,
    /// State after, or empty.
    pub to: &'static str,
    /// The attempt, or 0.
    pub attempt: u32,
    /// The token, or 0.
    pub token: Token,
}

const WORDS: &[&str] = &[
    "",
    "scheduled",
    "running",
    "retry",
    "succeeded",
    "partial",
    "failed",
    "cancelled",
    "live",
    "paused",
    "deleted",
    "ended",
    "owned",
    "free",
];

/// The static form of a state's word; `?` for one that is none.
pub(crate) fn state_word(word: &str) -> &'static str {
    WORDS.iter().find(|w| **w == word).copied().unwrap_or("?")
}

impl Step {
    pub(crate) fn of(e: &Event) -> Self {
        Self {
            seq: e.seq,
            ver: e.ver,
            at: e.at,
            kind: e.kind,
            from: state_word(&e.from),
            to: state_word(&e.to),
            attempt: e.attempt.unwrap_or(0),
            token: e.token.unwrap_or_default(),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "event {} ver {} {} {}",
            self.seq, self.ver, self.at, self.kind
        )?;
        if !self.to.is_empty() {
            write!(
                f,
                " {} -> {}",
                if self.from.is_empty() { "-" } else { self.from },
                self.to
            )?;
        }
        if self.attempt > 0 {
            write!(f, " attempt {}", self.attempt)?;
        }
        if self.token.0 > 0 {
            write!(f, " token {}", self.token)?;
        }
        Ok(())
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// Of what.
    pub entity: Entity,
    /// What is wrong, for people.
    pub message: String,
    /// The events that show it, oldest first.
    pub witness: Vec<Step>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.invariant, self.entity, self.message)?;
        for step in &self.witness {
            write!(f, "\n    {step}")?;
        }
        Ok(())
    }
}

/// A promise that this history cannot decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Which.
    pub invariant: Invariant,
    /// What is missing.
    pub reason: String,
}

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing broken, nothing demanded left undecided, and enough was seen.
    Ok,
    /// At least one broken promise.
    Violated,
    /// Nothing broken, but too little seen, or a demanded invariant left undecided.
    Unknown,
}

/// All that a check found.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The answer.
    pub outcome: Outcome,
    /// Broken promises, at most [`Verdict::MAX_VIOLATIONS`] kept, in order of entities.
    pub violations: Vec<Violation>,
    /// Broken promises in all.
    pub violation_count: u64,
    /// What could not be decided.
    pub unknown: Vec<Unknown>,
    /// What was seen too seldom: sight, seen, wanted.
    pub vacuous: Vec<(Sight, u64, u64)>,
    /// What was seen.
    pub counts: BTreeMap<Sight, u64>,
}

impl Verdict {
    /// How many violations are kept with their witnesses.
    pub const MAX_VIOLATIONS: usize = 100;

    /// Whether the answer is [`Outcome::Ok`].
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.outcome {
            Outcome::Ok => "ok",
            Outcome::Violated => "violated",
            Outcome::Unknown => "unknown",
        };
        write!(f, "{word}: {} violations", self.violation_count)?;
        for violation in &self.violations {
            write!(f, "\n  {violation}")?;
        }
        for (sight, seen, wanted) in &self.vacuous {
            write!(f, "\n  too little seen: {sight:?} {seen} of {wanted}")?;
        }
        for unknown in &self.unknown {
            write!(f, "\n  undecided {}: {}", unknown.invariant, unknown.reason)?;
        }
        Ok(())
    }
}
