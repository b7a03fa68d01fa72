//! Runs: asked for, stopped, reopened, settled.

use std::sync::Arc;

use jiff::Timestamp;
use sichen_core::ids::{JobUid, Occasion, RunId, ShardKey};
use sichen_core::lifecycle::StopCause;
use sichen_core::model::{Progress, Run, Shard};
use sichen_core::port::{
    Answer, CreateVerdict, Discard, Fence, LateRuns, NewRun, Op, Page, RequestVerdict, RunFilter,
    RunStore,
};

use super::super::gates::Standing;
use super::super::kept::Locks;
use super::super::{
    PostgresStore, backfills, discards, gates, keys_of, leases, namespaces, runs, shards,
};

impl RunStore for PostgresStore {
    fn create_runs(
        &self,
        op: Op,
        fences: Vec<Fence>,
        runs: Vec<NewRun>,
    ) -> Answer<'_, Vec<CreateVerdict>> {
        bounded!(runs);
        write!(self, Some(op), [fences, runs], |tx| {
            let jobs = Standing::of(&runs);
            let locks = Locks {
                duties: keys_of(&fences),
                jobs: jobs.locked,
                standing: jobs.standing,
                sessions: runs.iter().filter_map(|run| run.born_leased).collect(),
                ..Locks::default()
            };
            tx.lock_to_write(&locks, &Vec::from_iter(&runs)).await?;
            namespaces::lock_queues(tx, runs.iter().map(|run| run.job).collect()).await?;
            backfills::create_runs(tx, &fences, runs).await
        })
    }
    fn get_run(&self, run: RunId) -> Answer<'_, Option<(Run, Progress)>> {
        read!(self, [], |read| {
            let Some(run) = read.run_row(run).await? else {
                return Ok(None);
            };
            let sum = read.progress(run.id).await?;
            Ok(Some((Arc::unwrap_or_clone(run), sum)))
        })
    }
    fn find_run(&self, job: JobUid, occasion: Occasion) -> Answer<'_, Option<RunId>> {
        glance!(self, [occasion], |read| Ok(read
            .run_of(job, &occasion.key())
            .await?
            .map(|(id, _)| id)))
    }
    fn list_runs(&self, filter: RunFilter, page: Page<RunId>) -> Answer<'_, Vec<Run>> {
        read!(self, [filter, page], |read| runs::list(
            read, &filter, &page
        )
        .await)
    }
    fn request_stop(
        &self,
        op: Op,
        fence: Option<Fence>,
        run: RunId,
        cause: StopCause,
    ) -> Answer<'_, RequestVerdict> {
        write!(self, Some(op), [fence], |tx| {
            tx.lock_duties(keys_of(fence.as_slice()), true).await?;
            tx.lock_runs(&[run]).await?;
            tx.tell_time().await?;
            runs::request_stop(tx, fence.as_ref(), run, cause).await
        })
    }
    fn reopen_run(
        &self,
        op: Op,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        ready_at: Timestamp,
    ) -> Answer<'_, RequestVerdict> {
        write!(self, Some(op), [only], |tx| {
            tx.lock_runs(&[run]).await?;
            tx.tell_time().await?;
            runs::reopen(tx, run, only, ready_at, None).await
        })
    }
    fn discard_shards(
        &self,
        op: Op,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        why: Discard,
    ) -> Answer<'_, RequestVerdict> {
        write!(self, Some(op), [only, why], |tx| {
            tx.lock_runs(&[run]).await?;
            tx.tell_time().await?;
            discards::discard(tx, run, only, &why).await
        })
    }
    fn list_late_runs(&self, partitions: Vec<u8>, limit: u32) -> Answer<'_, LateRuns> {
        glance!(self, [partitions], |read| runs::list_late(
            read,
            &partitions,
            limit
        )
        .await)
    }
    fn list_running(&self, run: RunId, limit: u32) -> Answer<'_, Vec<Shard>> {
        read!(self, [], |read| shards::list_running(read, run, limit)
            .await)
    }
    fn count_open_runs(&self, jobs: Vec<JobUid>) -> Answer<'_, Vec<u32>> {
        bounded!(jobs);
        read!(self, [jobs], |read| gates::count_open(read, &jobs).await)
    }
    fn count_running_of_job(&self, job: JobUid) -> Answer<'_, u32> {
        read!(self, [], |read| leases::running_of_job(read, job).await)
    }
    fn settle_runs(&self, op: Op, fences: Vec<Fence>, limit: u32) -> Answer<'_, Vec<RunId>> {
        write!(self, Some(op), [fences], |tx| {
            tx.lock_duties(keys_of(&fences), true).await?;
            tx.tell_time().await?;
            runs::settle_complete(tx, &fences, limit).await
        })
    }
}
