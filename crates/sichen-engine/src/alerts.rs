//! Telling people what is failing, missing, late or stuck, without being asked.
//!
//! A pass reads what is wrong, lets the rules decide ([`sichen_core::alert::step`]), writes how the alerts
//! stand together with the notices that are due, sends those, and writes that they were sent.
//!
//! # Invariants
//! - One node does this at a time, under the term of the duty `alerts`.
//! - A notice is written before it is sent and forgotten after, so that it is sent once at least; one that
//!   is sent twice has the same id.
//! - A receiver that does not answer keeps nobody else waiting for longer than one try, and keeps no node
//!   from stopping: what was not answered is still written, and sent by who comes next.
//! - What is written is sent though the look failed.
//! - Outside it is said that alerts work only after a look that went well, by a node whose lease lasts: its
//!   store was written to no longer ago than that.
//!
//! # Not here
//! What is an alert (`sichen_core::alert`), the way to a receiver ([`Sender`], kept by the server).

mod cluster;
mod look;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::alert::notice::{MAX_AT_ONCE, MAX_WAITING, Notice, Tried, again, body};
use sichen_core::alert::{Alert, Finding, Key, MAX_ALERTS, Phase, Settings, What, step};
use sichen_core::model::DutyKey;
use sichen_core::port::{Error, Fence, SaveAlerts};
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::driver::Telling;

/// A try to send: why it failed, for people, if it did.
pub type Sent<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// The way to receivers.
pub trait Sender: fmt::Debug + Send + Sync + 'static {
    /// Sends a notice to its receiver, within a bounded time.
    fn send<'a>(&'a self, notice: &'a Notice) -> Sent<'a>;
    /// Says outside that alerts work, within a bounded time.
    fn beat(&self) -> Sent<'_>;
}

/// What is wrong around the store, which it does not know itself.
pub trait Around: fmt::Debug + Send + Sync + 'static {
    /// What was found last.
    fn found(&self, now: Timestamp) -> Vec<Finding>;
}

/// Looks for what is wrong, and tells it.
#[derive(Debug)]
pub struct Alerter {
    context: Context,
    coordinator: Arc<Coordinator>,
    telling: Mutex<Telling>,
    /// When it is looked next; before that it is only sent.
    look_at: Mutex<Timestamp>,
    /// When it is said outside next that alerts work.
    beat_at: Mutex<Timestamp>,
    /// Whether that went well the last time.
    beaten: AtomicBool,
    turns: Mutex<look::Turns>,
}

impl Alerter {
    /// One that tells what `telling` says.
    #[must_use]
    pub fn new(context: Context, coordinator: Arc<Coordinator>, telling: Telling) -> Self {
        Self {
            context,
            coordinator,
            telling: Mutex::new(telling),
            look_at: Mutex::new(Timestamp::MIN),
            beat_at: Mutex::new(Timestamp::MIN),
            beaten: AtomicBool::new(true),
            turns: Mutex::default(),
        }
    }

    /// From one look to the next.
    #[must_use]
    pub fn every(&self) -> SignedDuration {
        locked(&self.telling).settings.every
    }

    /// Goes by these from the next pass on, which begins with a look.
    pub fn retell(&self, settings: Arc<Settings>, sender: Arc<dyn Sender>) {
        let mut telling = locked(&self.telling);
        telling.settings = settings;
        telling.sender = sender;
        *locked(&self.look_at) = Timestamp::MIN;
        *locked(&self.beat_at) = Timestamp::MIN;
    }

    /// One look if it is time, and what is to be sent; when there is something to do again, if that is
    /// before the next look. After `stop` no answer of a receiver is waited for.
    ///
    /// # Errors
    /// As the store; [`Error::Busy`] if another node took the duty over.
    pub async fn run_once(
        &self,
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Result<Option<Timestamp>, Error> {
        let Some(fence) = self.coordinator.fence(&DutyKey::Alerts, now) else {
            *locked(&self.look_at) = Timestamp::MIN;
            *locked(&self.beat_at) = Timestamp::MIN;
            return Ok(None);
        };
        let told = locked(&self.telling).clone();
        let is_time = now >= *locked(&self.look_at);
        let looked = if is_time {
            self.look(&told, &fence, now).await
        } else {
            Ok(())
        };
        if looked.is_ok() && is_time {
            let next = now.checked_add(told.settings.every);
            *locked(&self.look_at) = next.unwrap_or(Timestamp::MAX);
        }
        let beat = async {
            if is_time && looked.is_ok() {
                self.beat(&told, now, stop).await;
            }
        };
        let (sent, ()) = futures::join!(self.send(&told, &fence, now, stop), beat);
        looked?;
        let look_at = *locked(&self.look_at);
        Ok(Some(sent?.map_or(look_at, |due| due.min(look_at))))
    }

    /// Says outside that alerts work, if it is time. Whoever can't be reached now is called after the next
    /// look.
    async fn beat(&self, told: &Telling, now: Timestamp, stop: &CancellationToken) {
        let Some(every) = told.settings.heartbeat else {
            return;
        };
        if now < *locked(&self.beat_at) {
            return;
        }
        let answer = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            answer = told.sender.beat() => answer,
        };
        let went_well = self.beaten.swap(answer.is_ok(), Ordering::Relaxed);
        match answer {
            Ok(()) => {
                let next = now.checked_add(every);
                *locked(&self.beat_at) = next.unwrap_or(Timestamp::MAX);
            }
            Err(why) if went_well => {
                tracing::warn!(
                    why,
                    "the heartbeat of alerts could not be sent; it is tried again"
                );
            }
            Err(_) => {}
        }
    }

    async fn look(&self, told: &Telling, fence: &Fence, now: Timestamp) -> Result<(), Error> {
        let store = &*self.context.store;
        let known = store.list_alerts().await?;
        let watched = known.iter().filter(|a| a.phase == Phase::Watched);
        let watched = look::watch(store, &told.settings, watched, now).await?;
        let mut turns = locked(&self.turns).clone();
        let mut seen = look::seen(store, &told.settings, &known, &mut turns, now).await?;
        let sessions = store.list_sessions(None).await?;
        let strained = cluster::strained(store, &told.settings, &known, &sessions, &mut turns, now);
        seen.findings.extend(strained.await?);
        *locked(&self.turns) = turns;
        let pools = self.coordinator.pools();
        let pools = look::pools(store, &told.settings, pools, &sessions, now);
        seen.findings.extend(pools.await?);
        if let Some(around) = &told.around {
            seen.findings.extend(around.found(now));
        }
        seen.findings.extend(watched.findings);
        let step = step(&told.settings, &known, &seen, now);
        self.say_dropped(&step.dropped);
        let mut save = SaveAlerts {
            keep: step.keep,
            forget: step.forget,
            notices: Vec::new(),
        };
        save.keep.extend(watched.keep);
        save.forget.extend(watched.forget);
        if !step.tell.is_empty() {
            save.notices = self.notices(told, &step.tell, now).await?;
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

    fn say_dropped(&self, dropped: &[Key]) {
        let mut turns = locked(&self.turns);
        if let Some((rule, group)) = dropped.first()
            && !turns.dropped
        {
            tracing::warn!(
                rule = rule.word(),
                group,
                dropped = dropped.len(),
                "conditions are not told of: there are {MAX_ALERTS} alerts of their rule"
            );
        }
        turns.dropped = !dropped.is_empty();
    }

    /// A notice for each receiver of what is told.
    async fn notices(
        &self,
        told: &Telling,
        tell: &[(What, Alert)],
        now: Timestamp,
    ) -> Result<Vec<Notice>, Error> {
        let waiting = self.context.store.count_notices().await?;
        let mut waiting: BTreeMap<String, usize> = waiting
            .into_iter()
            .map(|(receiver, n)| (receiver, n as usize))
            .collect();
        let mut notices = Vec::new();
        for (what, alert) in tell {
            for receiver in told.settings.told_of(alert.rule) {
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
                let body = body(id, &told.settings.source, *what, alert, now);
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

    /// Sends what is due; when something is due next, if that is before the next look.
    async fn send(
        &self,
        told: &Telling,
        fence: &Fence,
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Result<Option<Timestamp>, Error> {
        let store = &*self.context.store;
        let mut due: BTreeMap<String, Vec<Notice>> = BTreeMap::new();
        for notice in store.list_notices(now, MAX_AT_ONCE).await? {
            due.entry(notice.receiver.clone()).or_default().push(notice);
        }
        let each = due
            .values()
            .map(|notices| self.send_to_one(told, fence, notices, now, stop));
        let sent = futures::future::join_all(each).await;
        sent.into_iter().collect::<Result<(), Error>>()?;
        let by = now.checked_add(told.settings.every);
        let next = store.list_notices(by.unwrap_or(now), 1).await?;
        Ok(next.iter().map(|notice| notice.due_at).min())
    }

    /// Sends these to their receiver, one after another until one fails.
    async fn send_to_one(
        &self,
        told: &Telling,
        fence: &Fence,
        notices: &[Notice],
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let mut tried = Vec::new();
        for notice in notices {
            let answer = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                answer = told.sender.send(notice) => answer,
            };
            let failed = answer.is_err();
            tried.push((notice.id, self.judge(notice, answer, now)));
            if failed {
                break;
            }
        }
        if tried.is_empty() {
            return Ok(());
        }
        // Never given up half-way: what was answered is written.
        let op = self.context.op(self.coordinator.actor());
        let store = &*self.context.store;
        store.end_notices(op, fence.clone(), tried).await
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

fn locked<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
