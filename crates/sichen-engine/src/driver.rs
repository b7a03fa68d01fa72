//! The one way to start, wake, stop and drain the duties.
//!
//! # Invariants
//! - A duty is stepped by one loop only, so two passes of it never overlap on a node.
//! - A loop survives any outage of the store: it tries again with a growing, bounded wait.
//! - After an outage expiry is held for one session before anything else is reaped.
//!
//! # Not here
//! What a step does (the duties).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use sichen_core::alert;
use sichen_core::beacon::{Beacon, Heard, Hint as Told, NoBeacon};
use sichen_core::model::DutyKey;
use sichen_core::port::{Error, Store};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::alerts::{Alerter, Sender};
use crate::backfill::Backfiller;
use crate::context::{Context, IdSource};
use crate::control::Control;
use crate::coordinator::Coordinator;
use crate::courier::Courier;
use crate::dispatch::Dispatcher;
use crate::documents::Documents;
use crate::intake::Intake;
use crate::janitor::Janitor;
use crate::preempt::Preempter;
use crate::pulse::Pulse;
use crate::reap::Reaper;
use crate::sessions::Sessions;
use crate::tracer::Tracer;
use crate::trigger::Trigger;

pub use settings::{Settings, Telling};

mod settings;

/// All duties of one node, wired to one store and one courier.
#[derive(Debug)]
pub struct Engine {
    /// Store and ids.
    pub context: Context,
    /// Membership and terms.
    pub coordinator: Arc<Coordinator>,
    /// Time → runs.
    pub trigger: Trigger,
    /// Past ranges → runs.
    pub backfiller: Backfiller,
    /// Ready shards → leases.
    pub dispatcher: Arc<Dispatcher>,
    /// Lost attempts.
    pub reaper: Reaper,
    /// Slots wanted back.
    pub preempter: Preempter,
    /// Old history.
    pub janitor: Janitor,
    /// What people are told, if this node tells anything.
    pub alerter: Option<Alerter>,
    /// Times of ended runs, and their traces if somebody collects them.
    pub tracer: Tracer,
    /// Workers.
    pub sessions: Sessions,
    /// What people and programs ask for.
    pub control: Control,
    /// Their new runs, gathered.
    pub intake: Intake,
    /// Hints that shorten a wait; nothing depends on them.
    pub wake: Arc<Wake>,
    /// The store's time, for pacing.
    pulse: Pulse,
    settings: Settings,
}

/// Hints to the loops.
#[derive(Debug, Default)]
pub struct Wake {
    /// Whether the dispatcher has only to give out what it knows.
    hand_out: AtomicBool,
    look: AtomicBool,
    dispatch: Notify,
    trigger: Notify,
    reap: Notify,
    preempt: Notify,
    backfill: Notify,
    janitor: Notify,
    alerts: Notify,
    ended: Notify,
    /// Whether a backfill of this node waits for its runs to close.
    backfilling: AtomicBool,
}

impl Wake {
    /// Something may be grantable that is not known in memory: a worker came, a shard failed.
    pub fn dispatch(&self) {
        self.look.store(true, Ordering::SeqCst);
        self.dispatch.notify_one();
        self.room();
    }

    /// What frees a slot may have closed a run of a backfill.
    fn room(&self) {
        if self.backfilling.load(Ordering::Relaxed) {
            self.backfill.notify_one();
        }
    }

    /// A backfill was asked for or resumed.
    pub fn backfill(&self) {
        self.backfill.notify_one();
    }

    /// Something is grantable that is known in memory: a run was written, a slot came free.
    pub fn hand_out(&self) {
        self.hand_out.store(true, Ordering::SeqCst);
        self.dispatch.notify_one();
        self.room();
    }

    /// What was asked since this was last called: to read the tables; to give out what is known.
    fn asked(&self) -> (bool, bool) {
        let look = self.look.swap(false, Ordering::SeqCst);
        (look, self.hand_out.swap(false, Ordering::SeqCst))
    }

    /// Duties came to this node: whatever waits in them is to be looked at.
    pub fn gained(&self) {
        self.trigger();
        self.dispatch();
        self.reap();
        self.backfill();
        self.alerts.notify_one();
    }

    /// A job was created or changed.
    pub fn trigger(&self) {
        self.trigger.notify_one();
    }

    /// A shard runs that may be asked for its slot.
    pub fn preempt(&self) {
        self.preempt.notify_one();
    }

    /// A session was ended by its successor.
    pub fn reap(&self) {
        self.reap.notify_one();
    }
}

impl Engine {
    /// Keeps closed runs for `retention` from now on.
    pub fn keep_for(&self, retention: SignedDuration) {
        self.janitor.keep_for(retention);
        self.wake.janitor.notify_one();
    }

    /// Tells people by these from now on, if this node was started to tell anything; whether it was.
    pub fn retell(&self, settings: Arc<alert::Settings>, sender: Arc<dyn Sender>) -> bool {
        let Some(alerter) = &self.alerter else {
            return false;
        };
        alerter.retell(settings, sender);
        self.wake.alerts.notify_one();
        true
    }

    /// Wires the duties; starts nothing.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        ids: Arc<dyn IdSource>,
        courier: Arc<dyn Courier>,
        settings: Settings,
    ) -> Self {
        Self::with_beacon(store, ids, courier, settings, Arc::new(NoBeacon))
    }

    /// As [`Engine::new`], with a way to see its peers and to tell them.
    #[must_use]
    pub fn with_beacon(
        store: Arc<dyn Store>,
        ids: Arc<dyn IdSource>,
        courier: Arc<dyn Courier>,
        settings: Settings,
        beacon: Arc<dyn Beacon>,
    ) -> Self {
        let mut context = Context::new(store, ids);
        if let Some(tracing) = &settings.traces {
            context.traced = tracing.ratio;
        }
        let address = settings.address.clone();
        let coordinator = Coordinator::new(context.clone(), address, settings.node, beacon);
        let coordinator = coordinator.sending_alerts(settings.alerts.is_some());
        let coordinator = Arc::new(coordinator);
        let documents = Arc::new(Documents::default());
        let wake = Arc::new(Wake::default());
        let dispatcher = Arc::new(Dispatcher::new(
            context.clone(),
            coordinator.clone(),
            documents.clone(),
            courier.clone(),
            wake.clone(),
        ));
        let trigger = Trigger::new(
            context.clone(),
            coordinator.clone(),
            documents.clone(),
            dispatcher.clone(),
        );
        let backfiller = Backfiller::new(context.clone(), coordinator.clone(), documents.clone());
        let reaper = Reaper::new(
            context.clone(),
            coordinator.clone(),
            documents.clone(),
            settings.worker,
        );
        let preempter = Preempter::new(
            context.clone(),
            coordinator.clone(),
            documents.clone(),
            dispatcher.clone(),
            courier.clone(),
        );
        let janitor = Janitor::new(context.clone(), coordinator.clone(), settings.retention);
        let alerter = settings.alerts.clone();
        let alerter =
            alerter.map(|telling| Alerter::new(context.clone(), coordinator.clone(), telling));
        let traces = settings.traces.clone();
        let tracer = Tracer::new(context.clone(), coordinator.clone(), traces);
        let sessions = Sessions::new(
            context.clone(),
            coordinator.clone(),
            documents.clone(),
            dispatcher.clone(),
            courier,
            settings.worker,
        );
        let control = Control::beside(dispatcher.clone(), documents, context.clone());
        Self {
            context,
            coordinator,
            trigger,
            backfiller,
            dispatcher,
            reaper,
            preempter,
            janitor,
            alerter,
            tracer,
            sessions,
            intake: Intake::new(control.clone()),
            control,
            wake,
            pulse: Pulse::default(),
            settings,
        }
    }

    /// Somebody asked something of this node that `hint` tells of: this node looks, and so do its peers.
    pub fn asked(&self, hint: Told) {
        self.coordinator.tell(hint.clone());
        self.told(hint);
    }

    /// A job was changed: its next instants are others, and what was left to decide may have become runs.
    pub fn job_changed(&self) {
        self.asked(Told::Trigger);
        self.asked(Told::Dispatch);
    }

    fn told(&self, hint: Told) {
        match hint {
            Told::Members => self.coordinator.look_again(),
            Told::Trigger => self.wake.trigger(),
            Told::Backfill => self.wake.backfill(),
            Told::Dispatch => self.wake.dispatch(),
            Told::Pool(pool) if self.coordinator.owns(&DutyKey::Pool(pool.clone())) => {
                self.wake.dispatch();
            }
            Told::Pool(_) => {}
        }
    }

    /// Starts a loop for each duty.
    #[must_use]
    pub fn start(self: Arc<Self>) -> Running {
        let running = Running {
            engine: self.clone(),
            cancel: CancellationToken::new(),
            loops: TaskTracker::new(),
        };
        self.coordinator.go_by_machine();
        let beat = std_duration(self.settings.node.beat);
        let e = self.clone();
        let hint = Hint::Anywhere(|e| e.coordinator.woken());
        running.spawn("coordinate", beat, hint, move |now| {
            let e = e.clone();
            async move {
                let alone = !e.coordinator.has_peers();
                let pass = e.coordinator.run_once(now).await?;
                if let Some(now) = pass.told {
                    e.pulse.told(now);
                }
                // From the first peer on, loops may not sleep as long as they meant to.
                if pass.gained || alone && e.coordinator.has_peers() {
                    e.wake.gained();
                }
                for (pool, address) in pass.moved {
                    e.sessions.tell_moved(&pool, &address).await?;
                }
                Ok(pass.next)
            }
        });
        let e = self.clone();
        let hint = Hint::Anywhere(|e| &e.wake.trigger);
        running.spawn("trigger", Duration::from_secs(10), hint, move |now| {
            let e = e.clone();
            async move {
                let pass = e.trigger.run_once(now).await?;
                if let Some(now) = pass.told {
                    e.pulse.told(now);
                }
                for run in pass.stopped {
                    e.sessions.tell_stopped(run).await?;
                }
                Ok(pass.next)
            }
        });
        let e = self.clone();
        let hint = Hint::Anywhere(|e| &e.wake.dispatch);
        running.spawn("dispatch", Duration::from_secs(10), hint, move |now| {
            let e = e.clone();
            async move {
                // A look asks for the next one itself, so that hints don't put it off.
                let (look, hand_out) = e.wake.asked();
                let little = hand_out || e.dispatcher.capacity_is_due(now);
                if little && !look && !e.dispatcher.look_is_due(now) {
                    let pass = e.dispatcher.hand_out(now).await?;
                    // Who was refused waits, and who may have it is to be looked at anew.
                    if pass.next_ready.is_none() && pass.refused == 0 {
                        return Ok(e.dispatcher.next_look());
                    }
                }
                let pass = e.dispatcher.run_once(now).await?;
                if let Some(now) = pass.told {
                    e.pulse.told(now);
                }
                if pass.limits_run {
                    e.wake.trigger();
                }
                // A refused grant means that the snapshot was old: look again at once.
                if pass.refused > 0 {
                    e.wake.dispatch();
                }
                Ok(e.dispatcher.next_look())
            }
        });
        let e = self.clone();
        let hint = Hint::Anywhere(|e| &e.wake.reap);
        let sweep = Duration::from_secs(10);
        running.spawn("reap", sweep, hint, move |now| {
            let e = e.clone();
            async move {
                if e.reaper.run_once(now).await? > 0 {
                    e.wake.dispatch();
                }
                Ok(e.reaper.next_look(now))
            }
        });
        let e = self.clone();
        let hint = Hint::Here(|e| &e.wake.preempt);
        running.spawn("preempt", sweep, hint, move |now| {
            let e = e.clone();
            async move { e.preempter.run_once(now).await }
        });
        let e = self.clone();
        let hint = Hint::Anywhere(|e| &e.wake.backfill);
        running.spawn("backfill", QUIET, hint, move |now| {
            let e = e.clone();
            async move {
                let pass = e.backfiller.run_once(now).await?;
                e.wake
                    .backfilling
                    .store(pass.running > 0, Ordering::Relaxed);
                if pass.started > 0 {
                    e.asked(Told::Dispatch);
                }
                // What one waits for may come without a hint; where none runs there is nothing to see.
                let soon = now.checked_add(BACKFILLING).ok();
                let soon = soon.filter(|_| pass.running > 0);
                Ok(pass.next.into_iter().chain(soon).min())
            }
        });
        running.listen();
        if let Some(every) = self.alerter.as_ref().map(Alerter::every) {
            let (e, cancel) = (self.clone(), running.cancel.clone());
            let hint = Hint::Here(|e| &e.wake.alerts);
            running.spawn("alerts", std_duration(every), hint, move |now| {
                let (e, cancel) = (e.clone(), cancel.clone());
                async move {
                    match &e.alerter {
                        Some(alerter) => alerter.run_once(now, &cancel).await,
                        None => Ok(None),
                    }
                }
            });
        }
        let (e, cancel) = (self.clone(), running.cancel.clone());
        let hint = Hint::Here(|e| &e.wake.ended);
        running.spawn("trace", ENDED, hint, move |now| {
            let (e, cancel) = (e.clone(), cancel.clone());
            async move { Ok(e.tracer.run_once(now, &cancel).await) }
        });
        let e = self;
        let hint = Hint::Here(|e| &e.wake.janitor);
        running.spawn("janitor", Duration::from_mins(1), hint, move |now| {
            let e = e.clone();
            async move {
                let more = e.janitor.run_once(now).await?;
                Ok(more.then_some(now))
            }
        });
        running
    }
}

/// What wakes a loop before it has slept its period.
#[derive(Clone, Copy)]
enum Hint {
    /// What happens on any node: while there are peers the tables are looked at more often as well, for not all
    /// that they do is told.
    Anywhere(fn(&Engine) -> &Notify),
    /// What happens on this node alone.
    Here(fn(&Engine) -> &Notify),
}

impl Engine {
    /// What follows from a duty's step that came to no end.
    fn stumbled(&self, duty: &'static str, stumble: &Stumble, first: bool) {
        let error = match stumble {
            Stumble::Store(error) => error,
            Stumble::Panicked(why) if first => {
                tracing::error!(
                    duty,
                    why,
                    "the duty's step panicked; it will be tried again"
                );
                return;
            }
            Stumble::Panicked(_) => return,
        };
        if tells_of_outage(duty, error, first) {
            self.reaper.store_is_lost();
        }
        // A duty may have gone to another.
        if matches!(error, Error::Busy(_)) && duty != "coordinate" {
            self.coordinator.look_again();
        }
        if first {
            tracing::warn!(duty, %error, "the duty could not be done; it will be tried again");
        }
    }
}

/// Whether an error of a duty's step says that workers could not beat either, so that nothing is to expire
/// for one session. A duty alone may fail for as long as it likes, by a query of its own that takes too long
/// or too much: that it began to fail is a sign, that it goes on is none. What every node does in short
/// steps is one each time.
fn tells_of_outage(duty: &str, error: &Error, first: bool) -> bool {
    let out_of_reach = matches!(
        error,
        Error::Unavailable(_) | Error::ReadOnly(_) | Error::Unknown { .. }
    );
    out_of_reach && (first || matches!(duty, "coordinate" | "reap"))
}

impl Hint {
    fn notify(self, engine: &Engine) -> &Notify {
        match self {
            Hint::Anywhere(of) | Hint::Here(of) => of(engine),
        }
    }
}

/// How often running backfills are looked at.
const BACKFILLING: SignedDuration = SignedDuration::from_secs(2);

/// How often it is looked whether there are backfills at all: who asks for one here gives a hint.
const QUIET: Duration = Duration::from_secs(30);

/// How often runs that have ended are looked for while none do: an idle server asks its store little.
const ENDED: Duration = Duration::from_secs(5);

/// How often the tables are looked at while there are peers: whoever asks them for a run, or applies
/// a job there, wakes nobody here.
const WITH_PEERS: Duration = Duration::from_secs(1);

/// The running loops of a node.
#[derive(Debug)]
pub struct Running {
    engine: Arc<Engine>,
    cancel: CancellationToken,
    loops: TaskTracker,
}

impl Running {
    /// Starts one loop: a step, then a wait until the instant that the step names, the period, or
    /// a hint, whichever is first.
    fn spawn<F>(
        &self,
        name: &'static str,
        period: Duration,
        hint: Hint,
        step: impl Fn(Timestamp) -> F + Send + Sync + 'static,
    ) where
        F: Future<Output = Result<Option<Timestamp>, Error>> + Send,
    {
        let engine = self.engine.clone();
        let cancel = self.cancel.clone();
        self.loops.spawn(async move {
            let mut failures = 0u32;
            while !cancel.is_cancelled() {
                let begun = crate::pulse::instant();
                let stepped = whole(one_step(&engine, &step)).await;
                let took = crate::pulse::instant().saturating_duration_since(begun);
                engine.context.meter.stepped(name, took, stepped.is_err());
                let wait = match stepped {
                    Ok(wait) => {
                        if failures > 0 {
                            tracing::info!(duty = name, failures, "the duty goes on");
                            // Expiry is held from now on, not from its next look on.
                            engine.wake.reap();
                        }
                        failures = 0;
                        let anywhere = matches!(hint, Hint::Anywhere(_));
                        let most = if anywhere && engine.coordinator.has_peers() {
                            period.min(WITH_PEERS)
                        } else if name == "coordinate" {
                            std_duration(engine.settings.node.beat_alone())
                        } else {
                            period
                        };
                        wait.map_or(most, |wait| wait.min(most))
                    }
                    Err(stumble) => {
                        failures = failures.saturating_add(1);
                        engine.stumbled(name, &stumble, failures == 1);
                        Duration::from_millis(50 << failures.min(5)).min(period)
                    }
                };
                let woken = hint.notify(&engine).notified();
                tokio::select! {
                    () = cancel.cancelled() => break,
                    () = woken, if failures == 0 => {}
                    () = tokio::time::sleep(wait) => {}
                }
            }
        });
    }

    /// Starts to hear what peers tell.
    fn listen(&self) {
        let engine = self.engine.clone();
        let cancel = self.cancel.clone();
        self.loops.spawn(async move {
            loop {
                let heard = tokio::select! {
                    () = cancel.cancelled() => break,
                    heard = engine.coordinator.hear() => heard,
                };
                match heard {
                    Heard::Hint(hint) => engine.told(hint),
                    Heard::Lost => engine.coordinator.sign_is_out(),
                }
            }
        });
    }

    /// Stops the loops after their present step, then hands the duties over.
    ///
    /// # Errors
    /// If the duties could not be handed over: a peer then waits for this node's lease to end.
    pub async fn stop(self) -> Result<(), Error> {
        self.cancel.cancel();
        self.loops.close();
        self.loops.wait().await;
        self.engine.coordinator.hand_over().await
    }
}

/// Why a step came to no end.
enum Stumble {
    Store(Error),
    /// A mistake of ours, or of a library: what the step had in hand is gone, and the store has the rest.
    Panicked(String),
}

/// The step, whose panic ends it alone: a loop that nobody runs any more would keep its duty from peers.
async fn whole(
    step: impl Future<Output = Result<Option<Duration>, Error>>,
) -> Result<Option<Duration>, Stumble> {
    match AssertUnwindSafe(step).catch_unwind().await {
        Ok(stepped) => stepped.map_err(Stumble::Store),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(Stumble::Panicked(text.unwrap_or_default()))
        }
    }
}

async fn one_step<F>(
    engine: &Engine,
    step: &(impl Fn(Timestamp) -> F + Send + Sync),
) -> Result<Option<Duration>, Error>
where
    F: Future<Output = Result<Option<Timestamp>, Error>> + Send,
{
    let store = &*engine.context.store;
    let now = engine.pulse.now(store).await?;
    let next = step(now).await?;
    let Some(next) = next else { return Ok(None) };
    let now = engine.pulse.now(store).await?;
    let wait = next.duration_since(now).max(SignedDuration::ZERO);
    // A step that wants to go on at once still lets others have their turn.
    Ok(Some(std_duration(wait).max(Duration::from_millis(1))))
}

fn std_duration(length: SignedDuration) -> Duration {
    Duration::try_from(length).unwrap_or_default()
}

#[cfg(test)]
mod tests;
