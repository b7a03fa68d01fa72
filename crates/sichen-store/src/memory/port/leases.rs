//! Shards on their way to a worker and, if it is lost, back.

use jiff::{SignedDuration, Timestamp};
use sichen_core::dispatch::preempt::{Recall, RecallVerdict, Recalled};
use sichen_core::dispatch::queue::{Place, Window};
use sichen_core::ids::{RunId, SessionId};
use sichen_core::model::Shard;
use sichen_core::name::Name;
use sichen_core::port::{
    Answer, Fence, Grant, GrantVerdict, LeaseStore, Op, Overdue, ReadyHead, Reap, ReapVerdict,
};

use super::super::{MemoryStore, leases, recalls};

impl LeaseStore for MemoryStore {
    fn list_ready(
        &self,
        pool: Name,
        after: Place,
        window: Window,
        per_run: u32,
    ) -> Answer<'_, Vec<ReadyHead>> {
        self.read(move |s, now| leases::list_ready(s, now, &pool, after, window, per_run as usize))
    }
    fn next_ready_at(&self, pool: Name, after: Timestamp) -> Answer<'_, Option<Timestamp>> {
        self.read(move |s, _| leases::next_ready_at(s, after, &pool))
    }
    fn lease_shards(
        &self,
        op: Op,
        fence: Fence,
        grants: Vec<Grant>,
    ) -> Answer<'_, Vec<GrantVerdict>> {
        bounded!(grants);
        self.write(op, move |tx| leases::lease(tx, &fence, &grants))
    }
    fn list_overdue(
        &self,
        pool: Name,
        grace: SignedDuration,
        limit: u32,
    ) -> Answer<'_, Vec<Overdue>> {
        self.read(move |s, now| leases::list_overdue(s, now, &pool, grace, limit as usize))
    }
    fn reap_shards(&self, op: Op, fence: Fence, reaps: Vec<Reap>) -> Answer<'_, Vec<ReapVerdict>> {
        bounded!(reaps);
        self.write(op, move |tx| leases::reap(tx, &fence, reaps))
    }
    fn recall_shards(
        &self,
        op: Op,
        fence: Fence,
        recalls: Vec<Recall>,
    ) -> Answer<'_, Vec<RecallVerdict>> {
        bounded!(recalls);
        self.write(op, move |tx| recalls::write(tx, &fence, recalls))
    }
    fn list_recalls(&self, runs: Vec<RunId>) -> Answer<'_, Vec<Recalled>> {
        bounded!(runs);
        self.read(move |s, _| {
            let of = runs.iter().flat_map(|run| recalls::list(s, *run));
            of.copied().collect()
        })
    }
    fn list_recalls_for(&self, by: RunId, limit: u32) -> Answer<'_, Vec<Recalled>> {
        self.read(move |s, _| {
            let of = s.recalls.values().filter(|recalled| recalled.by == by);
            of.take(limit as usize).copied().collect()
        })
    }
    fn list_leases(&self, session: SessionId) -> Answer<'_, Vec<Shard>> {
        self.read(move |s, _| s.held_by(session).cloned().collect())
    }
}
