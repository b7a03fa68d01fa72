//! Backfills, and the checks of their runs.

use jiff::Timestamp;

use super::{Answer, Fence, Op, Page};
use crate::backfill;
use crate::backfill::check::{Check, CheckState, CheckStep, CheckVerdict};
use crate::backfill::{Backfill, Facts, NewBackfill};
use crate::ids::{BackfillId, JobUid, Revision, RunId};

/// Backfills, and the checks of their runs. A part of [`Store`](super::Store).
pub trait BackfillStore: Send + Sync + 'static {
    /// Writes a backfill that a person or program asked for.
    fn create_backfill(&self, op: Op, new: NewBackfill) -> Answer<'_, backfill::NewVerdict>;
    /// A backfill.
    fn get_backfill(&self, id: BackfillId) -> Answer<'_, Option<Backfill>>;
    /// A job's backfills, newest first.
    fn list_backfills(&self, job: JobUid, page: Page<BackfillId>) -> Answer<'_, Vec<Backfill>>;
    /// Backfills of the jobs of these partitions that go on, by id: running ones, and others whose
    /// checks do ([`backfill::check`]).
    fn list_running_backfills(
        &self,
        partitions: Vec<u8>,
        page: Page<BackfillId>,
    ) -> Answer<'_, Vec<Backfill>>;
    /// Pauses, resumes or cancels a backfill. `fence` if a duty does; `cause`: why.
    fn turn_backfill(
        &self,
        op: Op,
        fence: Option<Fence>,
        id: BackfillId,
        turn: backfill::Turn,
        cause: String,
    ) -> Answer<'_, backfill::TurnVerdict>;
    /// Moves a backfill on and starts its runs, all or nothing.
    fn advance_backfill(
        &self,
        op: Op,
        fence: Fence,
        advance: backfill::Advance,
    ) -> Answer<'_, backfill::AdvanceVerdict>;
    /// Moves checks of a backfill's runs; those that no longer fit are passed over.
    fn move_checks(&self, op: Op, fence: Fence, step: CheckStep) -> Answer<'_, CheckVerdict>;
    /// The checks of a backfill's runs, or those in `state`, by run and round.
    fn list_checks(
        &self,
        backfill: BackfillId,
        state: Option<CheckState>,
        page: Page<(RunId, u32)>,
    ) -> Answer<'_, Vec<Check>>;
    /// The newest run of each of these instants of a job, and what is recorded of it: a row for
    /// each, in the same order; at most [`MAX_BATCH`].
    fn list_instants(&self, job: JobUid, instants: Vec<Timestamp>) -> Answer<'_, Vec<Facts>>;
    /// A job's revisions with the marks at which they began, where that is known.
    fn list_revisions(
        &self,
        job: JobUid,
        page: Page<Revision>,
    ) -> Answer<'_, Vec<(Revision, Option<Timestamp>)>>;
}
