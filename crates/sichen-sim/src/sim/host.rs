//! Worker hosts: the SDK's session, a journal that survives the process, and handlers.
//!
//! A handler opens the fence, then reads and commits items one after another in the user's store.

use std::collections::{BTreeMap, BTreeSet};

use sichen_check::Acknowledged;
use sichen_core::ids::Token;
use sichen_proto::v1;
use sichen_proto::v1::server_message::Message as Down;
use sichen_sdk::session::{
    Boot, Ended, Entry, Identity, Input, JournalOp, Lease, Output, Recovered, Session,
};

use super::{Ev, Sim};
use crate::edge::{self, Conn};
use crate::options::Options;
use crate::rng::Rng;

/// What a handler does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Open,
    Read,
    Commit,
}

/// A running attempt's code.
#[derive(Debug)]
struct Handler {
    fence_key: String,
    items: usize,
    position: usize,
    /// Number of the newest checkpoint.
    seq: u64,
    fails_at: Option<usize>,
}

/// What the journal holds of an attempt.
#[derive(Clone, Debug, Default)]
struct Record {
    finish: Option<v1::Finish>,
}

/// One worker host and its process.
#[derive(Debug)]
pub(super) struct Worker {
    pub up: bool,
    pub frozen: bool,
    pub life: u64,
    pub deferred: Vec<Ev>,
    /// When it last went on after standing still.
    pub thawed_at: i64,
    pub boot_id: u64,
    name: String,
    session: Option<Session>,
    conn: Option<Conn>,
    journal: BTreeMap<Lease, Record>,
    last_write: i64,
    handlers: BTreeMap<Lease, Handler>,
    tick_at: Option<i64>,
    next_server: usize,
    drift_ppm: i64,
    boot_offset_ms: u64,
    slots: u32,
}

impl Worker {
    pub fn new(n: usize, options: &Options, rng: &mut Rng) -> Self {
        Self {
            up: false,
            frozen: false,
            life: 0,
            deferred: Vec::new(),
            thawed_at: i64::MIN,
            boot_id: 1,
            name: format!("w{n}"),
            session: None,
            conn: None,
            journal: BTreeMap::new(),
            last_write: 0,
            handlers: BTreeMap::new(),
            tick_at: None,
            next_server: rng.below(options.servers),
            drift_ppm: rng.between(-options.drift_ppm, options.drift_ppm),
            boot_offset_ms: rng.draw() % 1_000_000,
            slots: 2 + u32::try_from(rng.below(4)).unwrap_or(0),
        }
    }

    fn boot(&self, now: i64) -> Boot {
        let own = i128::from(now) * i128::from(1_000_000 + self.drift_ppm) / 1_000_000_000;
        Boot(u64::try_from(own).unwrap_or(0) + self.boot_offset_ms)
    }

    /// The first simulated microsecond at which its own clock shows `boot`.
    fn when(&self, boot: Boot) -> i64 {
        let own = i128::from(boot.0.saturating_sub(self.boot_offset_ms)) * 1_000_000_000;
        i64::try_from(own / i128::from(1_000_000 + self.drift_ppm)).unwrap_or(i64::MAX - 10) + 2
    }

    fn alive(&self, life: u64) -> bool {
        self.up && self.life == life
    }
}

impl Sim {
    pub(super) fn start_worker(&mut self, n: usize) {
        let worker = &mut self.workers[n];
        if worker.up {
            return;
        }
        worker.up = true;
        worker.life += 1;
        let identity = Identity {
            name: worker.name.clone(),
            uid: format!("uid-{}", worker.name),
            boot_id: format!("boot-{}", worker.boot_id),
            incarnation: format!("{}-{}", worker.name, worker.life),
            start: worker.life,
            pool: "default".to_owned(),
            slots: worker.slots,
            handlers: BTreeSet::from(["settle".to_owned()]),
            labels: BTreeMap::new(),
            resources: BTreeMap::new(),
            build: "sim".to_owned(),
            old_trees_dead: true,
        };
        let recovered = worker
            .journal
            .iter()
            .map(|(lease, record)| match &record.finish {
                Some(finish) => Recovered::Finished(finish.clone()),
                None => Recovered::RunningDead { lease: *lease },
            })
            .collect();
        let mut session = Session::new(identity, recovered);
        let outputs = session.start();
        worker.session = Some(session);
        self.outputs(n, outputs);
        self.plan_tick(n);
    }

    /// The process ends: its memory, its handlers and its stream are gone, its journal stays.
    pub(super) fn crash_worker(&mut self, n: usize) {
        let worker = &mut self.workers[n];
        worker.up = false;
        worker.frozen = false;
        worker.life += 1;
        worker.deferred.clear();
        worker.session = None;
        worker.handlers.clear();
        worker.tick_at = None;
        if let Some(conn) = worker.conn.take() {
            self.hang_up(conn);
        }
    }

    /// A fault hits worker `n`, or its stream to `server`: notes what it held.
    pub(super) fn hit_worker(&mut self, n: usize, server: Option<usize>) {
        let worker = &self.workers[n];
        if !worker.up {
            return;
        }
        let wire = worker.conn.and_then(|conn| self.wires.get(&conn));
        if server.is_some() && wire.map(|wire| wire.server) != server {
            return;
        }
        let mut records = worker.journal.values();
        if records.any(|record| record.finish.is_some()) {
            *self.hits.entry("unsent report").or_default() += 1;
        } else if !worker.handlers.is_empty() {
            *self.hits.entry("live lease").or_default() += 1;
        }
    }

    pub(super) fn thaw_worker(&mut self, n: usize, life: u64) {
        let now = self.now;
        let worker = &mut self.workers[n];
        if worker.life == life && worker.frozen {
            worker.frozen = false;
            worker.thawed_at = now;
            for event in std::mem::take(&mut worker.deferred) {
                // A stream keeps its order, and code between two instructions goes on at once; timers
                // and the disk race with both.
                let races = matches!(
                    event,
                    Ev::Tick { .. } | Ev::Journal { .. } | Ev::Stopped { .. }
                );
                let wait = if races { self.rng.between(0, 3_000) } else { 0 };
                self.push_in(wait, event);
            }
        }
    }

    fn input(&mut self, n: usize, input: Input) {
        let worker = &mut self.workers[n];
        let boot = worker.boot(self.now);
        let Some(session) = worker.session.as_mut() else {
            return;
        };
        let outputs = session.handle(input, boot);
        self.outputs(n, outputs);
        self.plan_tick(n);
    }

    fn plan_tick(&mut self, n: usize) {
        let worker = &mut self.workers[n];
        let Some(wake) = worker.session.as_ref().and_then(Session::next_wake) else {
            return;
        };
        let at = worker.when(wake).max(self.now + 1);
        if worker.tick_at.is_none_or(|planned| at < planned) {
            worker.tick_at = Some(at);
            let life = worker.life;
            self.push_at(
                at,
                Ev::Tick {
                    worker: n,
                    life,
                    at,
                },
            );
        }
    }

    pub(super) fn tick(&mut self, n: usize, life: u64, at: i64) {
        let worker = &mut self.workers[n];
        if worker.alive(life) && worker.tick_at == Some(at) {
            worker.tick_at = None;
            self.input(n, Input::Tick);
        }
    }

    fn outputs(&mut self, n: usize, outputs: Vec<Output>) {
        let life = self.workers[n].life;
        for output in outputs {
            match output {
                Output::Send(message) => {
                    if let Some(conn) = self.workers[n].conn {
                        self.send_up(conn, message);
                    }
                }
                Output::CloseStream => {
                    if let Some(conn) = self.workers[n].conn.take() {
                        self.hang_up(conn);
                    }
                }
                Output::Reconnect { after_ms, address } => {
                    let wait = i64::try_from(after_ms).unwrap_or(i64::MAX / 2_000) * 1_000;
                    self.push_in(
                        wait + 1,
                        Ev::Dial {
                            worker: n,
                            life,
                            address,
                        },
                    );
                }
                Output::StartAttempt(grant) => self.start_attempt(n, &grant),
                Output::StopAttempt {
                    lease, grace_ms, ..
                } => {
                    let grace = i64::try_from(grace_ms).unwrap_or(0) * 1_000;
                    let wait = self.rng.between(0, grace);
                    self.push_in(
                        wait,
                        Ev::Stopped {
                            worker: n,
                            life,
                            lease,
                        },
                    );
                }
                Output::CheckpointVerdict {
                    lease,
                    seq,
                    verdict,
                } => {
                    if matches!(verdict, v1::Verdict::Accepted | v1::Verdict::Duplicate) {
                        let key = edge::key(&lease.shard());
                        self.acks.push(Acknowledged::Checkpoint { key, seq });
                    }
                }
                Output::Journal(op) => self.write_journal(n, op),
                Output::Note(note) => self.trace.line(self.now, &(n, note)),
                Output::Exit(reason) => {
                    self.trace.line(self.now, &(n, &reason));
                    self.crash_worker(n);
                    let wait = self.rng.between(500_000, 3_000_000);
                    self.push_in(wait, Ev::StartWorker(n));
                    return;
                }
            }
        }
    }

    /// Writes take a moment, one after another; a crash loses those on their way.
    fn write_journal(&mut self, n: usize, op: JournalOp) {
        if let JournalOp::Forget { lease, why } = &op
            && matches!(*why, "accepted" | "accepted before")
        {
            let key = edge::key(&lease.shard());
            self.acks.push(Acknowledged::Finished {
                key,
                token: Token(lease.token),
            });
        }
        let wait = self.rng.between(100, 3_000);
        let worker = &mut self.workers[n];
        worker.last_write = (self.now + wait).max(worker.last_write + 1);
        let (at, life) = (worker.last_write, worker.life);
        self.push_at(
            at,
            Ev::Journal {
                worker: n,
                life,
                op,
            },
        );
    }

    pub(super) fn journal(&mut self, n: usize, life: u64, op: JournalOp) {
        let worker = &mut self.workers[n];
        if !worker.alive(life) {
            return;
        }
        let written = |lease, entry| Input::Journaled {
            lease,
            entry,
            ok: true,
        };
        match op {
            JournalOp::Start { lease, .. } => {
                worker.journal.insert(lease, Record::default());
                self.input(n, written(lease, Entry::Start));
            }
            JournalOp::Finish(finish) => {
                let Some(lease) = Lease::from_wire(finish.shard, finish.token) else {
                    return;
                };
                worker.journal.entry(lease).or_default().finish = Some(*finish);
                self.input(n, written(lease, Entry::Finish));
            }
            JournalOp::Forget { lease, .. } => {
                worker.journal.remove(&lease);
            }
        }
    }

    pub(super) fn dial(&mut self, n: usize, life: u64, address: Option<&str>) {
        if !self.workers[n].alive(life) {
            return;
        }
        let named = address
            .and_then(|a| a.strip_prefix("server-"))
            .and_then(|s| s.parse::<usize>().ok());
        let worker = &mut self.workers[n];
        let server = named
            .filter(|s| *s < self.servers.len())
            .unwrap_or_else(|| {
                worker.next_server += 1;
                worker.next_server % self.servers.len()
            });
        let pair = (n, server);
        let blocks = self.blocked_up.get(&pair);
        let blocked = blocks.or(self.blocked_down.get(&pair)).copied();
        let reachable = blocked.is_none();
        if let Some(fault) = blocked {
            self.took_hold(fault);
        }
        let (wait, conn) = match (self.servers[server].up, reachable) {
            (true, true) => (self.rng.between(500, 10_000), Some(self.connect(n, server))),
            (false, true) => (self.rng.between(500, 10_000), None),
            (_, false) => (3_000_000, None),
        };
        self.push_in(
            wait,
            Ev::Dialed {
                worker: n,
                life,
                conn,
            },
        );
    }

    pub(super) fn dialed(&mut self, n: usize, life: u64, conn: Option<Conn>) {
        if !self.workers[n].alive(life) {
            return;
        }
        match conn {
            Some(conn) => {
                self.workers[n].conn = Some(conn);
                self.input(n, Input::Connected);
            }
            None => self.disconnected(n),
        }
    }

    fn disconnected(&mut self, n: usize) {
        let jitter = u16::try_from(self.rng.between(0, 1_000)).unwrap_or(0);
        self.input(n, Input::Disconnected { jitter });
    }

    pub(super) fn take_down(&mut self, conn: Conn, message: Down) {
        let Some(wire) = self.wires.get(&conn) else {
            return;
        };
        let (n, life) = (wire.worker, wire.worker_life);
        if wire.open_at_worker && self.workers[n].alive(life) && self.workers[n].conn == Some(conn)
        {
            self.input(n, Input::Server(message));
        }
    }

    pub(super) fn worker_closed(&mut self, conn: Conn) {
        let Some(wire) = self.wires.get_mut(&conn) else {
            return;
        };
        let (n, life, open) = (wire.worker, wire.worker_life, wire.open_at_worker);
        wire.open_at_worker = false;
        let worker = &mut self.workers[n];
        if open && worker.alive(life) && worker.conn == Some(conn) {
            worker.conn = None;
            self.disconnected(n);
        }
    }

    /// The worker's end of a stream is gone; the server learns of it if the way is open.
    fn hang_up(&mut self, conn: Conn) {
        let Some(wire) = self.wires.get_mut(&conn) else {
            return;
        };
        wire.open_at_worker = false;
        if let Some(fault) = self.blocked_up.get(&(wire.worker, wire.server)).copied() {
            return self.took_hold(fault);
        }
        let wait = self.rng.between(1_000, 20_000);
        self.push_in(wait, Ev::ServerClosed(conn));
    }

    fn start_attempt(&mut self, n: usize, grant: &v1::Grant) {
        let Some(lease) = Lease::from_wire(grant.shard, grant.token) else {
            return;
        };
        if self.started.insert(lease, self.now).is_some() {
            let problem = format!("{lease} is started a second time, on worker {n}");
            self.problems.push(problem);
        }
        let seq = grant.checkpoint.as_ref().map_or(0, |c| c.seq);
        let key = edge::key(&lease.shard());
        self.acks.push(Acknowledged::Started {
            key,
            token: Token(lease.token),
            seq,
        });
        // The same shard has the same items in each attempt.
        let items =
            2 + usize::try_from((lease.run_id * 7 + u64::from(lease.no.unsigned_abs())) % 5)
                .unwrap_or(0);
        let fails = self.rng.chance(self.options.failing_attempts);
        let handler = Handler {
            fence_key: grant.fence_key.clone(),
            items,
            position: 0,
            seq,
            fails_at: fails.then(|| self.rng.below(items)),
        };
        self.workers[n].handlers.insert(lease, handler);
        self.next_step(n, lease, Step::Open);
    }

    fn next_step(&mut self, n: usize, lease: Lease, step: Step) {
        let wait = match step {
            Step::Open => self.rng.between(500, 20_000),
            Step::Read => self.rng.between(500, 300_000),
            // Every fourth run is slow work: its attempts outlast a session.
            Step::Commit if lease.run_id.is_multiple_of(4) => self.rng.between(500_000, 15_000_000),
            Step::Commit => self.rng.between(20_000, 2_000_000),
        };
        let life = self.workers[n].life;
        self.push_in(
            wait,
            Ev::Handler {
                worker: n,
                life,
                lease,
                step,
            },
        );
    }

    pub(super) fn handler(&mut self, n: usize, life: u64, lease: Lease, step: Step) {
        if !self.workers[n].alive(life) {
            return;
        }
        let Some(handler) = self.workers[n].handlers.get_mut(&lease) else {
            return;
        };
        match step {
            Step::Open => {
                let opened = self
                    .user
                    .open(&handler.fence_key, lease.token, handler.items);
                let Ok(position) = opened else {
                    return self.fenced(n, lease);
                };
                handler.position = position;
                self.check_overlap(n, lease);
                self.next_step(n, lease, Step::Read);
            }
            Step::Read if handler.position >= handler.items => {
                let ended = Ended::Succeeded {
                    result: Vec::new(),
                    plan: None,
                };
                self.end_handler(n, lease, ended);
            }
            Step::Read if handler.fails_at == Some(handler.position) => {
                let fatal = self.rng.chance(250);
                let kind = if fatal {
                    v1::ErrorKind::FatalShard
                } else {
                    v1::ErrorKind::Retryable
                };
                self.end_handler(n, lease, failed("flaky", kind));
            }
            Step::Read => self.next_step(n, lease, Step::Commit),
            Step::Commit => {
                if self
                    .user
                    .write(&handler.fence_key, lease.token, handler.position)
                    .is_err()
                {
                    return self.fenced(n, lease);
                }
                handler.position += 1;
                handler.seq += 1;
                let checkpoint = v1::Checkpoint {
                    seq: handler.seq,
                    position: handler.position.to_string().into_bytes(),
                    counters: None,
                };
                let flush = self.rng.chance(200);
                self.next_step(n, lease, Step::Read);
                self.input(
                    n,
                    Input::HandlerCheckpoint {
                        lease,
                        checkpoint,
                        flush,
                    },
                );
            }
        }
    }

    fn fenced(&mut self, n: usize, lease: Lease) {
        self.end_handler(n, lease, failed("fenced", v1::ErrorKind::Retryable));
    }

    fn end_handler(&mut self, n: usize, lease: Lease, ended: Ended) {
        if self.workers[n].handlers.remove(&lease).is_some() {
            self.input(n, Input::HandlerFinished { lease, ended });
        }
    }

    pub(super) fn stopped(&mut self, n: usize, life: u64, lease: Lease) {
        if self.workers[n].alive(life) {
            self.end_handler(n, lease, Ended::Stopped);
        }
    }

    /// I17: two attempts of one shard run at once only if a host stood still.
    fn check_overlap(&mut self, n: usize, lease: Lease) {
        for (other, worker) in self.workers.iter().enumerate() {
            for old in worker
                .handlers
                .keys()
                .filter(|l| **l != lease && l.run_id == lease.run_id && l.no == lease.no)
            {
                let excused = worker.frozen || worker.thawed_at + 30_000_000 > self.now;
                if !excused {
                    self.problems.push(format!(
                        "I17: at {} µs {lease} starts on worker {n} while {old} still runs on worker {other}, which never stood still",
                        self.now
                    ));
                }
            }
        }
    }
}

fn failed(code: &str, kind: v1::ErrorKind) -> Ended {
    Ended::Failed(v1::AttemptError {
        code: code.to_owned(),
        message: String::new(),
        kind: kind.into(),
    })
}
