//! A run's open shards, counted by what they wait for in time.
//!
//! # Not here
//! Why the ready ones wait (`super`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use sichen_core::ids::SessionId;
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::ShardState;
use sichen_core::model::Shard;
use sichen_core::place::MAX_BROADCAST;

/// Open shards, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Could be granted now, and since when the first of them could.
    pub ready: u32,
    /// The earliest instant from which one of those could be granted.
    pub ready_since: Option<Timestamp>,
    /// The numbers of the first of those.
    pub numbers: Vec<i32>,
    /// Wait for their time after a failed attempt.
    pub backing_off: u32,
    /// Wait for their first time.
    pub not_yet: u32,
    /// The first instant at which one of those becomes ready.
    pub next_ready: Option<Timestamp>,
    /// Running, by holder.
    pub running: BTreeMap<SessionId, u32>,
    /// The data source that the plan step asks, while it waits.
    pub plan: Option<String>,
}

impl Waiting {
    /// Adds a shard.
    pub fn count(&mut self, shard: &Shard, now: Timestamp) {
        let waits = shard.ready_at > now;
        if let (Descriptor::Plan { data_source, .. }, true) =
            (&shard.descriptor, shard.state.is_grantable())
        {
            self.plan = Some(data_source.clone());
        }
        match shard.state {
            ShardState::Scheduled | ShardState::Retry if !waits => {
                self.ready += 1;
                if self.numbers.len() < MAX_BROADCAST {
                    self.numbers.push(shard.key.no.0);
                }
                let since = self.ready_since.into_iter().chain([shard.ready_at]).min();
                self.ready_since = since;
            }
            ShardState::Scheduled => self.not_yet += 1,
            ShardState::Retry => self.backing_off += 1,
            ShardState::Running => {
                if let Some(session) = shard.session {
                    *self.running.entry(session).or_default() += 1;
                }
            }
            ShardState::Succeeded | ShardState::Failed | ShardState::Cancelled => {}
        }
        if waits && shard.state.is_grantable() {
            let next = self.next_ready.into_iter().chain([shard.ready_at]).min();
            self.next_ready = next;
        }
    }
}
