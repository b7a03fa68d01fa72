//! Telling people what is failing, missing, late or stuck, without being asked.
//!
//! A pass reads what is wrong, lets the rules decide ([`sichen_core::alert::step`]), writes how the alerts
//! stand together with the notices that are due, sends those, and writes that they were sent.
//!
//! # Invariants
//! - One node does this at a time, under the term of the duty `alerts`.
//! - A notice is written before it is sent and forgotten after, so that it is sent once at least; one that
//!   is sent twice has the same id.
//! - A receiver that does not answer keeps nobody else waiting for longer than one try.
//!
//! # Not here
//! What is an alert (`sichen_core::alert`), the way to a receiver ([`Sender`], kept by the server).

mod look;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use sichen_core::alert::notice::{MAX_AT_ONCE, MAX_WAITING, Notice, Tried, again, body};
use sichen_core::alert::{Alert, Phase, Settings, What, step};
use sichen_core::model::DutyKey;
use sichen_core::port::{Error, Fence, SaveAlerts};

use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::driver::Telling;

/// A try to send: why it failed, for people, if it did.
pub type Sent<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// The way to receivers.
pub trait Sender: fmt::Debug + Send + Sync + 'static {
    /// Sends a notice to its receiver, within a bounded time.
    fn send<'a>(&'a self, notice: &'a Notice) -> Sent<'a>;
}

/// Looks for what is wrong, and tells it.
#[derive(Debug)]
pub struct Alerter {
    context: Context,
    coordinator: Arc<Coordinator>,
    settings: Arc<Settings>,
    sender: Arc<dyn Sender>,
}

impl Alerter {
    /// One that tells what `telling` says.
    #[must_use]
    pub fn new(context: Context, coordinator: Arc<Coordinator>, telling: Telling) -> Self {
        Self {
            context,
            coordinator,
            settings: telling.settings,
            sender: telling.sender,
        }
    }

    /// From one look to the next.
    #[must_use]
    pub fn every(&self) -> SignedDuration {
        self.settings.every
    }

    /// One look, and what is to be sent; when to look again, if that is before long.
    ///
    /// # Errors
    /// As the store; [`Error::Busy`] if another node took the duty over.
    pub async fn run_once(&self, now: Timestamp) -> Result<Option<Timestamp>, Error> {
        let Some(fence) = self.coordinator.fence(&DutyKey::Alerts, now) else {
            return Ok(None);
        };
        self.look(&fence, now).await?;
        let more = self.send(&fence, now).await?;
        Ok(more.then_some(now))
    }

    async fn look(&self, fence: &Fence, now: Timestamp) -> Result<(), Error> {
        let store = &*self.context.store;
        let known = store.list_alerts().await?;
        let watched = known.iter().filter(|a| a.phase == Phase::Watched);
        let watched = look::watch(store, &self.settings, watched, now).await?;
        let mut findings = look::findings(store, &self.settings, &known, now).await?;
        let pools = self.coordinator.pools();
        findings.extend(look::pools(store, pools, now).await?);
        findings.extend(watched.findings);
        let step = step(&self.settings, &known, &findings, now);
        let mut save = SaveAlerts {
            keep: step.keep,
            forget: step.forget,
            notices: Vec::new(),
        };
        save.keep.extend(watched.keep);
        save.forget.extend(watched.forget);
        if !step.tell.is_empty() {
            save.notices = self.notices(&step.tell, now).await?;
        }
        if save == SaveAlerts::default() {
            return Ok(());
        }
        for (what, alert) in &step.tell {
            tracing::warn!(
                alert = alert.name(),
                event = what.word(),
                "{}",
                sichen_core::alert::notice::summary(*what, alert)
            );
        }
        let op = self.context.op(self.coordinator.actor());
        store.save_alerts(op, fence.clone(), save).await
    }

    /// A notice for each receiver of what is told.
    async fn notices(&self, tell: &[(What, Alert)], now: Timestamp) -> Result<Vec<Notice>, Error> {
        let waiting = self.context.store.count_notices().await?;
        let mut waiting: BTreeMap<String, usize> = waiting
            .into_iter()
            .map(|(receiver, n)| (receiver, n as usize))
            .collect();
        let mut notices = Vec::new();
        for (what, alert) in tell {
            for receiver in self.settings.told_of(alert.rule) {
                let waits = waiting.entry(receiver.clone()).or_default();
                if *waits >= MAX_WAITING {
                    tracing::error!(
                        receiver,
                        alert = alert.name(),
                        "SC4040: a notice is not written down: {MAX_WAITING} wait for this receiver"
                    );
                    continue;
                }
                *waits += 1;
                let id = self.context.ids.uuid();
                let body = body(id, &self.settings.source, *what, alert, now);
                notices.push(Notice {
                    id,
                    receiver,
                    body: body.to_string(),
                    created_at: now,
                    due_at: now,
                    tries: 0,
                });
            }
        }
        Ok(notices)
    }

    /// Sends what is due; whether there may be more.
    async fn send(&self, fence: &Fence, now: Timestamp) -> Result<bool, Error> {
        let store = &*self.context.store;
        let due = store.list_notices(now, MAX_AT_ONCE).await?;
        if due.is_empty() {
            return Ok(false);
        }
        let tries = due.iter().map(|notice| async move {
            let tried = self.sender.send(notice).await;
            (notice.id, self.judge(notice, tried, now))
        });
        let tried = futures::future::join_all(tries).await;
        let op = self.context.op(self.coordinator.actor());
        store.end_notices(op, fence.clone(), tried).await?;
        Ok(due.len() == MAX_AT_ONCE as usize)
    }

    fn judge(&self, notice: &Notice, tried: Result<(), String>, now: Timestamp) -> Tried {
        let (receiver, id) = (&notice.receiver, notice.id);
        let Err(why) = tried else {
            tracing::info!(receiver, %id, "a notice was sent");
            return Tried::Ended;
        };
        let tries = notice.tries.saturating_add(1);
        match again(tries, now) {
            Some(at) => {
                if tries == 1 {
                    tracing::warn!(receiver, %id, why, "a notice could not be sent; it will be tried again");
                }
                Tried::Again(at)
            }
            None => {
                tracing::error!(receiver, %id, tries, why, "SC4041: a notice is given up");
                Tried::Ended
            }
        }
    }
}
