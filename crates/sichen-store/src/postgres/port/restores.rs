//! Restores: a store that went back, and what people decide about it.

use sichen_core::port::{Answer, NewRun, Op, RestoreStore};
use sichen_core::restore::{Decided, Restore, Subject, Verdict};

use super::super::{PostgresStore, kept, restored};

impl RestoreStore for PostgresStore {
    fn get_restore(&self) -> Answer<'_, Option<Restore>> {
        glance!(self, [], |read| restored::get(read).await)
    }
    fn begin_restore(&self, op: Op, known: u32) -> Answer<'_, Restore> {
        write!(self, Some(op), [], |tx| {
            tx.take_turn(kept::Turn::Claim, "").await?;
            let duties = restored::duties(tx).await?;
            tx.lock_duties(duties, false).await?;
            tx.tell_time().await?;
            restored::begin(tx, known).await
        })
    }
    fn decide_restore(&self, op: Op, decided: Decided) -> Answer<'_, Verdict> {
        write!(self, Some(op), [decided], |tx| {
            // In turn with the next restore's beginning and with whoever would take a duty.
            tx.take_turn(kept::Turn::Claim, "").await?;
            match &decided.subject {
                Subject::Job(job, step) => {
                    tx.lock_jobs(vec![job.0]).await?;
                    tx.shut_gate(Some(*job)).await?;
                    let runs: Vec<&NewRun> = step.iter().flat_map(|step| &step.runs).collect();
                    tx.lock_replaced(&runs).await?;
                }
                Subject::Run(run) => tx.lock_runs(&[*run]).await?,
                Subject::Rest => {}
            }
            tx.tell_time().await?;
            restored::decide(tx, decided).await
        })
    }
}
