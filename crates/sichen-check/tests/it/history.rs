//! A small model that makes valid histories: jobs that fire every minute, runs of a few shards,
//! attempts that end in every way, checkpoints, stops, reopenings, duties that change hands.
//!
//! It shares no code with the stores, so that the checker is not judged by what it judges.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sichen_check::{Acknowledged, Oracle};
use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{
    JobUid, NodeId, Occasion, OpId, Revision, RunId, SessionId, ShardKey, Term, Token,
};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::run::Counters;
use sichen_core::lifecycle::{RunState, ShardState, StopCause, WaitsFor};
use sichen_core::model::{
    Appearance, Checkpoint, Counting, Decision, Dump, Duty, DutyKey, Job, Progress, Run, RunTerms,
    Session, Shard, Waits, WorkerIdentity,
};
use sichen_core::name::{JobName, Name};

/// SplitMix64: small, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).expect("below n")
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

#[derive(Clone, Debug, Default)]
pub struct History {
    pub dump: Dump,
    pub acks: Vec<Acknowledged>,
}

/// Every job fires on the minute.
pub struct Minutes;

impl Oracle for Minutes {
    fn instants(&self, _: JobUid, from: Timestamp, to: Timestamp) -> Option<Vec<Timestamp>> {
        let first = from.as_second().div_euclid(60) + 1;
        let last = to.as_second().div_euclid(60);
        Some((first..=last).map(minute).collect())
    }
}

pub fn minute(n: i64) -> Timestamp {
    Timestamp::from_second(n * 60).expect("a minute of this era")
}

struct Model {
    rng: Rng,
    now: Timestamp,
    dump: Dump,
    jobs: Vec<Job>,
    runs: BTreeMap<RunId, Run>,
    shards: BTreeMap<ShardKey, Shard>,
    waiting: Vec<ShardKey>,
    running: Vec<ShardKey>,
    /// Attempts that were asked to give their slots up.
    recalled: BTreeSet<(ShardKey, Token)>,
    closed: Vec<RunId>,
    sessions: Vec<Session>,
    next_id: u64,
    pool_term: u64,
    trigger_term: u64,
    acks: Vec<Acknowledged>,
}

/// What an event says beside its entity.
#[derive(Default)]
struct Said<'a> {
    from: &'a str,
    to: &'a str,
    attempt: Option<u32>,
    token: Option<Token>,
    duty: Option<(&'a str, u64)>,
    cause: &'a str,
    data: Value,
}

const TRIGGER: &str = "trigger/1";
const POOL: &str = "pool/default";

/// A valid history with at least `events` events, at rest at its end.
pub fn valid(seed: u64, events: usize) -> History {
    let mut m = Model {
        rng: Rng(seed),
        now: minute(30_000_000),
        dump: Dump::default(),
        jobs: Vec::new(),
        runs: BTreeMap::new(),
        shards: BTreeMap::new(),
        waiting: Vec::new(),
        running: Vec::new(),
        recalled: BTreeSet::new(),
        closed: Vec::new(),
        sessions: Vec::new(),
        next_id: 1,
        pool_term: 0,
        trigger_term: 0,
        acks: Vec::new(),
    };
    m.duties();
    m.register();
    m.register();
    for _ in 0..(events / 500).clamp(3, 50) {
        m.create_job();
    }
    while m.dump.events.len() < events {
        m.step();
    }
    m.come_to_rest();
    m.finish()
}

impl Model {
    fn event(&mut self, entity: Entity, ver: u32, kind: Kind, said: Said<'_>) {
        let seq = self.dump.events.len() as u64 + 1;
        self.now += SignedDuration::from_millis(7);
        let data = if said.data.is_null() {
            "{}".into()
        } else {
            said.data.to_string()
        };
        self.dump.events.push(Event {
            seq,
            entity,
            ver,
            at: self.now,
            op: OpId(
                format!("00000000-0000-7000-8000-{seq:012x}")
                    .parse()
                    .expect("a uuid"),
            ),
            actor: "model".into(),
            duty: said.duty.map(|(key, term)| (key.to_owned(), Term(term))),
            kind,
            from: said.from.into(),
            to: said.to.into(),
            attempt: said.attempt,
            token: said.token,
            cause: said.cause.into(),
            data,
        });
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn duties(&mut self) {
        self.pool_term += 1;
        self.trigger_term += 1;
        for (key, term) in [(POOL, self.pool_term), (TRIGGER, self.trigger_term)] {
            // The node before has died; each new owner is a new one.
            let mut data = json!({ "node": term, "term": term });
            if term > 1 {
                data["lease_end"] = json!(self.now.as_microsecond());
            }
            let ver = u32::try_from(term).expect("small");
            let said = Said {
                to: "owned",
                cause: if term == 1 { "first" } else { "expired" },
                data,
                ..Said::default()
            };
            self.event(Entity::Duty(key.into()), ver, Kind::DutyAcquired, said);
        }
    }

    fn register(&mut self) {
        let id = SessionId(self.id());
        let worker = WorkerIdentity {
            name: Name::new("w").expect("a name"),
            uid: id.to_string(),
            boot_id: "b".into(),
            incarnation: id.to_string(),
        };
        let session = Session {
            id,
            ver: 1,
            worker,
            appearance: Appearance {
                start: id.0,
                registration: 1,
            },
            pool: Name::new("default").expect("a name"),
            slots: 1000,
            handlers: Vec::new(),
            offer: sichen_core::place::Offer::default(),
            draining: false,
            grant_seq: 0,
            registered_at: self.now,
            expires_at: self.now,
            ended: None,
        };
        self.sessions.push(session);
        self.event(
            Entity::Session(id),
            1,
            Kind::SessionRegistered,
            Said {
                to: "live",
                data: json!({ "slots": 1_000 }),
                ..Said::default()
            },
        );
    }

    fn create_job(&mut self) {
        let n = self.id();
        let uid = JobUid(
            format!("00000000-0000-7000-9000-{n:012x}")
                .parse()
                .expect("a uuid"),
        );
        let high_water = minute(30_000_000);
        let name = JobName::new("default", &format!("job-{n}")).expect("a name");
        let job = Job {
            uid,
            name,
            revision: Revision(1),
            ver: 1,
            document: "{}".into(),
            paused: false,
            high_water,
            next_due: None,
            chain: None,
            zones: None,
            counting: Counting::Always,
            active_runs: 0,
            waiting_runs: 0,
            created_at: self.now,
        };
        let data = json!({ "revision": 1, "high_water": high_water.as_microsecond() });
        self.event(
            Entity::Job(uid),
            1,
            Kind::JobApplied,
            Said {
                to: "live",
                data,
                ..Said::default()
            },
        );
        self.jobs.push(job);
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0 if self.rng.chance(10) => self.duties(),
            0..4 => self.advance(),
            4..40 => self.grant(),
            40..60 => self.checkpoint(),
            60..94 => self.end(),
            94 if self.rng.chance(30) => self.stop(),
            95 if self.rng.chance(30) => self.reopen(),
            96 => self.refuse(),
            97 if self.rng.chance(10) => self.swap_session(),
            _ => {}
        }
    }

    fn advance(&mut self) {
        let n = self.rng.below(self.jobs.len());
        let (uid, from) = (self.jobs[n].uid, self.jobs[n].high_water);
        let minutes = 1 + self.rng.below(3) as i64;
        let at = from.as_second() / 60;
        let to = minute(at + minutes);
        self.now = self.now.max(to);
        let (mut occasions, mut decisions, mut planned) = (Vec::new(), Vec::new(), Vec::new());
        let mut lengthens = serde_json::Value::Null;
        for k in 1..=minutes {
            let p = minute(at + k);
            if self.rng.chance(20) {
                let last = self.dump.decisions.iter_mut().rev();
                let last = last.map(|(of, d)| (*of, d)).find(|(of, _)| *of == uid);
                let last = last.map(|(_, d)| d).filter(|d| k == 1 && d.to == from);
                if let Some(last) = last {
                    (last.to, last.count) = (p, last.count + 1);
                    lengthens = json!({
                        "from": last.from.as_microsecond(), "to": p.as_microsecond(), "count": 1,
                        "reason": "overlap", "reference": "",
                    });
                    continue;
                }
                decisions.push(json!({
                    "from": p.as_microsecond(), "to": p.as_microsecond(), "count": 1,
                    "reason": "overlap", "reference": "",
                }));
                let decision = Decision::single(p, "overlap", String::new());
                self.dump.decisions.push((uid, decision));
            } else {
                let occasion = Occasion::Planned { at: p, rerun: 0 };
                occasions.push(occasion.key());
                planned.push(occasion);
            }
        }
        let job = &mut self.jobs[n];
        job.high_water = to;
        job.ver += 1;
        let ver = job.ver;
        let data = json!({
            "from": from.as_microsecond(), "to": to.as_microsecond(),
            "runs": occasions, "decisions": decisions, "lengthens": lengthens,
        });
        let duty = Some((TRIGGER, self.trigger_term));
        let said = Said {
            from: "live",
            to: "live",
            duty,
            data,
            ..Said::default()
        };
        self.event(Entity::Job(uid), ver, Kind::ScheduleAdvanced, said);
        for occasion in planned {
            self.create_run(n, occasion);
        }
    }

    fn create_run(&mut self, job: usize, occasion: Occasion) {
        let total = 1 + self.rng.below(4) as u32;
        let id = RunId(self.id());
        let uid = self.jobs[job].uid;
        self.jobs[job].active_runs += 1;
        let waits = self.waits(job);
        self.jobs[job].waiting_runs += u32::from(waits.is_some());
        let data = json!({
            "job": uid.to_string(), "occasion": occasion.key(), "revision": 1, "total": total, "plan": false,
            "waits": waits.map(|waits| waits.what.word()), "most": waits.map(|waits| waits.most),
        });
        let terms = RunTerms {
            pool: Name::new("default").expect("a name"),
            handler: "h".into(),
            priority: 0,
            parallelism: 100,
            parameters: "{}".into(),
            counts_must_match: false,
            deadline: None,
            start_by: None,
            uses: sichen_core::capacity::Uses::default(),
        };
        let run = Run {
            id,
            job: uid,
            job_name: self.jobs[job].name.clone(),
            occasion,
            revision: Revision(1),
            period: None,
            nominal: None,
            terms,
            backfill: None,
            waits,
            ready_at: None,
            dead_by: None,
            failures: 0,
            state: RunState::Scheduled,
            round: 1,
            ver: 1,
            counters: Counters {
                total,
                open: total,
                ..Counters::default()
            },
            stop: None,
            stop_detail: String::new(),
            reason: String::new(),
            digest: String::new(),
            created_at: self.now,
            started_at: None,
            ended_at: None,
        };
        self.runs.insert(id, run);
        self.acks.push(Acknowledged::Run(id));
        let duty = Some((TRIGGER, self.trigger_term));
        let said = Said {
            to: "scheduled",
            duty,
            data,
            ..Said::default()
        };
        self.event(Entity::Run(id), 1, Kind::RunCreated, said);
        for no in 0..total {
            let key = ShardKey::new(id, i32::try_from(no).expect("small"));
            let shard = Shard {
                key,
                descriptor: Descriptor::Range {
                    from: i64::from(no) * 10,
                    to: i64::from(no) * 10 + 10,
                },
                state: ShardState::Scheduled,
                ver: 1,
                token: Token(0),
                attempt: 0,
                used: 0,
                takeovers: 0,
                ready_at: self.now,
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
            };
            self.shards.insert(key, shard);
            if waits.is_none() {
                self.waiting.push(key);
            }
        }
        if waits.is_some_and(|waits| waits.what == WaitsFor::Replaced) {
            let open = self
                .runs
                .values()
                .filter(|run| run.job == uid && run.id != id);
            let open = open.filter(|run| !run.state.is_closed());
            let open: Vec<RunId> = open.map(|run| run.id).collect();
            for old in open {
                self.stop_run(old);
            }
        }
    }

    /// A third of the jobs let their runs wait, a third replace those that are open.
    fn waits(&self, job: usize) -> Option<Waits> {
        let active = self.jobs[job].active_runs - 1;
        let (what, most) = match job % 3 {
            1 => (WaitsFor::Queue, 2),
            2 => (WaitsFor::Replaced, 1),
            _ => return None,
        };
        (active >= most).then_some(Waits { what, most })
    }

    /// The turn of those that may run now that one of the job has closed.
    fn release(&mut self, uid: JobUid, after: RunId) {
        loop {
            let job = self.job_of(uid);
            let running = job.active_runs - job.waiting_runs;
            let mut runs = self.runs.values_mut().filter(|run| run.job == uid);
            let waits = |run: &&mut Run| run.waits.is_some() && !run.state.is_closed();
            let Some(run) = runs.find(waits) else {
                return;
            };
            if running >= run.waits.map_or(1, |waits| waits.most) {
                return;
            }
            run.waits = None;
            run.ver += 1;
            let (id, ver) = (run.id, run.ver);
            self.job_of(uid).waiting_runs -= 1;
            let said = Said {
                from: "scheduled",
                to: "scheduled",
                cause: "confirmed",
                data: json!({ "ready_at": 0, "after": after.0 }),
                ..Said::default()
            };
            self.event(Entity::Run(id), ver, Kind::RunReleased, said);
            let shards = self.shards.keys().filter(|key| key.run == id);
            self.waiting.extend(shards);
        }
    }

    fn grant(&mut self) {
        if self.waiting.is_empty() {
            return self.advance();
        }
        let n = self.rng.below(self.waiting.len());
        let key = self.waiting.swap_remove(n);
        let live: Vec<SessionId> = self
            .sessions
            .iter()
            .rev()
            .filter(|s| s.ended.is_none())
            .take(2)
            .map(|s| s.id)
            .collect();
        let session = live[self.rng.below(live.len())];
        let shard = self.shards.get_mut(&key).expect("listed");
        let from = shard.state.word();
        shard.state = ShardState::Running;
        shard.token = Token(shard.token.0 + 1);
        shard.attempt += 1;
        shard.session = Some(session);
        shard.ver += 1;
        let (ver, attempt, token, seq) =
            (shard.ver, shard.attempt, shard.token, shard.checkpoint.seq);
        self.running.push(key);
        let said = Said {
            from,
            to: "running",
            attempt: Some(attempt),
            token: Some(token),
            duty: Some((POOL, self.pool_term)),
            data: json!({ "session": session.0, "checkpoint_seq": seq }),
            ..Said::default()
        };
        self.event(Entity::Shard(key), ver, Kind::AttemptGranted, said);
        self.acks.push(Acknowledged::Started { key, token, seq });
        let run = self.runs.get_mut(&key.run).expect("of a shard");
        if run.state == RunState::Scheduled {
            run.state = RunState::Running;
            run.ver += 1;
            let ver = run.ver;
            let said = Said {
                from: "scheduled",
                to: "running",
                ..Said::default()
            };
            self.event(Entity::Run(key.run), ver, Kind::RunStarted, said);
        }
    }

    fn checkpoint(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let key = self.running[self.rng.below(self.running.len())];
        let step = 1 + self.rng.below(3) as u64;
        let shard = self.shards.get_mut(&key).expect("listed");
        shard.checkpoint.seq += step;
        shard.ver += 1;
        let (ver, seq) = (shard.ver, shard.checkpoint.seq);
        let said = Said {
            from: "running",
            to: "running",
            attempt: Some(shard.attempt),
            token: Some(shard.token),
            data: json!({ "seq": seq, "position": seq.to_string() }),
            ..Said::default()
        };
        self.event(Entity::Shard(key), ver, Kind::CheckpointSaved, said);
        self.acks.push(Acknowledged::Checkpoint { key, seq });
        let shard = self.shards.get_mut(&key).expect("listed");
        if self.recalled.insert((key, shard.token)) {
            shard.ver += 1;
            let (ver, own) = (shard.ver, self.runs[&key.run].terms.priority);
            let said = Said {
                from: "running",
                to: "running",
                attempt: Some(shard.attempt),
                token: Some(shard.token),
                data: json!({ "by": 9, "priority": own + 1, "own": own, "n": 1, "most": 1_000 }),
                ..Said::default()
            };
            self.event(Entity::Shard(key), ver, Kind::AttemptRecalled, said);
        }
    }

    fn end(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let n = self.rng.below(self.running.len());
        let key = self.running.swap_remove(n);
        let stopped = self.runs[&key.run].stop.is_some();
        let (end, to, outside) = match self.rng.below(10) {
            0..6 => ("succeeded", ShardState::Succeeded, false),
            _ if stopped => ("cancelled", ShardState::Cancelled, false),
            6 => ("lost", ShardState::Retry, true),
            7 => ("failed", ShardState::Retry, false),
            8 => ("released", ShardState::Scheduled, false),
            _ => ("failed", ShardState::Failed, false),
        };
        self.end_as(key, end, to, outside);
    }

    fn end_as(&mut self, key: ShardKey, end: &str, to: ShardState, outside: bool) {
        let shard = self.shards.get_mut(&key).expect("listed");
        let held = shard.token;
        shard.state = to;
        shard.session = None;
        shard.ver += 1;
        shard.token = Token(shard.token.0 + u64::from(outside));
        let said = Said {
            from: "running",
            to: to.word(),
            attempt: Some(shard.attempt),
            token: Some(shard.token),
            duty: outside.then_some((POOL, self.pool_term)),
            cause: end,
            data: json!({ "end": end }),
        };
        let ver = shard.ver;
        self.event(Entity::Shard(key), ver, Kind::AttemptEnded, said);
        if !outside {
            self.acks.push(Acknowledged::Finished { key, token: held });
        }
        if to.is_closed() {
            self.closed_shard(key, to);
        } else {
            self.waiting.push(key);
        }
    }

    fn closed_shard(&mut self, key: ShardKey, to: ShardState) {
        let run = self.runs.get_mut(&key.run).expect("of a shard");
        run.counters.open -= 1;
        match to {
            ShardState::Succeeded => run.counters.succeeded += 1,
            ShardState::Failed => run.counters.failed += 1,
            _ => run.counters.cancelled += 1,
        }
        if run.counters.open > 0 {
            return;
        }
        let c = run.counters;
        let outcome = match run.stop {
            Some(_) if c.cancelled > 0 => RunState::Cancelled,
            _ if c.succeeded == c.total => RunState::Succeeded,
            _ if c.succeeded == 0 => RunState::Failed,
            _ => RunState::Partial,
        };
        let from = run.state.word();
        run.state = outcome;
        run.ver += 1;
        let (ver, uid) = (run.ver, run.job);
        let said = Said {
            from,
            to: outcome.word(),
            data: json!({ "counts_match": true }),
            ..Said::default()
        };
        let waited = run.waits.is_some();
        self.event(Entity::Run(key.run), ver, Kind::RunSettled, said);
        self.closed.push(key.run);
        let job = self.job_of(uid);
        job.active_runs -= 1;
        job.waiting_runs -= u32::from(waited);
        self.release(uid, key.run);
    }

    fn job_of(&mut self, uid: JobUid) -> &mut Job {
        self.jobs
            .iter_mut()
            .find(|j| j.uid == uid)
            .expect("of a run")
    }

    fn stop(&mut self) {
        let Some(key) = self.waiting.first().copied() else {
            return;
        };
        self.stop_run(key.run);
    }

    fn stop_run(&mut self, id: RunId) {
        let run = self.runs.get_mut(&id).expect("there");
        if run.stop.is_some() {
            return;
        }
        run.stop = Some((StopCause::Cancel, self.now));
        run.ver += 1;
        let (ver, state) = (run.ver, run.state.word());
        let data = json!({ "stop": "cancel" });
        let said = Said {
            from: state,
            to: state,
            cause: "cancel",
            data,
            ..Said::default()
        };
        self.event(Entity::Run(id), ver, Kind::StopRequested, said);
        self.waiting.retain(|key| key.run != id);
        let of = ShardKey::new(id, 0)..ShardKey::new(RunId(id.0 + 1), 0);
        let open = self.shards.range(of);
        let open = open.filter(|(_, s)| !s.state.is_closed() && s.state != ShardState::Running);
        let mine: Vec<ShardKey> = open.map(|(key, _)| *key).collect();
        for key in mine {
            let shard = self.shards.get_mut(&key).expect("listed");
            let from = shard.state.word();
            shard.state = ShardState::Cancelled;
            shard.ver += 1;
            let (ver, token) = (shard.ver, shard.token);
            let said = Said {
                from,
                to: "cancelled",
                token: Some(token),
                ..Said::default()
            };
            self.event(Entity::Shard(key), ver, Kind::ShardStopped, said);
            self.closed_shard(key, ShardState::Cancelled);
        }
    }

    fn reopen(&mut self) {
        let reopenable =
            |r: &RunId| matches!(self.runs[r].state, RunState::Failed | RunState::Partial);
        let Some(n) = self.closed.iter().position(reopenable) else {
            return;
        };
        let id = self.closed.swap_remove(n);
        let run = self.runs.get_mut(&id).expect("listed");
        let from = run.state.word();
        run.state = RunState::Running;
        run.round += 1;
        run.ver += 1;
        run.stop = None;
        let (ver, round, uid) = (run.ver, run.round, run.job);
        let said = Said {
            from,
            to: "running",
            data: json!({ "round": round }),
            ..Said::default()
        };
        self.event(Entity::Run(id), ver, Kind::RunReopened, said);
        self.job_of(uid).active_runs += 1;
        let keys: Vec<ShardKey> = self
            .shards
            .range(ShardKey::new(id, 0)..ShardKey::new(RunId(id.0 + 1), 0))
            .filter(|(_, s)| matches!(s.state, ShardState::Failed | ShardState::Cancelled))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            let shard = self.shards.get_mut(&key).expect("listed");
            let (from, failed) = (shard.state.word(), shard.state == ShardState::Failed);
            shard.state = ShardState::Scheduled;
            shard.ver += 1;
            let (ver, token) = (shard.ver, shard.token);
            let counters = &mut self.runs.get_mut(&id).expect("listed").counters;
            counters.open += 1;
            counters.failed -= u32::from(failed);
            counters.cancelled -= u32::from(!failed);
            let said = Said {
                from,
                to: "scheduled",
                token: Some(token),
                ..Said::default()
            };
            self.event(Entity::Shard(key), ver, Kind::ShardReopened, said);
            self.waiting.push(key);
        }
    }

    fn refuse(&mut self) {
        let Some(key) = self.running.first().copied() else {
            return;
        };
        let token = Token(self.shards[&key].token.0 - 1);
        let said = Said {
            from: "running",
            to: "running",
            token: Some(token),
            cause: "stale",
            ..Said::default()
        };
        self.event(Entity::Shard(key), 0, Kind::ReportRefused, said);
    }

    /// A worker dies and another registers; what it held is taken back.
    fn swap_session(&mut self) {
        self.register();
        let Some(n) = self.sessions.iter().position(|s| s.ended.is_none()) else {
            return;
        };
        let id = self.sessions[n].id;
        self.sessions[n].ended = Some((self.now, "expired".into()));
        self.sessions[n].ver = 2;
        let duty = Some((POOL, self.pool_term));
        let said = Said {
            from: "live",
            to: "ended",
            cause: "expired",
            duty,
            ..Said::default()
        };
        self.event(Entity::Session(id), 2, Kind::SessionEnded, said);
        let held = |k: &ShardKey| self.shards[k].session == Some(id);
        let (mine, rest) = self.running.iter().partition(|k| held(k));
        self.running = rest;
        let mine: Vec<ShardKey> = mine;
        for key in mine {
            let stopped = self.runs[&key.run].stop.is_some();
            let to = if stopped {
                ShardState::Cancelled
            } else {
                ShardState::Retry
            };
            self.end_as(key, "lost", to, true);
        }
    }

    fn come_to_rest(&mut self) {
        while let Some(key) = self.running.pop() {
            self.end_as(key, "succeeded", ShardState::Succeeded, false);
        }
        while !self.waiting.is_empty() {
            self.grant();
            let key = self.running.pop().expect("just granted");
            self.end_as(key, "succeeded", ShardState::Succeeded, false);
        }
    }

    fn finish(mut self) -> History {
        let duty = |key: &str, term: u64| Duty {
            key: DutyKey::parse(key).expect("a duty"),
            term: Term(term),
            node: Some(NodeId(term)),
        };
        self.dump.duties = vec![duty(TRIGGER, self.trigger_term), duty(POOL, self.pool_term)];
        // Of every other job of which none waits nothing is counted.
        for job in self.jobs.iter_mut().skip(1).step_by(2) {
            if job.waiting_runs == 0 && job.chain.is_none() {
                (job.counting, job.active_runs) = (Counting::Never, 0);
            }
        }
        self.dump.jobs = self.jobs;
        self.dump.runs = self.runs.into_values().collect();
        self.dump.shards = self.shards.into_values().collect();
        self.dump.sessions = self.sessions;
        History {
            dump: self.dump,
            acks: self.acks,
        }
    }
}
