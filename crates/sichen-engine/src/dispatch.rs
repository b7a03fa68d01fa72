//! The pool's duty: ready shards → plan → leases → workers.
//!
//! # Invariants
//! - Each pass reads anew; a refused grant is a result, and the next pass sees why.
//! - A grant is handed to the worker after its commit, never before.
//!
//! # Not here
//! The plan (`sichen_core::dispatch`), taking leases back ([`crate::reap`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use sichen_core::dispatch::{Candidate, Ready, ReadyRun, plan};
use sichen_core::document::Document;
use sichen_core::ids::{RunId, SessionId};
use sichen_core::lease::has_expired;
use sichen_core::model::{DutyKey, Run};
use sichen_core::name::Name;
use sichen_core::port::{Error, Fence, Grant, GrantVerdict, Granted, MAX_BATCH, ReadyHead};

use crate::blocked::Blocked;
use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::courier::{Courier, ToWorker};
use crate::documents::Documents;
use crate::work::Work;

/// Runs looked at in one page.
const RUNS_PER_PAGE: u32 = 200;
/// Pages of a shard's own events that are read for a new attempt after a lost one: a checkpoint a
/// second for two days.
const EVENT_PAGES: u32 = 200;
/// Pages in one pass; more runs than that wait for the next pass, which starts where this ended.
const PAGES: u32 = 5;

/// Dispatches the shards of every pool that this node owns.
pub struct Dispatcher {
    context: Context,
    coordinator: Arc<Coordinator>,
    documents: Arc<Documents>,
    courier: Arc<dyn Courier>,
    /// Sessions whose worker can't take work just now, as its last beat said. A hint: such a
    /// worker rejects what it is granted, and the shard comes back unharmed.
    unable: Mutex<BTreeSet<SessionId>>,
    /// Runs whose rows another program holds.
    pub(crate) blocked: Blocked<RunId>,
}

impl std::fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher").finish_non_exhaustive()
    }
}

/// What one pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Leases granted.
    pub granted: usize,
    /// Grants that the store refused.
    pub refused: usize,
    /// When a waiting shard becomes ready, if that is known to matter.
    pub next_ready: Option<Timestamp>,
    /// Whether a run may have been given a deadline.
    pub limits_run: bool,
}

impl Dispatcher {
    /// A dispatcher that hands grants to `courier`.
    #[must_use]
    pub fn new(
        context: Context,
        coordinator: Arc<Coordinator>,
        documents: Arc<Documents>,
        courier: Arc<dyn Courier>,
    ) -> Self {
        Self {
            context,
            coordinator,
            documents,
            courier,
            unable: Mutex::default(),
            blocked: Blocked::default(),
        }
    }

    /// Says whether the worker of `session` can take work.
    pub fn set_able(&self, session: SessionId, able: bool) {
        let mut unable = self.unable.lock().unwrap_or_else(PoisonError::into_inner);
        if able {
            unable.remove(&session);
        } else {
            unable.insert(session);
        }
    }

    /// One pass over all pools.
    ///
    /// # Errors
    /// As the store. Leases granted before the error stay; the next beat of their worker finds them.
    pub async fn run_once(&self, now: Timestamp) -> Result<Pass, Error> {
        let mut pass = Pass::default();
        for pool in self.coordinator.pools() {
            let Some(fence) = self.coordinator.fence(&DutyKey::Pool(pool.clone()), now) else {
                continue;
            };
            self.dispatch_pool(&pool, fence, now, &mut pass).await?;
            let next = self.context.store.next_ready_at(pool).await?;
            pass.next_ready = pass.next_ready.into_iter().chain(next).min();
        }
        Ok(pass)
    }

    async fn dispatch_pool(
        &self,
        pool: &Name,
        fence: Fence,
        now: Timestamp,
        pass: &mut Pass,
    ) -> Result<(), Error> {
        let store = &*self.context.store;
        let sessions = store.list_sessions(Some(pool.clone())).await?;
        let unable = self
            .unable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let candidates: Vec<Candidate> = sessions
            .into_iter()
            .filter(|(s, _)| !unable.contains(&s.id))
            .filter(|(s, held)| !s.draining && !has_expired(s.expires_at, now) && *held < s.slots)
            .map(|(s, held)| Candidate {
                session: s.id,
                handlers: s.handlers,
                slots: s.slots,
                held,
            })
            .collect();
        let free: u32 = candidates.iter().map(|c| c.slots - c.held).sum();
        if free == 0 {
            return Ok(());
        }
        let heads = self.ready_heads(pool, free).await?;
        let mut runs = Vec::with_capacity(heads.len());
        for head in &heads {
            if self.blocked.is_paused(head.run, now) {
                pass.next_ready = pass
                    .next_ready
                    .into_iter()
                    .chain(self.blocked.next(now))
                    .min();
                continue;
            }
            if let Some(document) = self.documents.find(store, head.job, head.revision).await? {
                runs.push(ready_run(head, &document));
            }
        }
        let placements = plan(&runs, &candidates, MAX_BATCH);
        if placements.is_empty() {
            return Ok(());
        }
        let heads: BTreeMap<RunId, ReadyHead> = heads.into_iter().map(|h| (h.run, h)).collect();
        let mut grants = Vec::with_capacity(placements.len());
        for p in placements {
            let Some(head) = heads.get(&p.key.run) else {
                continue;
            };
            let document = self.documents.get(store, head.job, head.revision).await?;
            let mut timeouts = document.timeouts();
            if p.key.no.is_plan() {
                // A query gives no signs while it runs.
                timeouts.stall = None;
            }
            pass.limits_run |= timeouts.active.is_some();
            grants.push(Grant {
                key: p.key,
                token: p.token,
                session: p.session,
                timeouts,
            });
        }
        let lease = |grants| {
            let op = self.context.op(self.coordinator.actor());
            store.lease_shards(op, fence.clone(), grants)
        };
        let run = |grant: &Grant| grant.key.run;
        let verdicts = self.blocked.write(&grants, run, now, lease).await?;
        let mut granted: Vec<(SessionId, Granted)> = Vec::new();
        for (grant, verdict) in grants.iter().zip(verdicts) {
            match verdict {
                Some(GrantVerdict::Granted(g)) => granted.push((grant.session, *g)),
                Some(GrantVerdict::Refused(reason)) => {
                    tracing::debug!(shard = %grant.key, ?reason, "grant refused");
                    pass.refused += 1;
                }
                None => {
                    let next = self.blocked.next(now);
                    pass.next_ready = pass.next_ready.into_iter().chain(next).min();
                }
            }
        }
        pass.granted += granted.len();
        if grants.len() == MAX_BATCH {
            // There may be more for the same slots than one batch holds.
            pass.next_ready = Some(now);
        }
        self.hand_over(granted).await
    }

    async fn ready_heads(&self, pool: &Name, free: u32) -> Result<Vec<ReadyHead>, Error> {
        let per_run = free.min(u32::try_from(MAX_BATCH).unwrap_or(u32::MAX));
        let mut heads: Vec<ReadyHead> = Vec::new();
        let mut after = None;
        for _ in 0..PAGES {
            let page = self
                .context
                .store
                .list_ready(pool.clone(), after, RUNS_PER_PAGE, per_run)
                .await?;
            let full = page.len() == RUNS_PER_PAGE as usize;
            after = page.last().map(|head| head.run);
            heads.extend(page);
            if !full {
                break;
            }
        }
        Ok(heads)
    }

    /// Tells workers what they were granted, in the order of their grant numbers.
    ///
    /// # Errors
    /// As the store.
    pub async fn hand_over(&self, granted: Vec<(SessionId, Granted)>) -> Result<(), Error> {
        for (session, work) in self.works(granted).await? {
            let key = work.shard.key;
            if !self
                .courier
                .deliver(session, ToWorker::Grant(Box::new(work)))
            {
                tracing::debug!(%session, shard = %key, "no stream for a grant; its beat will find it");
            }
        }
        Ok(())
    }

    /// Completes grants with what their runs and documents say.
    async fn works(
        &self,
        granted: Vec<(SessionId, Granted)>,
    ) -> Result<Vec<(SessionId, Work)>, Error> {
        let store = &*self.context.store;
        let now = store.now().await?;
        let mut runs: BTreeMap<RunId, Arc<Run>> = BTreeMap::new();
        let mut works = Vec::with_capacity(granted.len());
        for (session, granted) in granted {
            let id = granted.shard.key.run;
            let run = if let Some(run) = runs.get(&id) {
                run.clone()
            } else {
                let facts = store.get_shards(vec![granted.shard.key]).await?;
                let Some(facts) = facts.into_iter().next() else {
                    continue;
                };
                runs.entry(id).or_insert(Arc::new(facts.run)).clone()
            };
            let Some(document) = self.documents.find(store, run.job, run.revision).await? else {
                continue;
            };
            let unknown_outcomes = unknown_outcomes(store, &granted).await?;
            let Granted { shard, grant_seq } = granted;
            // The store counts from the grant; the worker counts from what it is told here.
            let least = SignedDuration::from_millis(1);
            let left = |at: Timestamp| at.duration_since(now).max(least);
            let attempt_timeout = shard.attempt_until.map(left);
            let run_timeout = run.terms.deadline.map(left);
            works.push((
                session,
                Work {
                    shard,
                    grant_seq,
                    run,
                    document,
                    attempt_timeout,
                    run_timeout,
                    unknown_outcomes,
                },
            ));
        }
        Ok(works)
    }
}

/// Attempts of this shard that ended lost or timed out: nobody knows how far they came.
async fn unknown_outcomes(
    store: &dyn sichen_core::port::Store,
    granted: &Granted,
) -> Result<Vec<(u32, sichen_core::ids::Token)>, Error> {
    use sichen_core::event::Kind;
    use sichen_core::lifecycle::AttemptEnd;
    use sichen_core::port::{EventFilter, MAX_PAGE, Page};

    if granted.shard.attempt <= 1 {
        return Ok(Vec::new());
    }
    let filter = EventFilter {
        run: None,
        shard: Some(granted.shard.key),
    };
    let mut token_of = BTreeMap::new();
    let mut unknown = Vec::new();
    let lost = [AttemptEnd::Lost.word(), AttemptEnd::TimedOut.word()];
    let mut after = None;
    for _ in 0..EVENT_PAGES {
        let limit = MAX_PAGE;
        let page = store.list_events(filter, Page { after, limit }).await?;
        let full = page.len() == limit as usize;
        after = page.last().map(|event| event.seq);
        for event in page {
            let Some(attempt) = event.attempt else {
                continue;
            };
            if event.kind == Kind::AttemptGranted {
                token_of.insert(attempt, event.token.unwrap_or_default());
            }
            if event.kind == Kind::AttemptEnded && lost.contains(&event.cause.as_str()) {
                unknown.push((attempt, token_of.get(&attempt).copied().unwrap_or_default()));
            }
        }
        if !full {
            break;
        }
    }
    let excess = unknown.len().saturating_sub(16);
    Ok(unknown.split_off(excess))
}

fn ready_run(head: &ReadyHead, document: &Document) -> ReadyRun {
    let plans = head.shards.first().is_some_and(|(key, _)| key.no.is_plan());
    let source = document.data_source().filter(|_| plans);
    ReadyRun {
        run: head.run,
        priority: head.terms.priority,
        // A plan step runs where its data source is.
        handler: source.map_or_else(|| head.terms.handler.clone(), data_source_handler),
        room: head.terms.parallelism.saturating_sub(head.running),
        head: head
            .shards
            .iter()
            .map(|(key, token)| Ready {
                key: *key,
                token: *token,
            })
            .collect(),
    }
}

/// The name under which a worker offers a data source among its handlers.
#[must_use]
pub fn data_source_handler(name: &str) -> String {
    format!("data-source/{name}")
}
