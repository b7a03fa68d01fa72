//! What follows a job's runs: written with the end of the run, or the decision, that makes it.
//!
//! # Not here
//! Which instant it is ([`sichen_core::schedule::follow`]).

use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{JobUid, RunId};
use sichen_core::lifecycle::RunState;
use sichen_core::schedule::follow::{Chain, Ended, Follow};

use super::jobs::word;
use super::state::{Happened, Tx};

/// A document was applied.
pub(super) fn apply(tx: &mut Tx<'_>, uid: JobUid, follow: Option<Follow>) {
    let Some(row) = tx.state.jobs.get(&uid) else {
        return;
    };
    let job = &row.job;
    let open = job.active_runs > 0;
    let chain = Chain::applied(job.chain.as_ref(), follow, open, job.high_water);
    if chain.is_some() || job.chain.is_some() {
        put(tx, uid, chain, None);
    }
}

/// The mark has passed the job's instant: if no run came of it, the next one is made here.
pub(super) fn restart(tx: &mut Tx<'_>, uid: JobUid) {
    let row = tx.state.jobs.get(&uid);
    if let Some(chain) = row.and_then(|row| row.job.restarted(tx.now)) {
        put(tx, uid, Some(chain), None);
    }
}

/// A run has been settled.
pub(super) fn end(tx: &mut Tx<'_>, id: RunId, outcome: RunState) {
    // What a backfill runs again makes no next instant.
    let run = tx.state.runs.get(&id).filter(|run| run.backfill.is_none());
    let Some(run) = run else {
        return;
    };
    let (uid, started_at) = (run.job, run.started_at);
    let ended = Ended {
        outcome,
        started_at,
        at: tx.now,
    };
    let row = tx.state.jobs.get(&uid).filter(|row| !row.deleted);
    if let Some(chain) = row.and_then(|row| row.job.ended(ended)) {
        put(tx, uid, Some(chain), Some(id));
    }
}

fn put(tx: &mut Tx<'_>, uid: JobUid, chain: Option<Chain>, after: Option<RunId>) {
    let Some(row) = tx.state.jobs.get_mut(&uid) else {
        return;
    };
    let job = &mut row.job;
    job.next_due = job.next_due_with(chain.as_ref());
    job.chain = chain;
    job.ver += 1;
    let (ver, state, at) = (job.ver, word(job), job.pending());
    let data = serde_json::json!({
        "at": at.map(|at| at.as_microsecond()), "run": after.map(|run| run.0),
        "failures": job.chain.as_ref().map_or(0, |chain| chain.failures),
    });
    let happened = Happened {
        data,
        ..Happened::new(Kind::ScheduleFollowed, state, state)
    };
    tx.event(Entity::Job(uid), ver, happened);
}
