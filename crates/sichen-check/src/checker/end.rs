//! What is judged at the end: gaps, rows against folds (I46, I47), acknowledgements (I25, I44).

use jiff::Timestamp;
use sichen_core::event::Entity;

use sichen_core::model::{Counting, Dump, Job, Run, Shard};

use super::{Acknowledged, Checker, FinalRow, decisions};
use crate::fold::Broken;
use crate::verdict::{Invariant, Sight, Step};

impl Checker {
    /// Takes a row as it is at the end, after all events. If any row is given, all must be; shards
    /// before their runs, so that what is wrong with a shard is not reported as its run's.
    pub fn state(&mut self, row: &FinalRow<'_>) {
        self.saw(Sight::Row);
        if !self.rows.any {
            self.judge_gaps();
            self.rows.any = true;
        }
        self.note_row(row);
        match row {
            FinalRow::Run(run) => self.run_row(run),
            FinalRow::Shard(shard) => {
                self.note_held_shard(shard);
                self.range_row(shard);
                self.shard_row(shard);
            }
            FinalRow::Hold(hold) => self.hold_row(hold),
            FinalRow::Job(job) => {
                let counted = [job.active_runs, job.waiting_runs];
                self.rows.active.entry(job.uid).or_default().0 = counted;
                if job.counting == Counting::Never {
                    self.rows.uncounted.insert(job.uid);
                }
                // A planned run alone makes a fold too, when the job's own events came before the log.
                let Some(fold) = self.jobs.get(&job.uid).filter(|f| f.trail.ver > 0) else {
                    let entity = Entity::Job(job.uid);
                    return self.differs(entity, missing(self.options.partial), None);
                };
                if fold.trail.closed {
                    return;
                }
                let mut differs = compare("version", fold.trail.ver, job.ver);
                if fold.revision > 0 || !self.options.partial {
                    differs = differs.or(compare("revision", fold.revision, job.revision.0));
                }
                if let Some(mark) = fold.mark {
                    differs = differs.or(compare("high-water mark", mark, job.high_water));
                }
                if !fold.trail.partial {
                    let text = |at: Option<Timestamp>| {
                        at.map_or("nothing".to_owned(), |at| at.to_string())
                    };
                    let what = "what follows its runs";
                    differs = differs.or(compare::<String>(
                        what,
                        text(fold.pending),
                        text(job.pending()),
                    ));
                }
                let last = fold.trail.last;
                let ended = stopped(job).filter(|_| !fold.deleted);
                self.differs(Entity::Job(job.uid), differs, last);
                if let Some(broken) = ended {
                    self.report(Entity::Job(job.uid), broken, last.into_iter().collect());
                }
            }
            FinalRow::Session(session) => {
                let entity = Entity::Session(session.id);
                let Some(fold) = self.sessions.get(&session.id) else {
                    return self.differs(entity, missing(self.options.partial), None);
                };
                if fold.trail.closed {
                    return;
                }
                let differs = compare("whether it is over", fold.ended, session.ended.is_some())
                    .or(compare("version", fold.trail.ver, session.ver));
                let last = fold.trail.last;
                self.differs(entity, differs, last);
            }
            FinalRow::Duty(duty) => {
                let key = duty.key.text();
                let Some(fold) = self.duties.get(&key).filter(|f| !f.trail.closed) else {
                    return;
                };
                let node = |node: Option<sichen_core::ids::NodeId>| node.map_or(0, |n| n.0);
                let term = (!fold.trail.partial)
                    .then(|| compare("term", fold.term, duty.term))
                    .flatten();
                let differs = term.or(compare("owner", node(fold.node), node(duty.node)));
                let last = fold.trail.last;
                self.differs(Entity::Duty(key), differs, last);
            }
            FinalRow::Backfill(backfill) => self.backfill_row(backfill),
            FinalRow::Decision(job, decision) => {
                self.saw(Sight::Decided);
                self.rows
                    .decisions
                    .entry(*job)
                    .or_default()
                    .push((*decision).clone());
            }
        }
    }

    /// Takes all rows of a dump.
    pub fn dump(&mut self, dump: &Dump) {
        let jobs = dump.jobs.iter().map(FinalRow::Job);
        let runs = dump.runs.iter().map(FinalRow::Run);
        let shards = dump.shards.iter().map(FinalRow::Shard);
        let sessions = dump.sessions.iter().map(FinalRow::Session);
        let duties = dump.duties.iter().map(FinalRow::Duty);
        let backfills = dump.backfills.iter().map(FinalRow::Backfill);
        let decisions = dump
            .decisions
            .iter()
            .map(|(job, d)| FinalRow::Decision(*job, d));
        let holds = dump.holds.iter().map(FinalRow::Hold);
        for row in shards
            .chain(holds)
            .chain(runs)
            .chain(jobs)
            .chain(sessions)
            .chain(duties)
            .chain(backfills)
            .chain(decisions)
        {
            self.state(&row);
        }
    }

    pub(super) fn differs(&mut self, entity: Entity, message: Option<String>, last: Option<Step>) {
        let Some(message) = message else { return };
        self.close(&entity);
        self.report(
            entity,
            Broken(Invariant::I46, message),
            last.into_iter().collect(),
        );
    }

    fn run_row(&mut self, run: &Run) {
        let entity = Entity::Run(run.id);
        self.rows.lanes.note(run);
        if !run.state.is_closed() && run.backfill.is_none() {
            let open = &mut self.rows.active.entry(run.job).or_default().1;
            open[0] += 1;
            open[1] += u32::from(run.waits.is_some());
        }
        if let Err(broken) = self.claim_occasion(run.job, &run.occasion.key(), run.id) {
            if self.runs.get(&run.id).is_none_or(|f| !f.trail.closed) {
                self.report(entity.clone(), broken, Vec::new());
                self.close(&entity);
            }
            return;
        }
        let known = |f: &&crate::fold::run::Run| f.trail.ver > 0 || f.trail.closed;
        let Some(fold) = self.runs.get(&run.id).filter(known) else {
            return self.differs(entity, missing(self.options.partial), None);
        };
        if fold.trail.closed {
            return;
        }
        let c = &run.counters;
        let mut differs = compare("state", fold.state, run.state.word()).or(compare(
            "version",
            fold.trail.ver,
            run.ver,
        ));
        if !fold.trail.partial {
            let stop = run.stop.map(|(cause, _)| cause.word());
            differs = differs
                .or(compare("round", fold.round, run.round))
                .or(compare("stop", fold.stop.unwrap_or(""), stop.unwrap_or("")));
        }
        if !fold.unsure {
            differs = differs
                .or(compare("open shards", fold.open, c.open))
                .or(compare("succeeded shards", fold.succeeded, c.succeeded))
                .or(compare("failed shards", fold.failed, c.failed))
                .or(compare("cancelled shards", fold.cancelled, c.cancelled));
        }
        let last = fold.trail.last;
        self.differs(entity, differs, last);
    }

    fn shard_row(&mut self, shard: &Shard) {
        let entity = Entity::Shard(shard.key);
        let known = self
            .runs
            .get(&shard.key.run)
            .is_some_and(|r| r.trail.ver > 0 || r.trail.closed);
        let Some(fold) = self.shards.get(&shard.key) else {
            // No event of its own: it is as its run wrote it.
            if known && shard.ver != 1 && !self.options.partial {
                let message = format!("version is {}, the log has no event of it", shard.ver);
                self.differs(entity, Some(message), None);
            } else if !known {
                self.differs(entity, missing(self.options.partial), None);
            }
            return;
        };
        if fold.trail.closed {
            return;
        }
        let mut differs = compare("state", fold.state, shard.state.word())
            .or(compare("version", fold.trail.ver, shard.ver))
            .or(compare("token", fold.token, shard.token))
            .or((!fold.attempt_unknown)
                .then(|| compare("attempt", fold.attempt, shard.attempt))
                .flatten());
        if !fold.trail.partial {
            differs = differs
                .or(compare("checkpoint", fold.seq, shard.checkpoint.seq))
                .or(compare(
                    "whether it is discarded",
                    fold.discarded,
                    shard.discarded_at.is_some(),
                ))
                .or(compare(
                    "holder",
                    fold.session.map_or(0, |s| s.0),
                    shard.session.map_or(0, |s| s.0),
                ));
        }
        let last = fold.trail.last;
        self.differs(entity, differs, last);
    }

    pub(super) fn judge_end(&mut self) {
        self.judge_gaps();
        self.judge_pauses();
        self.judge_runs();
        self.judge_acks();
        self.judge_decisions();
        self.judge_turns();
        if !self.rows.any {
            self.unknown
                .insert(Invariant::I46, "no rows were given".into());
            self.unknown
                .insert(Invariant::I47, "no rows were given".into());
            return;
        }
        self.judge_held();
        self.judge_lost_rows();
        if self.options.partial || self.violation_count > 0 {
            return;
        }
        self.judge_lanes();
        let active = std::mem::take(&mut self.rows.active);
        let uncounted = std::mem::take(&mut self.rows.uncounted);
        for (job, (counted, open)) in active {
            // Of what is not counted only that none waits for others is known of the row.
            let known = if uncounted.contains(&job) {
                [0, open[1]]
            } else {
                open
            };
            if counted != known && self.jobs.contains_key(&job) {
                let ([active, waiting], [open, wait]) = (counted, open);
                let message = format!(
                    "its row counts {active} active runs, {waiting} of them waiting; {open} are open, \
                     {wait} of them wait"
                );
                self.report(
                    Entity::Job(job),
                    Broken(Invariant::I47, message),
                    Vec::new(),
                );
            }
        }
    }

    /// Events whose predecessor never came.
    pub(super) fn judge_gaps(&mut self) {
        let early = std::mem::take(&mut self.early);
        for ((entity, ver), event) in early {
            let (closed, last) = match self.trail(&entity) {
                Some(trail) => (trail.closed, trail.last),
                None => (false, None),
            };
            if closed {
                continue;
            }
            let have = last.map_or(first_version(&entity), |s| s.ver);
            let message = format!("version {ver} follows version {have}: an event is missing");
            let witness = last.into_iter().chain([Step::of(&event)]).collect();
            self.report(entity.clone(), Broken(Invariant::I46, message), witness);
            self.close(&entity);
        }
    }

    fn judge_runs(&mut self) {
        let mut found = Vec::new();
        for (id, run) in &mut self.runs {
            if run.trail.closed || run.unsure {
                continue;
            }
            let last = run.trail.last;
            if let Err(broken) = run.judge() {
                found.push((*id, broken, last));
                continue;
            }
            let (state, open) = (run.state, run.open);
            let message = if run.pending.is_some() {
                format!("settled {state} while {open} of its shards are open")
            } else if self.options.quiescent && !run.is_closed() {
                format!("still {state} with {open} open shards when all is quiet")
            } else {
                continue;
            };
            found.push((*id, Broken(Invariant::I27, message), last));
        }
        for (id, broken, last) in found {
            let entity = Entity::Run(id);
            self.report(entity.clone(), broken, last.into_iter().collect());
            self.close(&entity);
        }
    }

    /// Jobs whose last event started runs while they were paused.
    fn judge_pauses(&mut self) {
        let mut found = Vec::new();
        for (uid, job) in self.jobs.iter_mut().filter(|(_, job)| !job.trail.closed) {
            if let Err(broken) = job.judge_pause(None) {
                found.push((Entity::Job(*uid), broken, job.trail.last));
            }
        }
        for (entity, broken, last) in found {
            self.report(entity.clone(), broken, last.into_iter().collect());
            self.close(&entity);
        }
    }

    fn judge_acks(&mut self) {
        if self.acks.is_empty() {
            self.unknown.insert(
                Invariant::I44,
                "it takes what clients and workers were told".into(),
            );
            self.unknown.insert(
                Invariant::I25,
                "it takes what workers started from; what was granted is judged".into(),
            );
        }
        for ack in std::mem::take(&mut self.acks) {
            self.saw(Sight::Acknowledged);
            match ack {
                Acknowledged::Op(op) => {
                    if self.ops.as_ref().is_some_and(|ops| !ops.contains(&op)) {
                        let message =
                            format!("operation {op} was acknowledged and is not in the log");
                        self.report(
                            Entity::Duty("any".into()),
                            Broken(Invariant::I44, message),
                            Vec::new(),
                        );
                    }
                }
                Acknowledged::Run(id) => {
                    if self
                        .runs
                        .get(&id)
                        .is_none_or(|r| r.trail.ver == 0 && !r.trail.closed)
                    {
                        let message = "was acknowledged and is not in the log".to_owned();
                        self.report(Entity::Run(id), Broken(Invariant::I44, message), Vec::new());
                    }
                }
                Acknowledged::Finished { key, .. }
                | Acknowledged::Checkpoint { key, .. }
                | Acknowledged::Started { key, .. } => {
                    let Some(fold) = self.shards.get(&key) else {
                        let message = format!("{ack:?} was acknowledged and is not in the log");
                        self.report(
                            Entity::Shard(key),
                            Broken(Invariant::I44, message),
                            Vec::new(),
                        );
                        continue;
                    };
                    if fold.trail.closed || fold.trail.partial {
                        continue;
                    }
                    if let Some(broken) = judge_ack(fold, ack) {
                        let last = fold.trail.last;
                        self.report(Entity::Shard(key), broken, last.into_iter().collect());
                    }
                }
            }
        }
    }

    fn judge_decisions(&mut self) {
        let decisions = std::mem::take(&mut self.rows.decisions);
        let mut found = Vec::new();
        for (uid, job) in &self.jobs {
            if job.trail.closed {
                continue;
            }
            let mine = decisions.get(uid).map_or(&[][..], Vec::as_slice);
            if !self.options.partial
                && let Err(broken) = self.judge_filled(*uid, mine)
            {
                found.push((*uid, broken, None));
                continue;
            }
            match decisions::judge_job(*uid, job, mine, self) {
                Ok(undecided) => {
                    if let Some(reason) = undecided {
                        self.unknown.entry(Invariant::I2).or_insert(reason);
                    }
                }
                Err(broken) => found.push((*uid, broken, job.trail.last)),
            }
        }
        for (uid, broken, last) in found {
            self.report(Entity::Job(uid), broken, last.into_iter().collect());
        }
    }
}

fn first_version(entity: &Entity) -> u32 {
    super::first_version(entity) - 1
}

/// A job whose runs are to be followed, and nothing will: no run is open, no instant is written.
fn stopped(job: &Job) -> Option<Broken> {
    let chain = job.chain.as_ref()?;
    let over = chain.follow.end.is_none() && chain.pending.is_none() && job.active_runs == 0;
    let message = "no run is open, and nothing follows the last one".to_owned();
    over.then_some(Broken(Invariant::I2, message))
}

pub(super) fn missing(partial: bool) -> Option<String> {
    (!partial).then(|| "the row exists, the log has no event of it".to_owned())
}

pub(super) fn compare<T: PartialEq + std::fmt::Display>(
    what: &str,
    log: T,
    row: T,
) -> Option<String> {
    (log != row).then(|| format!("{what}: the log says {log}, the row says {row}"))
}

fn judge_ack(fold: &crate::fold::shard::Shard, ack: Acknowledged) -> Option<Broken> {
    match ack {
        Acknowledged::Finished { token, .. } => {
            let accepted = fold.attempts.iter().any(|a| a.token == token && a.reported);
            let message =
                format!("the report of token {token} was acknowledged and is not in the log");
            (!accepted).then_some(Broken(Invariant::I44, message))
        }
        Acknowledged::Checkpoint { seq, .. } => {
            let message = format!(
                "checkpoint {seq} was acknowledged, the log ends at {}",
                fold.seq
            );
            (seq > fold.seq).then_some(Broken(Invariant::I44, message))
        }
        Acknowledged::Started { token, seq, .. } => {
            let Some(attempt) = fold.attempts.iter().find(|a| a.token == token) else {
                let message =
                    format!("an attempt with token {token} was started, none was granted");
                return Some(Broken(Invariant::I44, message));
            };
            let message = format!(
                "the attempt of token {token} started from checkpoint {seq}, {} was accepted before its grant",
                attempt.seq_at_grant
            );
            (seq < attempt.seq_at_grant).then_some(Broken(Invariant::I25, message))
        }
        Acknowledged::Op(_) | Acknowledged::Run(_) => None,
    }
}
