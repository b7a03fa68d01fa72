//! What follows a job's runs: written with the end of the run, or the decision, that makes it.
//!
//! # Not here
//! Which instant it is ([`sichen_core::schedule::follow`]).

use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{JobUid, RunId};
use sichen_core::lifecycle::RunState;
use sichen_core::model::{Job, Run};
use sichen_core::port::Error;
use sichen_core::schedule::follow::{Chain, Ended, Follow};

use super::jobs::word;
use super::row::opt_at;
use super::sql;
use super::tx::{Happened, Result, Tx};

/// A chain as its column keeps it.
pub(super) fn text(chain: Option<&Chain>) -> Result<Option<String>> {
    let text = chain.map(serde_json::to_string).transpose();
    text.map_err(|e| Error::Corrupt(format!("a job's chain can't be written: {e}")))
}

/// A document was applied.
pub(super) async fn apply(tx: &mut Tx, uid: JobUid, follow: Option<Follow>) -> Result<()> {
    let Some(row) = tx.job(uid).await? else {
        return Ok(());
    };
    let job = row.job;
    let open = job.active_runs > 0;
    let chain = Chain::applied(job.chain.as_ref(), follow, open, job.high_water);
    if chain.is_none() && job.chain.is_none() {
        return Ok(());
    }
    put(tx, &job, chain, None).await
}

/// The mark has passed the job's instant: if no run came of it, the next one is made here.
pub(super) async fn restart(tx: &mut Tx, uid: JobUid) -> Result<()> {
    let Some(row) = tx.job(uid).await? else {
        return Ok(());
    };
    match row.job.restarted(tx.now) {
        Some(chain) => put(tx, &row.job, Some(chain), None).await,
        None => Ok(()),
    }
}

/// A run has been settled.
pub(super) async fn end(tx: &mut Tx, run: &Run, outcome: RunState) -> Result<()> {
    // What a backfill runs again makes no next instant.
    if run.backfill.is_some() || tx.kept_job(run.job, |job| job.chain.is_none()) {
        return Ok(());
    }
    let ended = Ended {
        outcome,
        started_at: run.started_at,
        at: tx.now,
    };
    let Some(row) = tx.job(run.job).await?.filter(|row| !row.deleted) else {
        return Ok(());
    };
    match row.job.ended(ended) {
        Some(chain) => put(tx, &row.job, Some(chain), Some(run.id)).await,
        None => Ok(()),
    }
}

async fn put(tx: &mut Tx, job: &Job, chain: Option<Chain>, after: Option<RunId>) -> Result<()> {
    let next_due = opt_at(job.next_due_with(chain.as_ref()));
    let params = (job.uid.0, job.ver, text(chain.as_ref())?, next_due);
    tx.must(sql::FOLLOW_JOB, params).await?;
    tx.job_changed(job.uid);
    let at = chain.as_ref().and_then(|chain| chain.pending);
    let data = serde_json::json!({
        "at": at.map(|at| at.as_microsecond()), "run": after.map(|run| run.0),
        "failures": chain.map_or(0, |chain| chain.failures),
    });
    let state = word(job.paused);
    let happened = Happened {
        data,
        ..Happened::new(Kind::ScheduleFollowed, state, state)
    };
    tx.event(&Entity::Job(job.uid), job.ver + 1, &happened)
}
