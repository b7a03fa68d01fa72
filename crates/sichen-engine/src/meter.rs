//! What this node has done, counted where it is done: the numbers that a monitor reads.
//!
//! # Invariants
//! - What is counted was committed, and is counted once, by the node that committed it: the sum over the
//!   nodes is the cluster's.
//! - Labels come from fixed lists of words and from at most [`MAX_POOLS`] pools, never from jobs, runs or
//!   workers: what is kept here does not grow with use.
//!
//! # Not here
//! How things stand now (`sichen-server` asks the store when a monitor asks); the form of the answer.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use sichen_core::ids::Occasion;
use sichen_core::lifecycle::{AttemptEnd, RunState};
use sichen_core::model::Run;
use sichen_core::name::Name;
use sichen_core::port::{CheckpointVerdict, GrantRefused, Granted, NewRun};

use crate::sessions::ReportVerdict;

/// Pools that are told apart; what belongs to further ones is counted under `other`.
pub const MAX_POOLS: usize = 100;

/// Bounds for what should take milliseconds, in seconds.
const QUICK: [f64; 13] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];
/// Bounds for work and for waits, in seconds.
const LONG: [f64; 13] = [
    0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0,
];

macro_rules! labels {
    ($($name:ident: $field:ident),+ $(,)?) => {$(
        #[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
        struct $name {
            $field: Cow<'static, str>,
        }

        impl<T: Into<Cow<'static, str>>> From<T> for $name {
            fn from(word: T) -> Self {
                Self { $field: word.into() }
            }
        }
    )+};
}

labels! { Cause: cause, Reason: reason, State: state, End: end, Verdict: verdict, Pool: pool, Duty: duty }

type Counts<L> = Family<L, Counter>;
type Times<L> = Family<L, Histogram, fn() -> Histogram>;

fn quick() -> Histogram {
    Histogram::new(QUICK)
}

fn long() -> Histogram {
    Histogram::new(LONG)
}

/// Why a span is not told to who collects traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// There was no room where spans wait.
    QueueFull,
    /// Who collects them did not answer for too long.
    Failed,
    /// Who collects them did not want them.
    Rejected,
    /// Its run has too many.
    TooMany,
    /// The runs that ended are too many to be read in time.
    Behind,
}

impl Unsent {
    /// Every reason.
    pub const ALL: [Self; 5] = [
        Self::QueueFull,
        Self::Failed,
        Self::Rejected,
        Self::TooMany,
        Self::Behind,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::TooMany => "too_many",
            Self::Behind => "behind",
        }
    }
}

/// The counters and times of one node since it started.
#[derive(Debug)]
pub struct Meter {
    created: Counts<Cause>,
    skipped: Counts<Reason>,
    full: Counts<Cause>,
    settled: Counts<State>,
    granted: Counts<Pool>,
    refused: Counts<Reason>,
    recalled: Counts<Pool>,
    ended: Counts<End>,
    reports: Counts<Verdict>,
    checkpoints: Counts<Verdict>,
    sessions: Counts<Cause>,
    failures: Counts<Duty>,
    delay: Histogram,
    queued: Times<Pool>,
    passes: Times<Duty>,
    beats: Histogram,
    capacity_waits: Histogram,
    latency: Histogram,
    settling: Histogram,
    lengths: Times<State>,
    taken: Counter,
    repeated: Counter,
    spans_sent: Counter,
    spans_dropped: Counts<Reason>,
    exports_failed: Counter,
    pools: Mutex<BTreeSet<String>>,
}

/// Words that are there from the start: a counter that begins at 1 has never risen, for a monitor.
const RUN_ENDS: [RunState; 4] = [
    RunState::Succeeded,
    RunState::Partial,
    RunState::Failed,
    RunState::Cancelled,
];

impl Default for Meter {
    fn default() -> Self {
        let meter = Self {
            created: Family::default(),
            skipped: Family::default(),
            full: Family::default(),
            settled: Family::default(),
            granted: Family::default(),
            refused: Family::default(),
            recalled: Family::default(),
            ended: Family::default(),
            reports: Family::default(),
            checkpoints: Family::default(),
            sessions: Family::default(),
            failures: Family::default(),
            delay: quick(),
            queued: Family::new_with_constructor(long),
            passes: Family::new_with_constructor(quick),
            beats: quick(),
            capacity_waits: long(),
            latency: long(),
            settling: long(),
            lengths: Family::new_with_constructor(long),
            taken: Counter::default(),
            repeated: Counter::default(),
            spans_sent: Counter::default(),
            spans_dropped: Family::default(),
            exports_failed: Counter::default(),
            pools: Mutex::default(),
        };
        let start = |counts: &Counts<Verdict>, words: &[&'static str]| {
            for word in words {
                drop(counts.get_or_create(&(*word).into()));
            }
        };
        start(&meter.reports, &["accepted", "duplicate", "stale"]);
        start(&meter.checkpoints, &["saved", "stale", "session_over"]);
        for reason in Unsent::ALL {
            drop(meter.spans_dropped.get_or_create(&reason.word().into()));
        }
        for state in RUN_ENDS {
            drop(meter.settled.get_or_create(&state.word().into()));
            drop(meter.lengths.get_or_create(&state.word().into()));
        }
        for end in AttemptEnd::ALL {
            drop(meter.ended.get_or_create(&end.word().into()));
        }
        for cause in ["schedule", "request", "backfill"] {
            drop(meter.created.get_or_create(&cause.into()));
            drop(meter.full.get_or_create(&cause.into()));
        }
        for cause in ["registered", "resumed", "expired"] {
            drop(meter.sessions.get_or_create(&cause.into()));
        }
        meter
    }
}

impl Meter {
    /// A run was written, at `now` as far as is known.
    pub(crate) fn created(&self, new: &NewRun, now: Timestamp) {
        let cause = match (&new.occasion, new.backfill) {
            (_, Some(_)) => "backfill",
            (Occasion::Planned { .. }, None) => "schedule",
            (Occasion::Manual { .. }, None) => "request",
        };
        self.created.get_or_create(&cause.into()).inc();
        if let ("schedule", Occasion::Planned { at, rerun: 0 }) = (cause, &new.occasion) {
            self.delay.observe(seconds(now.duration_since(*at)));
        }
    }

    /// Runs of backfills were written.
    pub(crate) fn backfilled(&self, runs: u32) {
        self.created
            .get_or_create(&"backfill".into())
            .inc_by(runs.into());
    }

    /// So many planned instants were decided not to run.
    pub(crate) fn skipped(&self, reason: &str, instants: u64) {
        let reason = reason.to_owned();
        self.skipped.get_or_create(&reason.into()).inc_by(instants);
    }

    /// Runs were not written, as their namespace has no room for more queued ones: a step of a `schedule` or
    /// of a `backfill`, which is tried again, or a `request`, which was refused.
    pub(crate) fn full(&self, cause: &'static str) {
        self.full.get_or_create(&cause.into()).inc();
    }

    /// A run was settled, by the end of an attempt or by a request to stop it. (One that another run
    /// replaces before it began is settled by the store in that run's transaction, and not counted.)
    pub(crate) fn settled(&self, state: RunState) {
        self.settled.get_or_create(&state.word().into()).inc();
    }

    /// A shard was leased that waited from when it was `ready`.
    pub(crate) fn granted(&self, pool: &Name, granted: &Granted) {
        let shard = &granted.shard;
        let pool = self.pool(pool);
        self.granted.get_or_create(&pool).inc();
        if let Some(at) = shard.started_at {
            let waited = seconds(at.duration_since(shard.ready_at));
            self.queued.get_or_create(&pool).observe(waited);
        }
    }

    /// A shard that uses capacities was leased: how long it waited, for a slot or for what it uses.
    pub(crate) fn capacity_granted(&self, granted: &Granted) {
        let shard = &granted.shard;
        if let Some(at) = shard.started_at {
            let waited = seconds(at.duration_since(shard.ready_at));
            self.capacity_waits.observe(waited);
        }
    }

    /// A worker's beat was taken so much later than one beat after the one before.
    pub(crate) fn beat_late_by(&self, delay: SignedDuration) {
        self.beats.observe(seconds(delay));
    }

    /// The store granted nothing for a placement.
    pub(crate) fn refused(&self, reason: GrantRefused) {
        let word = match reason {
            GrantRefused::NotReady => "not_ready",
            GrantRefused::NoSession => "no_session",
            GrantRefused::NoSlot => "no_slot",
            GrantRefused::Parallelism => "parallelism",
            GrantRefused::Job => "job",
            GrantRefused::Capacity => "capacity",
            GrantRefused::Namespace => "namespace",
            GrantRefused::OldTerm => "old_term",
        };
        self.refused.get_or_create(&word.into()).inc();
    }

    /// A running shard of `pool` was asked to give its slot up.
    pub(crate) fn recalled(&self, pool: &Name) {
        self.recalled.get_or_create(&self.pool(pool)).inc();
    }

    /// An attempt has ended, and its run with it if that has a state now.
    pub(crate) fn ended(&self, end: AttemptEnd, run: Option<RunState>) {
        self.ended.get_or_create(&end.word().into()).inc();
        if let Some(state) = run {
            self.settled(state);
        }
    }

    /// A worker's report was answered.
    pub(crate) fn reported(&self, verdict: &ReportVerdict) {
        let word = match verdict {
            ReportVerdict::Accepted => "accepted",
            ReportVerdict::Duplicate => "duplicate",
            ReportVerdict::Stale { .. } => "stale",
            ReportVerdict::Contradicts => "contradicts",
            ReportVerdict::RetryLater => "retry_later",
        };
        self.reports.get_or_create(&word.into()).inc();
    }

    /// A checkpoint was answered.
    pub(crate) fn checkpointed(&self, verdict: CheckpointVerdict) {
        let word = match verdict {
            CheckpointVerdict::Saved => "saved",
            CheckpointVerdict::Old => "old",
            CheckpointVerdict::Stale { .. } => "stale",
            CheckpointVerdict::SessionOver => "session_over",
        };
        self.checkpoints.get_or_create(&word.into()).inc();
    }

    /// A worker's session began, or ended otherwise than by leaving.
    pub(crate) fn session(&self, cause: &'static str) {
        self.sessions.get_or_create(&cause.into()).inc();
    }

    /// A duty was stepped, and took so long.
    pub(crate) fn stepped(&self, duty: &'static str, took: Duration, failed: bool) {
        let duty = Duty::from(duty);
        self.passes.get_or_create(&duty).observe(took.as_secs_f64());
        if failed {
            self.failures.get_or_create(&duty).inc();
        }
    }

    /// A run has ended: how long it waited, and took. Of one that was reopened its last end counts from its
    /// first start, as its row has it.
    pub(crate) fn run_ended(&self, run: &Run) {
        let Some(ended) = run.ended_at else { return };
        let is_planned = run.backfill.is_none() && run.round == 1;
        let since = match &run.occasion {
            Occasion::Planned { at, rerun: 0 } if is_planned => Some(*at),
            _ => None,
        };
        if let Some(started) = run.started_at {
            let wanted = since.unwrap_or(run.created_at);
            if run.round == 1 {
                self.latency
                    .observe(seconds(started.duration_since(wanted)));
            }
            self.lengths
                .get_or_create(&run.state.word().into())
                .observe(seconds(ended.duration_since(started)));
        }
        if let Some(at) = since {
            self.settling.observe(seconds(ended.duration_since(at)));
        }
    }

    /// This node took so many duties.
    pub(crate) fn duties_taken(&self, duties: usize) {
        self.taken.inc_by(duties as u64);
    }

    /// A request whose answer was kept came again, and changed nothing.
    pub fn repeated(&self) {
        self.repeated.inc();
    }

    /// So many spans are with who collects them.
    pub fn spans_sent(&self, spans: u64) {
        self.spans_sent.inc_by(spans);
    }

    /// So many spans are not told to who collects them; a run that is not even read counts as one.
    pub fn spans_dropped(&self, why: Unsent, spans: u64) {
        self.spans_dropped
            .get_or_create(&why.word().into())
            .inc_by(spans);
    }

    /// Who collects spans did not take what it was sent.
    pub fn export_failed(&self) {
        self.exports_failed.inc();
    }

    /// Gives all numbers to `registry`, whose prefix stands before their names.
    pub fn register(&self, registry: &mut Registry) {
        let r = registry;
        r.register("runs_created", "Runs written, by why", self.created.clone());
        let help = "Planned instants decided not to run, by reason";
        r.register("instants_skipped", help, self.skipped.clone());
        let help = "Times that runs were not written as their namespace may queue no more, by whose they were";
        r.register("queue_full", help, self.full.clone());
        r.register(
            "runs_settled",
            "Runs that reached their end, by state",
            self.settled.clone(),
        );
        r.register(
            "attempts_granted",
            "Shards leased to workers, by pool",
            self.granted.clone(),
        );
        let help = "Placements that the store did not grant any more, by reason";
        r.register("grants_refused", help, self.refused.clone());
        let help = "Running shards asked to give their slots to runs of higher priority, by pool";
        r.register("attempts_recalled", help, self.recalled.clone());
        r.register(
            "attempts_ended",
            "Attempts that ended, by how",
            self.ended.clone(),
        );
        let help = "Reports of workers, by answer: duplicate is an idempotent repeat, stale a refused write";
        r.register("reports", help, self.reports.clone());
        let help = "Checkpoints of workers, by answer: stale and session_over are refused writes";
        r.register("checkpoints", help, self.checkpoints.clone());
        let help = "Sessions of workers that began (registered, resumed) or were lost (expired)";
        r.register("sessions", help, self.sessions.clone());
        let help = "Passes of a duty that the store did not let through";
        r.register("duty_failures", help, self.failures.clone());
        let help = "From a planned instant to the decision that wrote its run";
        r.register_with_unit("schedule_delay", help, Unit::Seconds, self.delay.clone());
        let help = "From when a shard was ready to its lease, by pool";
        r.register_with_unit("queue_time", help, Unit::Seconds, self.queued.clone());
        let help = "From when a run was wanted (its planned instant, else when it was written) to its first lease, \
                    seen when it has ended";
        r.register_with_unit("start_latency", help, Unit::Seconds, self.latency.clone());
        let help = "From a run's first lease to its end, by the state in which it ended";
        r.register_with_unit("run_duration", help, Unit::Seconds, self.lengths.clone());
        let help = "From a planned instant to the end of its run";
        let settling = self.settling.clone();
        r.register_with_unit("planned_to_settled", help, Unit::Seconds, settling);
        let help = "From when a shard whose job uses capacities was ready to its lease: for what it waits downstream";
        let waits = self.capacity_waits.clone();
        r.register_with_unit("capacity_wait", help, Unit::Seconds, waits);
        let help = "How much later than due a worker's beat was taken, since the beat before it";
        r.register_with_unit("heartbeat_delay", help, Unit::Seconds, self.beats.clone());
        let help =
            "Duties that this node took: those of a peer that died, and its share of the others'";
        r.register("duties_taken", help, self.taken.clone());
        let help =
            "Requests with an Idempotency-Key that were answered as before and changed nothing";
        r.register("requests_repeated", help, self.repeated.clone());
        let help = "Spans of runs and attempts that the collector of traces has taken";
        r.register("trace_spans_sent", help, self.spans_sent.clone());
        let help = "Spans that were not told, by reason: the queue was full, a try failed for too long, the \
                    collector refused them, a run had too many, the look at ended runs was too far behind";
        r.register("trace_spans_dropped", help, self.spans_dropped.clone());
        let help = "Requests with spans that the collector of traces did not take";
        r.register("trace_exports_failed", help, self.exports_failed.clone());
        let help = "How long a pass of a duty took";
        r.register_with_unit("duty_pass", help, Unit::Seconds, self.passes.clone());
    }

    /// The label of a pool, of which there are not ever more.
    fn pool(&self, pool: &Name) -> Pool {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pools.contains(pool.as_str());
        if !known && pools.len() < MAX_POOLS {
            pools.insert(pool.as_str().to_owned());
        } else if !known {
            return "other".into();
        }
        pool.as_str().to_owned().into()
    }
}

fn seconds(length: SignedDuration) -> f64 {
    length.max(SignedDuration::ZERO).as_secs_f64()
}
