//! Backfills, and the checks of their runs.

use jiff::Timestamp;
use sichen_core::backfill;
use sichen_core::backfill::check::{Check, CheckState, CheckStep, CheckVerdict};
use sichen_core::backfill::{
    AdvanceVerdict as StepVerdict, Backfill, Facts, NewBackfill, NewVerdict, Turn, TurnVerdict,
};
use sichen_core::ids::{BackfillId, JobUid, Revision, RunId};
use sichen_core::port::{Answer, BackfillStore, Fence, Op, Page};

use super::super::{PostgresStore, backfills, checks, keys_of, namespaces};

impl BackfillStore for PostgresStore {
    fn create_backfill(&self, op: Op, new: NewBackfill) -> Answer<'_, NewVerdict> {
        write!(self, Some(op), [new], |tx| {
            tx.lock_jobs(vec![new.job.0]).await?;
            tx.tell_time().await?;
            backfills::create(tx, &new).await
        })
    }
    fn get_backfill(&self, id: BackfillId) -> Answer<'_, Option<Backfill>> {
        read!(self, [], |read| backfills::get(read, id).await)
    }
    fn list_backfills(&self, job: JobUid, page: Page<BackfillId>) -> Answer<'_, Vec<Backfill>> {
        read!(self, [page], |read| backfills::list(read, job, &page).await)
    }
    fn list_running_backfills(
        &self,
        partitions: Vec<u8>,
        page: Page<BackfillId>,
    ) -> Answer<'_, Vec<Backfill>> {
        glance!(self, [partitions, page], |read| backfills::list_running(
            read,
            &partitions,
            &page
        )
        .await)
    }
    fn turn_backfill(
        &self,
        op: Op,
        fence: Option<Fence>,
        id: BackfillId,
        turn: Turn,
        cause: String,
    ) -> Answer<'_, TurnVerdict> {
        write!(self, Some(op), [fence, cause], |tx| {
            tx.lock_duties(keys_of(fence.as_slice()), true).await?;
            backfills::lock(tx, id, Vec::new()).await?;
            tx.tell_time().await?;
            backfills::turn(tx, fence.as_ref(), id, turn, &cause).await
        })
    }
    fn advance_backfill(
        &self,
        op: Op,
        fence: Fence,
        advance: backfill::Advance,
    ) -> Answer<'_, StepVerdict> {
        write!(self, Some(op), [fence, advance], |tx| {
            tx.lock_duties(vec![fence.key.text()], true).await?;
            backfills::lock(tx, advance.id, backfills::reopens(&advance)).await?;
            tx.tell_time().await?;
            namespaces::lock_queues(tx, backfills::writes(&advance)).await?;
            backfills::advance(tx, &fence, advance).await
        })
    }
    fn move_checks(&self, op: Op, fence: Fence, step: CheckStep) -> Answer<'_, CheckVerdict> {
        let moves = &step.moves;
        bounded!(moves);
        write!(self, Some(op), [fence, step], |tx| {
            checks::step(tx, &fence, step).await
        })
    }
    fn list_checks(
        &self,
        backfill: BackfillId,
        state: Option<CheckState>,
        page: Page<(RunId, u32)>,
    ) -> Answer<'_, Vec<Check>> {
        read!(self, [page], |read| checks::list(
            read, backfill, state, &page
        )
        .await)
    }
    fn list_instants(&self, job: JobUid, instants: Vec<Timestamp>) -> Answer<'_, Vec<Facts>> {
        bounded!(instants);
        read!(self, [instants], |read| backfills::list_instants(
            read, job, &instants
        )
        .await)
    }
    fn list_revisions(
        &self,
        job: JobUid,
        page: Page<Revision>,
    ) -> Answer<'_, Vec<(Revision, Option<Timestamp>)>> {
        read!(self, [page], |read| backfills::list_revisions(
            read, job, &page
        )
        .await)
    }
}
