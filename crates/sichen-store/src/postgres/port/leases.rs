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

use super::super::kept::Locks;
use super::super::{PostgresStore, leases, recalls, sessions};

impl LeaseStore for PostgresStore {
    fn list_ready(
        &self,
        pool: Name,
        after: Place,
        window: Window,
        per_run: u32,
    ) -> Answer<'_, Vec<ReadyHead>> {
        Box::pin(async move {
            let look = |pool: Name| {
                glance!(self, [pool], |read| leases::list_ready(
                    read, &pool, after, window, per_run
                )
                .await)
            };
            let (heads, more) = look(pool.clone()).await?;
            if !more {
                return Ok(heads);
            }
            // Transactions of their own: nobody sees the difference.
            for _ in 0..leases::PROMOTIONS {
                let of = pool.clone();
                let promoted = alone!(self, [of], |read| leases::promote(read, &of).await);
                match promoted.await {
                    Ok(promoted) if promoted == leases::PROMOTED => {}
                    Ok(_) => break,
                    Err(error) => {
                        // What was found is as good as it was.
                        tracing::debug!(%error, %pool, "what became ready could not be put among the others");
                        return Ok(heads);
                    }
                }
            }
            Ok(look(pool).await?.0)
        })
    }
    fn next_ready_at(&self, pool: Name, after: Timestamp) -> Answer<'_, Option<Timestamp>> {
        glance!(self, [pool], |read| leases::next_ready_at(
            read, &pool, after
        )
        .await)
    }
    fn lease_shards(
        &self,
        op: Op,
        fence: Fence,
        grants: Vec<Grant>,
    ) -> Answer<'_, Vec<GrantVerdict>> {
        bounded!(grants);
        write!(self, Some(op), [fence, grants], |tx| {
            let limited = grants.iter().filter(|grant| grant.most_of_job.is_some());
            tx.lock(&Locks {
                duties: vec![fence.key.text()],
                limited: limited.map(|grant| grant.key.run).collect(),
                sessions: grants.iter().map(|grant| grant.session).collect(),
                ..Locks::of_shards(grants.iter().map(|grant| grant.key).collect())
            })
            .await?;
            leases::lease(tx, &fence, &grants).await
        })
    }
    fn list_overdue(
        &self,
        pool: Name,
        grace: SignedDuration,
        limit: u32,
    ) -> Answer<'_, Vec<Overdue>> {
        glance!(self, [pool], |read| leases::list_overdue(
            read, &pool, grace, limit
        )
        .await)
    }
    fn reap_shards(&self, op: Op, fence: Fence, reaps: Vec<Reap>) -> Answer<'_, Vec<ReapVerdict>> {
        bounded!(reaps);
        write!(self, Some(op), [fence, reaps], |tx| {
            tx.lock_duties(vec![fence.key.text()], true).await?;
            let locks = Locks::of_shards(reaps.iter().map(|reap| reap.key).collect());
            tx.lock_runs(&locks.runs).await?;
            let holders = tx.lock_shards(&locks.shards).await?;
            tx.lock_sessions(&holders).await?;
            tx.tell_time().await?;
            leases::reap(tx, &fence, reaps).await
        })
    }
    fn recall_shards(
        &self,
        op: Op,
        fence: Fence,
        recalls: Vec<Recall>,
    ) -> Answer<'_, Vec<RecallVerdict>> {
        bounded!(recalls);
        write!(self, Some(op), [fence, recalls], |tx| {
            tx.lock(&Locks {
                duties: vec![fence.key.text()],
                ..Locks::of_shards(recalls.iter().map(|recall| recall.key).collect())
            })
            .await?;
            recalls::write(tx, &fence, &recalls).await
        })
    }
    fn list_recalls(&self, runs: Vec<RunId>) -> Answer<'_, Vec<Recalled>> {
        bounded!(runs);
        read!(self, [runs], |read| recalls::list(read, &runs).await)
    }
    fn list_recalls_for(&self, by: RunId, limit: u32) -> Answer<'_, Vec<Recalled>> {
        read!(self, [], |read| recalls::list_for(read, by, limit).await)
    }
    fn list_leases(&self, session: SessionId) -> Answer<'_, Vec<Shard>> {
        glance!(self, [], |read| sessions::leases(read, session).await)
    }
}
