//! What a check says.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::Token;

macro_rules! numbered {
    ($($name:ident: $promise:literal,)*) => {
        /// The promises, by their number (docs/verify.md).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Invariant { $(#[doc = $promise] $name,)* }

        impl Invariant {
            /// Every invariant this checker judges.
            pub const ALL: &'static [Invariant] = &[$(Invariant::$name,)*];

            /// `I1`, `I13`, …
            #[must_use]
            pub fn id(self) -> &'static str {
                match self { $(Invariant::$name => stringify!($name),)* }
            }

            /// What is promised, in plain words.
            #[must_use]
            pub fn promise(self) -> &'static str {
                match self { $(Invariant::$name => $promise,)* }
            }
        }
    };
}

numbered! {
    I1: "one run for each occasion: a planned time with its rerun number, or a key",
    I2: "every planned time has a run or a recorded reason, never both",
    I3: "no run at a time that the schedule does not have",
    I4: "no run comes before its planned time",
    I5: "a job's decided time only moves forward, without gaps",
    I6: "a planned run is of the job's newest revision",
    I9: "what fills a skipped time is a run of that time, and none is filled twice",
    I10: "a duty has one owner at a time",
    I11: "a server that lost a duty writes nothing more under it",
    I12: "a duty is taken over only from an owner that gave it up or whose lease is over",
    I13: "attempts count 1, 2, 3, and each has a higher token",
    I14: "an attempt starts only after the one before has ended",
    I15: "nothing is accepted from an attempt whose token is not the current one",
    I16: "an attempt has one result",
    I19: "nothing is granted to a session that is over",
    I22: "a worker holds no more shards than it has slots",
    I23: "the shards of a run cut its range without gap or overlap",
    I24: "checkpoints only move forward",
    I25: "an attempt starts from the newest checkpoint that was accepted",
    I27: "a run's outcome follows from its shards, and all of them have ended",
    I29: "a run that waits for others of its job starts when fewer run than may, and a time is skipped only for one that was not over",
    I30: "runs of a job that wait start in the order in which they came",
    I31: "a run that replaces others starts when those are over",
    I32: "what is held of a capacity is what running attempts use, within the limit at each grant",
    I33: "a rate lets through no more than it says and one burst",
    I34: "a shard is asked for its slot by a run of higher priority alone, once an attempt, and within its run's number of times",
    I39: "a paused job starts no planned run",
    I40: "a run that is being stopped is granted no more",
    I41: "a deleted job gets no run and decides nothing",
    I44: "what was acknowledged is in the log",
    I45: "nothing changes but as the table of states allows",
    I46: "the log, read from its beginning, gives exactly the rows",
    I47: "a job's count of open runs is the number of its open runs",
    I48: "time does not go back",
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
    /// The turn of a run that waited has come.
    Released,
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
    /// A shard was asked for its slot.
    Recalled,
    /// A takeover began from a checkpoint.
    Resumed,
    /// An attempt ended with success.
    Succeeded,
    /// An attempt was lost.
    Lost,
    /// A grant took units or tokens of capacities.
    Held,
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
    "finished",
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
