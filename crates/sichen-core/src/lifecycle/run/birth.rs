//! How a run begins: its state, its counts, when its shards may go.
//!
//! # Invariants
//! - What has no input is over at once and waits for nobody.
//! - Nothing of a run that waits for others is grantable: its shards are parked.
//!
//! # Not here
//! Whether its occasion is free and its job still as it was seen (the store, under its lock, by
//! [`NewRun::holds`]); what the event tells ([`crate::lifecycle::told`]).

use jiff::Timestamp;

use crate::ids::{RunId, SessionId, ShardNo};
use crate::layout::Descriptor;
use crate::lifecycle::run::missed_its_start;
use crate::lifecycle::{RunState, WaitsFor};
use crate::model::{Job, Waits, parked};
use crate::port::{Counted, CreateVerdict, NewRun};

/// What a new run is written with beyond what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth {
    /// Its state.
    pub state: RunState,
    /// What it waits for, if it does.
    pub waits: Option<Waits>,
    /// Its shards; 0 until the plan step has told them.
    pub total: u32,
    /// Its shards that are not closed, the plan step among them.
    pub open: u32,
    /// Number of its first shard.
    pub first: i32,
    /// Not before this is anything of it granted.
    pub ready_at: Timestamp,
    /// When all of it must have ended.
    pub deadline: Option<Timestamp>,
    /// When its first shard was granted.
    pub started_at: Option<Timestamp>,
    /// When it was settled.
    pub ended_at: Option<Timestamp>,
}

impl Birth {
    /// Whether those open runs of the job are stopped that it takes the place of.
    #[must_use]
    pub fn replaces(&self) -> bool {
        self.waits
            .is_some_and(|waits| waits.what == WaitsFor::Replaced)
    }
}

impl NewRun {
    /// Whether how many runs of the job are open decides about it: they stand still while it is written,
    /// and are counted if the job's row does not count them.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        self.counted.is_some() || self.waits.is_some()
    }

    /// Whether it may be written: its job is as it was when this was decided. `open`: so many of its runs
    /// are open, if its row does not count them.
    #[must_use]
    pub fn holds(&self, job: &Job, open: Option<u32>) -> bool {
        let counted = open.map_or_else(|| Counted::of(job), Counted::running);
        job.revision == self.revision && self.counted.is_none_or(|seen| seen == counted)
    }

    /// What is answered when its occasion has a run already, made for a request of this digest.
    #[must_use]
    pub fn taken(&self, by: RunId, digest: &str) -> CreateVerdict {
        if self.digest == digest {
            CreateVerdict::Exists(by)
        } else {
            CreateVerdict::OtherRequest(by)
        }
    }

    /// Whether it waits in a queue before it starts: not so what has no input.
    #[must_use]
    pub fn queues(&self) -> bool {
        !self.shards.is_empty()
    }

    /// The session that gets its only shard at once, if it is still fit to hold one.
    #[must_use]
    pub fn heir(&self, now: Timestamp) -> Option<SessionId> {
        // What uses capacities is granted where these are under lock.
        let alone = self.shards.len() == 1 && self.terms.uses.is_empty();
        let alone = alone && self.waits.is_none() && self.ready_at <= now;
        let alone = alone && !missed_its_start(&self.terms, now);
        self.born_leased.filter(|_| alone)
    }

    /// How it begins at `now`; `granted`: its only shard goes to its [`heir`](NewRun::heir).
    #[must_use]
    pub fn birth(&self, granted: bool, now: Timestamp) -> Birth {
        let plan = matches!(&*self.shards, [Descriptor::Plan { .. }]);
        let open = u32::try_from(self.shards.len()).unwrap_or(u32::MAX);
        let state = match open {
            0 => RunState::Succeeded,
            _ if granted => RunState::Running,
            _ => RunState::Scheduled,
        };
        let waits = self.waits.filter(|_| !state.is_closed());
        Birth {
            state,
            waits,
            total: if plan { 0 } else { open },
            open,
            first: if plan { ShardNo::PLAN.0 } else { 0 },
            ready_at: if waits.is_some() {
                parked()
            } else {
                self.ready_at
            },
            deadline: self.deadline(granted, now),
            started_at: granted.then_some(now),
            ended_at: state.is_closed().then_some(now),
        }
    }
}

#[cfg(test)]
mod tests;
