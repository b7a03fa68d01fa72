//! The tables, and one transaction over them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use sichen_core::access::AccessToken;
use sichen_core::alert::notice::Notice;
use sichen_core::alert::{self, Alert};
use sichen_core::backfill::Backfill;
use sichen_core::backfill::check::Check;
use sichen_core::dispatch::preempt::Recalled;
use sichen_core::event::{Entity, Event};
use sichen_core::ids::{
    BackfillId, JobUid, NodeId, OpId, Revision, RunId, SessionId, ShardKey, Term, Token,
};
use sichen_core::keys::{Digest, KeptKey};
use sichen_core::lease::has_expired;
use sichen_core::lifecycle::AttemptEnd;
use sichen_core::model::{
    Capacity, Decision, Duty, DutyKey, Hold, Job, Namespace, Node, Run, Session, Shard,
};
use sichen_core::name::{JobName, Name};
use sichen_core::port::{Fence, Op};
use sichen_core::restore::Restore;
use sichen_core::user::User;
use sichen_core::zoo;
use uuid::Uuid;

pub(super) use crate::happened::Happened;

#[derive(Debug)]
pub(super) struct JobRow {
    pub job: Job,
    pub deleted: bool,
    pub revisions: BTreeMap<Revision, String>,
    /// The marks at which they began.
    pub begun: BTreeMap<Revision, Timestamp>,
}

#[derive(Debug)]
pub(super) struct CalendarRow {
    /// Raised by each change, a deletion too.
    pub version: u32,
    pub deleted: bool,
    pub versions: BTreeMap<u32, (String, Timestamp)>,
}

#[derive(Debug)]
pub(super) struct CapacityRow {
    pub capacity: Capacity,
    pub deleted: bool,
}

#[derive(Debug)]
pub(super) struct ShardRow {
    pub shard: Shard,
    pub last_end: Option<AttemptEnd>,
}

#[derive(Debug)]
pub(super) struct DutyRow {
    pub duty: Duty,
    pub ver: u32,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub ops: BTreeSet<OpId>,
    pub nodes: BTreeMap<NodeId, Node>,
    pub duties: BTreeMap<DutyKey, DutyRow>,
    pub jobs: BTreeMap<JobUid, JobRow>,
    pub calendars: BTreeMap<JobName, CalendarRow>,
    /// The versions that the present revisions of live jobs go by.
    pub calendar_uses: BTreeMap<(JobName, JobUid), u32>,
    pub capacities: BTreeMap<Name, CapacityRow>,
    /// What the present revisions of live jobs use.
    pub capacity_uses: BTreeMap<(Name, JobUid), u32>,
    pub holds: BTreeMap<(ShardKey, Token, Name), Hold>,
    pub recalls: BTreeMap<(ShardKey, Token), Recalled>,
    pub backfills: BTreeMap<BackfillId, Backfill>,
    /// By run and round.
    pub checks: BTreeMap<(RunId, u32), Check>,
    pub access_tokens: BTreeMap<Name, AccessToken>,
    pub users: BTreeMap<Name, User>,
    pub keys: BTreeMap<Digest, KeptKey>,
    pub alerts: BTreeMap<alert::Key, Alert>,
    pub notices: BTreeMap<Uuid, Notice>,
    pub namespaces: BTreeMap<Name, Namespace>,
    pub decisions: Vec<(JobUid, Decision)>,
    pub runs: BTreeMap<RunId, Run>,
    pub occasions: BTreeMap<(JobUid, String), RunId>,
    pub shards: BTreeMap<ShardKey, ShardRow>,
    pub sessions: BTreeMap<SessionId, Session>,
    pub events: Vec<Event>,
    pub last_event: u64,
    pub last_id: u64,
    pub epoch: u32,
    /// The restore that is not decided yet.
    pub restore: Option<Restore>,
    /// Whether time is held, by the last look at the clock.
    pub held: bool,
    /// Shards that are held, by holder: an index.
    pub holders: BTreeMap<SessionId, BTreeSet<ShardKey>>,
}

impl State {
    pub fn live_job(&self, name: &JobName) -> Option<&JobRow> {
        self.jobs
            .values()
            .find(|j| !j.deleted && j.job.name == *name)
    }

    pub fn shards_of(&self, run: RunId) -> impl Iterator<Item = &ShardRow> {
        self.shards
            .range(ShardKey::new(run, i32::MIN)..=ShardKey::new(run, i32::MAX))
            .map(|(_, row)| row)
    }

    pub fn held_by(&self, session: SessionId) -> impl Iterator<Item = &Shard> {
        let keys = self.holders.get(&session).into_iter().flatten();
        keys.filter_map(|key| self.shards.get(key))
            .map(|row| &row.shard)
    }

    /// Whether a session can hold leases at `now`.
    pub fn session_over(&self, session: SessionId, now: Timestamp) -> bool {
        self.sessions
            .get(&session)
            .is_none_or(|s| s.ended.is_some() || has_expired(s.expires_at, now))
    }

    pub fn is_current(&self, fence: &Fence) -> bool {
        self.duties
            .get(&fence.key)
            .is_some_and(|d| d.duty.node.is_some() && d.duty.term == fence.term)
            || zoo::is("term-unchecked")
    }

    pub fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}

/// One use case in progress.
pub(super) struct Tx<'a> {
    pub state: &'a mut State,
    pub now: Timestamp,
    pub op: Op,
    /// Who says what is written now, if that is not the operation's own author.
    pub author: Option<Arc<str>>,
    /// The duty under which it writes.
    pub duty: Option<(String, Term)>,
}

impl Tx<'_> {
    /// Writes under `fence`'s name if it is current.
    pub fn under(&mut self, fence: &Fence) -> bool {
        let current = self.state.is_current(fence);
        if current {
            self.duty = Some((fence.key.text(), fence.term));
        }
        current
    }

    pub fn event(&mut self, entity: Entity, ver: u32, h: Happened<'_>) {
        let author = self.author.as_deref();
        self.state.last_event += 1;
        self.state.events.push(Event {
            seq: self.state.last_event,
            entity,
            ver,
            at: self.now,
            op: self.op.id,
            actor: author.unwrap_or(&self.op.actor).to_owned(),
            duty: self.duty.clone(),
            kind: h.kind,
            from: h.from.to_owned(),
            to: h.to.to_owned(),
            attempt: h.attempt,
            token: h.token,
            cause: h.cause.to_owned(),
            data: h.data.to_string(),
        });
    }
}
