//! New runs: given to a worker in the transaction that writes them, where that can be, or else to wait.
//!
//! # Invariants
//! - Nothing is born leased whose place is more than a matter of free slots: placement, capacities, a
//!   limited job, one that fails somewhere.
//!
//! # Not here
//! Writing them (the store); what is known of free slots ([`crate::room`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use sichen_core::dispatch::fair::Flow;
use sichen_core::ids::{RunId, ShardKey, Token};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::RunState;
use sichen_core::lifecycle::run::Counters;
use sichen_core::model::{DutyKey, Run};
use sichen_core::name::{JobName, Name};
use sichen_core::port::{Fence, Granted, NewRun};

use super::{Dispatcher, keyed, limits_job};
use crate::births::Reserved;
use crate::room::Waiting;

impl Dispatcher {
    /// Chooses a worker for each of `runs`, with their jobs' namespaces, that can be given away in the
    /// transaction that writes it.
    pub fn reserve<'a>(
        &self,
        runs: impl Iterator<Item = (&'a Name, &'a mut NewRun)>,
        now: Timestamp,
    ) -> Reserved<'_> {
        let mut reserved = Reserved::none(self);
        let mut fences: BTreeMap<Name, Option<Fence>> = BTreeMap::new();
        for (namespace, run) in runs {
            let [only] = &*run.shards else {
                continue;
            };
            let plan = matches!(only, Descriptor::Plan { .. });
            let uses = !run.terms.uses.is_empty();
            if plan || uses || run.ready_at > now || run.waits.is_some() {
                continue;
            }
            // Where it goes is more than a matter of free slots.
            let document = self.documents.kept(run.job, run.revision);
            let placed = document
                .is_none_or(|document| document.placement().is_some() || limits_job(&document));
            if placed || self.fair.is_blamed(&run.terms.pool, run.job) {
                continue;
            }
            let pool = &run.terms.pool;
            if self.fair.room(pool, namespace).is_some() {
                // Who may have it is the plan's to say; not every store counts where it writes runs.
                continue;
            }
            let fence = fences
                .entry(pool.clone())
                .or_insert_with(|| self.coordinator.fence(&DutyKey::Pool(pool.clone()), now));
            if fence.is_some()
                && let Some(seat) = self.room.take(pool, &run.terms.handler)
            {
                run.born_leased = Some(seat.session);
                reserved.add(seat);
            }
        }
        reserved.fences = fences.into_values().flatten().collect();
        reserved
    }

    /// Runs were written: those born leased are handed over, the others wait for a slot. What was
    /// reserved and not used is given back.
    pub async fn written(
        &self,
        mut reserved: Reserved<'_>,
        runs: Vec<(JobName, NewRun, RunId, Option<Granted>)>,
        now: Timestamp,
    ) {
        for (_, new, _, granted) in &runs {
            if let (Some(session), Some(_)) = (new.born_leased, granted) {
                reserved.used(session);
            }
        }
        drop(reserved);
        let (mut waits, mut unknown) = (false, false);
        // Shared by runs one after another that need the same.
        let mut handler: Arc<str> = "".into();
        let mut flow: Option<Arc<Flow>> = None;
        let pools: BTreeSet<Name> = runs
            .iter()
            .map(|(_, new, ..)| new.terms.pool.clone())
            .collect();
        for pool in &pools {
            self.coordinator.tell_owner(pool);
        }
        for (job, new, id, granted) in runs {
            let at = granted.as_ref().and_then(|g| g.shard.started_at);
            self.context.meter.created(&new, at.unwrap_or(now));
            if let Some(granted) = &granted {
                self.context.meter.granted(&new.terms.pool, granted);
            }
            let store = &*self.context.store;
            let born = new.born_leased;
            if born.is_some() && granted.is_none() {
                // The room was not as it seemed.
                self.room.incomplete(&new.terms.pool);
            }
            let (uid, revision) = (new.job, new.revision);
            // Kept since the run was made.
            let document = self.documents.find(store, uid, revision).await;
            let Ok(Some(document)) = document else {
                self.room.incomplete(&new.terms.pool);
                unknown = true;
                continue;
            };
            if let (Some(granted), Some(session)) = (granted, born) {
                let run = Arc::new(run_row(job, &new, id, granted.shard.started_at));
                let (pool, key) = (&new.terms.pool, granted.shard.key);
                self.note_yielding(pool, &granted, session, &run, Some(&document));
                self.fair
                    .granted(pool, key, session, Flow::of(&run), None, now);
                // If not, the worker's beat finds the grant.
                if let Ok(work) = self.work(granted, run, document, None).await {
                    self.deliver(session, work);
                }
                continue;
            }
            let plan = matches!(&*new.shards, [Descriptor::Plan { .. }]);
            let later = new.ready_at > now || new.waits.is_some();
            let fewer = (new.terms.parallelism as usize) < new.shards.len();
            let limited = fewer || limits_job(&document);
            if plan || later || limited {
                // One that replaces others may have been let go at once.
                unknown |= !new.shards.is_empty();
                self.room.incomplete(&new.terms.pool);
                continue;
            }
            let numbers = 0..i32::try_from(new.shards.len()).unwrap_or(i32::MAX);
            waits |= !new.shards.is_empty();
            if *handler != *new.terms.handler {
                handler = new.terms.handler.as_str().into();
            }
            let namespace = &job.namespace;
            let kept = flow.take().filter(|f| f.is(namespace, new.lane(), new.job));
            let shared = kept.unwrap_or_else(|| {
                let (namespace, lane, job) = (namespace.clone(), new.lane(), new.job);
                Arc::new(Flow {
                    namespace,
                    lane,
                    job,
                })
            });
            flow = Some(shared.clone());
            let terms = document.placement();
            let waiting = Waiting {
                place: new.place(namespace, id),
                flow: shared,
                priority: new.terms.priority,
                since: new.ready_at,
                terms: terms.clone(),
                keys: keyed(terms.as_deref(), new.job, &new.terms.parameters),
                document,
                handler: handler.clone(),
                more: false,
                shards: numbers
                    .map(|no| (ShardKey::new(id, no), Token(0)))
                    .collect(),
            };
            self.room.add(&new.terms.pool, waiting);
        }
        if unknown {
            self.wake.dispatch();
        } else if waits {
            self.wake.hand_out();
        }
    }
}

/// The row of a run that was just written, as far as a worker is told of it.
fn run_row(job_name: JobName, new: &NewRun, id: RunId, at: Option<Timestamp>) -> Run {
    let mut terms = new.terms.clone();
    if let Some(at) = at {
        terms.deadline = new.timeouts.deadline(terms.deadline, at);
    }
    let total = u32::try_from(new.shards.len()).unwrap_or(u32::MAX);
    let counters = Counters {
        total,
        open: total,
        ..Counters::default()
    };
    Run {
        id,
        job: new.job,
        job_name,
        occasion: new.occasion.clone(),
        revision: new.revision,
        period: new.period,
        nominal: new.nominal.clone(),
        terms,
        backfill: new.backfill,
        waits: new.waits,
        ready_at: Some(new.ready_at),
        dead_by: None,
        failures: 0,
        state: RunState::Running,
        round: 1,
        ver: 1,
        counters,
        stop: None,
        stop_detail: String::new(),
        reason: String::new(),
        digest: new.digest.clone(),
        created_at: at.unwrap_or(Timestamp::UNIX_EPOCH),
        started_at: at,
        ended_at: None,
    }
}
