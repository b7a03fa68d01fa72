//! Backfills, and the checks of their runs.

use jiff::Timestamp;
use sichen_core::backfill;
use sichen_core::backfill::check::{Check, CheckState, CheckStep, CheckVerdict};
use sichen_core::backfill::{
    AdvanceVerdict as StepVerdict, Backfill, Facts, NewBackfill, NewVerdict, Turn, TurnVerdict,
};
use sichen_core::ids::{BackfillId, JobUid, Revision, RunId};
use sichen_core::port::{Answer, BackfillStore, Fence, Op, Page};

use super::super::{SqliteStore, backfills, checks};

impl BackfillStore for SqliteStore {
    fn create_backfill(&self, op: Op, new: NewBackfill) -> Answer<'_, NewVerdict> {
        self.write(op, move |tx| backfills::create(tx, &new))
    }
    fn get_backfill(&self, id: BackfillId) -> Answer<'_, Option<Backfill>> {
        self.read(move |r| backfills::get(r, id))
    }
    fn list_backfills(&self, job: JobUid, page: Page<BackfillId>) -> Answer<'_, Vec<Backfill>> {
        self.read(move |r| backfills::list(r, job, &page))
    }
    fn list_running_backfills(
        &self,
        partitions: Vec<u8>,
        page: Page<BackfillId>,
    ) -> Answer<'_, Vec<Backfill>> {
        self.read(move |r| backfills::list_running(r, &partitions, &page))
    }
    fn turn_backfill(
        &self,
        op: Op,
        fence: Option<Fence>,
        id: BackfillId,
        turn: Turn,
        cause: String,
    ) -> Answer<'_, TurnVerdict> {
        self.write(op, move |tx| {
            backfills::turn(tx, fence.as_ref(), id, turn, &cause)
        })
    }
    fn advance_backfill(
        &self,
        op: Op,
        fence: Fence,
        advance: backfill::Advance,
    ) -> Answer<'_, StepVerdict> {
        self.write(op, move |tx| backfills::advance(tx, &fence, advance))
    }
    fn move_checks(&self, op: Op, fence: Fence, step: CheckStep) -> Answer<'_, CheckVerdict> {
        let moves = &step.moves;
        bounded!(moves);
        self.write(op, move |tx| checks::step(tx, &fence, step))
    }
    fn list_checks(
        &self,
        backfill: BackfillId,
        state: Option<CheckState>,
        page: Page<(RunId, u32)>,
    ) -> Answer<'_, Vec<Check>> {
        self.read(move |r| checks::list(r, backfill, state, &page))
    }
    fn list_instants(&self, job: JobUid, instants: Vec<Timestamp>) -> Answer<'_, Vec<Facts>> {
        bounded!(instants);
        self.read(move |r| backfills::list_instants(r, job, &instants))
    }
    fn list_revisions(
        &self,
        job: JobUid,
        page: Page<Revision>,
    ) -> Answer<'_, Vec<(Revision, Option<Timestamp>)>> {
        self.read(move |r| backfills::list_revisions(r, job, &page))
    }
}
