//! What may happen to a run and a shard, and what follows from it.
//!
//! [`moves`] is the whole of it as data: it draws `docs/states.md`, and the history checker refuses
//! an event that is not in it. [`shard`] decides a shard's next state, [`run`] folds shard outcomes
//! into the run's.
//!
//! # Invariants
//! - `succeeded` never changes, nor does a `cancelled` run with all that is in it; `failed` and
//!   `partial` runs reopen only by an explicit retry, which raises the run's round and takes their
//!   failed shards with them, and those that the run's own failure had cancelled.
//! - The fencing token never goes down; each grant raises it.
//!
//! # Not here
//! Choosing a worker ([`crate::dispatch`]), judging expiry ([`crate::lease`]), storing.

pub mod run;
pub mod shard;
pub mod told;

use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word that stands for it in SQL, logs and the API.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// Reads what [`Self::word`] wrote.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.word()) }
        }
    };
}
pub(crate) use words;

words! {
    /// A run's state.
    RunState {
        /// Written, nothing granted yet.
        Scheduled = "scheduled",
        /// A shard has been granted.
        Running = "running",
        /// All shards succeeded.
        Succeeded = "succeeded",
        /// Some shards succeeded.
        Partial = "partial",
        /// No shard succeeded, or the run was failed as a whole.
        Failed = "failed",
        /// A cancel request took effect on a shard.
        Cancelled = "cancelled",
    }
}

impl RunState {
    /// Whether the run is closed: nothing of it runs or waits.
    #[must_use]
    pub fn is_closed(self) -> bool {
        match self {
            RunState::Scheduled | RunState::Running => false,
            RunState::Succeeded | RunState::Partial | RunState::Failed | RunState::Cancelled => {
                true
            }
        }
    }
}

words! {
    /// A shard's state.
    ShardState {
        /// Waits for a worker, not before its `ready_at`.
        Scheduled = "scheduled",
        /// Leased to a session.
        Running = "running",
        /// Waits for its next attempt, not before its `ready_at`.
        Retry = "retry",
        /// Done.
        Succeeded = "succeeded",
        /// Closed without success; a dead letter.
        Failed = "failed",
        /// Given up on request.
        Cancelled = "cancelled",
    }
}

impl ShardState {
    /// Whether the shard waits for a grant.
    #[must_use]
    pub fn is_grantable(self) -> bool {
        matches!(self, ShardState::Scheduled | ShardState::Retry)
    }

    /// Whether nothing more happens to the shard in this round.
    #[must_use]
    pub fn is_closed(self) -> bool {
        matches!(
            self,
            ShardState::Succeeded | ShardState::Failed | ShardState::Cancelled
        )
    }
}

words! {
    /// How an attempt ended.
    AttemptEnd {
        /// The handler returned success.
        Succeeded = "succeeded",
        /// The handler returned an error, or its process exited with one.
        Failed = "failed",
        /// It ran past its attempt, stall or run timeout.
        TimedOut = "timed_out",
        /// Its session ended before it reported.
        Lost = "lost",
        /// It was stopped by a cancel request.
        Cancelled = "cancelled",
        /// The worker gave it back (drain, preemption, no room); not a failure.
        Released = "released",
    }
}

words! {
    /// What a run waits for that may not start yet.
    WaitsFor {
        /// Its place in the queue of its job.
        Queue = "queue",
        /// The end of those that it replaces.
        Replaced = "replaced",
    }
}

words! {
    /// Why all of a run is being stopped. Recorded beside the state; the first cause stays.
    StopCause {
        /// A person or program asked.
        Cancel = "cancel",
        /// The run's deadline passed.
        Deadline = "deadline",
        /// A shard failed with an error that fails the whole run.
        Fatal = "fatal",
    }
}

/// One legal move of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// `run`, `shard` or `backfill`.
    pub entity: &'static str,
    /// State before; empty for a creation.
    pub from: &'static str,
    /// The event's kind.
    pub kind: &'static str,
    /// State after.
    pub to: &'static str,
    /// What must have happened.
    pub when: &'static str,
}

const fn mv(
    entity: &'static str,
    from: &'static str,
    kind: &'static str,
    to: &'static str,
    when: &'static str,
) -> Move {
    Move {
        entity,
        from,
        kind,
        to,
        when,
    }
}

/// Every legal move. An event whose (from, kind, to) is not here is a violation of I45.
#[must_use]
pub fn moves() -> &'static [Move] {
    MOVES
}

const MOVES: &[Move] = &[
    mv(
        "run",
        "",
        "run_created",
        "scheduled",
        "written by the trigger, a person or a backfill",
    ),
    mv(
        "run",
        "",
        "run_created",
        "running",
        "written with its first shard already leased",
    ),
    mv(
        "run",
        "",
        "run_created",
        "succeeded",
        "written with no input",
    ),
    mv(
        "run",
        "scheduled",
        "run_started",
        "running",
        "the first shard is granted",
    ),
    mv(
        "run",
        "scheduled",
        "run_settled",
        "succeeded",
        "the plan found no input",
    ),
    mv(
        "run",
        "scheduled",
        "run_settled",
        "failed",
        "stopped by deadline or fatal error",
    ),
    mv(
        "run",
        "scheduled",
        "run_settled",
        "cancelled",
        "cancelled before anything ran",
    ),
    mv(
        "run",
        "running",
        "run_settled",
        "succeeded",
        "every shard succeeded",
    ),
    mv(
        "run",
        "running",
        "run_settled",
        "partial",
        "some shards succeeded",
    ),
    mv(
        "run",
        "running",
        "run_settled",
        "failed",
        "no shard succeeded, or failed as a whole",
    ),
    mv(
        "run",
        "running",
        "run_settled",
        "cancelled",
        "a cancel request took effect on a shard",
    ),
    mv(
        "run",
        "partial",
        "run_reopened",
        "running",
        "explicit retry, round + 1",
    ),
    mv(
        "run",
        "failed",
        "run_reopened",
        "running",
        "explicit retry, round + 1",
    ),
    mv(
        "run",
        "scheduled",
        "run_expanded",
        "scheduled",
        "the plan step's answer was cut",
    ),
    mv(
        "run",
        "running",
        "run_expanded",
        "running",
        "the plan step's answer was cut",
    ),
    mv(
        "run",
        "scheduled",
        "run_released",
        "scheduled",
        "it waited for others of its job, and its turn has come",
    ),
    mv(
        "run",
        "scheduled",
        "stop_requested",
        "scheduled",
        "cancel, deadline or fatal error",
    ),
    mv(
        "run",
        "running",
        "stop_requested",
        "running",
        "cancel, deadline or fatal error",
    ),
    mv("shard", "", "attempt_granted", "running", "born leased"),
    mv(
        "shard",
        "scheduled",
        "attempt_granted",
        "running",
        "leased; the token rises",
    ),
    mv(
        "shard",
        "retry",
        "attempt_granted",
        "running",
        "leased again; the token rises",
    ),
    mv(
        "shard",
        "running",
        "checkpoint_saved",
        "running",
        "position moves forward",
    ),
    mv(
        "shard",
        "running",
        "attempt_recalled",
        "running",
        "asked to give its slot to a run of higher priority",
    ),
    mv(
        "shard",
        "running",
        "attempt_ended",
        "succeeded",
        "the holder reports success, or an error that a retry rule ignores",
    ),
    mv(
        "shard",
        "running",
        "attempt_ended",
        "retry",
        "failed, timed out or lost, budget left",
    ),
    mv(
        "shard",
        "running",
        "attempt_ended",
        "scheduled",
        "released by its worker",
    ),
    mv(
        "shard",
        "running",
        "attempt_ended",
        "failed",
        "budget used up, not retryable, or a retry rule says so",
    ),
    mv(
        "shard",
        "running",
        "attempt_ended",
        "cancelled",
        "ended after a stop request",
    ),
    mv(
        "shard",
        "scheduled",
        "shard_stopped",
        "cancelled",
        "stop request before a grant",
    ),
    mv(
        "shard",
        "retry",
        "shard_stopped",
        "cancelled",
        "stop request during backoff",
    ),
    mv(
        "shard",
        "failed",
        "shard_reopened",
        "scheduled",
        "explicit retry, new budget",
    ),
    mv(
        "shard",
        "failed",
        "shard_discarded",
        "failed",
        "struck off the dead letters; its outcome stays",
    ),
    mv(
        "shard",
        "cancelled",
        "shard_reopened",
        "scheduled",
        "explicit retry of a stopped run",
    ),
    mv("backfill", "", "backfill_created", "running", "asked for"),
    mv(
        "backfill",
        "running",
        "backfill_advanced",
        "running",
        "instants were looked at, runs started",
    ),
    mv(
        "backfill",
        "running",
        "backfill_paused",
        "paused",
        "asked for",
    ),
    mv(
        "backfill",
        "paused",
        "backfill_resumed",
        "running",
        "asked for",
    ),
    mv(
        "backfill",
        "running",
        "backfill_finished",
        "finished",
        "all of its range is done, its runs have closed and their checks are over",
    ),
    mv(
        "backfill",
        "running",
        "backfill_checked",
        "running",
        "checks were started, or are over",
    ),
    mv(
        "backfill",
        "paused",
        "backfill_checked",
        "paused",
        "checks are over",
    ),
    mv(
        "backfill",
        "finished",
        "backfill_checked",
        "finished",
        "a run of it was retried, and its check moved on",
    ),
    mv(
        "backfill",
        "cancelled",
        "backfill_checked",
        "cancelled",
        "checks are over",
    ),
    mv(
        "backfill",
        "running",
        "backfill_cancelled",
        "cancelled",
        "asked for, or its job was deleted",
    ),
    mv(
        "backfill",
        "paused",
        "backfill_cancelled",
        "cancelled",
        "asked for, or its job was deleted",
    ),
];

/// Whether an explicit retry reopens a closed shard. One that was discarded comes back only if it is
/// named.
#[must_use]
pub fn may_reopen(state: ShardState, discarded: bool, named: bool) -> bool {
    matches!(state, ShardState::Failed | ShardState::Cancelled) && (named || !discarded)
}

/// Whether a shard is a dead letter that can be discarded.
#[must_use]
pub fn may_discard(state: ShardState, discarded: bool) -> bool {
    state == ShardState::Failed && !discarded
}

/// Whether (`from`, `kind`, `to`) is a legal move of `entity`.
#[must_use]
pub fn is_legal(entity: &str, from: &str, kind: &str, to: &str) -> bool {
    MOVES
        .iter()
        .any(|m| m.entity == entity && m.from == from && m.kind == kind && m.to == to)
}
