//! The server's side of a worker's conversation: registration, beats, reports, checkpoints.
//!
//! Transport-free: the gRPC edge and the simulator translate to and from these values.
//!
//! # Invariants
//! - An answer is given only after its commit. If no commit could be made, the answer says so
//!   ([`ReportVerdict::RetryLater`]) and the worker reports again.
//! - A finish whose token is current is accepted whatever became of the session; a checkpoint is
//!   not.
//! - A lease that its worker has seen and, in two beats running, does not list is given back.
//!
//! # Not here
//! Streams (`sichen-server`), ending expired sessions ([`crate::reap`]).

mod report;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use sichen_core::ids::{RunId, SessionId, ShardKey, Token};
use sichen_core::lease::{Rhythm, has_expired};
use sichen_core::lifecycle::StopCause;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{Appearance, Failure, Session};
use sichen_core::name::Name;
use sichen_core::port::{
    CheckpointVerdict, Error, Granted, MAX_BATCH, Register, RegisterVerdict, RenewVerdict,
    Reporter, Returned, SaveCheckpoint,
};

use crate::context::{Context, facts};
use crate::coordinator::{Coordinator, MAX_POOLS};
use crate::courier::{Courier, StopReason, ToWorker};
use crate::dispatch::Dispatcher;
use crate::documents::Documents;
use crate::gather::{Gather, Mix};
use crate::work::GRACE;

pub(crate) use report::note_rule;
pub use values::{Beat, BeatAnswer, Hello, HelloAnswer, Plan, Report, ReportVerdict, Source};

/// Slots that one worker may offer.
const MAX_SLOTS: u32 = 10_000;

/// Serves the workers that are connected to this node.
pub struct Sessions {
    context: Context,
    coordinator: Arc<Coordinator>,
    documents: Arc<Documents>,
    dispatcher: Arc<Dispatcher>,
    courier: Arc<dyn Courier>,
    rhythm: Rhythm,
    /// Leases missing from the last beat, by session: given back if missing again. Of sessions that
    /// beat here alone.
    missing: Mutex<BTreeMap<SessionId, BTreeSet<(ShardKey, Token)>>>,
    /// What is reported by all of them.
    ends: Gather<report::End, report::Told>,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl Sessions {
    /// Serves sessions of this rhythm.
    #[must_use]
    pub fn new(
        context: Context,
        coordinator: Arc<Coordinator>,
        documents: Arc<Documents>,
        dispatcher: Arc<Dispatcher>,
        courier: Arc<dyn Courier>,
        rhythm: Rhythm,
    ) -> Self {
        let missing = Mutex::default();
        Self {
            context,
            coordinator,
            documents,
            dispatcher,
            courier,
            rhythm,
            missing,
            ends: Gather::new(Mix::AllAuthors),
        }
    }

    /// Registers or resumes a worker.
    ///
    /// # Errors
    /// As the store; the worker connects again.
    pub async fn hello(&self, hello: Hello, now: Timestamp) -> Result<HelloAnswer, Error> {
        if let Some(refused) = check(&hello) {
            return Ok(refused);
        }
        if !self.coordinator.takes_pool(&hello.pool) {
            let pool = hello.pool;
            return Ok(HelloAnswer::Refused {
                code: "too-many-pools",
                message: format!(
                    "SC4009: {pool} would be a new pool, and a store has at most {MAX_POOLS}; use one that there \
                     is (sichen get members)"
                ),
            });
        }
        // A process that died at this very address is this one's past: its duties come here when its
        // lease ends, and sending the worker away would only send it back.
        if let Some(address) = self.coordinator.owner_elsewhere(&hello.pool, now).await? {
            return Ok(HelloAnswer::Moved { address });
        }
        match hello.resume {
            Some(session) => self.resume(session, &hello).await,
            None => self.register(hello).await,
        }
    }

    async fn register(&self, hello: Hello) -> Result<HelloAnswer, Error> {
        let store = &*self.context.store;
        let actor = format!("worker {}", hello.worker.name);
        // Finished results first, under their old tokens: registering ends those leases.
        let by = Arc::new(Reporter {
            session: None,
            uid: hello.worker.uid.clone(),
        });
        let from = Source {
            actor: &actor,
            by: Some(&by),
        };
        let mut journal = self.report(from, hello.journal).await;
        if journal.contains(&ReportVerdict::RetryLater) {
            let why = "the results in the worker's journal could not be stored now";
            return Err(Error::Unavailable(why.to_owned()));
        }
        let register = Register {
            worker: hello.worker.clone(),
            appearance: hello.appearance,
            pool: hello.pool,
            slots: hello.slots,
            handlers: hello.handlers,
            offer: hello.offer,
            ttl: self.rhythm.ttl,
            old_trees_dead: hello.old_trees_dead,
        };
        let verdict = store
            .register_session(self.context.op(actor.clone()), register)
            .await?;
        let registered = match verdict {
            RegisterVerdict::Registered(registered) => registered,
            RegisterVerdict::Outdated { newest } => {
                tracing::info!(worker = %hello.worker.name, asked = ?hello.appearance, ?newest, "a Hello was overtaken and registers nothing");
                return Ok(if newest.start > hello.appearance.start {
                    HelloAnswer::Superseded
                } else {
                    HelloAnswer::Outdated
                });
            }
        };
        if hello.draining {
            store.drain_session(registered.session).await?;
        }
        for old in &registered.superseded {
            // A process that lost its session and comes back is no stranger to itself.
            let stranger = store
                .get_session(*old)
                .await?
                .is_some_and(|s| s.worker.incarnation != hello.worker.incarnation);
            if stranger {
                self.courier.deliver(*old, ToWorker::Superseded);
            }
        }
        if let Some(other) = registered.name_taken_by {
            tracing::warn!(worker = %hello.worker.name, session = %other, "SC4001: another worker with another data directory uses this name");
        }
        let lost = hello.dead.into_iter().map(|(key, token)| Report {
            key,
            token,
            ending: Ending::Lost,
            digest: String::new(),
            failure: Some(Failure {
                code: "worker-restarted".to_owned(),
                message: "the worker's process died while it ran".to_owned(),
            }),
            progress: None,
            plan: None,
            run_key: String::new(),
            returned: Returned::Nothing,
        });
        journal.extend(self.report(from, lost.collect()).await);
        self.context.meter.session("registered");
        tracing::info!(worker = %hello.worker.name, session = %registered.session, "worker registered");
        Ok(HelloAnswer::Welcome {
            session: registered.session,
            rhythm: self.rhythm,
            journal,
            stop: Vec::new(),
        })
    }

    async fn resume(&self, session: SessionId, hello: &Hello) -> Result<HelloAnswer, Error> {
        // The number of a session is no secret: it is its worker's by what only that one knows, and a
        // join token's bounds were judged by what is said here.
        let known = self.context.store.get_session(session).await?;
        if !known.is_some_and(|known| is_of(&known, hello)) {
            tracing::warn!(%session, worker = %hello.worker.name, "SC4031: a worker asks for a session that is not its own");
            return Ok(HelloAnswer::SessionLost);
        }
        let beat = Beat {
            session,
            running: hello.running.clone(),
            highest_grant_seen: hello.highest_grant_seen,
        };
        Ok(match self.beat(beat).await? {
            BeatAnswer::Lost => HelloAnswer::SessionLost,
            BeatAnswer::Superseded => HelloAnswer::Superseded,
            BeatAnswer::Alive { stop, .. } => {
                self.context.meter.session("resumed");
                HelloAnswer::Welcome {
                    session,
                    rhythm: self.rhythm,
                    journal: Vec::new(),
                    stop,
                }
            }
        })
    }

    /// Tells the workers of `pool` that are connected here that it is served at `address` now. A hint:
    /// the answer to their next beat says the same.
    ///
    /// # Errors
    /// As the store.
    pub async fn tell_moved(&self, pool: &Name, address: &str) -> Result<(), Error> {
        let sessions = self.context.store.list_sessions(Some(pool.clone())).await?;
        for (session, _) in sessions {
            let address = address.to_owned();
            self.courier
                .deliver(session.id, ToWorker::Moved { address });
        }
        Ok(())
    }

    /// Sends a session's grants above `highest_grant_seen` again: what a worker missed that comes
    /// back over a new stream, once that stream is open.
    ///
    /// # Errors
    /// As the store; the worker's beats then find what is missing.
    pub async fn resend(&self, session: SessionId, highest_grant_seen: u64) -> Result<(), Error> {
        if sichen_core::zoo::is("lost-grant-stays-lost") {
            return Ok(());
        }
        let leases = self.context.store.list_leases(session).await?;
        let unseen = leases
            .into_iter()
            .filter(|s| s.grant_seq > highest_grant_seen)
            .map(|shard| {
                let grant_seq = shard.grant_seq;
                (session, Granted { shard, grant_seq })
            });
        self.dispatcher.hand_over(unseen.collect()).await
    }

    /// Takes a beat. A grant that the worker has not seen for two beats is sent again.
    ///
    /// # Errors
    /// As the store: the worker goes on until its own deadline.
    pub async fn beat(&self, beat: Beat) -> Result<BeatAnswer, Error> {
        let store = &*self.context.store;
        let renewed = store
            .renew_sessions(vec![beat.session], self.rhythm.ttl)
            .await?;
        let over = match renewed.first() {
            Some(RenewVerdict::Renewed { expires_at }) => {
                if let Some(before) = self.dispatcher.renewed(beat.session, *expires_at) {
                    // Both by the store's clock, and for as long.
                    let late = expires_at.duration_since(before) - self.rhythm.beat;
                    self.context.meter.beat_late_by(late);
                }
                None
            }
            Some(RenewVerdict::Superseded) => Some(BeatAnswer::Superseded),
            Some(RenewVerdict::Lost) | None => Some(BeatAnswer::Lost),
        };
        if let Some(over) = over {
            self.missing().remove(&beat.session);
            return Ok(over);
        }
        if beat.running.is_empty() && self.dispatcher.holds_nothing(beat.session) {
            // A hint that is mended by the dispatcher's next look.
            self.release_missing(beat.session, BTreeSet::new()).await?;
            return Ok(BeatAnswer::Alive {
                valid_for: self.rhythm.ttl,
                stop: Vec::new(),
            });
        }
        let leases = store.list_leases(beat.session).await?;
        let now = store.now().await?;
        let keys: Vec<ShardKey> = leases.iter().map(|shard| shard.key).collect();
        let held: BTreeMap<ShardKey, Token> = leases.iter().map(|s| (s.key, s.token)).collect();
        let running: BTreeSet<(ShardKey, Token)> = beat.running.iter().copied().collect();
        let mut stop: Vec<(ShardKey, Token, StopReason)> = running
            .iter()
            .filter(|(key, token)| held.get(key) != Some(token))
            .map(|(key, token)| (*key, *token, StopReason::StaleToken))
            .collect();
        let mut missing = BTreeSet::new();
        let mut unseen = Vec::new();
        let patience = self.rhythm.beat * 2;
        for shard in leases {
            if running.contains(&(shard.key, shard.token)) {
                continue;
            }
            let old = shard
                .started_at
                .is_some_and(|at| at.checked_add(patience).is_ok_and(|end| end <= now));
            if shard.grant_seq <= beat.highest_grant_seen {
                missing.insert((shard.key, shard.token));
            } else if old && !sichen_core::zoo::is("lost-grant-stays-lost") {
                let grant_seq = shard.grant_seq;
                unseen.push((beat.session, Granted { shard, grant_seq }));
            }
        }
        self.release_missing(beat.session, missing).await?;
        self.dispatcher.hand_over(unseen).await?;
        for facts in facts(store, keys).await? {
            let shard = &facts.shard;
            if let Some((cause, _)) = facts.run.stop
                && running.contains(&(shard.key, shard.token))
            {
                stop.push((shard.key, shard.token, stop_reason(cause)));
            }
        }
        Ok(BeatAnswer::Alive {
            valid_for: self.rhythm.ttl,
            stop,
        })
    }

    /// Tells the workers that run shards of `run` that it is being stopped. A hint, for those that
    /// are connected here: the beats of all find it as well.
    ///
    /// # Errors
    /// As the store.
    pub async fn tell_stopped(&self, run: RunId) -> Result<(), Error> {
        let store = &*self.context.store;
        let Some((found, _)) = store.get_run(run).await? else {
            return Ok(());
        };
        let Some((cause, _)) = found.stop else {
            return Ok(());
        };
        let documents = &self.documents;
        let document = documents.find(store, found.job, found.revision).await?;
        let grace = document.and_then(|document| document.grace());
        let limit = u32::try_from(MAX_BATCH).unwrap_or(u32::MAX);
        for shard in store.list_running(run, limit).await? {
            let Some(session) = shard.session else {
                continue;
            };
            let message = ToWorker::Cancel {
                key: shard.key,
                token: shard.token,
                reason: stop_reason(cause),
                grace: grace.unwrap_or(GRACE),
            };
            if !self.courier.deliver(session, message) {
                tracing::debug!(%session, shard = %shard.key, "no stream for a stop; its beat will find it");
            }
        }
        Ok(())
    }

    fn missing(&self) -> MutexGuard<'_, BTreeMap<SessionId, BTreeSet<(ShardKey, Token)>>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back leases that a worker has seen and, for the second beat, does not list.
    async fn release_missing(
        &self,
        session: SessionId,
        missing: BTreeSet<(ShardKey, Token)>,
    ) -> Result<(), Error> {
        let twice: Vec<(ShardKey, Token)> = {
            let mut all = self.missing();
            let before = all.remove(&session).unwrap_or_default();
            let twice = missing.intersection(&before).copied().collect();
            if !missing.is_empty() {
                all.insert(session, missing);
            }
            twice
        };
        if twice.is_empty() {
            return Ok(());
        }
        let released = twice.into_iter().map(|(key, token)| Report {
            key,
            token,
            ending: Ending::Released,
            digest: "not-running".to_owned(),
            failure: None,
            progress: None,
            plan: None,
            run_key: String::new(),
            returned: Returned::Nothing,
        });
        let actor = self.coordinator.actor();
        for verdict in self.report(&*actor, released.collect()).await {
            tracing::warn!(%session, ?verdict, "SC4002: a worker does not run what it was granted; the shard waits again");
        }
        Ok(())
    }

    /// Takes checkpoints and progress; one verdict each, in order.
    ///
    /// # Errors
    /// As the store; what was not stored, the worker's next report brings again.
    pub async fn checkpoint(
        &self,
        actor: &str,
        mut items: Vec<SaveCheckpoint>,
    ) -> Result<Vec<CheckpointVerdict>, Error> {
        let mut verdicts = Vec::with_capacity(items.len());
        while !items.is_empty() {
            let rest = items.split_off(items.len().min(MAX_BATCH));
            let batch = std::mem::replace(&mut items, rest);
            let op = self.context.op(actor);
            let saved = self.context.store.save_checkpoints(op, batch).await?;
            for verdict in &saved {
                self.context.meter.checkpointed(*verdict);
            }
            verdicts.extend(saved);
        }
        Ok(verdicts)
    }

    /// The worker takes no more work.
    ///
    /// # Errors
    /// As the store.
    pub async fn draining(&self, session: SessionId) -> Result<(), Error> {
        self.context.store.drain_session(session).await
    }

    /// The worker runs nothing and takes nothing any more. Returns what was granted to it meanwhile, as
    /// it would reject it: to be reported.
    ///
    /// # Errors
    /// As the store.
    pub async fn leaves(&self, session: SessionId) -> Result<Vec<Report>, Error> {
        self.draining(session).await?;
        let granted = self.context.store.list_leases(session).await?;
        let rejected = granted.into_iter().map(|shard| Report {
            key: shard.key,
            token: shard.token,
            ending: Ending::Released,
            digest: "reject:draining".to_owned(),
            failure: Some(Failure {
                code: "draining".to_owned(),
                message: "the worker left".to_owned(),
            }),
            progress: None,
            plan: None,
            run_key: String::new(),
            returned: Returned::Nothing,
        });
        Ok(rejected.collect())
    }

    /// The stream of `session` has ended. If its worker has left in good order, with nothing held, the
    /// session ends now.
    ///
    /// # Errors
    /// As the store; the session then ends by expiry.
    pub async fn goodbye(&self, actor: &str, session: SessionId) -> Result<(), Error> {
        self.missing().remove(&session);
        let store = &*self.context.store;
        let draining = store
            .get_session(session)
            .await?
            .is_some_and(|s| s.draining);
        if draining && store.list_leases(session).await?.is_empty() {
            let op = self.context.op(actor);
            store
                .end_session(op, None, session, "drained".to_owned())
                .await?;
        }
        Ok(())
    }
}

/// Whether `session` is that of the process that says `hello`.
fn is_of(session: &Session, hello: &Hello) -> bool {
    let (of, by) = (&session.worker, &hello.worker);
    (&of.uid, &of.incarnation, &session.pool) == (&by.uid, &by.incarnation, &hello.pool)
        && hello.handlers.iter().all(|h| session.handlers.contains(h))
}

fn check(hello: &Hello) -> Option<HelloAnswer> {
    let refuse = |message: String| {
        Some(HelloAnswer::Refused {
            code: "bad-hello",
            message,
        })
    };
    if hello.slots == 0 || hello.slots > MAX_SLOTS {
        let slots = hello.slots;
        return refuse(format!(
            "SC4003: {slots} slots; a worker has 1 to {MAX_SLOTS}"
        ));
    }
    if hello.worker.uid.is_empty() || hello.worker.incarnation.is_empty() {
        return refuse("SC4004: a worker needs a uid and an incarnation".to_owned());
    }
    let Appearance {
        start,
        registration,
    } = hello.appearance;
    if hello.resume.is_none() && (start == 0 || registration == 0) {
        return refuse(
            "SC4004: a worker numbers its starts and its registrations, each from 1".to_owned(),
        );
    }
    None
}

fn stop_reason(cause: StopCause) -> StopReason {
    match cause {
        StopCause::Cancel => StopReason::CancelRequested,
        StopCause::Deadline | StopCause::Fatal => StopReason::RunStopped,
    }
}

/// Whether a session is live at `now`; for edges that show it.
#[must_use]
pub fn is_live(session: &sichen_core::model::Session, now: Timestamp) -> bool {
    session.ended.is_none() && !has_expired(session.expires_at, now)
}
