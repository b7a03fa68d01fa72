//! The cluster: one queue of events, one clock, one thread.
//!
//! Phases: everything may fail; then heal, with nothing failing any more; then the schedules are
//! paused and the cluster comes to rest; then the history is judged.
//!
//! # Invariants
//! - What happens depends on [`Options`] alone: ordered maps, one generator, no clock, no thread.
//! - An event of a host that stands still waits until it goes on; one of a dead process is dropped.
//!
//! # Not here
//! Servers ([`node`]), workers ([`host`]), faults ([`nemesis`]), the judgement ([`end`]).

mod end;
mod host;
mod nemesis;
mod node;
mod past;
mod shared;
mod woken;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use jiff::{SignedDuration, Timestamp};
use sichen_check::Acknowledged;
use sichen_core::beacon::Hint;
use sichen_core::document::{Calendars, Document, Request, new_run};
use sichen_core::ids::{JobUid, Occasion, OpId, RunId, ShardKey};
use sichen_core::lifecycle::{RunState, StopCause};
use sichen_core::name::JobName;
use sichen_core::port::{
    ApplyJob, CreateVerdict, Discard, Op, Page, RequestVerdict, RunFilter, Store,
};
use sichen_engine::context::IdSource;
use sichen_proto::v1::server_message::Message as Down;
use sichen_proto::v1::worker_message::Message as Up;
use sichen_sdk::session::{JournalOp, Lease};
use sichen_store::clock::ManualClock;
use sichen_store::memory::MemoryStore;
use sichen_store::sqlite::SqliteStore;
use uuid::Uuid;

use crate::air::Air;
use crate::edge::Conn;
use crate::options::Options;
use crate::rng::Rng;
use crate::store::Gate;
use crate::trace::Trace;
use crate::user::UserStore;

pub use end::Outcome;
pub use nemesis::FAULTS;
pub(crate) use nemesis::Fault;
pub(crate) use node::Duty;

/// Where simulated time begins.
const START_SECS: i64 = 1_800_000_000;
/// Calm after the heal, before the schedules are paused.
const HOLD_US: i64 = 30_000_000;
/// Open runs on which nobody starts or ends anything for so long are stuck.
const STUCK_US: i64 = 90_000_000;
/// The longest way to rest after the pause, whatever moves.
const REST_US: i64 = 1_800_000_000;

/// Something that will happen.
#[derive(Debug)]
pub(crate) enum Ev {
    Poll(u64),
    Duty {
        server: usize,
        life: u64,
        duty: Duty,
        at: i64,
    },
    Up {
        conn: Conn,
        message: Up,
    },
    Down {
        conn: Conn,
        message: Down,
    },
    ServerClosed(Conn),
    WorkerClosed(Conn),
    Dial {
        worker: usize,
        life: u64,
        address: Option<String>,
    },
    Dialed {
        worker: usize,
        life: u64,
        conn: Option<Conn>,
    },
    Tick {
        worker: usize,
        life: u64,
        at: i64,
    },
    Journal {
        worker: usize,
        life: u64,
        op: JournalOp,
    },
    Handler {
        worker: usize,
        life: u64,
        lease: Lease,
        step: host::Step,
    },
    Stopped {
        worker: usize,
        life: u64,
        lease: Lease,
    },
    StartServer(usize),
    StartWorker(usize),
    ThawServer(usize, u64),
    ThawWorker(usize, u64),
    Uncut(usize),
    Hears(usize),
    SignBack(usize),
    Hint(usize, Hint),
    Unblock(usize, usize),
    Fault(Fault),
    Client,
    Share,
    Heal,
    Pause,
    Rest,
}

/// Whose event it is: it waits while that host stands still.
enum Host {
    Server(usize),
    Worker(usize),
    Nobody,
}

#[derive(Debug, Default)]
struct Ids(AtomicU64);

impl Ids {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl IdSource for Ids {
    fn uuid(&self) -> Uuid {
        // Version 7 and the variant's bits, so that it looks like any other id.
        Uuid::from_u128((0x7u128 << 76) | (0x8u128 << 60) | u128::from(self.next()))
    }
}

/// An activity that waits for the store now and then: a duty's pass, a message being served.
struct Activity {
    server: usize,
    life: u64,
    future: Pin<Box<dyn Future<Output = node::Done>>>,
}

/// A simulated cluster.
pub struct Sim {
    options: Options,
    rng: Rng,
    /// Of what jobs share ([`shared`]).
    sharing: Rng,
    /// Of who asks whom for slots: drawn apart, too.
    preempting: Rng,
    now: i64,
    queue: BTreeMap<(i64, u64), Ev>,
    order: u64,
    trace: Trace,
    events: u64,
    gate: Arc<Mutex<Gate>>,
    air: Arc<Air>,
    clock: Arc<ManualClock>,
    store: Arc<dyn Store>,
    ids: Arc<Ids>,
    servers: Vec<node::Server>,
    workers: Vec<host::Worker>,
    wires: BTreeMap<Conn, node::Wire>,
    next_conn: Conn,
    activities: BTreeMap<u64, Activity>,
    next_activity: u64,
    woken: woken::Woken,
    /// (worker, server) pairs whose messages upward, and downward, do not arrive.
    /// By the number of the fault that blocks them.
    blocked_up: BTreeMap<(usize, usize), u64>,
    blocked_down: BTreeMap<(usize, usize), u64>,
    user: UserStore,
    started: BTreeMap<Lease, i64>,
    periods: BTreeMap<JobUid, i64>,
    acks: Vec<Acknowledged>,
    /// Faults that took hold of something, by kind.
    faults: BTreeMap<&'static str, u64>,
    /// Those that have not yet, by their number, and of how much they must.
    pending: BTreeMap<u64, (Fault, usize)>,
    next_fault: u64,
    /// Faults that hit something, by what they hit.
    hits: BTreeMap<&'static str, u64>,
    problems: Vec<String>,
    healed: bool,
    rest_by: Option<i64>,
    /// Acknowledgements so far, and when there was last a new one.
    progress: (usize, i64),
    over: bool,
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sim")
            .field("options", &self.options)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// Runs the cluster of `options` to its end. `keep` the trace's lines for a report.
#[must_use]
pub fn run(options: Options, keep: bool) -> Outcome {
    let mut sim = Sim::new(options, keep);
    while !sim.over {
        let Some(((at, _), event)) = sim.queue.pop_first() else {
            break;
        };
        sim.set_now(at);
        sim.events += 1;
        sim.trace.line(at, &event);
        sim.happen(event);
    }
    sim.judge()
}

impl Sim {
    fn new(options: Options, keep: bool) -> Self {
        let mut rng = Rng::new(options.seed);
        let mut gate = Gate::new(Rng::new(rng.draw()));
        gate.lost_commits = options.lost_commits;
        let clock = Arc::new(ManualClock::new(instant(0)));
        let store: Arc<dyn Store> = if options.sqlite {
            Arc::new(SqliteStore::open_in_memory(clock.clone()).expect("memory is there"))
        } else {
            Arc::new(MemoryStore::new(clock.clone()))
        };
        let mut sim = Self {
            rng,
            sharing: Rng::new(options.seed ^ 0x5ba2_ed00),
            preempting: Rng::new(options.seed ^ 0x09ee_0a5c),
            now: 0,
            queue: BTreeMap::new(),
            order: 0,
            trace: Trace::new(keep),
            events: 0,
            gate: Arc::new(Mutex::new(gate)),
            air: Arc::default(),
            clock,
            store,
            ids: Arc::default(),
            servers: Vec::new(),
            workers: Vec::new(),
            wires: BTreeMap::new(),
            next_conn: 1,
            activities: BTreeMap::new(),
            next_activity: 1,
            woken: woken::Woken::default(),
            blocked_up: BTreeMap::new(),
            blocked_down: BTreeMap::new(),
            user: UserStore::default(),
            started: BTreeMap::new(),
            periods: BTreeMap::new(),
            acks: Vec::new(),
            faults: BTreeMap::new(),
            pending: BTreeMap::new(),
            next_fault: 1,
            hits: BTreeMap::new(),
            problems: Vec::new(),
            healed: false,
            rest_by: None,
            progress: (0, 0),
            over: false,
            options,
        };
        for n in 0..sim.options.servers {
            sim.servers.push(node::Server::default());
            sim.start_server(n);
        }
        for n in 0..sim.options.workers {
            let worker = host::Worker::new(n, &sim.options, &mut sim.rng);
            sim.workers.push(worker);
            let at = sim.rng.between(0, 500_000);
            sim.push_at(at, Ev::StartWorker(n));
        }
        sim.begin_sharing();
        for n in 0..sim.options.jobs {
            sim.create_job(n);
        }
        sim.create_checking_job();
        sim.push_in(3_000_000, Ev::Client);
        sim.plan_faults();
        let heal = sim.options.unsafe_secs * 1_000_000;
        sim.push_at(heal, Ev::Heal);
        sim.push_at(heal + HOLD_US, Ev::Pause);
        sim
    }

    fn set_now(&mut self, at: i64) {
        self.now = at;
        self.clock.set(instant(at));
        self.gate().now_us = at;
    }

    fn gate(&self) -> std::sync::MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push_at(&mut self, at: i64, event: Ev) {
        self.order += 1;
        self.queue.insert((at.max(self.now), self.order), event);
    }

    fn push_in(&mut self, wait_us: i64, event: Ev) {
        self.push_at(self.now + wait_us, event);
    }

    fn host_of(&self, event: &Ev) -> Host {
        let wire = |conn: &Conn| self.wires.get(conn);
        match event {
            Ev::Poll(id) => self
                .activities
                .get(id)
                .map_or(Host::Nobody, |a| Host::Server(a.server)),
            Ev::Duty { server, .. } | Ev::Hint(server, _) => Host::Server(*server),
            Ev::Up { conn, .. } | Ev::ServerClosed(conn) => {
                wire(conn).map_or(Host::Nobody, |w| Host::Server(w.server))
            }
            Ev::Down { conn, .. } | Ev::WorkerClosed(conn) => {
                wire(conn).map_or(Host::Nobody, |w| Host::Worker(w.worker))
            }
            Ev::Dial { worker, .. }
            | Ev::Dialed { worker, .. }
            | Ev::Tick { worker, .. }
            | Ev::Journal { worker, .. }
            | Ev::Handler { worker, .. }
            | Ev::Stopped { worker, .. } => Host::Worker(*worker),
            Ev::StartServer(_)
            | Ev::StartWorker(_)
            | Ev::ThawServer(..)
            | Ev::ThawWorker(..)
            | Ev::Uncut(_)
            | Ev::Hears(_)
            | Ev::SignBack(_)
            | Ev::Unblock(..)
            | Ev::Fault(_)
            | Ev::Client
            | Ev::Share
            | Ev::Heal
            | Ev::Pause
            | Ev::Rest => Host::Nobody,
        }
    }

    fn happen(&mut self, event: Ev) {
        match self.host_of(&event) {
            Host::Server(n) if self.servers[n].frozen => {
                return self.servers[n].deferred.push(event);
            }
            Host::Worker(n) if self.workers[n].frozen => {
                return self.workers[n].deferred.push(event);
            }
            Host::Server(_) | Host::Worker(_) | Host::Nobody => {}
        }
        match event {
            Ev::Poll(id) => self.poll(id),
            Ev::Duty {
                server,
                life,
                duty,
                at,
            } => self.duty_due(server, life, duty, at),
            Ev::Up { conn, message } => self.take_up(conn, message),
            Ev::Down { conn, message } => self.take_down(conn, message),
            Ev::ServerClosed(conn) => self.server_closed(conn),
            Ev::WorkerClosed(conn) => self.worker_closed(conn),
            Ev::Dial {
                worker,
                life,
                address,
            } => self.dial(worker, life, address.as_deref()),
            Ev::Dialed { worker, life, conn } => self.dialed(worker, life, conn),
            Ev::Tick { worker, life, at } => self.tick(worker, life, at),
            Ev::Journal { worker, life, op } => self.journal(worker, life, op),
            Ev::Handler {
                worker,
                life,
                lease,
                step,
            } => self.handler(worker, life, lease, step),
            Ev::Stopped {
                worker,
                life,
                lease,
            } => self.stopped(worker, life, lease),
            Ev::StartServer(n) => self.start_server(n),
            Ev::StartWorker(n) => self.start_worker(n),
            Ev::ThawServer(n, life) => self.thaw_server(n, life),
            Ev::ThawWorker(n, life) => self.thaw_worker(n, life),
            Ev::Uncut(n) => {
                self.gate().cut.remove(&n);
            }
            Ev::Hears(n) => {
                self.gate().deaf.remove(&n);
            }
            Ev::SignBack(n) => {
                self.air.comes_back(n);
                self.sign_is_out(n);
            }
            Ev::Hint(n, hint) => self.hint(n, hint),
            Ev::Unblock(worker, server) => self.unblock(worker, server),
            Ev::Fault(fault) => self.fault(fault),
            Ev::Client => self.client(),
            Ev::Share => self.share(),
            Ev::Heal => self.heal(),
            Ev::Pause => self.pause_jobs(),
            Ev::Rest => self.rest(),
        }
    }

    /// Starts an activity of a server.
    fn begin(&mut self, server: usize, future: impl Future<Output = node::Done> + 'static) {
        let id = self.next_activity;
        self.next_activity += 1;
        let life = self.servers[server].life;
        self.activities.insert(
            id,
            Activity {
                server,
                life,
                future: Box::pin(future),
            },
        );
        self.poll(id);
    }

    fn poll(&mut self, id: u64) {
        let Some(mut activity) = self.activities.remove(&id) else {
            return;
        };
        let (server, life) = (activity.server, activity.life);
        if self.servers[server].life != life {
            return;
        }
        self.gate().current = id;
        let waker = self.woken.waker(id);
        let polled = activity
            .future
            .as_mut()
            .poll(&mut Context::from_waker(&waker));
        let write_sent = std::mem::take(&mut self.gate().write_sent);
        let hello_sent = std::mem::take(&mut self.gate().hello_sent);
        let wakes = std::mem::take(&mut self.gate().wakes);
        let felt = std::mem::take(&mut self.gate().felt);
        for fault in felt {
            self.took_hold(fault);
        }
        for (id, at) in wakes {
            self.push_at(at, Ev::Poll(id));
        }
        for id in self.woken.take() {
            self.push_at(self.now, Ev::Poll(id));
        }
        if let Some(port) = self.servers[server].port() {
            for (conn, message) in port.take() {
                self.send_down(conn, message);
            }
        }
        self.spread_hints();
        match polled {
            Poll::Pending => {
                self.activities.insert(id, activity);
                let doomed = self.servers[server].doomed.is_some();
                let strikes = match self.options.strike_hellos {
                    true => doomed && hello_sent,
                    false => write_sent && doomed && self.rng.chance(300),
                };
                if strikes && self.options.strike_hellos {
                    self.strike_hello(server);
                } else if strikes {
                    self.strike(server);
                }
            }
            Poll::Ready(done) => self.done(server, done),
        }
    }

    /// A call that a store in memory answers at once.
    fn at_once<T>(&self, mut future: Pin<Box<dyn Future<Output = T> + Send + '_>>) -> T {
        match future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(answer) => answer,
            Poll::Pending => unreachable!("a store in memory never waits"),
        }
    }

    fn op(&self, actor: &str) -> Op {
        Op {
            id: OpId(self.ids.uuid()),
            actor: actor.to_owned(),
            hold: None,
        }
    }

    fn create_job(&mut self, n: usize) {
        if self.options.past && (self.options.seed + n as u64) % 6 == 2 {
            return self.create_calendar_job(n);
        }
        let period = [15, 20, 30, 45, 60][self.rng.below(5)] / self.options.pace;
        let count = 1 + self.rng.below(5);
        let overlap = match self.rng.below(5) {
            0 | 1 => serde_json::json!("allow"),
            2 => serde_json::json!("forbid"),
            3 => serde_json::json!("replace"),
            _ => serde_json::json!({ "queue": { "limit": 3 } }),
        };
        let catch_up = match self.rng.below(4) {
            0 => serde_json::json!("none"),
            1 => serde_json::json!("latest"),
            2 => serde_json::json!({ "all": 100 }),
            _ => serde_json::json!("coalesce"),
        };
        let mut timeouts = serde_json::json!({});
        if self.rng.chance(300) {
            timeouts["attempt"] = "20s".into();
        }
        if self.rng.chance(300) {
            timeouts["run"] = "90s".into();
        }
        if self.rng.chance(300) {
            timeouts["stall"] = "8s".into();
        }
        if self.rng.chance(200) {
            timeouts["activeDeadline"] = "70s".into();
        }
        let schedule = match (self.options.seed + n as u64) % 6 {
            0 => serde_json::json!({ "after": "7s" }),
            1 => serde_json::json!({ "continuous": { "maxWait": "20s" } }),
            _ => serde_json::json!({ "every": format!("{period}s") }),
        };
        let period = if schedule["every"].is_null() {
            0
        } else {
            period
        };
        let (namespace, uses) = self.share_of_job();
        let (priority, preemption) = self.rank_of_job();
        let text = serde_json::json!({
            "apiVersion": "sichen/v1", "kind": "Job",
            "metadata": { "name": format!("job-{n}"), "namespace": namespace },
            "spec": {
                "uses": uses, "priority": priority, "preemption": preemption,
                "schedules": [schedule],
                "run": { "handler": "settle" },
                "shards": { "count": count },
                "retry": { "maxAttempts": 6, "backoff": { "fixed": "500ms" } },
                "timeouts": timeouts, "overlap": overlap, "catchUp": { "policy": catch_up },
            },
        });
        let document: Document =
            serde_json::from_value(text).expect("the document is written here");
        let uid = JobUid(self.ids.uuid());
        let high_water = instant(self.now);
        let timing = document
            .timing(uid, &Calendars::default())
            .expect("the schedule is written here");
        self.periods.insert(uid, period);
        let job = ApplyJob {
            zones: None,
            name: JobName::new(namespace, &format!("job-{n}")).expect("a name"),
            new_uid: uid,
            expected_ver: None,
            document: serde_json::to_string(&document).expect("a document is JSON"),
            high_water,
            next_due: timing.next(high_water),
            follow: timing.follow(),
            counted: timing.counts_runs(),
            closing: None,
            calendars: Vec::new(),
            uses: document.uses(),
            cause: String::new(),
        };
        let op = self.op("user sim");
        self.acks.push(Acknowledged::Op(op.id));
        let applied = self.at_once(self.store.apply_job(op, job));
        applied.expect("memory takes it");
    }

    /// A user does something now and then.
    fn client(&mut self) {
        let wait = self.rng.between(1_000_000, 8_000_000);
        if self.rest_by.is_none() {
            self.push_in(wait, Ev::Client);
        }
        // Without the past the others are drawn as they were before there was one.
        let drawn = match self.options.past {
            true => self.rng.below(24),
            false => 2 * self.rng.below(10),
        };
        match drawn {
            0..12 => self.run_by_hand(),
            12..16 => self.cancel_one(),
            16..20 => self.reopen_one(),
            20..23 => self.play_with_the_past(),
            _ => self.turn_calendar(),
        }
        for server in 0..self.servers.len() {
            self.wake(server, Duty::Dispatch);
        }
    }

    fn run_by_hand(&mut self) {
        let uids: Vec<JobUid> = self.periods.keys().copied().collect();
        let uid = uids[self.rng.below(uids.len())];
        let Ok(Some(job)) = self.at_once(self.store.get_job_by_uid(uid)) else {
            return;
        };
        let document: Document = serde_json::from_str(&job.document).expect("written here");
        let request = Request {
            job: uid,
            revision: job.revision,
            occasion: Occasion::Manual {
                key: format!("k{}", self.rng.below(40)),
            },
            period: None,
            parameters: serde_json::Map::new(),
            digest: "same".to_owned(),
        };
        let run = new_run(&document, request, instant(self.now)).expect("needs no parameters");
        let op = self.op("user sim");
        let verdicts = self.at_once(self.store.create_runs(op, Vec::new(), vec![run]));
        for verdict in verdicts.unwrap_or_default() {
            if let CreateVerdict::Created(id, _) | CreateVerdict::Exists(id) = verdict {
                self.acks.push(Acknowledged::Run(id));
            }
        }
    }

    fn some_run(&mut self, state: RunState) -> Option<RunId> {
        let filter = RunFilter {
            job: None,
            state: Some(state),
            ..RunFilter::default()
        };
        let page = Page {
            after: None,
            limit: 20,
        };
        let runs = self.at_once(self.store.list_runs(filter, page)).ok()?;
        let n = self.rng.below(runs.len());
        runs.get(n).map(|run| run.id)
    }

    fn cancel_one(&mut self) {
        let Some(id) = self.some_run(RunState::Running) else {
            return;
        };
        let op = self.op("user sim");
        let asked = Acknowledged::Op(op.id);
        let verdict = self.at_once(self.store.request_stop(op, None, id, StopCause::Cancel));
        if matches!(verdict, Ok(RequestVerdict::Done(_))) {
            self.acks.push(asked);
        }
    }

    fn reopen_one(&mut self) {
        let failed = self.some_run(RunState::Failed);
        let Some(id) = failed.or_else(|| self.some_run(RunState::Partial)) else {
            return;
        };
        let op = self.op("user sim");
        let asked = Acknowledged::Op(op.id);
        if self.rng.below(3) == 0 {
            let only = Some(vec![ShardKey::new(id, 0)]);
            let why = Discard {
                by: "sim".to_owned(),
                reason: "not needed".to_owned(),
            };
            let verdict = self.at_once(self.store.discard_shards(op, id, only, why));
            if matches!(verdict, Ok(RequestVerdict::Done(_))) {
                self.acks.push(asked);
            }
            return;
        }
        let verdict = self.at_once(self.store.reopen_run(op, id, None, instant(self.now)));
        if matches!(verdict, Ok(RequestVerdict::Done(_))) {
            self.acks.push(asked);
        }
    }
}

/// The store's instant for a simulated microsecond.
fn instant(us: i64) -> Timestamp {
    Timestamp::from_second(START_SECS).expect("an instant of this century")
        + SignedDuration::from_micros(us)
}

/// The simulated microsecond of a store's instant.
fn micros(at: Timestamp) -> i64 {
    at.as_microsecond() - START_SECS * 1_000_000
}
