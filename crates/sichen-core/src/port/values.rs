//! What goes into a store's methods and what comes out: batches of items, and a verdict for each.
//!
//! # Not here
//! The methods themselves ([`super::Store`]), the rows ([`crate::model`]).

use std::sync::Arc;

use crate::capacity::{Limits, Uses};
use crate::dispatch::queue::{self, Lane, Place};
use crate::ids::{
    BackfillId, JobUid, NodeId, Occasion, Revision, RunId, SessionId, ShardKey, Token,
};
use crate::layout::Descriptor;
use crate::lifecycle::shard::Transition;
use crate::lifecycle::{AttemptEnd, RunState, ShardState, StopCause};
use crate::model::{
    Appearance, Checkpoint, Counting, Decision, DutyKey, Failure, Job, Period, Progress, QueueFull,
    Run, RunTerms, Session, Shard, Waits, WorkerIdentity,
};
use crate::name::{JobName, Name};
use crate::place::Offer;
use crate::schedule::Nominal;
use crate::schedule::follow::Follow;
use crate::schedule::zones::Zones;
use crate::timeouts::Timeouts;
use jiff::{SignedDuration, Timestamp};

/// A run to be written, with its shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// The job.
    pub job: JobUid,
    /// The occasion, unique together with the job.
    pub occasion: Occasion,
    /// Revision it was computed from; must be the job's current one.
    pub revision: Revision,
    /// Period it stands for.
    pub period: Option<Period>,
    /// What it stands for in the words of its schedule.
    pub nominal: Option<Nominal>,
    /// What its attempts need.
    pub terms: RunTerms,
    /// Its shards, numbered from 0; or a single [`Descriptor::Plan`], which becomes the plan step.
    /// Shared: there may be a hundred thousand, and a run is copied on its way.
    pub shards: Arc<[Descriptor]>,
    /// Not to be granted before.
    pub ready_at: Timestamp,
    /// The backfill in whose lane it runs.
    pub backfill: Option<BackfillId>,
    /// If given, nothing of it is granted until its turn has come. One that waits for those it
    /// replaces has all other open runs of the job stopped in the transaction that writes it.
    pub waits: Option<Waits>,
    /// If given, what overlap was judged by; if it differs by now nothing is written.
    pub counted: Option<Counted>,
    /// Digest of the request (manual runs: the same key with another digest is a conflict).
    pub digest: String,
    /// Grant the only shard at once to this session (born leased), under `fences`' pool term, if it
    /// is ready. A hint: where the session can't hold it now, or its namespace is limited and the store
    /// does not count at that place (`PostgreSQL` never does), the run is written and waits.
    pub born_leased: Option<SessionId>,
    /// Limits of the born-leased attempt.
    pub timeouts: Timeouts,
}

impl NewRun {
    /// In whose lane it is.
    #[must_use]
    pub fn lane(&self) -> Lane {
        Lane::of(self.backfill)
    }

    /// Where it will wait, as run `id` of a job of `namespace`.
    #[must_use]
    pub fn place(&self, namespace: &Name, id: RunId) -> Place {
        Place {
            queue: queue::queue(namespace, self.lane(), self.terms.priority),
            turn: queue::turn(self.job),
            run: id,
        }
    }

    /// The deadline that it is written with at `now`; `granted`: together with its first grant.
    #[must_use]
    pub fn deadline(&self, granted: bool, now: Timestamp) -> Option<Timestamp> {
        if granted {
            self.timeouts.deadline(self.terms.deadline, now)
        } else {
            self.terms.deadline
        }
    }
}

/// What [`HistoryStore::remove_history`](super::HistoryStore::remove_history) has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Closed runs.
    pub runs: u32,
    /// Whether more that is as old may be left.
    pub more: bool,
}

/// Open runs that are counted of a job whose row does not count them: where there are more, this many are
/// said. No decision asks for more.
pub const MAX_COUNTED_RUNS: u32 = 10_000;

/// The open runs of a job, as a decision about overlap has seen them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Runs that are not closed.
    pub active: u32,
    /// Those of them that wait for others.
    pub waiting: u32,
}

impl Counted {
    /// Those of a job of which so many runs are open and none waits: one whose row does not count them.
    #[must_use]
    pub fn running(active: u32) -> Self {
        Self {
            active: active.min(MAX_COUNTED_RUNS),
            waiting: 0,
        }
    }

    /// Those of `job` as its row says.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        Self {
            active: job.active_runs,
            waiting: job.waiting_runs,
        }
    }

    /// Whether the row of `job` counts just these.
    #[must_use]
    pub fn is_of(self, job: &Job) -> bool {
        job.counting != Counting::Never && self == Self::of(job)
    }
}

/// What became of a [`NewRun`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreateVerdict {
    /// Written now. If its shard was born leased, the grant.
    Created(RunId, Option<Granted>),
    /// This occasion has its run already.
    Exists(RunId),
    /// The same idempotency key was used with another request.
    OtherRequest(RunId),
    /// The job is gone, or its revision or its open runs are others by now: decide anew.
    Conflict,
    /// As many runs of its namespace are queued as may be. Nothing was written.
    Full(QueueFull),
}

/// One step of a job's schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Advance {
    /// The job.
    pub job: JobUid,
    /// Revision it was computed from.
    pub revision: Revision,
    /// The high-water mark it was computed from.
    pub from: Timestamp,
    /// The new one.
    pub to: Timestamp,
    /// The next instant to decide, if any.
    pub next_due: Option<Timestamp>,
    /// What the job's zones were taken for at the new mark; `None` leaves what is written.
    pub zones: Option<Zones>,
    /// The instant that follows the job's last run, as it was seen; if it differs by now nothing is
    /// written.
    pub pending: Option<Timestamp>,
    /// If given, what overlap was judged by.
    pub counted: Option<Counted>,
    /// Instants that become runs.
    pub runs: Vec<NewRun>,
    /// What makes the job's last record of skipped instants longer: that record's begin, reason and
    /// reference, the new end, and how many instants come to it. If the last one is another, or ends
    /// later, nothing is written.
    pub lengthens: Option<Decision>,
    /// Instants that do not run, beside them.
    pub decisions: Vec<Decision>,
}

impl Advance {
    /// How many runs it would queue, if none of them is there or starts at once.
    #[must_use]
    pub fn queues(&self) -> u32 {
        let queue = self.runs.iter().filter(|run| run.queues());
        u32::try_from(queue.count()).unwrap_or(u32::MAX)
    }

    /// What its event says.
    #[must_use]
    pub fn event_data(&self) -> serde_json::Value {
        let runs = self.runs.iter().map(|run| run.occasion.key());
        let told = |d: &Decision| {
            serde_json::json!({
                "from": d.from.as_microsecond(), "to": d.to.as_microsecond(), "count": d.count,
                "reason": d.reason, "reference": d.reference,
            })
        };
        let decisions = self.decisions.iter().map(told);
        serde_json::json!({
            "from": self.from.as_microsecond(), "to": self.to.as_microsecond(),
            "runs": Vec::from_iter(runs), "decisions": Vec::from_iter(decisions),
            "lengthens": self.lengthens.as_ref().map(told), "zones": self.zones,
        })
    }
}

/// What became of an [`Advance`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdvanceVerdict {
    /// Written; the verdicts of its runs in order.
    Advanced(Vec<CreateVerdict>),
    /// The namespace has no room for so many more queued runs. Nothing was written, and the mark stands:
    /// the instants are decided once there is room.
    Full(QueueFull),
    /// Revision, mark or open runs differ by now: decide anew. Nothing was written.
    Conflict,
    /// The caller no longer owns the job's partition. Nothing was written.
    OldTerm,
}

/// A job's new document.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyJob {
    /// Display name; creates the job if no live one has it.
    pub name: JobName,
    /// Uid to use for a creation.
    pub new_uid: JobUid,
    /// The version of the row it was decided on; `None` for a creation.
    pub expected_ver: Option<u32>,
    /// The document.
    pub document: String,
    /// For a creation: everything up to here counts as decided. For an edit: see `closing`.
    pub high_water: Timestamp,
    /// The next instant of the new document, if any; without what follows runs.
    pub next_due: Option<Timestamp>,
    /// How the end of a run makes the next one, if it does.
    pub follow: Option<Follow>,
    /// Whether something decides on how many runs are open
    /// ([`Timing::counts_runs`](crate::document::Timing::counts_runs)). Once it does, they are counted in
    /// the transaction that applies the document.
    pub counted: bool,
    /// What the new document's zones are taken for at `high_water`.
    pub zones: Option<Zones>,
    /// For an edit: what the old revision still decides, up to the edit's commit. Its `to` is the
    /// new high-water mark.
    pub closing: Option<Advance>,
    /// The calendars that the document uses, each in the version that it names: that must be the
    /// newest one when it is written.
    pub calendars: Vec<(JobName, u32)>,
    /// What the document's attempts use of capacities: each must be there when it is written.
    pub uses: Uses,
    /// Why, if that is not plain: goes into the event.
    pub cause: String,
}

impl ApplyJob {
    /// Whether the job's row is to count its open runs: what follows the last of them always asks.
    #[must_use]
    pub fn counts_runs(&self) -> bool {
        self.counted || self.follow.is_some()
    }
}

/// What became of an [`ApplyJob`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyVerdict {
    /// A new job.
    Created(JobUid),
    /// A new revision.
    Updated(JobUid, Revision),
    /// The document is the current one already.
    Unchanged(JobUid, Revision),
    /// Changed by somebody else meanwhile: read and decide anew.
    Conflict,
}

/// What became of a calendar's new document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalendarVerdict {
    /// The calendar is new, or was deleted before; its version.
    Created(u32),
    /// A new version.
    Updated(u32),
    /// The document is the newest version already.
    Unchanged(u32),
    /// Changed by somebody else meanwhile: read and decide anew.
    Conflict,
}

/// What became of a calendar's deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CalendarDeleted {
    /// It is gone; its versions stay for the revisions that used them.
    Deleted,
    /// Jobs use it: some of them, by name.
    Used(Vec<JobName>),
    /// No such calendar.
    Missing,
}

/// A capacity's new document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyCapacity {
    /// Its name.
    pub name: Name,
    /// The version it was decided on; `None`: there is none.
    pub expected: Option<u32>,
    /// The document.
    pub document: String,
    /// Its limits, from the document.
    pub limits: Limits,
}

/// What became of an [`ApplyCapacity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityVerdict {
    /// The capacity is new, or was deleted before; its version.
    Created(u32),
    /// A new version.
    Updated(u32),
    /// The document is the present one already.
    Unchanged(u32),
    /// Changed by somebody else meanwhile: read and decide anew.
    Conflict,
}

/// What became of a capacity's deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CapacityDeleted {
    /// It is gone.
    Deleted,
    /// Jobs use it: some of them, by name.
    Used(Vec<JobName>),
    /// Open runs use it that were made by former revisions: some of them.
    Open(Vec<RunId>),
    /// So many units of it are held.
    Held(u64),
    /// No such capacity.
    Missing,
}

/// A shard that may be granted, with what a plan needs.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyHead {
    /// Its run.
    pub run: Arc<Run>,
    /// Shards of the run now running.
    pub running: u32,
    /// The first ready shards by `ready_at`, then number, with their tokens.
    pub shards: Vec<(ShardKey, Token)>,
}

/// A grant to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The shard.
    pub key: ShardKey,
    /// The token the plan was based on.
    pub token: Token,
    /// Who gets it.
    pub session: SessionId,
    /// How long the attempt, and from the first grant on the run, may take.
    pub timeouts: Timeouts,
    /// How many shards of its job may run at once, in all runs and pools together.
    pub most_of_job: Option<u32>,
}

/// A grant that was made: all that the worker is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The shard as it is now: running, with its new token.
    pub shard: Shard,
    /// Number of this grant within the session, from 1. A beat that has seen it and does not list
    /// the shard says that the worker does not run it.
    pub grant_seq: u64,
}

/// What became of a [`Grant`].
#[derive(Clone, Debug, PartialEq)]
pub enum GrantVerdict {
    /// Made, of this run as it is now: whoever asked need not have kept it.
    Granted(Box<Granted>, Arc<Run>),
    /// What the plan assumed no longer holds.
    Refused(GrantRefused),
}

/// Why a grant was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantRefused {
    /// Not waiting, not ready yet, another token, or its run is being stopped.
    NotReady,
    /// The session is over, draining, or not in the run's pool.
    NoSession,
    /// The session's slots are taken.
    NoSlot,
    /// The run has as many running shards as it may.
    Parallelism,
    /// The run's job has as many running shards as it may.
    Job,
    /// A capacity that the run uses is short.
    Capacity,
    /// The run's namespace has as many running shards as it may.
    Namespace,
    /// The caller no longer owns the pool.
    OldTerm,
}

/// Who reports the end of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// The session it has now; `None` before it has one.
    pub session: Option<SessionId>,
    /// The worker's uid, which other workers do not know.
    pub uid: String,
}

/// The end of an attempt, already decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Finish {
    /// Who says so; `None` where that is this server itself. Tokens are numbers that anybody could
    /// guess: an attempt of another worker is not ended ([`FinishVerdict::Foreign`]).
    pub by: Option<Arc<Reporter>>,
    /// Who is written as the author of what follows from it, where the operation carries ends that
    /// several say; `None`: the operation's own.
    pub author: Option<Arc<str>>,
    /// The shard.
    pub key: ShardKey,
    /// The token the holder reports with.
    pub token: Token,
    /// What the rules made of it. The store passes it through [`Transition::committed`] with the
    /// run as it finds it in the transaction.
    pub transition: Transition,
    /// Digest of the report.
    pub digest: String,
    /// Newest progress.
    pub progress: Option<Progress>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// For a plan step that succeeded: the run's shards.
    pub expand: Option<Vec<Descriptor>>,
    /// What the holder says of the attempt.
    pub said: Said,
}

/// What the holder says of an attempt: all that is known of it where a restore has lost the store's own record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The run as people see it; empty if the holder has forgotten.
    pub run_key: String,
    /// How it ended.
    pub end: AttemptEnd,
    /// What it returned.
    pub returned: Returned,
}

/// What an attempt returned that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Returned {
    /// Nothing, or what is kept elsewhere (a plan).
    #[default]
    Nothing,
    /// JSON, at most [`MAX_RETURNED_BYTES`].
    Json(String),
    /// So many bytes that only their number is kept.
    TooLong(usize),
}

/// What an attempt returned is kept in its event up to so many bytes.
pub const MAX_RETURNED_BYTES: usize = 4_096;

impl Returned {
    /// What is kept of `json`, which is said to be JSON; of other bytes only how many.
    #[must_use]
    pub fn of(json: &[u8]) -> Self {
        let text = std::str::from_utf8(json).ok();
        let text = text.filter(|text| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok());
        match text {
            _ if json.is_empty() => Returned::Nothing,
            Some(text) if json.len() <= MAX_RETURNED_BYTES => Returned::Json(text.to_owned()),
            _ => Returned::TooLong(json.len()),
        }
    }
}

impl Finish {
    /// The session that holds the attempt of `shard`, if whose it is must be looked up: it is not the
    /// reporter's present one.
    #[must_use]
    pub fn held_in(&self, shard: &Shard) -> Option<SessionId> {
        let by = self.by.as_ref()?;
        shard.session.filter(|holder| by.session != Some(*holder))
    }

    /// Whether the attempt is another worker's: `holder` is the session of [`Finish::held_in`].
    #[must_use]
    pub fn is_foreign(&self, holder: Option<&Session>) -> bool {
        let by = self.by.as_ref();
        by.zip(holder)
            .is_some_and(|(by, holder)| by.uid != holder.worker.uid)
    }
}

/// What became of a [`Finish`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishVerdict {
    /// Accepted, first and only time. If it closed the run: the outcome.
    Accepted(Option<RunState>),
    /// This very report was accepted before.
    Duplicate,
    /// The same token reported something else before; the first one stands.
    Contradicts,
    /// The token is old (or unknown, if `current` is lower than the one given).
    Stale {
        /// The shard's token.
        current: Token,
    },
    /// The token is current, but the attempt has been ended by somebody else.
    NotRunning,
    /// The token is current, and it is another worker's.
    Foreign,
    /// No such shard.
    Missing,
}

/// A checkpoint or progress report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveCheckpoint {
    /// The shard.
    pub key: ShardKey,
    /// The holder's token.
    pub token: Token,
    /// The holder's session; must be live.
    pub session: SessionId,
    /// New checkpoint; `None` for progress alone.
    pub checkpoint: Option<Checkpoint>,
    /// Newest progress.
    pub progress: Progress,
    /// How long before this report the attempt last gave a sign of progress.
    pub idle: SignedDuration,
}

impl SaveCheckpoint {
    /// Whether the operation that stores it is recorded: not of progress alone, which is told with each
    /// beat and comes to the same if it is stored twice.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.checkpoint.is_some()
    }
}

/// What became of a [`SaveCheckpoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointVerdict {
    /// Stored.
    Saved,
    /// Not newer than the stored one; nothing to do.
    Old,
    /// The token is not that of the running attempt.
    Stale {
        /// The shard's token.
        current: Token,
    },
    /// The session is over: stop.
    SessionOver,
}

/// A worker that registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Who.
    pub worker: WorkerIdentity,
    /// Which of its registrations this is; both numbers at least 1.
    pub appearance: Appearance,
    /// The pool it serves.
    pub pool: Name,
    /// Shards it runs at once, 1 to 10,000.
    pub slots: u32,
    /// Handlers it offers.
    pub handlers: Vec<String>,
    /// Its labels and resources.
    pub offer: Offer,
    /// How long the session lasts without a beat.
    pub ttl: SignedDuration,
    /// Whether the worker has made sure that nothing of its older incarnations still runs; only
    /// then, and only with the same uid and boot id, do their leases end at once.
    pub old_trees_dead: bool,
}

/// The answer to a [`Register`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterVerdict {
    /// It has a session.
    Registered(Registered),
    /// It was overtaken: the worker has registered since it asked. Nothing was changed.
    Outdated {
        /// The worker's newest registration.
        newest: Appearance,
    },
}

/// What a registration gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The new session.
    pub session: SessionId,
    /// When it ends unless renewed.
    pub expires_at: Timestamp,
    /// Older sessions of this worker that were ended by it; their shards can be reaped now.
    pub superseded: Vec<SessionId>,
    /// A live session of the same name with another identity: an alarm.
    pub name_taken_by: Option<SessionId>,
}

/// What the renewal of a server node's lease came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewedNode {
    /// When the lease ends now.
    pub expires_at: Timestamp,
    /// How many other nodes live: who knows of fewer or more has missed that one came or went.
    pub others: u32,
}

/// What became of a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewVerdict {
    /// Renewed.
    Renewed {
        /// New end of the session.
        expires_at: Timestamp,
    },
    /// Over; register anew.
    Lost,
    /// Over, because a newer incarnation of the same worker registered.
    Superseded,
}

/// A running shard whose attempt must be ended from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The shard as it is.
    pub shard: Shard,
    /// Whether its run is being stopped.
    pub stop: Option<StopCause>,
    /// When its run must have ended.
    pub deadline: Option<Timestamp>,
    /// Its job and revision, for the retry policy.
    pub job: (JobUid, Revision),
    /// Whether the session is over (else the attempt's timeout has passed).
    pub session_over: bool,
}

/// An attempt to be ended from outside, already decided. The token is raised with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reap {
    /// The shard.
    pub key: ShardKey,
    /// The token of the attempt to end.
    pub token: Token,
    /// What the rules made of it.
    pub transition: Transition,
    /// Why.
    pub failure: Failure,
    /// Only if its session is over by now (the guard against a beat that came in between); else
    /// only if its timeout has passed (a sign may have come in between).
    pub only_if_session_over: bool,
    /// When its task tree is surely gone; `None` if its worker has confirmed that.
    pub dead_by: Option<Timestamp>,
}

impl Reap {
    /// Whether the attempt is still to be ended at `now`.
    #[must_use]
    pub fn holds(&self, shard: &Shard, session_over: bool, now: Timestamp) -> bool {
        let over = if self.only_if_session_over {
            session_over
        } else {
            shard.timeout_at.is_some_and(|at| at <= now)
        };
        shard.state == ShardState::Running && shard.token == self.token && over
    }
}

/// Open runs that are past their deadline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LateRuns {
    /// Those not being stopped yet, with their partitions.
    pub late: Vec<(RunId, u8)>,
    /// The deadline that passes next.
    pub next: Option<Timestamp>,
}

/// What became of a [`Reap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReapVerdict {
    /// Ended. If it closed the run: the outcome.
    Reaped(Option<RunState>),
    /// Reported or reaped meanwhile, or its session lives.
    Gone,
    /// The caller no longer owns the pool.
    OldTerm,
}

/// Why a dead letter is discarded, for whoever asks later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discard {
    /// Who says so; not proved.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// What became of a request to stop or reopen a run, or to discard of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestVerdict {
    /// Done. If that closed the run: the outcome.
    Done(Option<RunState>),
    /// It was so already.
    Already,
    /// The run's state does not allow it.
    NotNow(RunState),
    /// No such run.
    Missing,
    /// The caller no longer owns the job's partition (requests made by a duty).
    OldTerm,
}

/// A page request: rows after `after`, at most `limit` (and at most [`MAX_PAGE`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<K> {
    /// Key of the last row seen.
    pub after: Option<K>,
    /// Rows wanted.
    pub limit: u32,
}

/// Which runs to list; newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Of this job alone.
    pub job: Option<JobUid>,
    /// In this state alone.
    pub state: Option<RunState>,
    /// Not closed and of no backfill; then `job` must be given and `state` not.
    pub open: bool,
    /// Of this backfill alone; then nothing else is to be given.
    pub backfill: Option<BackfillId>,
}

/// Which events to list; oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Of this run and its shards alone.
    pub run: Option<RunId>,
    /// Of this shard alone.
    pub shard: Option<ShardKey>,
}

/// A shard with what a decision about it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardFacts {
    /// The shard.
    pub shard: Shard,
    /// Its run.
    pub run: Run,
}

/// Whose lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A worker's session.
    Session(SessionId),
    /// A server node.
    Node(NodeId),
}

/// A lease that is to end earlier, if its end is still the one that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shorter {
    /// Whose.
    pub of: Holder,
    /// Its end as it was seen.
    pub from: Timestamp,
    /// The new one, which is earlier.
    pub to: Timestamp,
}

impl Shorter {
    /// Whether whoever has the duty `key` may say so: the janitor of every lease, others of nodes' alone, since
    /// the janitor's own node may be the one that is dead.
    #[must_use]
    pub fn is_worn_under(&self, key: &DutyKey) -> bool {
        *key == DutyKey::Janitor || matches!(self.of, Holder::Node(_))
    }
}
