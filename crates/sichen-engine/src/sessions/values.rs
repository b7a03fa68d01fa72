//! What a worker says and what it is answered, free of any transport.

use std::sync::Arc;

use jiff::SignedDuration;
use sichen_core::ids::{SessionId, ShardKey, Token};
use sichen_core::lease::Rhythm;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{Appearance, Failure, Progress, WorkerIdentity};
use sichen_core::name::Name;
use sichen_core::place::Offer;
use sichen_core::port::{Reporter, Returned};

use crate::courier::StopReason;

/// A worker that introduces itself.
#[derive(Clone, Debug)]
pub struct Hello {
    /// Who.
    pub worker: WorkerIdentity,
    /// Which of its registrations this is, if it asks for a session.
    pub appearance: Appearance,
    /// The pool it serves.
    pub pool: Name,
    /// Shards it runs at once.
    pub slots: u32,
    /// Handlers it offers.
    pub handlers: Vec<String>,
    /// Its labels and resources.
    pub offer: Offer,
    /// Takes no new work.
    pub draining: bool,
    /// Set if it comes back over a new stream with a session it still believes in.
    pub resume: Option<SessionId>,
    /// What it runs (resume only).
    pub running: Vec<(ShardKey, Token)>,
    /// Highest grant number seen (resume only).
    pub highest_grant_seen: u64,
    /// Reports of its journal, handed in before anything else.
    pub journal: Vec<Report>,
    /// Attempts of its earlier processes that it has proved dead.
    pub dead: Vec<(ShardKey, Token)>,
    /// It has made sure that nothing of its earlier processes lives: their leases end at once.
    pub old_trees_dead: bool,
}

/// The answer to a [`Hello`].
#[derive(Clone, Debug, PartialEq)]
pub enum HelloAnswer {
    /// Registered or resumed.
    Welcome {
        /// The session.
        session: SessionId,
        /// How long it lasts and how often to beat.
        rhythm: Rhythm,
        /// Verdicts on the journal, in its order.
        journal: Vec<ReportVerdict>,
        /// What the worker runs and should not.
        stop: Vec<(ShardKey, Token, StopReason)>,
    },
    /// The session it wanted to resume is over.
    SessionLost,
    /// A newer incarnation of the worker has registered.
    Superseded,
    /// The same process has registered since it said this: nobody waits for an answer.
    Outdated,
    /// Another node owns the pool.
    Moved {
        /// Its address.
        address: String,
    },
    /// The Hello makes no sense; repeating it is useless.
    Refused {
        /// Short and stable.
        code: &'static str,
        /// For people.
        message: String,
    },
}

/// A beat.
#[derive(Clone, Debug)]
pub struct Beat {
    /// The session.
    pub session: SessionId,
    /// What it runs, or has ended and not yet had acknowledged.
    pub running: Vec<(ShardKey, Token)>,
    /// Only grants up to this number are judged.
    pub highest_grant_seen: u64,
}

/// The answer to a [`Beat`].
#[derive(Clone, Debug, PartialEq)]
pub enum BeatAnswer {
    /// The session goes on.
    Alive {
        /// For how long, counted from the sending of the beat.
        valid_for: SignedDuration,
        /// What the worker should stop.
        stop: Vec<(ShardKey, Token, StopReason)>,
    },
    /// The session is over: kill all work, register anew.
    Lost,
    /// A newer incarnation has taken over: kill all work, exit.
    Superseded,
}

/// The keys that a plan step found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Least and greatest key, or none at all.
    Extremes(Option<(i64, i64)>),
    /// One shard each.
    Items(Vec<String>),
}

/// The end of an attempt as the worker reports it.
#[derive(Clone, Debug)]
pub struct Report {
    /// The shard.
    pub key: ShardKey,
    /// The attempt's token.
    pub token: Token,
    /// How it ended.
    pub ending: Ending,
    /// Digest of the report.
    pub digest: String,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// Newest counters.
    pub progress: Option<Progress>,
    /// What a plan step found.
    pub plan: Option<Plan>,
    /// What the worker calls the run; empty if it has forgotten.
    pub run_key: String,
    /// What it returned.
    pub returned: Returned,
}

/// Who hands reports in.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// For the history: `worker NAME`.
    pub actor: &'a str,
    /// The worker, whose attempts alone it may end; `None` if this server itself says so.
    pub by: Option<&'a Arc<Reporter>>,
}

impl<'a> From<&'a str> for Source<'a> {
    fn from(actor: &'a str) -> Self {
        Source { actor, by: None }
    }
}

/// What became of a [`Report`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportVerdict {
    /// Accepted.
    Accepted,
    /// Accepted before.
    Duplicate,
    /// The token is not current; refused and recorded.
    Stale {
        /// What is the case instead.
        detail: String,
    },
    /// The same token reported something else before.
    Contradicts,
    /// No decision could be committed; report again.
    RetryLater,
}
