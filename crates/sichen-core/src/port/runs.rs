//! Runs: asked for, stopped, reopened, settled.

use jiff::Timestamp;

use super::{
    Answer, CreateVerdict, Discard, Fence, LateRuns, NewRun, Op, Page, RequestVerdict, RunFilter,
};
use crate::ids::{JobUid, Occasion, RunId, ShardKey};
use crate::lifecycle::StopCause;
use crate::model::{Progress, Run, Shard};

/// Runs: asked for, stopped, reopened, settled. A part of [`Store`](super::Store).
pub trait RunStore: Send + Sync + 'static {
    /// Writes runs that people or programs asked for; callers of one batch are independent.
    /// `fences` are needed only for those born leased.
    fn create_runs(
        &self,
        op: Op,
        fences: Vec<Fence>,
        runs: Vec<NewRun>,
    ) -> Answer<'_, Vec<CreateVerdict>>;
    /// A run, with the sums of its shards' progress.
    fn get_run(&self, run: RunId) -> Answer<'_, Option<(Run, Progress)>>;
    /// The run of an occasion.
    fn find_run(&self, job: JobUid, occasion: Occasion) -> Answer<'_, Option<RunId>>;
    /// Runs, newest first.
    fn list_runs(&self, filter: RunFilter, page: Page<RunId>) -> Answer<'_, Vec<Run>>;
    /// Stops a run: waiting shards are cancelled now, running ones when their attempt ends.
    /// The first cause stays. `fence` if a duty asks.
    fn request_stop(
        &self,
        op: Op,
        fence: Option<Fence>,
        run: RunId,
        cause: StopCause,
    ) -> Answer<'_, RequestVerdict>;
    /// Reopens the failed and cancelled shards of a `failed` or `partial` run: new budget, same
    /// run, same checkpoints; round + 1. `only`: these shards alone, discarded ones too.
    fn reopen_run(
        &self,
        op: Op,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        ready_at: Timestamp,
    ) -> Answer<'_, RequestVerdict>;
    /// Strikes failed shards of a `failed` or `partial` run off the dead letters: their outcome and
    /// the run's stay, and [`RunStore::reopen_run`] leaves them out unless it names them. `only`: these
    /// shards alone.
    fn discard_shards(
        &self,
        op: Op,
        run: RunId,
        only: Option<Vec<ShardKey>>,
        why: Discard,
    ) -> Answer<'_, RequestVerdict>;
    /// Open runs of these partitions that are past their deadline and not being stopped, at most
    /// `limit`, and the deadline that passes next.
    fn list_late_runs(&self, partitions: Vec<u8>, limit: u32) -> Answer<'_, LateRuns>;
    /// How many runs of each of these jobs are open, without those of backfills: what its row says, or, of
    /// one whose row does not count them, what is there, at most
    /// [`MAX_COUNTED_RUNS`](super::MAX_COUNTED_RUNS). 0 of one that is not there.
    fn count_open_runs(&self, jobs: Vec<JobUid>) -> Answer<'_, Vec<u32>>;
    /// How many shards of a job run, in all its runs.
    fn count_running_of_job(&self, job: JobUid) -> Answer<'_, u32>;
    /// Running shards of a run by number, at most `limit`: who is to be told that it stops.
    fn list_running(&self, run: RunId, limit: u32) -> Answer<'_, Vec<Shard>>;
    /// Settles runs whose counters are complete but whose state is not (there should be none).
    fn settle_runs(&self, op: Op, fences: Vec<Fence>, limit: u32) -> Answer<'_, Vec<RunId>>;
}
