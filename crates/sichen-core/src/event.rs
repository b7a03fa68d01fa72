//! The event log: one row per state change, written in the same transaction.
//!
//! It is a run's visible timeline, the outbox of the live feed, and what the history checker reads:
//! folding it gives the state (I46).
//!
//! # Invariants
//! - `ver` is dense per entity from 1; it is the entity row's version after the change.
//! - An event that changes nothing (a refused report) has `ver` 0.
//! - A run's creation and expansion stand for its shards' creation: each has `ver` 1 from then on.
//!
//! # Not here
//! Who reads it and how far (cursors belong to readers).

use std::fmt;

use jiff::Timestamp;

use crate::ids::{BackfillId, JobUid, NodeId, OpId, RunId, SessionId, ShardKey, Term, Token};
use crate::lifecycle::words;
use crate::name::{JobName, Name};

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entity {
    /// A job: its document, its schedule's high-water mark, its decisions.
    Job(JobUid),
    /// A run.
    Run(RunId),
    /// A shard.
    Shard(ShardKey),
    /// A worker session.
    Session(SessionId),
    /// A server node.
    Node(NodeId),
    /// A duty, by its key's text.
    Duty(String),
    /// A calendar.
    Calendar(JobName),
    /// A backfill.
    Backfill(BackfillId),
    /// A token of the API or of workers, by its name.
    AccessToken(Name),
    /// A capacity.
    Capacity(Name),
    /// A namespace.
    Namespace(Name),
    /// Somebody who may log in, by his name.
    User(Name),
}

impl Entity {
    /// `job`, `run`, `shard`, `session`, `node`, `duty`, `calendar`, `backfill`, `access_token`,
    /// `capacity`, `namespace` or `user`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Entity::Job(_) => "job",
            Entity::Run(_) => "run",
            Entity::Shard(_) => "shard",
            Entity::Session(_) => "session",
            Entity::Node(_) => "node",
            Entity::Duty(_) => "duty",
            Entity::Calendar(_) => "calendar",
            Entity::Backfill(_) => "backfill",
            Entity::AccessToken(_) => "access_token",
            Entity::Capacity(_) => "capacity",
            Entity::Namespace(_) => "namespace",
            Entity::User(_) => "user",
        }
    }

    /// The part after the kind: uid, number, `run/no`, duty key, `namespace/name`, or name.
    #[must_use]
    pub fn id(&self) -> String {
        match self {
            Entity::Job(uid) => uid.to_string(),
            Entity::Run(id) => id.to_string(),
            Entity::Shard(key) => format!("{}/{}", key.run, key.no.0),
            Entity::Session(id) => id.to_string(),
            Entity::Node(id) => id.to_string(),
            Entity::Duty(key) => key.clone(),
            Entity::Calendar(name) => format!("{}/{}", name.namespace, name.name),
            Entity::Backfill(id) => id.to_string(),
            Entity::AccessToken(name) => name.to_string(),
            Entity::Capacity(name) => name.to_string(),
            Entity::Namespace(name) | Entity::User(name) => name.to_string(),
        }
    }

    /// Reads what [`Entity::kind`] and [`Entity::id`] wrote.
    #[must_use]
    pub fn parse(kind: &str, id: &str) -> Option<Self> {
        Some(match kind {
            "job" => Entity::Job(JobUid(id.parse().ok()?)),
            "run" => Entity::Run(RunId(id.parse().ok()?)),
            "shard" => {
                let (run, no) = id.split_once('/')?;
                Entity::Shard(ShardKey::new(RunId(run.parse().ok()?), no.parse().ok()?))
            }
            "session" => Entity::Session(SessionId(id.parse().ok()?)),
            "node" => Entity::Node(NodeId(id.parse().ok()?)),
            "duty" => Entity::Duty(id.to_owned()),
            "calendar" => {
                let (namespace, name) = id.split_once('/')?;
                Entity::Calendar(JobName::new(namespace, name).ok()?)
            }
            "backfill" => Entity::Backfill(BackfillId(id.parse().ok()?)),
            "access_token" => Entity::AccessToken(Name::new(id).ok()?),
            "capacity" => Entity::Capacity(Name::new(id).ok()?),
            "namespace" => Entity::Namespace(Name::new(id).ok()?),
            "user" => Entity::User(Name::new(id).ok()?),
            _ => return None,
        })
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.id())
    }
}

words! {
    /// What happened, in the past tense.
    Kind {
        /// A job was created or changed; data: revision; cause: calendars that changed, if that is
        /// why.
        JobApplied = "job_applied",
        /// A calendar was created or changed; data: version.
        CalendarApplied = "calendar_applied",
        /// A calendar that no job uses was deleted.
        CalendarDeleted = "calendar_deleted",
        /// A capacity was created or changed; data: units, rate.
        CapacityApplied = "capacity_applied",
        /// A capacity that nothing uses was deleted.
        CapacityDeleted = "capacity_deleted",
        /// What a namespace may have was set; data: weight, max_running, max_queued.
        NamespaceSet = "namespace_set",
        /// A job was paused.
        JobPaused = "job_paused",
        /// A job was resumed.
        JobResumed = "job_resumed",
        /// A job was deleted.
        JobDeleted = "job_deleted",
        /// The high-water mark moved; data: from, to, runs, decisions.
        ScheduleAdvanced = "schedule_advanced",
        /// The instant that follows the job's runs was written, or is gone; data: at, the run whose end
        /// made it, failures (in a row).
        ScheduleFollowed = "schedule_followed",
        /// A run was written; data: occasion, revision, total (shards written with it).
        RunCreated = "run_created",
        /// A run that waited for others of its job has its turn; cause: how the others' task trees are
        /// known to be gone; data: ready_at, after.
        RunReleased = "run_released",
        /// The plan step's answer was cut; data: total.
        RunExpanded = "run_expanded",
        /// The first shard was granted.
        RunStarted = "run_started",
        /// All shards closed; the run has its outcome.
        RunSettled = "run_settled",
        /// An explicit retry reopened the run; data: round, shards.
        RunReopened = "run_reopened",
        /// A cancel, a deadline or a fatal error stops the run; data: stop, detail.
        StopRequested = "stop_requested",
        /// A shard was leased; data: session, worker, checkpoint_seq, uses (of capacities, if any).
        AttemptGranted = "attempt_granted",
        /// A checkpoint was stored; data: seq, done.
        CheckpointSaved = "checkpoint_saved",
        /// An attempt was asked to give its slot up; data: by (a run), priority (that run's), own (the shard's),
        /// n (how often shards of the run were asked, this time included), most.
        AttemptRecalled = "attempt_recalled",
        /// An attempt ended; data: end, error, held_until (if it used capacities and its worker has not
        /// confirmed it dead).
        AttemptEnded = "attempt_ended",
        /// A shard that waited was stopped.
        ShardStopped = "shard_stopped",
        /// A closed shard waits again.
        ShardReopened = "shard_reopened",
        /// A failed shard was struck off the dead letters; data: by, reason.
        ShardDiscarded = "shard_discarded",
        /// A report with an old token, or under a dead session, was refused; changes nothing.
        ReportRefused = "report_refused",
        /// A worker registered; data: worker, incarnation.
        SessionRegistered = "session_registered",
        /// A session ended; cause: expired, superseded, drained.
        SessionEnded = "session_ended",
        /// A server node registered.
        NodeRegistered = "node_registered",
        /// A server node's lease was ended before its time; cause: stopped, gone.
        NodeEnded = "node_ended",
        /// A backfill was asked for; data: job, range, mode, order, parallelism, rate, verify, reason.
        BackfillCreated = "backfill_created",
        /// A backfill came farther; data: settled, cursor, top, written, reopened, left.
        BackfillAdvanced = "backfill_advanced",
        /// Checks of a backfill's runs were started or are over; data: checks.
        BackfillChecked = "backfill_checked",
        /// A backfill starts nothing for now.
        BackfillPaused = "backfill_paused",
        /// A paused backfill goes on.
        BackfillResumed = "backfill_resumed",
        /// All of a backfill's range is done, its runs have closed and their checks are over.
        BackfillFinished = "backfill_finished",
        /// A backfill was given up; cause: by request, or because its job was deleted.
        BackfillCancelled = "backfill_cancelled",
        /// A token of the API or of workers was made; data: kind, grants or pool and handlers,
        /// expires_at.
        AccessTokenCreated = "access_token_created",
        /// A token was taken back.
        AccessTokenRevoked = "access_token_revoked",
        /// Somebody who may log in was made; data: grants, issuer (of who logs in by a provider).
        UserCreated = "user_created",
        /// A user has other roles; data: before, after.
        UserRolesSet = "user_roles_set",
        /// A user has another password or none, and is logged in nowhere; data: password (whether he has
        /// one), logins (how many ended).
        UserPasswordSet = "user_password_set",
        /// A user may do nothing, and is logged in nowhere; data: logins (how many ended).
        UserDisabled = "user_disabled",
        /// A disabled user may do again what his roles say.
        UserEnabled = "user_enabled",
        /// A user logged in; data: logins (in how many browsers he is now).
        UserLoggedIn = "user_logged_in",
        /// A user logged out of one browser; data: logins.
        UserLoggedOut = "user_logged_out",
        /// The store went back: restored, or found at an earlier point; changes no row of the history.
        /// Data: epoch, mark.
        StoreRestored = "store_restored",
        /// People decided what becomes of what a restore has lost; cause: again, done, leave; data: reason,
        /// evidence. What follows has events of its own.
        RestoreDecided = "restore_decided",
        /// A step of the clock was accepted; changes no row of the history. Data: from, to. What is not over
        /// has as much more time since.
        ClockAccepted = "clock_accepted",
        /// A duty has a new owner; data: node, evidence.
        DutyAcquired = "duty_acquired",
        /// A duty's owner gave it up.
        DutyReleased = "duty_released",
    }
}

/// One row of the event log.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its place in the log; ids only, not commit order.
    pub seq: u64,
    /// What it is about.
    pub entity: Entity,
    /// The entity's version after it, or 0 if it changed nothing.
    pub ver: u32,
    /// The store's clock in the deciding transaction.
    pub at: Timestamp,
    /// The operation that wrote it.
    pub op: OpId,
    /// Who caused it, such as `node 3`, `worker w1`, `user alice`.
    pub actor: String,
    /// The duty under which it was written, if a duty wrote it.
    pub duty: Option<(String, Term)>,
    /// What happened.
    pub kind: Kind,
    /// State before; empty where there is none.
    pub from: String,
    /// State after; empty where there is none.
    pub to: String,
    /// The attempt it belongs to.
    pub attempt: Option<u32>,
    /// The shard's token after it (for a refused report: the token refused).
    pub token: Option<Token>,
    /// A short reason, for people and for the checker.
    pub cause: String,
    /// More, as a JSON object; `{}` if nothing.
    pub data: String,
}
