//! Runs: asked for, stopped, reopened, settled.

use jiff::Timestamp;
use sichen_core::ids::{JobUid, Occasion, RunId, ShardKey};
use sichen_core::lifecycle::StopCause;
use sichen_core::model::{Progress, Run, Shard};
use sichen_core::port::{
    Answer, CreateVerdict, Discard, Fence, LateRuns, NewRun, Op, Page, RequestVerdict, RunFilter,
    RunStore,
};

use super::super::{SqliteStore, backfills, discards, leases, runs, shards};

impl RunStore for SqliteStore {
    fn create_runs(
        &self,
        op: Op,
        fences: Vec<Fence>,
        runs: Vec<NewRun>,
    ) -> Answer<'_, Vec<CreateVerdict>> {
        bounded!(runs);
        self.write(op, move |tx| {
            runs.into_iter()
                .map(|run| backfills::create_run(tx, &fences, run))
                .collect()
        })
    }
    fn get_run(&self, run: RunId) -> Answer<'_, Option<(Run, Progress)>> {
        self.read(move |r| {
            let Some(run) = r.run_row(run)? else {
                return Ok(None);
            };
            let sum = r.progress(run.id)?;
            Ok(Some((run, sum)))
        })
    }
    fn find_run(&self, job: JobUid, occasion: Occasion) -> Answer<'_, Option<RunId>> {
        self.read(move |r| Ok(r.run_of(job, &occasion.key())?.map(|(id, _)| id)))
    }
    fn list_runs(&self, filter: RunFilter, page: Page<RunId>) -> Answer<'_, Vec<Run>> {
        self.read(move |r| runs::list(r, &filter, &page))
    }
    fn request_stop(
        &self,
        op: Op,
        fence: Option<Fence>,
        run: RunId,
        cause: StopCause,
    ) -> Answer<'_, RequestVerdict> {
        self.write(op, move |tx| {
            runs::request_stop(tx, fence.as_ref(), run, cause)
        })
    }
    fn reopen_run(
        &self,
        op: Op,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        ready_at: Timestamp,
    ) -> Answer<'_, RequestVerdict> {
        self.write(op, move |tx| runs::reopen(tx, run, only, ready_at, None))
    }
    fn discard_shards(
        &self,
        op: Op,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        why: Discard,
    ) -> Answer<'_, RequestVerdict> {
        self.write(op, move |tx| discards::discard(tx, run, only, &why))
    }
    fn list_late_runs(&self, partitions: Vec<u8>, limit: u32) -> Answer<'_, LateRuns> {
        self.read(move |r| runs::list_late(r, &partitions, limit))
    }
    fn list_running(&self, run: RunId, limit: u32) -> Answer<'_, Vec<Shard>> {
        self.read(move |r| shards::list_running(r, run, limit))
    }
    fn count_open_runs(&self, jobs: Vec<JobUid>) -> Answer<'_, Vec<u32>> {
        bounded!(jobs);
        self.read(move |r| runs::count_open(r, &jobs))
    }
    fn count_running_of_job(&self, job: JobUid) -> Answer<'_, u32> {
        self.read(move |r| leases::running_of_job(r, job))
    }
    fn settle_runs(&self, op: Op, fences: Vec<Fence>, limit: u32) -> Answer<'_, Vec<RunId>> {
        self.write(op, move |tx| runs::settle_complete(tx, &fences, limit))
    }
}
