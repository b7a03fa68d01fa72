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

use super::super::{SqliteStore, leases, recalls, row, sql};

impl LeaseStore for SqliteStore {
    fn list_ready(
        &self,
        pool: Name,
        after: Place,
        window: Window,
        per_run: u32,
    ) -> Answer<'_, Vec<ReadyHead>> {
        self.read(move |r| leases::list_ready(r, &pool, after, window, per_run))
    }
    fn next_ready_at(&self, pool: Name, after: Timestamp) -> Answer<'_, Option<Timestamp>> {
        self.read(move |r| leases::next_ready_at(r, &pool, after))
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
        self.read(move |r| leases::list_overdue(r, &pool, grace, limit))
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
        self.write(op, move |tx| recalls::write(tx, &fence, &recalls))
    }
    fn list_recalls(&self, runs: Vec<RunId>) -> Answer<'_, Vec<Recalled>> {
        bounded!(runs);
        self.read(move |r| recalls::list(r, &runs))
    }
    fn list_recalls_for(&self, by: RunId, limit: u32) -> Answer<'_, Vec<Recalled>> {
        self.read(move |r| {
            let params = (row::int(by.0), limit);
            r.all(sql::LIST_RECALLS_FOR, params, |row| row.recalled())
        })
    }
    fn list_leases(&self, session: SessionId) -> Answer<'_, Vec<Shard>> {
        self.read(move |r| {
            r.all(sql::LIST_LEASES, [row::int(session.0)], |row| {
                Ok(row.shard()?.shard)
            })
        })
    }
}
