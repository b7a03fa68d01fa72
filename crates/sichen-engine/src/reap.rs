//! The pool's other duty: attempts that nobody will end are ended from outside.
//!
//! # Invariants
//! - An attempt is ended here only if its session is over or its timeout (plus grace) has passed,
//!   and the store looks again in the transaction.
//! - After this node could not reach the store, nothing expires for one session: workers could not
//!   beat either.
//!
//! # Not here
//! What follows for the shard (`sichen_core::lifecycle`); leases of a worker that comes back with
//! its old trees dead (its registration ends the old session, this duty takes the shards).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::ids::{RunId, SessionId};
use sichen_core::lease::{Rhythm, STOP_GRACE, dead_by, has_expired};
use sichen_core::lifecycle::shard::{Ending, Facts, on_end};
use sichen_core::model::{DutyKey, Failure, Session};
use sichen_core::name::Name;
use sichen_core::port::{Error, Fence, MAX_BATCH, Overdue, Reap, ReapVerdict};
use sichen_core::timeouts::{Overrun, overrun, within_grace};
use sichen_core::trace::TraceId;

use crate::blocked::{Blocked, told};
use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::dispatch::first_of;
use crate::documents::Documents;
use crate::sessions::note_rule;

/// How long past its timeout an attempt may take to report before it is ended from outside: the
/// worker enforces the timeout first.
pub const TIMEOUT_GRACE: SignedDuration = SignedDuration::from_secs(15);

/// Attempts looked at beyond one batch, where those found first are within their job's grace.
const MAX_IN_GRACE: usize = 10_000;

/// How often is looked while shards are held.
const PACE: SignedDuration = SignedDuration::from_secs(1);

/// Ends attempts whose holder is gone.
#[derive(Debug)]
pub struct Reaper {
    context: Context,
    coordinator: Arc<Coordinator>,
    documents: Arc<Documents>,
    rhythm: Rhythm,
    /// The store was out of reach since the last pass.
    outage: AtomicBool,
    /// Nothing expires before this instant (after an outage of the store).
    hold_until: Mutex<Option<Timestamp>>,
    /// Runs whose rows another program holds.
    blocked: Blocked<RunId>,
    /// What the last pass saw.
    seen: Mutex<Seen>,
}

/// What decides when to look again.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Whether any session held a shard.
    held: bool,
    /// When the first session expires unless it is renewed.
    expiry: Option<Timestamp>,
}

impl Reaper {
    /// A reaper for sessions of this rhythm.
    #[must_use]
    pub fn new(
        context: Context,
        coordinator: Arc<Coordinator>,
        documents: Arc<Documents>,
        rhythm: Rhythm,
    ) -> Self {
        Self {
            context,
            coordinator,
            documents,
            rhythm,
            outage: AtomicBool::new(false),
            hold_until: Mutex::default(),
            blocked: Blocked::default(),
            seen: Mutex::default(),
        }
    }

    /// Says that the store is out of reach: from the next pass on nothing expires for one session.
    pub fn store_is_lost(&self) {
        self.outage.store(true, Ordering::SeqCst);
    }

    /// Whether nothing is to expire at `now`. An outage begins to count as over with this pass: should it
    /// last, the pass fails and says so again.
    fn holds(&self, now: Timestamp) -> bool {
        let mut held = self
            .hold_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.outage.swap(false, Ordering::SeqCst) {
            let until = now.checked_add(self.rhythm.ttl).unwrap_or(Timestamp::MAX);
            *held = held.max(Some(until));
        }
        held.is_some_and(|until| now < until)
    }

    /// When to look again: soon while anything is held, else when a session may have expired.
    #[must_use]
    pub fn next_look(&self, now: Timestamp) -> Option<Timestamp> {
        let seen = *self.seen();
        let soon = now.checked_add(PACE).ok();
        let expiry = seen.expiry.into_iter().chain(soon).max();
        if seen.held {
            soon
        } else {
            seen.expiry.and(expiry)
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One pass over all pools; returns how many attempts it ended. One pool whose rows are in the way
    /// does not stop the others.
    ///
    /// # Errors
    /// As the store.
    pub async fn run_once(&self, now: Timestamp) -> Result<usize, Error> {
        let holding = self.holds(now);
        let (mut reaped, mut failed) = (0, None);
        *self.seen() = Seen::default();
        for pool in self.coordinator.pools() {
            let Some(fence) = self.coordinator.fence(&DutyKey::Pool(pool.clone()), now) else {
                continue;
            };
            if !holding && let Err(error) = self.end_expired(&pool, &fence, now).await {
                first_of(&mut failed, error)?;
            }
            match self.reap_pool(pool, fence, now, holding).await {
                Ok(n) => reaped += n,
                Err(error) => first_of(&mut failed, error)?,
            }
        }
        failed.map_or(Ok(reaped), Err)
    }

    /// `now`, but where something follows from it no later than the store's own clock, which may have been set back
    /// since this machine's counted on from it: no session is to end before its time, and what is ready now is to be
    /// so by the store.
    async fn by_the_store(&self, now: Timestamp, is_idle: bool) -> Result<Timestamp, Error> {
        match is_idle {
            true => Ok(now),
            false => Ok(now.min(self.context.store.now().await?)),
        }
    }

    /// Ends the sessions whose time is over, so that they are seen as ended and not as live.
    async fn end_expired(&self, pool: &Name, fence: &Fence, now: Timestamp) -> Result<(), Error> {
        let sessions = self.context.store.list_sessions(Some(pool.clone())).await?;
        for (session, held) in &sessions {
            let mut seen = self.seen();
            seen.held |= *held > 0;
            seen.expiry = seen.expiry.into_iter().chain([session.expires_at]).min();
        }
        let expired = |(session, _): &(Session, u32)| has_expired(session.expires_at, now);
        let now = self
            .by_the_store(now, !sessions.iter().any(expired))
            .await?;
        let mut failed = None;
        for (session, _) in sessions
            .into_iter()
            .filter(|(s, _)| has_expired(s.expires_at, now))
        {
            let op = self.context.op(self.coordinator.actor());
            let cause = "expired".to_owned();
            let fence = Some(fence.clone());
            let ended = self.context.store.end_session(op, fence, session.id, cause);
            match ended.await {
                Ok(false) => {}
                Ok(true) => {
                    self.context.meter.session("expired");
                    tracing::info!(session = %session.id, worker = %session.worker.name, "session expired");
                }
                Err(error) => first_of(&mut failed, error)?,
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn reap_pool(
        &self,
        pool: Name,
        fence: Fence,
        now: Timestamp,
        holding: bool,
    ) -> Result<usize, Error> {
        let store = &*self.context.store;
        let (reaps, traces) = self.reaps(pool, now, holding).await?;
        if reaps.is_empty() {
            return Ok(0);
        }
        let end = |reaps| {
            let op = self.context.op(self.coordinator.actor());
            store.reap_shards(op, fence.clone(), reaps)
        };
        let run = |reap: &Reap| reap.key.run;
        let verdicts = self.blocked.write(&reaps, run, || told(now), end).await?;
        let mut reaped = 0;
        for ((reap, verdict), trace_id) in reaps.iter().zip(verdicts).zip(traces) {
            if let Some(ReapVerdict::Reaped(run)) = verdict {
                self.context.meter.ended(reap.transition.end, run);
                tracing::info!(
                    shard = %reap.key, %trace_id, code = reap.failure.code, "attempt ended from outside"
                );
                reaped += 1;
            }
        }
        Ok(reaped)
    }

    /// What is to be ended, as much as one batch takes, each with its run's trace id. What is left alone for now does not hide what
    /// comes behind it.
    async fn reaps(
        &self,
        pool: Name,
        now: Timestamp,
        holding: bool,
    ) -> Result<(Vec<Reap>, Vec<TraceId>), Error> {
        let store = &*self.context.store;
        let mut traces = Vec::new();
        let (mut reaps, mut seen) = (Vec::new(), BTreeSet::new());
        let mut sessions = BTreeMap::new();
        let mut limit = MAX_BATCH;
        loop {
            let most = u32::try_from(limit).unwrap_or(u32::MAX);
            let overdue = store.list_overdue(pool.clone(), TIMEOUT_GRACE, most);
            let overdue = overdue.await?;
            let full = overdue.len() == limit;
            let now = self.by_the_store(now, overdue.is_empty()).await?;
            for overdue in overdue {
                if reaps.len() == MAX_BATCH {
                    break;
                }
                if seen.insert(overdue.shard.key) {
                    let trace = TraceId::of(overdue.job.0, overdue.shard.key.run);
                    let reap = self.judge(overdue, &mut sessions, now, holding).await?;
                    traces.extend(reap.is_some().then_some(trace));
                    reaps.extend(reap);
                }
            }
            if !full || reaps.len() == MAX_BATCH || limit > MAX_IN_GRACE {
                return Ok((reaps, traces));
            }
            limit += seen.len() - reaps.len();
        }
    }

    /// The end of one attempt; `None` if it is left alone for now.
    async fn judge(
        &self,
        overdue: Overdue,
        sessions: &mut BTreeMap<SessionId, Option<Session>>,
        now: Timestamp,
        holding: bool,
    ) -> Result<Option<Reap>, Error> {
        let session = match overdue.shard.session {
            Some(id) => match sessions.get(&id) {
                Some(known) => known.clone(),
                None => match self.context.store.get_session(id).await {
                    // Nobody knows when nothing of it can still be alive.
                    Err(Error::Corrupt(_)) => return Ok(None),
                    found => sessions.entry(id).or_insert(found?).clone(),
                },
            },
            None => None,
        };
        let superseded = session.as_ref().is_none_or(|s| s.ended.is_some());
        if holding && overdue.session_over && !superseded {
            return Ok(None);
        }
        self.decide(overdue, session, now).await
    }

    async fn decide(
        &self,
        overdue: Overdue,
        session: Option<Session>,
        now: Timestamp,
    ) -> Result<Option<Reap>, Error> {
        let (job, revision) = overdue.job;
        let document = self
            .documents
            .find(&*self.context.store, job, revision)
            .await?;
        let grace = document.as_ref().and_then(|document| document.grace());
        let over = overdue.shard.timeout_at.filter(|_| !overdue.session_over);
        let still = over.zip(grace);
        if still.is_some_and(|(over, grace)| within_grace(over, grace, now)) {
            return Ok(None);
        }
        let dead_by = session.and_then(|session| self.gone_by(&session, grace, now));
        // Without its document an attempt still ends, by the policy of a job that names none.
        let policy = document
            .map(|document| document.retry_policy())
            .unwrap_or_default();
        let shard = &overdue.shard;
        let facts = Facts {
            key: shard.key,
            state: shard.state,
            token: shard.token,
            used: shard.used,
            stop: overdue.stop,
            deadline: overdue.deadline,
        };
        let (ending, code, message) = if overdue.session_over {
            (
                Ending::Lost,
                "session-over",
                "the worker's session ended before it reported",
            )
        } else {
            let message = match overrun(shard) {
                Overrun::Attempt => "the attempt's timeout passed and it did not report",
                Overrun::Stall => "the attempt gave no sign of progress for its stall timeout",
            };
            (Ending::TimedOut, overrun(shard).code(), message)
        };
        let decided = on_end(&facts, shard.token, ending, code, &policy, now);
        Ok(decided.ok().map(|transition| {
            let mut failure = Failure {
                code: code.to_owned(),
                message: message.to_owned(),
            };
            note_rule(&mut failure, &transition, &policy);
            Reap {
                key: shard.key,
                token: shard.token,
                transition,
                failure,
                only_if_session_over: overdue.session_over,
                dead_by,
            }
        }))
    }

    /// When nothing of an attempt that `session` held can still be alive; `None` if that is known
    /// already: who gave its session up, or registered anew, had ended all before.
    fn gone_by(
        &self,
        session: &Session,
        grace: Option<SignedDuration>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        match &session.ended {
            Some((_, cause)) if cause != "expired" => None,
            Some(_) => Some(dead_by(session.expires_at)),
            None if has_expired(session.expires_at, now) => Some(dead_by(session.expires_at)),
            // Its worker lives and did not answer. It hears of this with a beat, or its session ends:
            // counted from when that is written, hence a whole session. Then its job's grace begins.
            None => {
                let more = grace.unwrap_or(STOP_GRACE).max(STOP_GRACE) - STOP_GRACE;
                let told = now.checked_add(self.rhythm.ttl.saturating_add(more));
                Some(dead_by(told.unwrap_or(Timestamp::MAX)))
            }
        }
    }
}
