//! The checks of backfills' runs: started at their rate, and taken up when they have counted.
//!
//! # Invariants
//! - The key of a check's run says which round of which run it checks: a server that dies between its
//!   start and the note of it finds that very run again, and starts no second one.
//! - A pass starts no more than the rate lets it, and never so many that more are open than the
//!   backfill's parallelism allows.
//! - What stands in one check's way ends that check, with the reason; the others go on.
//!
//! # Not here
//! What its run says (`sichen_core::backfill::check`); counting: the checking job's handler.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use sichen_core::backfill::check::{
    Check, CheckMove, CheckState, CheckStep, CheckTo, Counted, MAX_OPEN_CHECKS, Verify, counted,
};
use sichen_core::backfill::{Backfill, State, allowed};
use sichen_core::ids::RunId;
use sichen_core::model::{Job, Run};
use sichen_core::name::JobName;
use sichen_core::port::{self, Page};

use super::{Backfiller, Pass, Stop};
use crate::control::{Error, StartRun, Which};

/// How long to wait until open checks are looked at again.
const LOOK: SignedDuration = SignedDuration::from_millis(500);

/// What became of the wish to start a check.
enum Wish {
    /// It goes there.
    Goes(CheckTo),
    /// Not now: the checking job lets it wait.
    Later,
}

impl Backfiller {
    /// The backfill, once its pending checks were seen to; `None` if it is gone. `live`: its job, unless
    /// that was deleted.
    pub(super) async fn see_to_checks(
        &self,
        backfill: Backfill,
        live: Option<&Job>,
        now: Timestamp,
        pass: &mut Pass,
    ) -> Result<Option<Backfill>, Stop> {
        if backfill.checks.pending() == 0 {
            return Ok(Some(backfill));
        }
        let store = &*self.context.store;
        let job = match live {
            Some(job) => Some(job.clone()),
            None => store.get_job_by_uid(backfill.job).await?,
        };
        if let Some(job) = job {
            self.check(&backfill, &job, now, pass).await?;
        }
        Ok(store.get_backfill(backfill.id).await?)
    }

    /// Takes up what the checks of a backfill have counted, and starts those that are due.
    async fn check(
        &self,
        backfill: &Backfill,
        job: &Job,
        now: Timestamp,
        pass: &mut Pass,
    ) -> Result<(), Stop> {
        let Some(verify) = &backfill.wanted.verify else {
            return Ok(());
        };
        let mut step = CheckStep {
            id: backfill.id,
            moves: Vec::new(),
            next_at: backfill.next_check_at,
        };
        let mut open = backfill.checks.open;
        if open > 0 {
            self.take_up(backfill, &mut step).await?;
            open = open.saturating_sub(u32::try_from(step.moves.len()).unwrap_or(u32::MAX));
        }
        let starts = matches!(backfill.state, State::Running | State::Finished);
        if starts && backfill.checks.due > 0 {
            let most = backfill.wanted.parallelism.min(MAX_OPEN_CHECKS);
            let room = most.saturating_sub(open);
            self.start(backfill, verify, job, room, now, &mut step, pass)
                .await?;
        }
        pass.again(now + LOOK);
        if step.moves.is_empty() {
            return Ok(());
        }
        let store = &*self.context.store;
        if let Some(fence) = self.fence(store, backfill.id, now).await? {
            let op = self.context.op(self.coordinator.actor());
            store.move_checks(op, fence, step).await?;
        }
        Ok(())
    }

    /// The open checks whose runs have closed.
    async fn take_up(&self, backfill: &Backfill, step: &mut CheckStep) -> Result<(), port::Error> {
        let store = &*self.context.store;
        for check in self
            .listed(backfill, CheckState::Open, MAX_OPEN_CHECKS)
            .await?
        {
            let run = match check.by {
                Some(by) => store.get_run(by).await?,
                None => None,
            };
            let over = match run {
                Some((run, progress)) => counted(run.state, &run.reason, &progress),
                None => Some(Counted::Nothing("its check's run is gone".to_owned())),
            };
            step.moves.extend(over.map(|over| CheckMove {
                run: check.run,
                round: check.round,
                to: CheckTo::Over(over),
            }));
        }
        Ok(())
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what a pass over one backfill knows"
    )]
    async fn start(
        &self,
        backfill: &Backfill,
        verify: &Verify,
        job: &Job,
        room: u32,
        now: Timestamp,
        step: &mut CheckStep,
        pass: &mut Pass,
    ) -> Result<(), Stop> {
        if room == 0 {
            return Ok(());
        }
        for check in self.listed(backfill, CheckState::Due, room).await? {
            let next_at = match allowed(Some(verify.rate), step.next_at, now) {
                Ok(next_at) => next_at,
                Err(at) => {
                    pass.again(at);
                    break;
                }
            };
            let Wish::Goes(to) = self.wish(verify, job, &check, pass).await? else {
                break;
            };
            step.next_at = next_at;
            step.moves.push(CheckMove {
                run: check.run,
                round: check.round,
                to,
            });
        }
        Ok(())
    }

    async fn listed(
        &self,
        backfill: &Backfill,
        state: CheckState,
        limit: u32,
    ) -> Result<Vec<Check>, port::Error> {
        let page = Page { after: None, limit };
        let store = &*self.context.store;
        store.list_checks(backfill.id, Some(state), page).await
    }

    /// Starts the run of a check, or finds it.
    async fn wish(
        &self,
        verify: &Verify,
        job: &Job,
        check: &Check,
        pass: &mut Pass,
    ) -> Result<Wish, Stop> {
        let nothing = |why: String| Ok(Wish::Goes(CheckTo::Over(Counted::Nothing(why))));
        let Some((run, _)) = self.context.store.get_run(check.run).await? else {
            return nothing("the run is gone".to_owned());
        };
        let with = JobName {
            namespace: job.name.namespace.clone(),
            name: verify.job.clone(),
        };
        let which = Which::Manual(format!(
            "check/{}/{}/{}",
            check.backfill, check.run, check.round
        ));
        let wanted = StartRun {
            job: with.clone(),
            which: which.clone(),
            parameters: parameters(check, job, &run),
            period: run.period,
            overlap: None,
            not_before: None,
            digest: String::new(),
        };
        let actor = self.coordinator.actor();
        match self.control.start_run(&actor, wanted).await {
            Ok(started) => {
                pass.started += u32::from(started.created);
                Ok(Wish::Goes(CheckTo::Open(started.run)))
            }
            Err(Error::Store(error)) => Err(error.into()),
            Err(Error::Contended(_) | Error::Changed(_) | Error::Full { .. }) => Ok(Wish::Later),
            Err(error @ Error::Refused(_)) => {
                // Either its job runs no two at once, or somebody else has used the key.
                let with = self.control.job(&with).await;
                let used: Result<RunId, Error> = match with {
                    Ok(with) => self.control.find_run(&with, &which).await,
                    Err(error) => Err(error),
                };
                match used {
                    Ok(_) => nothing(error.to_string()),
                    Err(Error::Store(error)) => Err(error.into()),
                    Err(_) => Ok(Wish::Later),
                }
            }
            Err(
                error @ (Error::NotFound { .. } | Error::NoRevision { .. } | Error::Invalid(_)),
            ) => nothing(error.to_string()),
        }
    }
}

/// What the checking job is told: which run, of which job and time.
fn parameters(check: &Check, job: &Job, run: &Run) -> Map<String, Value> {
    let planned = run.occasion.planned_at().map(|at| at.to_string());
    let all = [
        ("backfill", Value::from(check.backfill.0)),
        ("run", Value::from(check.run.0)),
        ("job", Value::from(job.name.to_string())),
        ("planned_at", Value::from(planned)),
    ];
    all.map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}
