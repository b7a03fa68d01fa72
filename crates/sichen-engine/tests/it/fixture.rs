//! Nodes on one memory store under one clock that only tests move.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use sichen_core::document::{Calendars, Document};
use sichen_core::document::{Request, new_run};
use sichen_core::ids::{JobUid, Occasion, OpId, Revision, RunId, SessionId, ShardKey, Token};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{Appearance, Run, Shard, WorkerIdentity};
use sichen_core::name::Name;
use sichen_core::place::Offer;
use sichen_core::port::{ApplyJob, ApplyVerdict, CreateVerdict, Op, Page, Returned, Store};
use sichen_core::schedule::zones::Zones;
use sichen_engine::context::IdSource;
use sichen_engine::courier::{Courier, ToWorker};
use sichen_engine::driver::{Engine, Settings};
use sichen_engine::sessions::{Beat, BeatAnswer, Hello, HelloAnswer, Report, ReportVerdict};
use sichen_engine::work::Work;
use sichen_store::clock::ManualClock;
use sichen_store::memory::MemoryStore;
use uuid::Uuid;

/// 2026-03-01T00:00:00Z.
pub fn start() -> Timestamp {
    "2026-03-01T00:00:00Z".parse().unwrap()
}

/// Ids that count up.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl IdSource for Counter {
    fn uuid(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::SeqCst)) + 1)
    }
}

/// Keeps what was delivered, by session.
#[derive(Default)]
pub struct Mailboxes {
    boxes: Mutex<BTreeMap<SessionId, Vec<ToWorker>>>,
}

impl Courier for Mailboxes {
    fn deliver(&self, session: SessionId, message: ToWorker) -> bool {
        self.boxes
            .lock()
            .unwrap()
            .entry(session)
            .or_default()
            .push(message);
        true
    }
}

/// One store, one clock, any number of nodes.
pub struct Cluster {
    pub clock: Arc<ManualClock>,
    pub store: Arc<dyn Store>,
    pub ids: Arc<Counter>,
}

pub struct Node {
    pub engine: Engine,
    pub mail: Arc<Mailboxes>,
}

impl Cluster {
    pub fn new() -> Self {
        let clock = Arc::new(ManualClock::new(start()));
        let store = Arc::new(MemoryStore::new(clock.clone()));
        Self {
            clock,
            store,
            ids: Arc::default(),
        }
    }

    pub fn node(&self, address: &str) -> Node {
        let mail = Arc::new(Mailboxes::default());
        let settings = Settings::new(address.to_owned());
        let engine = Engine::new(self.store.clone(), self.ids.clone(), mail.clone(), settings);
        Node { engine, mail }
    }

    pub fn now(&self) -> Timestamp {
        block_on(self.store.now()).unwrap()
    }

    pub fn op(&self) -> Op {
        Op {
            id: OpId(self.ids.uuid()),
            actor: "user test".to_owned(),
            hold: None,
        }
    }

    pub fn pass(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    /// Applies a job whose spec is `spec` (JSON); returns its uid.
    pub fn apply(&self, name: &str, spec: serde_json::Value) -> JobUid {
        self.apply_in(name, spec, None)
    }

    /// The same of a job whose zones were taken for these.
    pub fn apply_in(&self, name: &str, spec: serde_json::Value, zones: Option<Zones>) -> JobUid {
        let document = document(name, spec);
        let problems = sichen_core::document::check(&document);
        assert!(problems.is_empty(), "{problems:?}");
        let uid = JobUid(self.ids.uuid());
        let now = self.now();
        let timing = document.timing(uid, &Calendars::default()).unwrap();
        let next_due = timing.next(now);
        let job = ApplyJob {
            zones,
            name: document.job_name().unwrap(),
            new_uid: uid,
            expected_ver: None,
            document: serde_json::to_string(&document).unwrap(),
            high_water: now,
            next_due,
            follow: timing.follow(),
            counted: timing.counts_runs(),
            closing: None,
            calendars: Vec::new(),
            uses: sichen_core::capacity::Uses::default(),
            cause: String::new(),
        };
        match block_on(self.store.apply_job(self.op(), job)).unwrap() {
            ApplyVerdict::Created(uid) => uid,
            other => panic!("{other:?}"),
        }
    }

    /// Writes a manual run of the job.
    pub fn run(&self, job: JobUid, key: &str) -> RunId {
        let row = block_on(self.store.get_job_by_uid(job)).unwrap().unwrap();
        let document: Document = serde_json::from_str(&row.document).unwrap();
        let request = Request {
            job,
            revision: Revision(row.revision.0),
            occasion: Occasion::Manual {
                key: key.to_owned(),
            },
            period: None,
            parameters: serde_json::Map::new(),
            digest: String::new(),
        };
        let run = new_run(&document, request, self.now()).unwrap();
        match block_on(self.store.create_runs(self.op(), vec![], vec![run]))
            .unwrap()
            .pop()
        {
            Some(CreateVerdict::Created(id, _)) => id,
            other => panic!("{other:?}"),
        }
    }

    pub fn get(&self, run: RunId) -> Run {
        block_on(self.store.get_run(run)).unwrap().unwrap().0
    }

    pub fn shards(&self, run: RunId) -> Vec<Shard> {
        block_on(self.store.list_shards(
            run,
            Page {
                after: None,
                limit: 1000,
            },
        ))
        .unwrap()
    }

    pub fn shard(&self, key: ShardKey) -> Shard {
        block_on(self.store.get_shards(vec![key]))
            .unwrap()
            .pop()
            .unwrap()
            .shard
    }
}

/// A job `name` or `namespace/name`.
pub fn document(name: &str, spec: serde_json::Value) -> Document {
    let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
    serde_json::from_value(serde_json::json!({
        "apiVersion": "sichen/v1", "kind": "Job",
        "metadata": { "namespace": namespace, "name": name }, "spec": spec,
    }))
    .unwrap()
}

pub fn pool() -> Name {
    Name::new("default").unwrap()
}

/// Each worker that a test makes has started later than those before it.
static STARTS: AtomicU64 = AtomicU64::new(1);

pub fn hello(name: &str, incarnation: &str, slots: u32) -> Hello {
    Hello {
        worker: WorkerIdentity {
            name: Name::new(name).unwrap(),
            uid: format!("uid-{name}"),
            boot_id: "boot".to_owned(),
            incarnation: incarnation.to_owned(),
        },
        appearance: Appearance {
            start: STARTS.fetch_add(1, Ordering::Relaxed),
            registration: 1,
        },
        pool: pool(),
        slots,
        handlers: vec!["h".to_owned(), "data-source/ledger".to_owned()],
        offer: Offer::default(),
        draining: false,
        resume: None,
        running: vec![],
        highest_grant_seen: 0,
        journal: vec![],
        dead: vec![],
        old_trees_dead: true,
    }
}

pub fn report(key: ShardKey, token: Token, ending: Ending) -> Report {
    let digest = format!("{ending:?}");
    Report {
        key,
        token,
        ending,
        digest,
        failure: None,
        progress: None,
        plan: None,
        run_key: "a:manual:key".to_owned(),
        returned: Returned::Nothing,
    }
}

impl Node {
    pub fn coordinate(&self, cluster: &Cluster) {
        block_on(self.engine.coordinator.run_once(cluster.now())).unwrap();
    }

    pub fn register(&self, cluster: &Cluster, hello: Hello) -> SessionId {
        match block_on(self.engine.sessions.hello(hello, cluster.now())).unwrap() {
            HelloAnswer::Welcome { session, .. } => session,
            other => panic!("{other:?}"),
        }
    }

    /// A worker with `slots` that offers `h`.
    pub fn worker(&self, cluster: &Cluster, name: &str, slots: u32) -> SessionId {
        self.register(cluster, hello(name, "first", slots))
    }

    pub fn dispatch(&self, cluster: &Cluster) -> usize {
        block_on(self.engine.dispatcher.run_once(cluster.now()))
            .unwrap()
            .granted
    }

    pub fn reap(&self, cluster: &Cluster) -> usize {
        block_on(self.engine.reaper.run_once(cluster.now())).unwrap()
    }

    pub fn trigger(&self, cluster: &Cluster) -> sichen_engine::trigger::Pass {
        block_on(self.engine.trigger.run_once(cluster.now())).unwrap()
    }

    /// The grants delivered to a session since the last call.
    pub fn grants(&self, session: SessionId) -> Vec<Work> {
        let messages = self
            .mail
            .boxes
            .lock()
            .unwrap()
            .remove(&session)
            .unwrap_or_default();
        let grants = messages.into_iter().map(|m| match m {
            ToWorker::Grant(work) => *work,
            other => panic!("{other:?}"),
        });
        grants.collect()
    }

    pub fn messages(&self, session: SessionId) -> Vec<ToWorker> {
        self.mail
            .boxes
            .lock()
            .unwrap()
            .remove(&session)
            .unwrap_or_default()
    }

    pub fn report(&self, cluster: &Cluster, report: Report) -> ReportVerdict {
        let _ = cluster;
        block_on(self.engine.sessions.report("worker test", vec![report]))
            .pop()
            .unwrap()
    }

    pub fn beat(&self, session: SessionId, running: &[(ShardKey, Token)], seen: u64) -> BeatAnswer {
        let beat = Beat {
            session,
            running: running.to_vec(),
            highest_grant_seen: seen,
        };
        block_on(self.engine.sessions.beat(beat)).unwrap()
    }
}
