//! The facts a store keeps, as values: jobs, runs, shards, sessions, duties.
//!
//! # Not here
//! How a store lays them out; the wire and API shapes of the same facts (edges convert by hand).

mod capacity;
mod namespace;

use jiff::{SignedDuration, Timestamp};

use crate::access::AccessToken;
use crate::backfill::Backfill;
use crate::backfill::check::Check;
use crate::capacity::Uses;
use crate::dispatch::preempt::Recalled;
use crate::dispatch::queue;
use crate::event::Event;
use crate::ids::{
    BackfillId, JobUid, NodeId, Occasion, Revision, RunId, SessionId, ShardKey, Term, Token,
};
use crate::layout::Descriptor;
use crate::lifecycle::run::Counters;
use crate::lifecycle::{RunState, ShardState, StopCause, WaitsFor};
use crate::name::{JobName, Name};
use crate::place::Offer;
use crate::schedule::Nominal;
use crate::schedule::follow::{Chain, Ended};
use crate::schedule::zones::Zones;
use crate::user::User;

pub use capacity::{Capacity, Hold, Standing, Waiter};
pub use namespace::{MAX_QUEUED_RUNS, Namespace, NamespaceChange, NamespaceUse, QueueFull};

/// The number of trigger partitions; a job belongs to one for its whole life.
pub const PARTITIONS: u8 = 64;

/// The trigger partition of a job.
#[must_use]
pub fn partition_of(job: JobUid) -> u8 {
    let index = crate::layout::index_of(job.0.as_bytes(), u32::from(PARTITIONS));
    u8::try_from(index).unwrap_or(0)
}

/// A duty: what exactly one server node may do at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DutyKey {
    /// Firing, settling and overlap for one partition of the jobs.
    Trigger(u8),
    /// Leasing and reaping for one pool.
    Pool(Name),
    /// Removing old history.
    Janitor,
    /// Looking for what people must know, and telling them.
    Alerts,
}

impl DutyKey {
    /// `trigger/7`, `pool/default`, `janitor`, `alerts`.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            DutyKey::Trigger(partition) => format!("trigger/{partition}"),
            DutyKey::Pool(pool) => format!("pool/{pool}"),
            DutyKey::Janitor => "janitor".to_owned(),
            DutyKey::Alerts => "alerts".to_owned(),
        }
    }

    /// Reads what [`DutyKey::text`] wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text == "janitor" {
            return Some(DutyKey::Janitor);
        }
        if text == "alerts" {
            return Some(DutyKey::Alerts);
        }
        match text.split_once('/')? {
            ("trigger", n) => n
                .parse()
                .ok()
                .filter(|n| *n < PARTITIONS)
                .map(DutyKey::Trigger),
            ("pool", name) => Name::new(name).ok().map(DutyKey::Pool),
            _ => None,
        }
    }
}

/// A duty's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duty {
    /// Which.
    pub key: DutyKey,
    /// Raised at every change of owner.
    pub term: Term,
    /// The owner, if it was not released.
    pub node: Option<NodeId>,
}

/// A server node's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Which.
    pub id: NodeId,
    /// Where peers and workers reach it.
    pub address: String,
    /// When its lease ends.
    pub expires_at: Timestamp,
}

/// A job's row with its current document.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Identity.
    pub uid: JobUid,
    /// Display name.
    pub name: JobName,
    /// Current version of the document.
    pub revision: Revision,
    /// Version of the row; every change raises it.
    pub ver: u32,
    /// The document as stored (JSON of [`crate::document::Document`]).
    pub document: String,
    /// Whether its schedules are paused.
    pub paused: bool,
    /// Instants up to here are decided.
    pub high_water: Timestamp,
    /// The next planned instant to decide, if any.
    pub next_due: Option<Timestamp>,
    /// What follows its runs, if it has such a schedule.
    pub chain: Option<Chain>,
    /// What its zones were taken for at the mark, if its instants depend on any.
    pub zones: Option<Zones>,
    /// Whether its open runs are counted here.
    pub counting: Counting,
    /// Runs that are not closed, without those of backfills; 0 while they are not counted.
    pub active_runs: u32,
    /// Those of them that wait for others of the job; see [`Run::waits`]. Where there are any they are
    /// counted.
    pub waiting_runs: u32,
    /// When it was created.
    pub created_at: Timestamp,
}

/// Whether a job's row counts the open runs of the job. It does where something decides on how many there
/// are; where nothing does, runs begin and end without touching the row that they all share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// Nothing asks: they may overlap freely, and none follows another.
    #[default]
    Never,
    /// As long as one of them waits for others: someone asked for it with a policy of its own.
    WhileWaiting,
    /// The document in force wants it.
    Always,
}

impl Counting {
    /// All of them.
    pub const ALL: [Counting; 3] = [Counting::Never, Counting::WhileWaiting, Counting::Always];

    /// The word of it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Counting::Never => "never",
            Counting::WhileWaiting => "while-waiting",
            Counting::Always => "always",
        }
    }

    /// What `word` stands for.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.word() == word)
    }

    /// Once a document is in force that wants it (`wanted`) or not, while so many runs wait for others.
    #[must_use]
    pub fn applied(wanted: bool, waiting: u32) -> Self {
        match (wanted, waiting) {
            (true, _) => Counting::Always,
            (false, 0) => Counting::Never,
            (false, _) => Counting::WhileWaiting,
        }
    }
}

/// What a job's row says of its open runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Whether they are counted.
    pub counting: Counting,
    /// Those that are not closed, without those of backfills.
    pub active: u32,
    /// Those of them that wait for others.
    pub waiting: u32,
}

impl Counts {
    /// Those of `job` as its row has them.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        Self {
            counting: job.counting,
            active: job.active_runs,
            waiting: job.waiting_runs,
        }
    }

    /// With `by` more runs open, and `waiting` more of them waiting for others; nothing changes while they
    /// are not counted. Who waited last may end the counting.
    #[must_use]
    pub fn and(self, by: i32, waiting: i32) -> Self {
        let counts = Self {
            counting: self.counting,
            active: self.active.saturating_add_signed(by),
            waiting: self.waiting.saturating_add_signed(waiting),
        };
        match self.counting {
            Counting::Never => self,
            Counting::WhileWaiting if counts.waiting == 0 => Self::default(),
            Counting::WhileWaiting | Counting::Always => counts,
        }
    }

    /// Those of `job` once they are counted as `counting` says. `open`: so many are open, if they were not
    /// counted.
    #[must_use]
    pub fn under(counting: Counting, job: &Job, open: u32) -> Self {
        match (counting, job.counting) {
            (Counting::Never, _) => Self::default(),
            (_, Counting::Never) => Self {
                counting,
                active: open,
                waiting: 0,
            },
            (_, Counting::WhileWaiting | Counting::Always) => Self {
                counting,
                ..Self::of(job)
            },
        }
    }

    /// Puts them into the row.
    pub fn put(self, job: &mut Job) {
        job.counting = self.counting;
        job.active_runs = self.active;
        job.waiting_runs = self.waiting;
    }
}

/// A calendar's row with its newest document. Documents of versions never change, and no version's
/// number is used twice, also if the calendar is deleted and made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// Its name.
    pub name: JobName,
    /// The newest version; every change raises it, a deletion too.
    pub version: u32,
    /// The document as stored (JSON of [`crate::document::CalendarDocument`]).
    pub document: String,
    /// When this version was written.
    pub changed_at: Timestamp,
}

/// A job that uses a calendar, as its present revision does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalendarUser {
    /// The calendar.
    pub calendar: JobName,
    /// The version that the job's present revision goes by.
    pub version: u32,
    /// The calendar's newest version.
    pub newest: u32,
    /// The job.
    pub job: JobUid,
    /// Its name.
    pub job_name: JobName,
}

impl Job {
    /// The instant that follows its last run, if it is written down.
    #[must_use]
    pub fn pending(&self) -> Option<Timestamp> {
        self.chain.as_ref().and_then(|chain| chain.pending)
    }

    /// The job's chain once its mark is at `mark`, and whether that decided its instant.
    #[must_use]
    pub fn passed(&self, mark: Timestamp) -> (Option<Chain>, bool) {
        let chain = self.chain.as_ref().map(|chain| chain.passed(mark));
        let decided = chain != self.chain;
        (chain, decided)
    }

    /// The chain of a job whose instant was just decided, if that left no run open.
    #[must_use]
    pub fn restarted(&self, now: Timestamp) -> Option<Chain> {
        let chain = self.chain.as_ref().filter(|_| self.active_runs == 0)?;
        Some(chain.restarted(self.high_water, now))
    }

    /// The chain of a job of which `run` has just ended; `None` if nothing changes.
    #[must_use]
    pub fn ended(&self, run: Ended) -> Option<Chain> {
        let before = self.chain.as_ref()?;
        let chain = before.ended(run, self.active_runs > 0, self.high_water);
        (chain != *before).then_some(chain)
    }

    /// The next instant to decide of a job with this chain. One that has moved away leaves a time at
    /// which nothing is found, no more than that.
    #[must_use]
    pub fn next_due_with(&self, chain: Option<&Chain>) -> Option<Timestamp> {
        let pending = chain.and_then(|chain| chain.pending);
        let next = self.next_due.into_iter().chain(pending).min();
        next.filter(|_| !self.paused)
    }
}

/// What all attempts of a run need besides the document. Fixed at creation but for its times: the
/// deadline is set by the first grant where the job gives a length and moves with time that was held, and
/// both are let go when the run is reopened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTerms {
    /// Pool whose workers may take its shards.
    pub pool: Name,
    /// Handler that the workers must offer.
    pub handler: String,
    /// Higher goes first; −1,000 to 1,000.
    pub priority: i32,
    /// Shards of the run that may be leased at once.
    pub parallelism: u32,
    /// Parameters, a JSON object.
    pub parameters: String,
    /// Whether the sums of done and expected must be equal at the end.
    pub counts_must_match: bool,
    /// When the whole run must have ended.
    pub deadline: Option<Timestamp>,
    /// The latest instant of its first grant; exactly at it is in time.
    pub start_by: Option<Timestamp>,
    /// What each of its attempts uses of capacities.
    pub uses: Uses,
}

impl RunTerms {
    /// The priority as a rank: ranks rise in the order of dispatch.
    #[must_use]
    pub fn rank(&self) -> i32 {
        self.priority.saturating_neg()
    }

    /// The priority of a rank.
    #[must_use]
    pub fn priority_of(rank: i32) -> i32 {
        rank.saturating_neg()
    }
}

/// What a run waits for before anything of it may be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// What for.
    pub what: WaitsFor,
    /// It may start when fewer than so many runs of its job are open and do not wait.
    pub most: u32,
}

/// The `ready_at` of shards whose run waits for others: no clock comes to it.
#[must_use]
pub fn parked() -> Timestamp {
    const YEAR_9999: i64 = 253_370_764_800;
    Timestamp::from_second(YEAR_9999).unwrap_or(Timestamp::MAX)
}

/// How a run is shown: `job:2026-08-30T00:00:00+08:00`, `#2` for a rerun, `job:manual:<key>`.
///
/// `zone` is the job's zone; an unknown one shows UTC.
#[must_use]
pub fn run_key(job: &JobName, occasion: &Occasion, zone: &str) -> String {
    match occasion {
        Occasion::Manual { key } => format!("{job}:manual:{key}"),
        Occasion::Planned { at, rerun } => {
            let zone = jiff::tz::TimeZone::get(zone).unwrap_or(jiff::tz::TimeZone::UTC);
            let at = at.display_with_offset(zone.to_offset(*at));
            let rerun = if *rerun == 0 {
                String::new()
            } else {
                format!("#{}", rerun + 1)
            };
            format!("{job}:{at}{rerun}")
        }
    }
}

/// A planned period, half open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Start, included.
    pub start: Timestamp,
    /// End, not included.
    pub end: Timestamp,
}

/// A run's row.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Identity.
    pub id: RunId,
    /// Its job.
    pub job: JobUid,
    /// Its job's name.
    pub job_name: JobName,
    /// What makes it the one run of its occasion.
    pub occasion: Occasion,
    /// The job's revision it uses.
    pub revision: Revision,
    /// The period it stands for.
    pub period: Option<Period>,
    /// What a planned run stands for in the words of its schedule.
    pub nominal: Option<Nominal>,
    /// What its attempts need.
    pub terms: RunTerms,
    /// The backfill in whose lane it runs: it does not count among the job's active runs.
    pub backfill: Option<BackfillId>,
    /// What it waits for before it may start, if it does.
    pub waits: Option<Waits>,
    /// Not to be granted before; later, if it waited for others.
    pub ready_at: Option<Timestamp>,
    /// When the task trees of those attempts are surely gone that no worker has confirmed dead.
    pub dead_by: Option<Timestamp>,
    /// State.
    pub state: RunState,
    /// Raised by each explicit retry, from 1.
    pub round: u32,
    /// Version of the row.
    pub ver: u32,
    /// Shard counts.
    pub counters: Counters,
    /// Failed attempts of the present round, if the job limits them for all shards together.
    pub failures: u32,
    /// Why and since when it is being stopped.
    pub stop: Option<(StopCause, Timestamp)>,
    /// What the stop is due to beyond its cause, such as the run that takes its place.
    pub stop_detail: String,
    /// Why it has this outcome, if it is closed and that is not plain.
    pub reason: String,
    /// Digest of the request that made it (manual runs).
    pub digest: String,
    /// When it was written.
    pub created_at: Timestamp,
    /// When its first shard was granted.
    pub started_at: Option<Timestamp>,
    /// When it was settled.
    pub ended_at: Option<Timestamp>,
}

impl Run {
    /// The queue in which its shards wait, if it is in the lane of this backfill, or of none.
    #[must_use]
    pub fn queue_in(&self, backfill: Option<BackfillId>) -> i64 {
        let (namespace, lane) = (&self.job_name.namespace, queue::Lane::of(backfill));
        queue::queue(namespace, lane, self.terms.priority)
    }

    /// Since when its first shards could have been granted.
    #[must_use]
    pub fn ready_since(&self) -> Timestamp {
        self.ready_at.unwrap_or(self.created_at)
    }

    /// Whether the run's parallelism is less than all of it.
    #[must_use]
    pub fn limits_parallelism(&self) -> bool {
        // The plan step is not counted, and is over before there are shards.
        self.terms.parallelism < self.counters.total
    }
}

/// A shard's progress as its holder counts it. All zero or empty until reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Items done so far, over all attempts.
    pub done: u64,
    /// Items expected in all, if known.
    pub expected: Option<u64>,
    /// Items per second, times 1,000.
    pub rate_milli: u64,
    /// What the holder waits on, such as `mysql-main`; empty if nothing.
    pub waiting_on: String,
}

/// A checkpoint: the position up to which a shard is reliably complete.
///
/// Sichen's copy is a display: where the checkpoint lives with the data, that one is the truth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Rises with each checkpoint of the shard; 0 before the first.
    pub seq: u64,
    /// The position, opaque to Sichen; at most 64 KiB.
    pub position: String,
}

/// Why an attempt did not succeed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// A short code, such as `exit-1`, `panic`, `session-over`; retry rules go by it.
    pub code: String,
    /// For people; at most 4 KiB.
    pub message: String,
}

/// A shard's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Identity.
    pub key: ShardKey,
    /// What it has to do.
    pub descriptor: Descriptor,
    /// State.
    pub state: ShardState,
    /// Version of the row.
    pub ver: u32,
    /// Current fencing token; 0 before the first grant.
    pub token: Token,
    /// Attempts started so far, over all rounds.
    pub attempt: u32,
    /// Attempts that count against the present budget.
    pub used: u32,
    /// Attempts that began after an earlier one was lost.
    pub takeovers: u32,
    /// Not to be granted before.
    pub ready_at: Timestamp,
    /// The holder, while running.
    pub session: Option<SessionId>,
    /// Number of the grant within its session (see [`crate::port::Granted`]).
    pub grant_seq: u64,
    /// When the running attempt must have ended or given a sign, if it has a timeout (see
    /// [`crate::timeouts`]).
    pub timeout_at: Option<Timestamp>,
    /// When the running attempt must have ended, whatever signs it gives.
    pub attempt_until: Option<Timestamp>,
    /// The longest that the running attempt may take from one sign of progress to the next.
    pub stall: Option<SignedDuration>,
    /// Digest of the last accepted report, to tell a repeat from a contradiction.
    pub digest: String,
    /// Newest checkpoint.
    pub checkpoint: Checkpoint,
    /// Newest progress.
    pub progress: Progress,
    /// The last failure.
    pub failure: Option<Failure>,
    /// Start of the last attempt.
    pub started_at: Option<Timestamp>,
    /// When it was closed.
    pub ended_at: Option<Timestamp>,
    /// When it was struck off the dead letters, if it was; only while `failed`.
    pub discarded_at: Option<Timestamp>,
}

impl Shard {
    /// A shard as it is first written: waiting, under no token yet.
    #[must_use]
    pub fn waiting(key: ShardKey, descriptor: Descriptor, ready_at: Timestamp) -> Self {
        Self {
            key,
            descriptor,
            state: ShardState::Scheduled,
            ver: 1,
            token: Token(0),
            attempt: 0,
            used: 0,
            takeovers: 0,
            ready_at,
            session: None,
            grant_seq: 0,
            timeout_at: None,
            attempt_until: None,
            stall: None,
            digest: String::new(),
            checkpoint: Checkpoint::default(),
            progress: Progress::default(),
            failure: None,
            started_at: None,
            ended_at: None,
            discarded_at: None,
        }
    }
}

/// Who a worker is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerIdentity {
    /// Display name.
    pub name: Name,
    /// Kept in its data directory.
    pub uid: String,
    /// The machine's boot id.
    pub boot_id: String,
    /// New at each process start.
    pub incarnation: String,
}

/// The place of a registration among all of its worker's (of one uid). Who was asked later has the
/// greater one; the order of the fields is the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Appearance {
    /// The process: each start has a greater number than those before it.
    pub start: u64,
    /// Which registration of that process, from 1.
    pub registration: u64,
}

/// A worker session's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Identity.
    pub id: SessionId,
    /// Version of the row (registration 1, end 2).
    pub ver: u32,
    /// Who.
    pub worker: WorkerIdentity,
    /// Which of its registrations made it.
    pub appearance: Appearance,
    /// The pool it serves.
    pub pool: Name,
    /// Shards it runs at once.
    pub slots: u32,
    /// Handlers it offers.
    pub handlers: Vec<String>,
    /// Its labels and resources.
    pub offer: Offer,
    /// Takes no new work.
    pub draining: bool,
    /// Number of its last grant.
    pub grant_seq: u64,
    /// When it registered.
    pub registered_at: Timestamp,
    /// When it ends unless renewed.
    pub expires_at: Timestamp,
    /// When it ended, and why: `expired`, `superseded`, `drained`.
    pub ended: Option<(Timestamp, String)>,
}

/// The record that planned instants were not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// First instant.
    pub from: Timestamp,
    /// Last instant, included.
    pub to: Timestamp,
    /// How many instants.
    pub count: u64,
    /// Why: `overlap`, `deadline`, `paused`, `catch_up`, `coalesced`, `gap`, …
    pub reason: String,
    /// What it refers to, such as the run that blocked it; empty if nothing.
    pub reference: String,
    /// How many of its instants have got their run since.
    pub filled: u64,
    /// The run that did so last.
    pub filled_by: Option<RunId>,
}

impl Decision {
    /// The reason of an instant whose run old age has removed.
    pub const REMOVED: &'static str = "removed";

    /// The record of one instant.
    #[must_use]
    pub fn single(at: Timestamp, reason: &str, reference: String) -> Self {
        Self {
            from: at,
            to: at,
            count: 1,
            reason: reason.to_owned(),
            reference,
            filled: 0,
            filled_by: None,
        }
    }

    /// Whether it says of instants that they did not run, so that a later run fills it: not so where
    /// a run was removed, or where a clock change left local times out.
    #[must_use]
    pub fn is_skip(&self) -> bool {
        self.reason != Self::REMOVED && self.reason != "gap"
    }
}

/// All rows of a store, for tests, `sichen verify` and the differential test. In id order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dump {
    /// Jobs, deleted ones too.
    pub jobs: Vec<Job>,
    /// The documents of all revisions of all jobs.
    pub revisions: Vec<(JobUid, Revision, String)>,
    /// All versions of all calendars, with their documents; deleted ones too.
    pub calendars: Vec<(JobName, u32, String)>,
    /// The calendars that jobs use, with their versions: those of live jobs' present revisions.
    pub calendar_uses: Vec<(JobName, JobUid, u32)>,
    /// Capacities, and whether each is deleted.
    pub capacities: Vec<(Capacity, bool)>,
    /// What live jobs' present revisions use of capacities.
    pub capacity_uses: Vec<(Name, JobUid, u32)>,
    /// What is held of capacities, and what was and may not have been taken away yet.
    pub holds: Vec<Hold>,
    /// Shards that were asked to give their slots up.
    pub recalls: Vec<Recalled>,
    /// Namespaces of which something was set.
    pub namespaces: Vec<Namespace>,
    /// Runs.
    pub runs: Vec<Run>,
    /// Shards.
    pub shards: Vec<Shard>,
    /// Sessions.
    pub sessions: Vec<Session>,
    /// Duties.
    pub duties: Vec<Duty>,
    /// Backfills.
    pub backfills: Vec<Backfill>,
    /// The checks of their runs, by run and round.
    pub checks: Vec<Check>,
    /// Tokens of the API and of workers.
    pub access_tokens: Vec<AccessToken>,
    /// Those who may log in.
    pub users: Vec<User>,
    /// Decisions with their job.
    pub decisions: Vec<(JobUid, Decision)>,
    /// Events.
    pub events: Vec<Event>,
}
