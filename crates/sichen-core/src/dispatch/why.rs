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

use jiff::Timestamp;

use crate::lifecycle::WaitsFor;

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
    /// Its run has as many running shards as it may.
    Parallelism,
    /// Its namespace has as many running shards as it may.
    Namespace,
    /// No worker of the pool offers its handler.
    NoHandler,
    /// Every worker that offers its handler is draining.
    Draining,
    /// A capacity that its run uses is short.
    Capacity,
    /// Every slot of those workers is taken.
    NoSlot,
    /// A slot is free: it is being granted, or others go first.
    Dispatching,
}

impl Reason {
    /// Every reason, in order.
    pub const ALL: [Reason; 15] = [
        Reason::Stopping,
        Reason::Queued,
        Reason::Replacing,
        Reason::Backoff,
        Reason::NotYet,
        Reason::Restore,
        Reason::NoWorker,
        Reason::NoOwner,
        Reason::Parallelism,
        Reason::Namespace,
        Reason::NoHandler,
        Reason::Draining,
        Reason::Capacity,
        Reason::NoSlot,
        Reason::Dispatching,
    ];

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
            Reason::Parallelism => "parallelism",
            Reason::Namespace => "namespace",
            Reason::NoHandler => "no_handler",
            Reason::Draining => "draining",
            Reason::Capacity => "capacity",
            Reason::NoSlot => "no_slot",
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
}

/// A worker of the pool whose session is not over.
#[derive(Clone, Debug)]
pub struct Worker {
    /// What it offers.
    pub handlers: Vec<String>,
    /// Its slots.
    pub slots: u32,
    /// Shards it holds.
    pub held: u32,
    /// Whether it takes nothing new.
    pub draining: bool,
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
    let offers = |worker: &&Worker| worker.handlers.iter().any(|h| h == shard.handler);
    let able = || facts.workers.iter().filter(offers);
    let taking = || able().filter(|worker| !worker.draining);
    let holds = |reason: &Reason| match reason {
        Reason::Stopping => facts.stopping,
        Reason::Queued => facts.waits == Some(WaitsFor::Queue),
        Reason::Replacing => facts.waits == Some(WaitsFor::Replaced),
        Reason::Backoff => early && shard.retries,
        Reason::NotYet => early,
        Reason::Restore => facts.restore,
        Reason::NoWorker => facts.workers.is_empty(),
        Reason::NoOwner => !facts.owned,
        Reason::Parallelism => is_full(facts.running),
        Reason::Namespace => facts.namespace.is_some_and(is_full),
        Reason::NoHandler => able().next().is_none(),
        Reason::Draining => taking().next().is_none(),
        Reason::Capacity => facts.capacity,
        Reason::NoSlot => taking().all(|worker| worker.held >= worker.slots),
        Reason::Dispatching => true,
    };
    let found = Reason::ALL.into_iter().find(holds);
    found.unwrap_or(Reason::Dispatching)
}

#[cfg(test)]
#[path = "why_tests.rs"]
mod tests;
