//! The trigger's duty: what is due becomes runs and decisions.
//!
//! # Invariants
//! - The high-water mark moves in the transaction that writes the runs and decisions behind it.
//! - A fire is conditional on the revision and the mark it was computed from.
//!
//! # Not here
//! What is due (`sichen_core::schedule`); who runs it ([`crate::dispatch`]).

use std::sync::Arc;

use jiff::Timestamp;
use sichen_core::lifecycle::StopCause;
use sichen_core::model::DutyKey;
use sichen_core::port::{Error, RequestVerdict};

use crate::context::Context;
use crate::coordinator::Coordinator;

/// Rows looked at in one pass.
const LIMIT: u32 = 500;

/// Fires schedules, stops late runs, settles what was left unsettled.
#[derive(Debug)]
pub struct Trigger {
    context: Context,
    coordinator: Arc<Coordinator>,
}

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Runs written.
    pub runs: usize,
    /// When to look again.
    pub next: Option<Timestamp>,
}

impl Trigger {
    /// A trigger for the partitions that `coordinator` owns.
    #[must_use]
    pub fn new(context: Context, coordinator: Arc<Coordinator>) -> Self {
        Self {
            context,
            coordinator,
        }
    }

    /// One pass.
    ///
    /// # Errors
    /// As the store.
    pub async fn run_once(&self, now: Timestamp) -> Result<Pass, Error> {
        let fences = self.coordinator.trigger_fences(now);
        if fences.is_empty() {
            return Ok(Pass::default());
        }
        self.stop_late(now).await?;
        let op = self.context.op(self.coordinator.actor());
        let unsettled = self.context.store.settle_runs(op, fences, LIMIT).await?;
        for run in unsettled {
            tracing::error!(%run, "SC4010: a run with complete counters had not been settled");
        }
        Ok(Pass::default())
    }

    /// Stops runs that are past their deadline.
    async fn stop_late(&self, now: Timestamp) -> Result<(), Error> {
        let store = &*self.context.store;
        let owned = (0..sichen_core::model::PARTITIONS)
            .filter(|p| self.coordinator.fence(&DutyKey::Trigger(*p), now).is_some());
        for (run, partition) in store.list_late_runs(owned.collect(), LIMIT).await? {
            let Some(fence) = self.coordinator.fence(&DutyKey::Trigger(partition), now) else {
                continue;
            };
            let op = self.context.op(self.coordinator.actor());
            let verdict = store
                .request_stop(op, Some(fence), run, StopCause::Deadline)
                .await?;
            if let RequestVerdict::Done(_) = verdict {
                tracing::info!(%run, "the run's deadline has passed");
            }
        }
        Ok(())
    }
}
