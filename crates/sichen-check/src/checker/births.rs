//! What holds of a run when it is written: its time has come (I4), it is of the newest revision (I6),
//! and its job is there (I41); and of its grants: it is not being stopped (I40), and they go to sessions
//! that live (I19).
//!
//! # Not here
//! That it is the only one for its occasion ([`super::Checker::occasion`]).

use jiff::SignedDuration;
use sichen_core::event::{Entity, Event};
use sichen_core::ids::{JobUid, Occasion, RunId, SessionId};

use super::Checker;
use crate::data::Fields;
use crate::fold::{self, Broken};
use crate::verdict::Invariant;

/// A node counts the store's time on by its own clock for so long between two readings. A store whose
/// clock is set back or stands still in that very time is behind what the node goes by.
pub(super) const COUNTED_ON: SignedDuration = SignedDuration::from_secs(5);

/// The job that an event's data names.
pub(super) fn job_of(data: &Fields) -> Option<JobUid> {
    match Entity::parse("job", data.job.as_deref()?)? {
        Entity::Job(uid) => Some(uid),
        _ => None,
    }
}

impl Checker {
    /// Judges a run's creation.
    pub(super) fn judge_birth(&self, event: &Event, data: &Fields) -> Result<(), Broken> {
        let occasion = data.occasion.as_deref().and_then(Occasion::parse);
        let planned = match occasion {
            Some(Occasion::Planned { at, .. }) => Some(at),
            _ => None,
        };
        if let Some(at) = planned
            && at.duration_since(event.at) > COUNTED_ON
        {
            let message = format!("is for {at} and was written at {}", event.at);
            return fold::broken(Invariant::I4, message);
        }
        let job = job_of(data).and_then(|uid| self.jobs.get(&uid));
        // Who writes a run holds its job's row, or is behind its gate, which the job's changes shut; a
        // backfill's step holds the backfill's.
        let ordered = self.options.seq_is_commit_order
            || (self.options.seq_is_lock_order && data.backfill.is_none());
        let Some(job) = job.filter(|job| ordered && !job.trail.closed) else {
            return Ok(());
        };
        if job.deleted {
            return fold::broken(Invariant::I41, "its job is deleted".to_owned());
        }
        // Who asks for a run by hand has looked at the job a moment before.
        if let (Some(of), Some(_), None) = (data.revision, planned, data.backfill)
            && job.revision > 0
            && of != job.revision
        {
            let message = format!("is of revision {of}, its job is at {}", job.revision);
            return fold::broken(Invariant::I6, message);
        }
        Ok(())
    }

    /// Judges a grant by its run and by whom it goes to. It is written under locks on both, as are a run's
    /// stop and a session's end.
    pub(super) fn may_be_granted(
        &self,
        id: RunId,
        session: Option<SessionId>,
    ) -> Result<(), Broken> {
        let run = self.runs.get(&id).filter(|run| !run.trail.closed);
        if run.is_some_and(|run| run.stop.is_some()) {
            let message = format!("granted while run {id} is being stopped");
            return fold::broken(Invariant::I40, message);
        }
        let over = |id: &SessionId| self.sessions.get(id).is_some_and(|s| s.ended);
        if let Some(session) = session.filter(over) {
            let message = format!("granted to session {session}, which is over");
            return fold::broken(Invariant::I19, message);
        }
        Ok(())
    }
}
