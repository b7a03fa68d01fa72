//! Removing old history, in small batches; finishing what the apply of a calendar left.
//!
//! # Invariants
//! - Only closed runs older than the retention are removed; each leaves a decision `removed`.
//!
//! # Not here
//! What a user's own database keeps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::model::DutyKey;
use sichen_core::port::Error;

use crate::context::Context;
use crate::control::{self, Control};
use crate::coordinator::Coordinator;

/// Runs removed in one transaction.
const BATCH: u32 = 100;

/// Removes runs that ended before the retention.
#[derive(Debug)]
pub struct Janitor {
    context: Context,
    coordinator: Arc<Coordinator>,
    retention: Mutex<SignedDuration>,
}

impl Janitor {
    /// A janitor that keeps closed runs for `retention`.
    #[must_use]
    pub fn new(context: Context, coordinator: Arc<Coordinator>, retention: SignedDuration) -> Self {
        Self {
            context,
            coordinator,
            retention: Mutex::new(retention),
        }
    }

    /// Keeps closed runs for `retention` from its next step on.
    pub fn keep_for(&self, retention: SignedDuration) {
        *self.kept() = retention;
    }

    fn kept(&self) -> MutexGuard<'_, SignedDuration> {
        self.retention
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes one batch; returns whether there may be more.
    ///
    /// # Errors
    /// As the store; [`Error::Busy`] if another node took the duty over.
    pub async fn run_once(&self, now: Timestamp) -> Result<bool, Error> {
        let Some(fence) = self.coordinator.fence(&DutyKey::Janitor, now) else {
            return Ok(false);
        };
        let retention = *self.kept();
        let before = now.checked_sub(retention).unwrap_or(Timestamp::MIN);
        let op = self.context.op(self.coordinator.actor());
        let removed = self
            .context
            .store
            .remove_history(op, fence, before, BATCH)
            .await?;
        if removed.runs > 0 {
            tracing::info!(removed = removed.runs, "removed old runs");
        }
        self.bring_calendars().await?;
        Ok(removed.more)
    }

    /// Edits jobs that the apply of a calendar did not reach.
    async fn bring_calendars(&self) -> Result<(), Error> {
        let control = Control::new(self.context.clone());
        match control.complete_calendars(&self.coordinator.actor()).await {
            Ok(0) => Ok(()),
            Ok(edited) => {
                tracing::info!(edited, "jobs were brought to the newest calendars");
                Ok(())
            }
            Err(control::Error::Store(error)) => Err(error),
            Err(error) => {
                tracing::warn!(%error, "jobs could not be brought to the newest calendars");
                Ok(())
            }
        }
    }
}
