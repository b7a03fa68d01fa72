//! What a worker is told about the shard it is granted.
//!
//! # Not here
//! The wire form (`sichen-server`).

use std::sync::Arc;

use jiff::SignedDuration;
use sichen_core::document::{Document, RunSpec};
use sichen_core::ids::{Token, fence_key};
use sichen_core::model::{Run, Shard};
use sichen_core::trace::{Ratio, TraceId};

/// From asking an attempt to stop to killing it, at most, if its job says nothing else.
pub const GRACE: SignedDuration = SignedDuration::from_secs(10);

/// A grant, complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The shard with its new token.
    pub shard: Shard,
    /// Number of the grant within its session.
    pub grant_seq: u64,
    /// The run it is a part of.
    pub run: Arc<Run>,
    /// The revision's document.
    pub document: Arc<Document>,
    /// How long ago it was granted, if it is sent again. The store counts the attempt's first sign of
    /// progress from there: counted from its arrival, an attempt could still run when its shard is
    /// somebody else's.
    pub granted_ago: SignedDuration,
    /// How long the attempt may still take, from now: a grant that is sent again has less left.
    pub attempt_timeout: Option<SignedDuration>,
    /// How long the run may still take, from now.
    pub run_timeout: Option<SignedDuration>,
    /// Earlier attempts of the shard of which nobody knows how far they came, oldest first.
    pub unknown_outcomes: Vec<(u32, Token)>,
    /// Which share of the runs is traced.
    pub traced: Ratio,
}

impl Work {
    /// The key of the shard's fence in the user's database.
    #[must_use]
    pub fn fence_key(&self) -> String {
        fence_key(self.run.job, &self.run.occasion, self.shard.key.no)
    }

    /// The `traceparent` under which the attempt works.
    #[must_use]
    pub fn traceparent(&self) -> String {
        let trace = TraceId::of(self.run.job, self.run.id);
        trace.traceparent(self.shard.key, self.shard.token, self.traced.takes(trace))
    }

    /// From asking the attempt to stop to killing it, if the job says so; else its worker's own.
    #[must_use]
    pub fn grace(&self) -> Option<SignedDuration> {
        self.document.grace()
    }

    /// The process to start, if the job is one.
    #[must_use]
    pub fn process(&self) -> Option<&sichen_core::document::ProcessSpec> {
        match &self.document.spec.run {
            RunSpec::Process(process) => Some(process),
            RunSpec::Handler(_) => None,
        }
    }
}
