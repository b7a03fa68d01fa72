//! A store under test, with a clock that is moved by hand and short words for what tests do often.

use std::cell::Cell;
use std::sync::Arc;

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use sichen_core::capacity::Uses;
use sichen_core::ids::{
    JobUid, NodeId, Occasion, OpId, Revision, RunId, SessionId, ShardKey, Token,
};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::{Ending, Facts, Transition, on_end};
use sichen_core::lifecycle::{RunState, ShardState, StopCause};
use sichen_core::model::{
    Appearance, Checkpoint, Dump, DutyKey, Failure, Job, Progress, Run, RunTerms, Shard,
    WorkerIdentity, partition_of,
};
use sichen_core::name::{JobName, Name};
use sichen_core::port::{
    Advance, Answer, ApplyJob, ApplyVerdict, CreateVerdict, Fence, Finish, FinishVerdict, Grant,
    GrantRefused, GrantVerdict, Granted, NewRun, Op, Page, Reap, Register, RegisterVerdict,
    Registered, Returned, Said, SaveCheckpoint, Store,
};
use sichen_core::retry::{Backoff, Policy};
use sichen_core::schedule::Nominal;
use sichen_core::timeouts::Timeouts;
use sichen_store::clock::ManualClock;
use uuid::Uuid;

/// The pool that tests use.
pub const POOL: &str = "default";
/// How long sessions and nodes of tests live without a beat.
pub const TTL: SignedDuration = SignedDuration::from_secs(15);

/// Waits for an answer that must not be an error.
pub fn wait<T>(answer: Answer<'_, T>) -> T {
    block_on(answer).expect("the store works")
}

/// The instant `s` seconds after the tests' beginning of time.
pub fn at(s: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + s).expect("within jiff's range")
}

pub fn name(text: &str) -> Name {
    Name::new(text).expect("a good name")
}

pub fn pool_key() -> DutyKey {
    DutyKey::Pool(name(POOL))
}

/// Three attempts, 10 s apart.
pub fn policy() -> Policy {
    Policy {
        max_attempts: 3,
        max_failures: None,
        backoff: Backoff::Fixed {
            delay: SignedDuration::from_secs(10),
        },
        rules: Vec::new(),
    }
}

pub fn terms() -> RunTerms {
    RunTerms {
        pool: name(POOL),
        handler: "work".to_owned(),
        priority: 0,
        parallelism: 1_000,
        parameters: "{}".to_owned(),
        counts_must_match: false,
        deadline: None,
        start_by: None,
        uses: Uses::default(),
    }
}

pub fn nominal() -> Nominal {
    Nominal {
        civil: jiff::civil::datetime(2026, 3, 29, 2, 30, 0, 0),
        zone: "Europe/Berlin".to_owned(),
        zone_data: "2026a".to_owned(),
        first_day: jiff::civil::date(2026, 3, 28),
        end_day: jiff::civil::date(2026, 3, 29),
        covers: 3,
    }
}

pub struct Bench {
    pub store: Arc<dyn Store>,
    pub clock: Arc<ManualClock>,
    ops: Cell<u128>,
}

impl Bench {
    pub fn new(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        Self {
            store,
            clock,
            ops: Cell::new(0),
        }
    }

    pub fn op(&self) -> Op {
        self.ops.set(self.ops.get() + 1);
        Op {
            id: OpId(Uuid::from_u128(self.ops.get())),
            actor: "test".to_owned(),
            hold: None,
        }
    }

    pub fn pass(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    pub fn now(&self) -> Timestamp {
        wait(self.store.now())
    }

    pub fn dump(&self) -> Dump {
        wait(self.store.dump())
    }

    // -- duties --

    pub fn node(&self) -> NodeId {
        wait(self.store.register_node(
            self.op(),
            "127.0.0.1:1".to_owned(),
            SignedDuration::from_hours(9),
        ))
    }

    pub fn fence(&self, key: DutyKey) -> Fence {
        let node = self.node();
        let mut owned = wait(self.store.claim_duties(self.op(), node, vec![key]));
        owned.pop().expect("the duty is free")
    }

    pub fn pool(&self) -> Fence {
        self.fence(pool_key())
    }

    pub fn trigger(&self, job: JobUid) -> Fence {
        self.fence(DutyKey::Trigger(partition_of(job)))
    }

    /// Another node takes the duty over, so that `fence` is of the past.
    pub fn take_over(&self, fence: &Fence) -> Fence {
        wait(self.store.release_duties(self.op(), vec![fence.clone()]));
        self.fence(fence.key.clone())
    }

    // -- jobs --

    pub fn new_job(&self, text: &str) -> ApplyJob {
        let uid = self.op().id.0;
        ApplyJob {
            zones: None,
            name: JobName {
                namespace: name("default"),
                name: name(text),
            },
            new_uid: JobUid(uid),
            expected_ver: None,
            document: format!("{{\"job\":\"{text}\"}}"),
            high_water: self.now(),
            next_due: None,
            follow: None,
            counted: true,
            closing: None,
            calendars: Vec::new(),
            uses: Uses::default(),
            cause: String::new(),
        }
    }

    /// A job whose runs nothing counts.
    pub fn free_job(&self, text: &str) -> JobUid {
        let new = ApplyJob {
            counted: false,
            ..self.new_job(text)
        };
        match wait(self.store.apply_job(self.op(), new)) {
            ApplyVerdict::Created(uid) => uid,
            other => panic!("job {text}: {other:?}"),
        }
    }

    pub fn job(&self, text: &str) -> JobUid {
        match wait(self.store.apply_job(self.op(), self.new_job(text))) {
            ApplyVerdict::Created(uid) => uid,
            other => panic!("job {text}: {other:?}"),
        }
    }

    pub fn job_in(&self, namespace: &str, text: &str) -> JobUid {
        let mut new = self.new_job(text);
        new.name.namespace = name(namespace);
        match wait(self.store.apply_job(self.op(), new)) {
            ApplyVerdict::Created(uid) => uid,
            other => panic!("job {text}: {other:?}"),
        }
    }

    pub fn get_job(&self, uid: JobUid) -> Job {
        wait(self.store.get_job_by_uid(uid)).expect("the job exists")
    }

    /// A step of the job's schedule from where it stands to `to`, with nothing in between.
    pub fn step(&self, uid: JobUid, to: Timestamp) -> Advance {
        let job = self.get_job(uid);
        Advance {
            zones: None,
            job: uid,
            revision: job.revision,
            from: job.high_water,
            to,
            next_due: Some(to + SignedDuration::from_secs(60)),
            pending: job.pending(),
            counted: None,
            runs: Vec::new(),
            lengthens: None,
            decisions: Vec::new(),
        }
    }

    // -- runs --

    pub fn new_run(&self, job: JobUid, key: &str, shards: Vec<Descriptor>) -> NewRun {
        NewRun {
            job,
            occasion: Occasion::Manual {
                key: key.to_owned(),
            },
            revision: wait(self.store.get_job_by_uid(job)).map_or(Revision(1), |job| job.revision),
            period: None,
            nominal: None,
            terms: terms(),
            shards: shards.into(),
            ready_at: self.now(),
            backfill: None,
            waits: None,
            counted: None,
            digest: "digest".to_owned(),
            born_leased: None,
            timeouts: Timeouts::default(),
        }
    }

    pub fn planned_run(&self, job: JobUid, at: Timestamp) -> NewRun {
        let occasion = Occasion::Planned { at, rerun: 0 };
        NewRun {
            occasion,
            ..self.new_run(job, "", vec![Descriptor::Whole])
        }
    }

    pub fn create(&self, run: NewRun) -> RunId {
        match wait(self.store.create_runs(self.op(), vec![], vec![run])).remove(0) {
            CreateVerdict::Created(id, None) => id,
            other => panic!("{other:?}"),
        }
    }

    /// A run with `n` shards of a new job.
    pub fn run_of(&self, n: usize) -> RunId {
        let job = self.job(&format!("job-{}", self.ops.get()));
        self.create(self.new_run(job, "key", vec![Descriptor::Index; n]))
    }

    pub fn run(&self, id: RunId) -> Run {
        wait(self.store.get_run(id)).expect("the run exists").0
    }

    pub fn shard(&self, key: ShardKey) -> Shard {
        wait(self.store.get_shards(vec![key]))
            .pop()
            .expect("the shard exists")
            .shard
    }

    pub fn states(&self, run: RunId) -> Vec<ShardState> {
        let page = Page {
            after: None,
            limit: 1_000,
        };
        wait(self.store.list_shards(run, page))
            .into_iter()
            .map(|s| s.state)
            .collect()
    }

    pub fn stop(&self, run: RunId, cause: StopCause) -> sichen_core::port::RequestVerdict {
        wait(self.store.request_stop(self.op(), None, run, cause))
    }

    // -- sessions --

    pub fn worker(&self, text: &str, slots: u32) -> Register {
        Register {
            worker: WorkerIdentity {
                name: name(text),
                uid: format!("uid-{text}"),
                boot_id: "boot-1".to_owned(),
                incarnation: format!("start-{}", self.ops.get()),
            },
            appearance: Appearance {
                start: u64::try_from(self.ops.get()).unwrap() + 1,
                registration: 1,
            },
            pool: name(POOL),
            slots,
            handlers: vec!["work".to_owned()],
            offer: sichen_core::place::Offer::default(),
            ttl: TTL,
            old_trees_dead: false,
        }
    }

    pub fn register(&self, register: Register) -> Registered {
        match self.try_register(register) {
            RegisterVerdict::Registered(registered) => registered,
            outdated @ RegisterVerdict::Outdated { .. } => panic!("{outdated:?}"),
        }
    }

    pub fn try_register(&self, register: Register) -> RegisterVerdict {
        wait(self.store.register_session(self.op(), register))
    }

    pub fn session(&self, slots: u32) -> SessionId {
        let worker = self.worker(&format!("w{}", self.ops.get()), slots);
        self.register(worker).session
    }

    pub fn beat(&self, session: SessionId) {
        wait(self.store.renew_sessions(vec![session], TTL));
    }

    // -- leases --

    pub fn grant(&self, key: ShardKey, session: SessionId) -> Grant {
        let token = wait(self.store.get_shards(vec![key]))
            .pop()
            .map_or(Token(0), |f| f.shard.token);
        Grant {
            key,
            token,
            session,
            timeouts: Timeouts::default(),
            most_of_job: None,
        }
    }

    pub fn lease_all(&self, fence: &Fence, grants: Vec<Grant>) -> Vec<GrantVerdict> {
        wait(self.store.lease_shards(self.op(), fence.clone(), grants))
    }

    pub fn try_lease(
        &self,
        fence: &Fence,
        key: ShardKey,
        session: SessionId,
    ) -> Result<Granted, GrantRefused> {
        match self
            .lease_all(fence, vec![self.grant(key, session)])
            .remove(0)
        {
            GrantVerdict::Granted(granted, _) => Ok(*granted),
            GrantVerdict::Refused(refused) => Err(refused),
        }
    }

    pub fn lease(&self, fence: &Fence, key: ShardKey, session: SessionId) -> Granted {
        self.try_lease(fence, key, session)
            .expect("the shard can be granted")
    }

    /// What the rules make of the end of the shard's present attempt.
    pub fn decide(&self, key: ShardKey, ending: Ending) -> Transition {
        let facts = wait(self.store.get_shards(vec![key]))
            .pop()
            .expect("the shard exists");
        decide(
            &facts.shard,
            facts.run.stop.map(|(cause, _)| cause),
            facts.run.terms.deadline,
            ending,
            self.now(),
        )
        .unwrap_or(Transition::SUCCESS)
    }

    pub fn report(&self, key: ShardKey, token: Token, ending: Ending) -> Finish {
        Finish {
            by: None,
            author: None,
            key,
            token,
            transition: self.decide(key, ending),
            digest: format!("{ending:?}"),
            progress: None,
            failure: (ending != Ending::Succeeded).then(|| Failure {
                code: "exit-1".to_owned(),
                message: "it went wrong".to_owned(),
            }),
            expand: None,
            said: Said {
                run_key: "a:manual:key".to_owned(),
                end: ending.attempt_end(),
                returned: Returned::of(br#"{"rows": 9}"#),
            },
        }
    }

    pub fn finish(&self, report: Finish) -> FinishVerdict {
        wait(self.store.finish_attempts(self.op(), vec![report])).remove(0)
    }

    /// Grants the shard and ends its attempt.
    pub fn attempt(
        &self,
        fence: &Fence,
        key: ShardKey,
        session: SessionId,
        ending: Ending,
    ) -> Option<RunState> {
        let token = self.lease(fence, key, session).shard.token;
        match self.finish(self.report(key, token, ending)) {
            FinishVerdict::Accepted(outcome) => outcome,
            other => panic!("{key} {ending:?}: {other:?}"),
        }
    }

    pub fn checkpoint(&self, shard: &Shard, seq: u64) -> SaveCheckpoint {
        SaveCheckpoint {
            key: shard.key,
            token: shard.token,
            session: shard.session.unwrap_or(SessionId(0)),
            checkpoint: Some(Checkpoint {
                seq,
                position: format!("row {seq}"),
            }),
            progress: Progress {
                done: seq * 10,
                ..Progress::default()
            },
            idle: SignedDuration::ZERO,
        }
    }

    pub fn reaping(&self, key: ShardKey, token: Token) -> Reap {
        Reap {
            key,
            token,
            transition: self.decide(key, Ending::Lost),
            failure: Failure {
                code: "session_expired".to_owned(),
                message: String::new(),
            },
            only_if_session_over: true,
            dead_by: None,
        }
    }
}

pub fn decide(
    shard: &Shard,
    stop: Option<StopCause>,
    deadline: Option<Timestamp>,
    ending: Ending,
    now: Timestamp,
) -> Option<Transition> {
    let facts = Facts {
        key: shard.key,
        state: shard.state,
        token: shard.token,
        used: shard.used,
        stop,
        deadline,
    };
    on_end(&facts, shard.token, ending, "", &policy(), now).ok()
}
