//! What a use case works with: one transaction to write in.
//!
//! A write whose guard the transaction has under lock is sent and not waited for
//! ([`Tx::must`]): the server takes statements in their order, so whatever is asked later sees it,
//! and the commit waits for all. A change of a row that was locked is made in what is kept of it too, or
//! the kept row is forgotten.
//!
//! # Invariants
//! - A row is kept only while its lock is held.
//! - Events are written behind what they tell of; nothing reads them before the commit.
//!
//! # Not here
//! Reading, and what is on its way ([`super::read`]); which rows a use case locks ([`super::kept`]);
//! retries and commits ([`super::engine`]).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

use futures_util::future::{try_join, try_join3, try_join4};
use jiff::Timestamp;
use sichen_core::epoch;
use sichen_core::event::Entity;
use sichen_core::ids::{RunId, Term, Token};
use sichen_core::model::Namespace;
use sichen_core::name::Name;
use sichen_core::port::{Error, Fence, NewRun, Op};

use super::batch::Gathered;
use super::clock::Time;
pub(super) use super::fault::Result;
use super::kept::{Locks, replaces};
use super::param::{Param, Params, params};
pub(super) use super::read::{Common, Read};
use super::read::{answer, locked, sent};
use super::row::{at, int};
use super::sql;
pub(super) use crate::happened::Happened;

/// Events written by one statement.
const EVENTS: usize = 5_000;

/// One use case in progress.
pub(super) struct Tx {
    read: Read,
    op: Option<Op>,
    /// Who says what is written now, if that is not the operation's own author.
    author: Option<Arc<str>>,
    /// Whether this very operation was committed before; known once the locks are there.
    pub repeated: bool,
    /// The duty under which it writes.
    duty: Option<(String, Term)>,
    /// Locked namespaces whose queues are limited, and how many runs each has queued, once that was counted.
    queues: BTreeMap<Name, (Namespace, Option<u32>)>,
    events: Vec<Noted>,
    /// Whether it had any.
    changed: bool,
}

impl Deref for Tx {
    type Target = Read;
    fn deref(&self) -> &Read {
        &self.read
    }
}

/// What of an event differs from others of its transaction.
struct Noted {
    author: Option<Arc<str>>,
    entity: &'static str,
    entity_id: String,
    run: Option<i64>,
    ver: u32,
    duty: Option<(String, Term)>,
    kind: &'static str,
    from: String,
    to: String,
    attempt: Option<u32>,
    token: Option<Token>,
    cause: String,
    data: String,
}

impl Tx {
    /// Takes a connection on which a transaction has begun.
    pub fn new(read: Read, op: Option<Op>) -> Self {
        Self {
            read,
            op,
            author: None,
            repeated: false,
            duty: None,
            queues: BTreeMap::new(),
            events: Vec::new(),
            changed: false,
        }
    }

    /// Names the operation for events, where it is not recorded: what is done may be done twice.
    pub fn named(&mut self, op: Op) {
        self.op.get_or_insert(op);
    }

    /// Records the operation: sent ahead of everything else.
    pub async fn record(&mut self) -> Result<()> {
        if let Some(op) = &self.op {
            let params = (op.id.0, self.common.time.given().map(at), op.actor.as_str()).list();
            let ready = self.ready(sql::INSERT_OP).await?;
            let flight = sent(self.link().execute(ready, params)).await;
            *locked(&self.recording) = Some(flight);
        }
        Ok(())
    }

    /// Reads the clock, when all locks are there.
    pub async fn tell_time(&mut self) -> Result<()> {
        self.read.tell_time().await?;
        self.recorded().await
    }

    /// Locks rows in the port's order and then reads the clock, all in one round trip.
    pub async fn lock(&mut self, locks: &Locks) -> Result<()> {
        self.lock_to_write(locks, &[]).await
    }

    /// [`Tx::lock`], and in the same round trip, behind the locks, what is to be known before these
    /// runs are written.
    pub async fn lock_to_write(&mut self, locks: &Locks, runs: &[&NewRun]) -> Result<()> {
        // One that is prepared only now would be overtaken by those behind it.
        for statement in locks.statements().chain([sql::GET_META]) {
            self.ready(statement).await?;
        }
        if !runs.is_empty() {
            for statement in [
                sql::PASS_GATES,
                sql::FIND_RUN,
                sql::NEXT_IDS,
                sql::COUNT_HELD,
            ] {
                self.ready(statement).await?;
            }
        }
        if runs.iter().any(|run| replaces(run)) {
            // Which these are is to be asked under their jobs' locks, and they come before sessions.
            self.lock_duties(locks.duties.clone(), true).await?;
            self.stand_jobs(locks, runs).await?;
            self.lock_replaced(runs).await?;
        }
        // Polled in this order, and so sent in it.
        let closing: &[RunId] = if locks.closing { &locks.runs } else { &[] };
        let jobs = try_join3(
            self.lock_jobs_of(&locks.limited),
            self.stand_jobs_of(closing),
            self.stand_jobs(locks, runs),
        );
        let locked = try_join4(
            self.lock_duties(locks.duties.clone(), true),
            jobs,
            self.lock_run_rows(&locks.runs),
            self.lock_shards(&locks.shards),
        );
        let last = try_join(self.lock_sessions(&locks.sessions), self.read.meta());
        let (_, (_, meta), ()) = try_join3(locked, last, self.look_for_runs(runs)).await?;
        self.read.set_time(meta);
        self.recorded().await
    }

    async fn recorded(&mut self) -> Result<()> {
        let recording = locked(&self.recording).take();
        if let Some(recording) = recording {
            match self.behind(answer(recording)).await {
                Ok(n) => self.repeated = n == 0,
                Err(e) => return Err(self.blame(&e).await),
            }
        }
        Ok(())
    }

    /// What is written from now on is said by `author`; `None`: by the operation's own.
    pub fn writes_as(&mut self, author: Option<Arc<str>>) {
        self.author = author;
    }

    /// These namespaces, whose queues are limited, are locked.
    pub fn limit_queues(&mut self, rows: Vec<Namespace>) {
        let rows = rows.into_iter().map(|row| (row.name.clone(), (row, None)));
        self.queues.extend(rows);
    }

    /// The namespace, if its queue is limited and it is locked.
    pub fn limited_queue(&self, name: &Name) -> Option<Namespace> {
        self.queues.get(name).map(|(row, _)| row.clone())
    }

    /// How many runs of a locked namespace are queued, if they were counted.
    pub fn queue_of(&self, name: &Name) -> Option<u32> {
        self.queues.get(name).and_then(|(_, queued)| *queued)
    }

    /// So many runs of a locked namespace are queued.
    pub fn note_queue(&mut self, name: &Name, queued: u32) {
        if let Some((_, known)) = self.queues.get_mut(name) {
            *known = Some(queued);
        }
    }

    /// One more run of the namespace is queued.
    pub fn queued(&mut self, name: &Name) {
        if let Some((_, Some(queued))) = self.queues.get_mut(name) {
            *queued = queued.saturating_add(1);
        }
    }

    /// Queued runs were stopped: how many there are is to be counted anew.
    pub fn forget_queues(&mut self) {
        for (_, queued) in self.queues.values_mut() {
            *queued = None;
        }
    }

    /// Who writes.
    pub fn actor(&self) -> &str {
        self.op.as_ref().map_or("", |op| &op.actor)
    }

    /// Runs a statement that changes rows; how many.
    pub async fn run(&self, statement: &'static str, params: impl Params) -> Result<usize> {
        let params = params.list();
        self.flush().await?;
        let ready = self.ready(statement).await?;
        match self.behind(self.link().execute(ready, params)).await {
            Ok(n) => Ok(usize::try_from(n).unwrap_or(usize::MAX)),
            Err(e) => Err(self.blame(&e).await),
        }
    }

    /// Runs a statement whose guard may not hold; whether it did.
    pub async fn run_one(&self, statement: &'static str, params: impl Params) -> Result<bool> {
        let params = params.list();
        Ok(self.run(statement, params).await? > 0)
    }

    /// Sends a statement whose guard this transaction has under lock. It is seen by all that is asked
    /// later; that it found its row is looked at before the commit.
    pub async fn must(&self, statement: &'static str, params: impl Params) -> Result<()> {
        let params = params.list();
        self.flush().await?;
        self.send(statement, params, 1).await
    }

    /// The id that this repeated operation gave out when it was first committed.
    pub async fn first_result(&self) -> Result<Option<u64>> {
        match &self.op {
            Some(op) if self.repeated => {
                let id = self
                    .one(sql::GET_OP_RESULT, [op.id.0], |row| row.opt_u64(0))
                    .await?;
                Ok(id.flatten())
            }
            _ => Ok(None),
        }
    }

    /// Keeps the id that this operation gives out, for a repeat.
    pub async fn keep_result(&self, id: u64) -> Result<()> {
        match &self.op {
            Some(op) => self.must(sql::KEEP_OP_RESULT, (op.id.0, int(id))).await,
            None => Ok(()),
        }
    }

    /// Writes under `fence`'s name if it is current.
    pub async fn under(&mut self, fence: &Fence) -> Result<bool> {
        let current = self.is_current(fence).await?;
        if current {
            self.duty = Some((fence.key.text(), fence.term));
        }
        Ok(current)
    }

    /// A new id.
    pub async fn next_id(&self) -> Result<u64> {
        let own = locked(&self.ids).pop_front();
        let left = || locked(&self.common.ids).pop_front();
        if let Some(id) = own.or_else(left) {
            return Ok(id);
        }
        let id = self.one(sql::NEXT_IDS, [1], |row| row.u64(0)).await?;
        id.ok_or_else(|| Error::Corrupt("the sequence of ids is gone".into()))
    }

    /// Takes `n` ids for this transaction: those that others left, and drawn ones.
    pub async fn reserve_ids(&self, n: usize) -> Result<()> {
        let left: VecDeque<u64> = {
            let mut left = locked(&self.common.ids);
            let n = n.min(left.len());
            left.drain(..n).collect()
        };
        let missing = n.saturating_sub(left.len());
        locked(&self.ids).extend(left);
        if missing > 0 {
            let drawn = self
                .all(sql::NEXT_IDS, [int(missing as u64)], |row| row.u64(0))
                .await?;
            locked(&self.ids).extend(drawn);
        }
        Ok(())
    }

    /// Raises the epoch above its own and `known`.
    pub async fn raise_epoch(&mut self, known: u32) -> Result<u32> {
        let epoch = epoch::after(self.epoch.max(known), self.now);
        self.must(sql::RAISE_EPOCH, [epoch]).await?;
        // What this node has drawn and not used is behind what is left out.
        let drawn = std::mem::take(&mut *locked(&self.common.ids)).len() as u64;
        let out = epoch::NUMBERS_LEFT_OUT;
        let params = (int(out.saturating_sub(drawn)), int(out));
        self.exists(sql::LEAVE_NUMBERS_OUT, params).await?;
        Ok(epoch)
    }

    pub fn event(&mut self, entity: &Entity, ver: u32, h: &Happened<'_>) -> Result<()> {
        let run = match entity {
            Entity::Run(id) => Some(int(id.0)),
            Entity::Shard(key) => Some(int(key.run.0)),
            Entity::Job(_)
            | Entity::Session(_)
            | Entity::Node(_)
            | Entity::Duty(_)
            | Entity::Calendar(_)
            | Entity::Backfill(_)
            | Entity::AccessToken(_)
            | Entity::User(_)
            | Entity::Capacity(_)
            | Entity::Namespace(_) => None,
        };
        self.changed = true;
        self.events.push(Noted {
            author: self.author.clone(),
            entity: entity.kind(),
            entity_id: entity.id(),
            run,
            ver,
            duty: self.duty.clone(),
            kind: h.kind.word(),
            from: h.from.to_owned(),
            to: h.to.to_owned(),
            attempt: h.attempt,
            token: h.token,
            cause: h.cause.to_owned(),
            data: h.data.to_string(),
        });
        Ok(())
    }

    /// Sends what is gathered except for sums, and the events so far, if that is much: the server works on
    /// it while the rest is made.
    pub async fn step(&mut self) -> Result<()> {
        if !self.gathered(|gathered| gathered.is_much()) {
            return Ok(());
        }
        for (statement, columns, rows) in self.gathered(Gathered::take_rows) {
            self.send(statement, columns, rows).await?;
        }
        self.log().await
    }

    /// Sends the events so far.
    async fn log(&mut self) -> Result<()> {
        let op = self.op.as_ref().map_or(uuid::Uuid::nil(), |op| op.id.0);
        let events = std::mem::take(&mut self.events);
        let own = self.actor();
        for chunk in events.chunks(EVENTS) {
            let actors = chunk.iter().map(|e| e.author.as_deref().unwrap_or(own));
            let actors: Vec<String> = actors.map(str::to_owned).collect();
            let texts = |f: fn(&Noted) -> &str| -> Vec<String> {
                chunk.iter().map(|e| f(e).to_owned()).collect()
            };
            let ints = |f: fn(&Noted) -> Option<i64>| Param::OptInts(chunk.iter().map(f).collect());
            let duties = chunk
                .iter()
                .map(|e| e.duty.as_ref().map(|(key, _)| key.clone()));
            let params = params![
                at(self.now),
                op,
                actors,
                texts(|e| e.entity),
                texts(|e| &e.entity_id),
                ints(|e| e.run),
                ints(|e| Some(i64::from(e.ver))),
                Param::OptTexts(duties.collect()),
                ints(|e| e.duty.as_ref().map(|(_, term)| int(term.0))),
                texts(|e| e.kind),
                texts(|e| &e.from),
                texts(|e| &e.to),
                ints(|e| e.attempt.map(i64::from)),
                ints(|e| e.token.map(|t| int(t.0))),
                texts(|e| &e.cause),
                texts(|e| &e.data),
            ];
            self.send(sql::INSERT_EVENT, params, 1).await?;
        }
        Ok(())
    }

    /// Notes that the step of a request is done, if anything was, while its attempt still has the key.
    async fn note_step(&self) -> Result<()> {
        let hold = self.op.as_ref().and_then(|op| op.hold.as_ref());
        let Some(hold) = hold.filter(|_| self.changed) else {
            return Ok(());
        };
        let params = (hold.key.as_str(), hold.holder, hold.step);
        match self.run_one(sql::NOTE_REQUEST_KEY, params).await? {
            true => Ok(()),
            false => Err(crate::lost_key()),
        }
    }

    /// Writes the events and waits for all that was sent.
    pub async fn finish(&mut self) -> Result<()> {
        self.flush().await?;
        self.log().await?;
        self.note_step().await?;
        let told = self.now > Timestamp::UNIX_EPOCH;
        if told && Time::is_behind(self.clock.mark, &self.told) {
            // Somebody else may have raised it.
            self.run(sql::UPDATE_META, [at(self.now)]).await?;
        }
        if told && self.told.held != self.clock.held {
            let params = (self.told.held, self.clock.accepts);
            self.run(sql::HOLD_CLOCK, params).await?;
        }
        self.land().await
    }
}
