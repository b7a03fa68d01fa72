//! Why a shard that could be running is not: one reason, decided by one function.
//!
//! Conditions are asked in a fixed order, that of [`Reason`]; the first that holds is the reason. So a
//! shard has exactly one, taking that condition away gives the next one, and taking any other away
//! changes nothing.
//!
//! # Invariants
//! - Pure: it explains what the dispatcher and the store's guards do, and decides nothing.
//!
//! # Not here
//! Reading the facts and wording the answer (`sichen-engine`'s control).

use std::sync::Arc;

use jiff::Timestamp;

use crate::lifecycle::WaitsFor;
use crate::place::{Offer, Resources, Terms};

/// Why a shard waits. The order is that in which conditions are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Its run is being stopped.
    Stopping,
    /// Its run waits for its turn behind others of its job.
    Queued,
    /// Its run waits until those that it replaces are gone.
    Replacing,
    /// It failed, and waits for the time of its next attempt.
    Backoff,
    /// Its time has not come.
    NotYet,
    /// The store went back, and people have not decided yet what becomes of the time that it has lost.
    Restore,
    /// No worker serves its pool.
    NoWorker,
    /// No live server has its pool.
    NoOwner,
    /// It is for one worker, which is not there.
    Absent,
    /// Its run has as many running shards as it may.
    Parallelism,
    /// Its job has as many running shards as it may.
    Job,
    /// Its namespace has as many running shards as it may.
    Namespace,
    /// No worker of the pool offers its handler.
    NoHandler,
    /// No worker that offers it has the labels that its job requires.
    NoLabel,
    /// None of those has so much of a resource at all.
    TooLarge,
    /// Every worker that could run it is draining.
    Draining,
    /// A capacity that its run uses is short.
    Capacity,
    /// Every slot of those workers is taken.
    NoSlot,
    /// None of those with a free slot has so much of a resource left.
    Resources,
    /// A slot is free: it is being granted, or others go first.
    Dispatching,
}

impl Reason {
    /// Every reason, in order.
    pub const ALL: [Reason; 20] = [
        Reason::Stopping,
        Reason::Queued,
        Reason::Replacing,
        Reason::Backoff,
        Reason::NotYet,
        Reason::Restore,
        Reason::NoWorker,
        Reason::NoOwner,
        Reason::Absent,
        Reason::Parallelism,
        Reason::Job,
        Reason::Namespace,
        Reason::NoHandler,
        Reason::NoLabel,
        Reason::TooLarge,
        Reason::Draining,
        Reason::Capacity,
        Reason::NoSlot,
        Reason::Resources,
        Reason::Dispatching,
    ];

    /// Whether another worker like those that there are, or any if there is none, would let the shard
    /// start.
    #[must_use]
    pub fn asks_for_slots(self) -> bool {
        use Reason::{Draining, NoSlot, NoWorker, Resources};
        matches!(self, NoWorker | Draining | NoSlot | Resources)
    }

    /// The word by which programs know it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Reason::Stopping => "stopping",
            Reason::Queued => "queued",
            Reason::Replacing => "replacing",
            Reason::Backoff => "backoff",
            Reason::NotYet => "not_yet",
            Reason::Restore => "restore",
            Reason::NoWorker => "no_worker",
            Reason::NoOwner => "no_owner",
            Reason::Absent => "absent",
            Reason::Parallelism => "parallelism",
            Reason::Job => "job",
            Reason::Namespace => "namespace",
            Reason::NoHandler => "no_handler",
            Reason::NoLabel => "no_label",
            Reason::TooLarge => "too_large",
            Reason::Draining => "draining",
            Reason::Capacity => "capacity",
            Reason::NoSlot => "no_slot",
            Reason::Resources => "resources",
            Reason::Dispatching => "dispatching",
        }
    }
}

/// A shard that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// Not to be granted before.
    pub ready_at: Timestamp,
    /// Whether an attempt of it has failed.
    pub retries: bool,
    /// The handler that a worker must offer.
    pub handler: &'a str,
    /// Where it may run, if its job says so.
    pub terms: Option<&'a Terms>,
    /// The one worker that it is for, by its number ([`crate::place::hash_of`]), if it is for one.
    pub worker: Option<u64>,
}

/// A worker of the pool whose session is not over.
#[derive(Clone, Debug)]
pub struct Worker {
    /// A number of its name ([`crate::place::hash_of`]).
    pub number: u64,
    /// What it offers.
    pub handlers: Vec<String>,
    /// Its slots.
    pub slots: u32,
    /// Shards it holds.
    pub held: u32,
    /// Whether it takes nothing new.
    pub draining: bool,
    /// Its labels and resources.
    pub offer: Arc<Offer>,
    /// What its shards take of those.
    pub used: Resources,
}

impl Worker {
    fn offers(&self, handler: &str) -> bool {
        self.handlers.iter().any(|h| h == handler)
    }

    /// Whether it has a slot.
    #[must_use]
    pub fn has_slot(&self) -> bool {
        self.held < self.slots
    }
}

/// The workers that are left after each condition, in the order in which conditions are asked.
#[derive(Clone, Debug)]
pub struct Left<'a> {
    /// Are the one that it is for, or all.
    pub meant: Vec<&'a Worker>,
    /// Of those: offer the handler.
    pub able: Vec<&'a Worker>,
    /// Of those: have the labels that are required.
    pub labelled: Vec<&'a Worker>,
    /// Of those: have enough of each resource.
    pub large: Vec<&'a Worker>,
    /// Of those: take new work.
    pub taking: Vec<&'a Worker>,
    /// Of those: have a slot.
    pub with_slot: Vec<&'a Worker>,
    /// Of those: have enough left of each resource.
    pub free: Vec<&'a Worker>,
}

impl<'a> Left<'a> {
    /// The workers that are left for `shard`.
    #[must_use]
    pub fn of(shard: &Waiting<'_>, workers: &'a [Worker]) -> Self {
        let needs = shard.terms.map(|terms| &terms.needs);
        let of = |from: &[&'a Worker], holds: &dyn Fn(&Worker) -> bool| -> Vec<&'a Worker> {
            from.iter()
                .copied()
                .filter(|worker| holds(worker))
                .collect()
        };
        let meant = workers
            .iter()
            .filter(|w| shard.worker.is_none_or(|number| w.number == number))
            .collect::<Vec<_>>();
        let able = of(&meant, &|w| w.offers(shard.handler));
        let labelled = of(&able, &|w| {
            shard.terms.is_none_or(|t| t.is_met_by(&w.offer.labels))
        });
        let large = of(&labelled, &|w| {
            needs.is_none_or(|needs| w.offer.total().lacks(needs).is_none())
        });
        let taking = of(&large, &|w| !w.draining);
        let with_slot = of(&taking, &Worker::has_slot);
        let free = of(&with_slot, &|w| {
            needs.is_none_or(|needs| w.offer.total().lacks_beside(&w.used, needs).is_none())
        });
        Self {
            meant,
            able,
            labelled,
            large,
            taking,
            with_slot,
            free,
        }
    }
}

/// How things stand around a run.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Whether the run is being stopped.
    pub stopping: bool,
    /// What the run waits for, if it does.
    pub waits: Option<WaitsFor>,
    /// Its shards that run, and how many may.
    pub running: (u32, u32),
    /// The same of its job, if that is limited.
    pub job: Option<(u32, u32)>,
    /// The same of its namespace, if that is limited.
    pub namespace: Option<(u32, u32)>,
    /// Whether a capacity that the run uses is short for one more shard.
    pub capacity: bool,
    /// Whether a restore is not decided.
    pub restore: bool,
    /// Whether a live server has the pool.
    pub owned: bool,
    /// The pool's workers.
    pub workers: Vec<Worker>,
    /// The store's clock.
    pub now: Timestamp,
}

/// Why `shard` waits.
#[must_use]
pub fn why(shard: &Waiting<'_>, facts: &Facts) -> Reason {
    let early = shard.ready_at > facts.now;
    let is_full = |(running, most): (u32, u32)| running >= most;
    let left = Left::of(shard, &facts.workers);
    let holds = |reason: &Reason| match reason {
        Reason::Stopping => facts.stopping,
        Reason::Queued => facts.waits == Some(WaitsFor::Queue),
        Reason::Replacing => facts.waits == Some(WaitsFor::Replaced),
        Reason::Backoff => early && shard.retries,
        Reason::NotYet => early,
        Reason::Restore => facts.restore,
        Reason::NoWorker => facts.workers.is_empty(),
        Reason::NoOwner => !facts.owned,
        Reason::Absent => left.meant.is_empty(),
        Reason::Parallelism => is_full(facts.running),
        Reason::Job => facts.job.is_some_and(is_full),
        Reason::Namespace => facts.namespace.is_some_and(is_full),
        Reason::NoHandler => left.able.is_empty(),
        Reason::NoLabel => left.labelled.is_empty(),
        Reason::TooLarge => left.large.is_empty(),
        Reason::Draining => left.taking.is_empty(),
        Reason::Capacity => facts.capacity,
        Reason::NoSlot => left.with_slot.is_empty(),
        Reason::Resources => left.free.is_empty(),
        Reason::Dispatching => true,
    };
    let found = Reason::ALL.into_iter().find(holds);
    found.unwrap_or(Reason::Dispatching)
}

#[cfg(test)]
#[path = "why_tests.rs"]
mod tests;
