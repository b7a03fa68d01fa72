//! The way from a duty to a worker's stream.
//!
//! # Invariants
//! - Handing over never waits: a message that can't go now is dropped, and the next beat finds what
//!   is missing. Nothing depends on a message arriving.
//!
//! # Not here
//! Streams and wire messages (`sichen-server`), or the simulated network (`sichen-sim`).

use jiff::SignedDuration;
use sichen_core::ids::{SessionId, ShardKey, Token};

use crate::work::Work;

/// Why an attempt is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The run is being cancelled.
    CancelRequested,
    /// The attempt's timeout has passed.
    AttemptTimeout,
    /// The run's deadline has passed, or the run failed as a whole.
    RunStopped,
    /// Its slot is wanted for a run of higher priority: to save how far it has come, and to end as released.
    Preempted,
    /// The token is not the current one any more.
    StaleToken,
}

/// A message from the server to one worker.
#[derive(Clone, Debug, PartialEq)]
pub enum ToWorker {
    /// A lease on a shard.
    Grant(Box<Work>),
    /// Stop this attempt: ask, wait `grace`, kill; then report.
    Cancel {
        /// The shard.
        key: ShardKey,
        /// The attempt's token.
        token: Token,
        /// Why.
        reason: StopReason,
        /// From asking to killing.
        grace: SignedDuration,
    },
    /// Its pool is served by another node now: go there, with all that is held.
    Moved {
        /// Where that node is reached.
        address: String,
    },
    /// A newer incarnation has taken over: stop everything and exit.
    Superseded,
}

/// Hands messages to streams.
pub trait Courier: Send + Sync + 'static {
    /// Hands `message` to the stream of `session`; false if there is none here or it is full.
    fn deliver(&self, session: SessionId, message: ToWorker) -> bool;
}
