//! Takes a history apart by entity, and compares its end with rows and acknowledgements.
//!
//! # Not here
//! The folds of single entities ([`crate::fold`]).

mod backfills;
mod births;
mod capacities;
mod decisions;
mod duties;
mod end;
mod lost;
mod queues;
mod ranges;
mod slots;
mod turns;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use sichen_core::backfill::Backfill;
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{BackfillId, JobUid, NodeId, OpId, RunId, SessionId, ShardKey, Token};
use sichen_core::model::{Decision, Dump, Duty, Hold, Job, Run, Session, Shard};
use sichen_core::name::{JobName, Name};

use crate::data::Fields;
use crate::fold::{self, Broken, Trail};
use crate::verdict::{Invariant, Outcome, Sight, Step, Unknown, Verdict, Violation};

/// Says which instants a job's schedule has, by other means than the scheduler's own.
pub trait Oracle {
    /// Instants in (`from`, `to`], ascending, or `None` if it can't say for this job.
    fn instants(&self, job: JobUid, from: Timestamp, to: Timestamp) -> Option<Vec<Timestamp>>;
}

/// How to check.
#[derive(Default)]
pub struct Options {
    /// The history begins in the middle: an entity first seen at a later version is taken as it is.
    pub partial: bool,
    /// `seq` is the order of commits (memory, SQLite): order between entities is judged too.
    pub seq_is_commit_order: bool,
    /// Of transactions that locked one row, the first has the lower `seq` (every store): each draws its
    /// numbers while it holds its locks. So order between entities is judged where both events are written
    /// under a lock on one row.
    pub seq_is_lock_order: bool,
    /// Nothing is in flight any more: every run must be closed.
    pub quiescent: bool,
    /// What must have been seen, and how often, for the check to mean anything.
    pub minimums: Vec<(Sight, u64)>,
    /// Invariants that must not stay undecided.
    pub demand: Vec<Invariant>,
    /// For I2 and I3: the instants that should have been decided.
    pub oracle: Option<Box<dyn Oracle>>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("minimums", &self.minimums)
            .finish_non_exhaustive()
    }
}

/// A row as it is at the end of the history.
#[derive(Clone, Copy, Debug)]
pub enum FinalRow<'a> {
    /// A job; deleted ones too.
    Job(&'a Job),
    /// A run.
    Run(&'a Run),
    /// A shard.
    Shard(&'a Shard),
    /// A session.
    Session(&'a Session),
    /// A duty.
    Duty(&'a Duty),
    /// A backfill.
    Backfill(&'a Backfill),
    /// A decision of a job.
    Decision(JobUid, &'a Decision),
    /// What is held of a capacity.
    Hold(&'a Hold),
}

/// What somebody was told, and may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// An operation was answered as done.
    Op(OpId),
    /// A run was answered as written.
    Run(RunId),
    /// A report was accepted (first time or again).
    Finished {
        /// The shard.
        key: ShardKey,
        /// The token it was reported with.
        token: Token,
    },
    /// A checkpoint was stored.
    Checkpoint {
        /// The shard.
        key: ShardKey,
        /// Its number.
        seq: u64,
    },
    /// An attempt was started from a checkpoint.
    Started {
        /// The shard.
        key: ShardKey,
        /// The attempt's token.
        token: Token,
        /// The number of the checkpoint that came with the grant; 0 for none.
        seq: u64,
    },
}

#[derive(Debug, Default)]
struct SessionFold {
    trail: Trail,
    ended: bool,
}

/// Which kinds of rows were given; those are complete.
#[derive(Debug, Default)]
struct Rows {
    any: bool,
    decisions: BTreeMap<JobUid, Vec<Decision>>,
    /// Open runs and those of them that wait: as the job's row counts them, and as there are.
    active: BTreeMap<JobUid, ([u32; 2], [u32; 2])>,
    /// Those of them whose rows do not count.
    uncounted: BTreeSet<JobUid>,
    /// Entities whose rows were given; shards are counted by run instead.
    seen: std::collections::BTreeSet<Entity>,
    shards_of: BTreeMap<RunId, u32>,
    lanes: backfills::Lanes,
}

/// Judges one history. See the crate's documentation for the order of calls.
#[derive(Debug)]
pub struct Checker {
    options: Options,
    shards: BTreeMap<ShardKey, fold::shard::Shard>,
    runs: BTreeMap<RunId, fold::run::Run>,
    jobs: BTreeMap<JobUid, fold::job::Job>,
    sessions: BTreeMap<SessionId, SessionFold>,
    duties: BTreeMap<String, duties::Duty>,
    /// Nodes from which a duty was taken over as expired, and when first.
    found_over: BTreeMap<NodeId, Timestamp>,
    nodes: BTreeMap<NodeId, Trail>,
    calendars: BTreeMap<JobName, Trail>,
    access_tokens: BTreeMap<Name, Trail>,
    users: BTreeMap<Name, Trail>,
    namespaces: BTreeMap<Name, Trail>,
    backfills: BTreeMap<BackfillId, fold::backfill::Backfill>,
    capacities: BTreeMap<Name, Trail>,
    held: capacities::Held,
    slots: slots::Slots,
    turns: turns::Turns,
    queues: queues::Queues,
    ranges: ranges::Ranges,
    occasions: BTreeMap<(JobUid, String), RunId>,
    early: BTreeMap<(Entity, u32), Event>,
    ops: Option<std::collections::BTreeSet<OpId>>,
    acks: Vec<Acknowledged>,
    rows: Rows,
    counts: BTreeMap<Sight, u64>,
    violations: Vec<Violation>,
    violation_count: u64,
    unknown: BTreeMap<Invariant, String>,
}

impl Checker {
    /// A checker that has seen nothing.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            shards: BTreeMap::new(),
            runs: BTreeMap::new(),
            jobs: BTreeMap::new(),
            sessions: BTreeMap::new(),
            duties: BTreeMap::new(),
            found_over: BTreeMap::new(),
            nodes: BTreeMap::new(),
            calendars: BTreeMap::new(),
            access_tokens: BTreeMap::new(),
            users: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            backfills: BTreeMap::new(),
            capacities: BTreeMap::new(),
            held: capacities::Held::default(),
            slots: slots::Slots::default(),
            turns: turns::Turns::default(),
            queues: queues::Queues::default(),
            ranges: ranges::Ranges::default(),
            occasions: BTreeMap::new(),
            early: BTreeMap::new(),
            ops: None,
            acks: Vec::new(),
            rows: Rows::default(),
            counts: BTreeMap::new(),
            violations: Vec::new(),
            violation_count: 0,
            unknown: BTreeMap::new(),
        }
    }

    /// Remembers every operation id from here on, for [`Acknowledged::Op`] (16 bytes each).
    pub fn keep_ops(&mut self) {
        self.ops = Some(std::collections::BTreeSet::new());
    }

    fn saw(&mut self, sight: Sight) {
        *self.counts.entry(sight).or_insert(0) += 1;
    }

    fn report(&mut self, entity: Entity, broken: Broken, witness: Vec<Step>) {
        self.violation_count += 1;
        if self.violations.len() < Verdict::MAX_VIOLATIONS {
            let Broken(invariant, message) = broken;
            self.violations.push(Violation {
                invariant,
                entity,
                message,
                witness,
            });
        }
    }

    /// Says whether `seq` is the order of commits, where only the history itself tells: to be called
    /// before its first event.
    pub fn seq_is_commit_order(&mut self, yes: bool) {
        self.options.seq_is_commit_order = yes;
    }

    /// Whether events that were written under a lock on one row come in the order in which they held it.
    fn is_order_of_locks(&self) -> bool {
        self.options.seq_is_commit_order || self.options.seq_is_lock_order
    }

    /// Takes the next event of the log.
    ///
    /// Events of one entity may come out of order by a few places (ids are not commit order); they
    /// wait for the version before them.
    pub fn event(&mut self, event: &Event) {
        self.saw(Sight::Event);
        if let Some(ops) = &mut self.ops {
            ops.insert(event.op);
        }
        if event.ver == 0 {
            return self.changes_nothing(event);
        }
        self.count_held(event);
        self.count_slots(event);
        self.count_turns(event);
        self.queues.count(event);
        let ver = self.trail(&event.entity).map_or(0, |t| t.ver);
        let first_seen = ver == first_version(&event.entity) - 1;
        if event.ver > ver + 1 && !(self.options.partial && first_seen) {
            // A shard written born leased begins at 1, any other at 2; both are the next one.
            self.early
                .insert((event.entity.clone(), event.ver), event.clone());
            if self.options.seq_is_commit_order {
                self.judge_gaps();
            }
            return;
        }
        self.in_order(event);
        if self.early.is_empty() {
            return;
        }
        let mut next = event.ver + 1;
        while let Some(event) = self.early.remove(&(event.entity.clone(), next)) {
            self.in_order(&event);
            next += 1;
        }
    }

    fn changes_nothing(&mut self, event: &Event) {
        self.saw(Sight::Refused);
        let changes_none = [
            Kind::ReportRefused,
            Kind::StoreRestored,
            Kind::RestoreDecided,
            Kind::ClockAccepted,
        ];
        if !changes_none.contains(&event.kind) {
            let message = format!("{} has no version, yet it changes something", event.kind);
            self.report(
                event.entity.clone(),
                Broken(Invariant::I45, message),
                vec![Step::of(event)],
            );
        }
    }

    fn trail(&mut self, entity: &Entity) -> Option<&mut Trail> {
        match entity {
            Entity::Job(uid) => self.jobs.get_mut(uid).map(|x| &mut x.trail),
            Entity::Run(id) => self.runs.get_mut(id).map(|x| &mut x.trail),
            Entity::Shard(key) => Some(&mut shard(&mut self.shards, *key).trail),
            Entity::Session(id) => self.sessions.get_mut(id).map(|x| &mut x.trail),
            Entity::Node(id) => self.nodes.get_mut(id),
            Entity::Calendar(name) => self.calendars.get_mut(name),
            Entity::AccessToken(name) => self.access_tokens.get_mut(name),
            Entity::User(name) => self.users.get_mut(name),
            Entity::Namespace(name) => self.namespaces.get_mut(name),
            Entity::Duty(key) => self.duties.get_mut(key).map(|x| &mut x.trail),
            Entity::Backfill(id) => self.backfills.get_mut(id).map(|x| &mut x.trail),
            Entity::Capacity(name) => self.capacities.get_mut(name),
        }
    }

    /// Marks an entity as reported, and its run's sums as not to be trusted.
    fn close(&mut self, entity: &Entity) {
        let trail = match entity {
            Entity::Job(uid) => &mut self.jobs.entry(*uid).or_default().trail,
            Entity::Run(id) => {
                let run = self.runs.entry(*id).or_default();
                run.unsure = true;
                &mut run.trail
            }
            Entity::Shard(key) => {
                self.runs.entry(key.run).or_default().unsure = true;
                &mut shard(&mut self.shards, *key).trail
            }
            Entity::Session(id) => &mut self.sessions.entry(*id).or_default().trail,
            Entity::Node(id) => self.nodes.entry(*id).or_default(),
            Entity::Calendar(name) => self.calendars.entry(name.clone()).or_default(),
            Entity::AccessToken(name) => self.access_tokens.entry(name.clone()).or_default(),
            Entity::User(name) => self.users.entry(name.clone()).or_default(),
            Entity::Namespace(name) => self.namespaces.entry(name.clone()).or_default(),
            Entity::Duty(key) => &mut self.duties.entry(key.clone()).or_default().trail,
            Entity::Backfill(id) => &mut self.backfills.entry(*id).or_default().trail,
            Entity::Capacity(name) => self.capacities.entry(name.clone()).or_default(),
        };
        trail.closed = true;
    }

    fn in_order(&mut self, event: &Event) {
        let (closed, last, ver) = match self.trail(&event.entity) {
            Some(trail) => (trail.closed, trail.last, trail.ver),
            None => (false, None, 0),
        };
        if closed {
            return;
        }
        let data = Fields::of(event);
        let result = match &data {
            Err(error) => fold::broken(
                Invariant::I45,
                format!("data of {} is not understood: {error}", event.kind),
            ),
            // The creation by a grant is the one event that may stand where a run's creation did.
            Ok(_) if event.ver <= ver && !born_leased(event, last) => fold::broken(
                Invariant::I46,
                format!("version {} is written twice", event.ver),
            ),
            Ok(data) => match self.order(event) {
                Ok(()) => self.apply(event, data),
                Err(broken) => Err(broken),
            },
        };
        if let Err(broken) = result {
            let witness = last.into_iter().chain([Step::of(event)]).collect();
            self.report(event.entity.clone(), broken, witness);
            self.close(&event.entity);
        }
    }

    /// What order between entities says, where the log's order is that of commits.
    fn order(&mut self, event: &Event) -> Result<(), Broken> {
        if !self.options.seq_is_commit_order {
            return Ok(());
        }
        if let Some((key, term)) = &event.duty
            && let Some(duty) = self.duties.get(key)
            && *term < duty.term
        {
            let message = format!(
                "written under term {term} of {key}, which is at term {}",
                duty.term
            );
            return fold::broken(Invariant::I11, message);
        }
        if let (Entity::Shard(key), Kind::CheckpointSaved) = (&event.entity, event.kind)
            && let Some(session) = self.shards.get(key).and_then(|s| s.session)
            && self.sessions.get(&session).is_some_and(|s| s.ended)
        {
            return fold::broken(
                Invariant::I15,
                format!("a checkpoint under session {session}, which is over"),
            );
        }
        Ok(())
    }

    fn apply(&mut self, event: &Event, data: &Fields) -> Result<(), Broken> {
        match &event.entity {
            Entity::Shard(key) => self.apply_shard(*key, event, data),
            Entity::Run(id) => self.apply_run(*id, event, data),
            Entity::Job(uid) => {
                if event.kind == Kind::ScheduleAdvanced {
                    self.saw(Sight::Advanced);
                }
                self.jobs.entry(*uid).or_default().apply(event, data)
            }
            Entity::Session(id) => {
                let session = self.sessions.entry(*id).or_default();
                session.trail.check(event)?;
                session.trail.push(event);
                if event.kind == Kind::SessionEnded {
                    session.ended = true;
                    self.saw(Sight::SessionEnded);
                }
                Ok(())
            }
            Entity::Node(id) => {
                let trail = self.nodes.entry(*id).or_default();
                trail.check(event)?;
                trail.push(event);
                Ok(())
            }
            Entity::Calendar(name) => {
                let trail = self.calendars.entry(name.clone()).or_default();
                trail.check(event)?;
                trail.push(event);
                Ok(())
            }
            Entity::AccessToken(name) => {
                let trail = self.access_tokens.entry(name.clone()).or_default();
                trail.check(event)?;
                trail.push(event);
                Ok(())
            }
            Entity::User(name) => {
                let trail = self.users.entry(name.clone()).or_default();
                trail.check(event)?;
                trail.push(event);
                Ok(())
            }
            Entity::Capacity(name) => {
                let trail = self.capacities.entry(name.clone()).or_default();
                trail.check(event)?;
                trail.push(event);
                Ok(())
            }
            Entity::Namespace(name) => {
                let trail = self.namespaces.entry(name.clone()).or_default();
                trail.check(event)?;
                trail.push(event);
                Ok(())
            }
            Entity::Duty(key) => self.apply_duty(key, event, data),
            Entity::Backfill(id) => {
                let backfill = self.backfills.entry(*id).or_default();
                if event.ver > 1 && self.options.partial && backfill.trail.ver == 0 {
                    *backfill = fold::backfill::Backfill::adopt(event);
                    return Ok(());
                }
                backfill.apply(event, data)
            }
        }
    }

    fn apply_run(&mut self, id: RunId, event: &Event, data: &Fields) -> Result<(), Broken> {
        match event.kind {
            Kind::RunCreated => {
                self.saw(Sight::RunCreated);
                self.occasion(id, data)?;
                self.judge_birth(event, data)?;
            }
            Kind::RunSettled => self.saw(Sight::RunSettled),
            Kind::RunReopened => self.saw(Sight::RunReopened),
            _ => {}
        }
        let ordered = self.options.seq_is_commit_order;
        let run = self.runs.entry(id).or_default();
        if event.ver > 1 && self.options.partial && run.trail.ver == 0 {
            *run = fold::run::Run::adopt(event);
            return Ok(());
        }
        run.apply(event, data, ordered)
    }

    /// I1, and the planned instants for I2.
    fn occasion(&mut self, id: RunId, data: &Fields) -> Result<(), Broken> {
        let job = births::job_of(data);
        let (Some(job), Some(occasion)) = (job, &data.occasion) else {
            self.unknown
                .entry(Invariant::I1)
                .or_insert_with(|| "run_created does not name its job and occasion".into());
            return Ok(());
        };
        self.claim_occasion(job, occasion, id)
    }

    fn claim_occasion(&mut self, job: JobUid, occasion: &str, id: RunId) -> Result<(), Broken> {
        match self.occasions.get(&(job, occasion.to_owned())) {
            Some(first) if *first != id => fold::broken(
                Invariant::I1,
                format!("occasion {occasion} of job {job} has run {first} already"),
            ),
            Some(_) => Ok(()),
            None => {
                self.occasions.insert((job, occasion.to_owned()), id);
                if let Some(sichen_core::ids::Occasion::Planned { at, rerun: 0 }) =
                    sichen_core::ids::Occasion::parse(occasion)
                {
                    self.jobs.entry(job).or_default().planned.insert(at);
                }
                Ok(())
            }
        }
    }

    fn apply_shard(&mut self, key: ShardKey, event: &Event, data: &Fields) -> Result<(), Broken> {
        let fold = shard(&mut self.shards, key);
        if self.options.partial && fold.trail.last.is_none() && event.ver > 2 {
            *fold = fold::shard::Shard::adopt(event, data);
            self.runs.entry(key.run).or_default().unsure = true;
            return Ok(());
        }
        let before = if born_leased(event, fold.trail.last) {
            fold.state = "";
            "scheduled"
        } else {
            fold.state
        };
        if event.kind == Kind::AttemptGranted && self.is_order_of_locks() {
            self.may_be_granted(key.run, data.session.map(SessionId))?;
        }
        let fold = shard(&mut self.shards, key);
        let takeover = fold.attempts.last().and_then(|a| a.ended) == Some("lost");
        fold.apply(event, data)?;
        let (after, resumed) = (fold.state, fold.seq > 0);
        match event.kind {
            Kind::AttemptGranted => {
                self.saw(Sight::Granted);
                if takeover {
                    self.saw(Sight::Takeover);
                    if resumed {
                        self.saw(Sight::Resumed);
                    }
                }
            }
            Kind::CheckpointSaved => self.saw(Sight::Checkpoint),
            Kind::AttemptRecalled => {
                self.saw(Sight::Recalled);
                let run = self.runs.entry(key.run).or_default();
                run.recalls += 1;
                if data.most.is_some_and(|most| run.recalls > most) {
                    let message = format!(
                        "shards of run {} were asked for their slots {} times, not {} at most",
                        key.run,
                        run.recalls,
                        data.most.unwrap_or_default()
                    );
                    return fold::broken(Invariant::I34, message);
                }
            }
            Kind::AttemptEnded => match data.end.as_deref() {
                Some("succeeded") => self.saw(Sight::Succeeded),
                Some("lost") => self.saw(Sight::Lost),
                _ => {}
            },
            _ => {}
        }
        if before != after {
            self.move_in_run(key, before, after);
        }
        Ok(())
    }

    /// Tells the run; what it finds wrong is the run's, not the shard's.
    fn move_in_run(&mut self, key: ShardKey, before: &str, after: &str) {
        let run = self.runs.entry(key.run).or_default();
        if run.trail.ver == 0 {
            // The run's creation has not come yet, or lies before the beginning.
            run.unsure = true;
        }
        if run.trail.closed {
            return;
        }
        let settled = run.trail.last;
        if let Err(broken) = run.shard_moved(key.no.is_plan(), before, after) {
            let closing = self.shards.get(&key).and_then(|s| s.trail.last);
            let entity = Entity::Run(key.run);
            self.report(
                entity.clone(),
                broken,
                settled.into_iter().chain(closing).collect(),
            );
            self.close(&entity);
        }
    }

    /// Takes what somebody was told.
    pub fn ack(&mut self, acknowledged: &Acknowledged) {
        self.acks.push(*acknowledged);
    }

    /// Judges the end of the history.
    #[must_use]
    pub fn finish(mut self) -> Verdict {
        self.judge_end();
        self.judge_queues();
        let mut vacuous = Vec::new();
        for (sight, wanted) in &self.options.minimums {
            let seen = self.counts.get(sight).copied().unwrap_or(0);
            if seen < *wanted {
                vacuous.push((*sight, seen, *wanted));
            }
        }
        let undecided = self
            .options
            .demand
            .iter()
            .any(|i| self.unknown.contains_key(i));
        let outcome = if self.violation_count > 0 {
            Outcome::Violated
        } else if undecided || !vacuous.is_empty() {
            Outcome::Unknown
        } else {
            Outcome::Ok
        };
        self.violations
            .sort_by(|a, b| (&a.entity, a.invariant).cmp(&(&b.entity, b.invariant)));
        let unknown = self
            .unknown
            .into_iter()
            .map(|(invariant, reason)| Unknown { invariant, reason })
            .collect();
        Verdict {
            outcome,
            violations: self.violations,
            violation_count: self.violation_count,
            unknown,
            vacuous,
            counts: self.counts,
        }
    }
}

fn shard(
    shards: &mut BTreeMap<ShardKey, fold::shard::Shard>,
    key: ShardKey,
) -> &mut fold::shard::Shard {
    shards
        .entry(key)
        .or_insert_with(fold::shard::Shard::created)
}

/// The version of an entity's first event: a shard's 1 belongs to its run's creation.
fn first_version(entity: &Entity) -> u32 {
    if matches!(entity, Entity::Shard(_)) {
        2
    } else {
        1
    }
}

fn born_leased(event: &Event, last: Option<Step>) -> bool {
    last.is_none() && event.ver == 1 && event.kind == Kind::AttemptGranted && event.from.is_empty()
}

/// Checks a whole store: its events in order of their numbers, then all its rows.
#[must_use]
pub fn check_dump(dump: &Dump, options: Options, acks: &[Acknowledged]) -> Verdict {
    let mut checker = Checker::new(options);
    if acks.iter().any(|a| matches!(a, Acknowledged::Op(_))) {
        checker.keep_ops();
    }
    for event in &dump.events {
        checker.event(event);
    }
    checker.dump(dump);
    for ack in acks {
        checker.ack(ack);
    }
    checker.finish()
}
