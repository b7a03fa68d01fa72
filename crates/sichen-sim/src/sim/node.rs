//! Server nodes: their duties' pace, and their ends of the streams.
//!
//! The pace is the driver's (`sichen_engine::driver`), told in simulated time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use sichen_core::beacon::Hint;
use sichen_core::port::Error;
use sichen_engine::driver::{Engine, Settings};
use sichen_proto::v1::server_message::Message as Down;
use sichen_proto::v1::worker_message::Message as Up;

use super::nemesis::LOST_ANSWER;
use super::{Ev, Sim, micros};
use crate::air::Sign;
use crate::edge::{self, Conn, Port, Served, Stream};
use crate::store::Link;

/// A duty of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Duty {
    Coordinate,
    Trigger,
    Dispatch,
    Reap,
    Preempt,
    Backfill,
    Janitor,
}

impl Duty {
    const ALL: [Duty; 7] = [
        Duty::Coordinate,
        Duty::Trigger,
        Duty::Dispatch,
        Duty::Reap,
        Duty::Preempt,
        Duty::Backfill,
        Duty::Janitor,
    ];

    fn period_us(self) -> i64 {
        match self {
            Duty::Coordinate | Duty::Reap | Duty::Preempt | Duty::Backfill => 1_000_000,
            Duty::Trigger | Duty::Dispatch => 10_000_000,
            Duty::Janitor => 60_000_000,
        }
    }
}

#[derive(Debug, Default)]
struct Pace {
    running: bool,
    again: bool,
    due: Option<i64>,
    failures: u32,
}

/// How a node fails in the middle of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doom {
    /// Stands still for so many microseconds.
    Freeze(i64),
    /// Dies, and is started again after so many microseconds.
    Crash(i64),
}

/// One node's process.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub up: bool,
    pub frozen: bool,
    pub life: u64,
    pub deferred: Vec<Ev>,
    /// Fails in this way as soon as one of its writes is on its way.
    pub doomed: Option<Doom>,
    /// By this fault.
    pub doomed_by: u64,
    engine: Option<(Arc<Engine>, Arc<Port>)>,
    pace: BTreeMap<Duty, Pace>,
}

impl Server {
    pub fn port(&self) -> Option<Arc<Port>> {
        self.engine.as_ref().map(|(_, port)| port.clone())
    }
}

/// One stream between a worker and a server, from both ends.
#[derive(Debug)]
pub(super) struct Wire {
    pub worker: usize,
    pub worker_life: u64,
    pub server: usize,
    server_life: u64,
    pub open_at_worker: bool,
    open_at_server: bool,
    last_up: i64,
    last_down: i64,
    held_up: Vec<Up>,
    held_down: Vec<Down>,
    stream: Stream,
    inbox: VecDeque<Up>,
    busy: bool,
}

/// What an activity came to.
pub(super) enum Done {
    Duty(Duty, Result<Pass, Error>),
    Served(Conn, Served),
}

/// What follows from a duty's pass.
pub(super) struct Pass {
    next: Option<Timestamp>,
    dispatch: bool,
}

async fn pass(engine: Arc<Engine>, duty: Duty) -> Result<Pass, Error> {
    let now = engine.context.store.now().await?;
    let pass = |next, dispatch| Ok(Pass { next, dispatch });
    match duty {
        Duty::Coordinate => {
            let done = engine.coordinator.run_once(now).await?;
            for (pool, address) in done.moved {
                engine.sessions.tell_moved(&pool, &address).await?;
            }
            pass(done.next, done.gained)
        }
        Duty::Trigger => {
            let done = engine.trigger.run_once(now).await?;
            pass(done.next, done.runs > 0)
        }
        Duty::Dispatch => {
            // What is known in memory first, as a running node does between its looks.
            engine.dispatcher.hand_out(now).await?;
            let done = engine.dispatcher.run_once(now).await?;
            pass(
                if done.refused > 0 {
                    Some(now)
                } else {
                    done.next_ready
                },
                false,
            )
        }
        Duty::Reap => {
            let reaped = engine.reaper.run_once(now).await?;
            pass(None, reaped > 0)
        }
        Duty::Preempt => {
            let next = engine.preempter.run_once(now).await?;
            pass(next, false)
        }
        Duty::Backfill => {
            let done = engine.backfiller.run_once(now).await?;
            pass(done.next, done.started > 0)
        }
        Duty::Janitor => {
            let more = engine.janitor.run_once(now).await?;
            pass(more.then_some(now), false)
        }
    }
}

impl Sim {
    pub(super) fn start_server(&mut self, n: usize) {
        if self.servers[n].up {
            return;
        }
        let port = Arc::new(Port::default());
        let link = Link::new(self.store.clone(), self.gate.clone(), n);
        let settings = Settings::new(format!("server-{n}"));
        let sign = Sign {
            air: self.air.clone(),
            server: n,
        };
        let engine = Engine::with_beacon(
            Arc::new(link),
            self.ids.clone(),
            port.clone(),
            settings,
            Arc::new(sign),
        );
        let server = &mut self.servers[n];
        server.up = true;
        server.life += 1;
        server.engine = Some((Arc::new(engine), port));
        server.pace = Duty::ALL
            .into_iter()
            .map(|duty| (duty, Pace::default()))
            .collect();
        let (past, preempting) = (self.options.past, self.options.preempting);
        let wanted = |duty: &Duty| match duty {
            Duty::Backfill => past,
            Duty::Preempt => preempting,
            _ => true,
        };
        for duty in Duty::ALL.into_iter().filter(wanted) {
            let wait = self.rng.between(0, 300_000);
            self.schedule(n, duty, self.now + wait);
        }
    }

    /// Makes a duty run at `at` at the latest.
    fn schedule(&mut self, n: usize, duty: Duty, at: i64) {
        let life = self.servers[n].life;
        let Some(pace) = self.servers[n].pace.get_mut(&duty) else {
            return;
        };
        if pace.running {
            pace.again |= at <= self.now;
        } else if pace.due.is_none_or(|due| at < due) {
            pace.due = Some(at);
            self.push_at(
                at,
                Ev::Duty {
                    server: n,
                    life,
                    duty,
                    at,
                },
            );
        }
    }

    /// A hint: the duty should look now.
    pub(super) fn wake(&mut self, n: usize, duty: Duty) {
        if self.servers[n].up {
            self.schedule(n, duty, self.now);
        }
    }

    /// The way to the signs of life broke, and the node has seen it.
    pub(super) fn sign_is_out(&mut self, n: usize) {
        if let Some((engine, _)) = &self.servers[n].engine {
            engine.coordinator.sign_is_out();
            self.wake(n, Duty::Coordinate);
        }
    }

    /// What nodes have told travels to the others: late, and some of it never.
    pub(super) fn spread_hints(&mut self) {
        for (from, hint) in self.air.take() {
            for n in 0..self.servers.len() {
                let wait = self.rng.between(1_000, 60_000);
                if n != from && !self.rng.chance(200) {
                    self.push_in(wait, Ev::Hint(n, hint.clone()));
                }
            }
        }
    }

    pub(super) fn hint(&mut self, n: usize, hint: Hint) {
        let duty = match hint {
            Hint::Members => Duty::Coordinate,
            Hint::Trigger => Duty::Trigger,
            Hint::Backfill => Duty::Backfill,
            Hint::Dispatch | Hint::Pool(_) => Duty::Dispatch,
        };
        if let Some((engine, _)) = &self.servers[n].engine
            && duty == Duty::Coordinate
        {
            engine.coordinator.look_again();
        }
        self.wake(n, duty);
    }

    pub(super) fn duty_due(&mut self, n: usize, life: u64, duty: Duty, at: i64) {
        let server = &mut self.servers[n];
        if !server.up || server.life != life {
            return;
        }
        let Some((engine, _)) = server.engine.clone() else {
            return;
        };
        match server.pace.get_mut(&duty) {
            Some(pace) if pace.due == Some(at) && !pace.running => {
                pace.running = true;
                pace.due = None;
            }
            _ => return,
        }
        self.begin(n, async move { Done::Duty(duty, pass(engine, duty).await) });
    }

    pub(super) fn done(&mut self, n: usize, done: Done) {
        match done {
            Done::Duty(duty, result) => self.passed(n, duty, result),
            Done::Served(conn, served) => self.served(n, conn, served),
        }
    }

    fn passed(&mut self, n: usize, duty: Duty, result: Result<Pass, Error>) {
        let now = self.now;
        let server = &mut self.servers[n];
        let Some(pace) = server.pace.get_mut(&duty) else {
            return;
        };
        pace.running = false;
        let again = std::mem::take(&mut pace.again);
        let wait = match &result {
            Ok(pass) => {
                pace.failures = 0;
                let wait = pass
                    .next
                    .map_or(duty.period_us(), |next| micros(next) - now);
                wait.clamp(1_000, duty.period_us())
            }
            Err(error) => {
                pace.failures += 1;
                if !matches!(error, Error::Busy(_))
                    && let Some((engine, _)) = &server.engine
                {
                    engine.reaper.store_is_lost();
                }
                (50_000i64 << pace.failures.min(5)).min(duty.period_us())
            }
        };
        let ok = result.is_ok();
        let at = if again && ok { now } else { now + wait };
        self.schedule(n, duty, at);
        if result.is_ok_and(|pass| pass.dispatch) {
            self.wake(n, Duty::Dispatch);
            if duty == Duty::Coordinate {
                self.wake(n, Duty::Trigger);
            }
        }
    }

    pub(super) fn crash_server(&mut self, n: usize) {
        if !self.servers[n].up {
            return;
        }
        self.air.ended(n);
        let server = &mut self.servers[n];
        server.up = false;
        server.frozen = false;
        server.life += 1;
        server.deferred.clear();
        server.doomed = None;
        server.engine = None;
        self.activities.retain(|_, a| a.server != n);
        let conns: Vec<Conn> = self
            .wires
            .iter()
            .filter(|(_, w)| w.server == n)
            .map(|(c, _)| *c)
            .collect();
        for conn in conns {
            if let Some(wire) = self.wires.get_mut(&conn) {
                wire.open_at_server = false;
                let pair = (wire.worker, n);
                match self.blocked_down.get(&pair).copied() {
                    Some(fault) => self.took_hold(fault),
                    None => {
                        let wait = self.rng.between(1_000, 50_000);
                        self.push_in(wait, Ev::WorkerClosed(conn));
                    }
                }
            }
        }
    }

    /// Its fate strikes while a write of it is on its way: the worst moment there is.
    pub(super) fn strike(&mut self, n: usize) {
        if self.gate().open.get(&n).is_some_and(|open| *open > 0) {
            *self.hits.entry("open transaction").or_default() += 1;
        }
        let doom = self.servers[n].doomed.take();
        if doom.is_some() {
            self.took_hold(self.servers[n].doomed_by);
        }
        match doom {
            Some(Doom::Freeze(wait)) => {
                self.servers[n].frozen = true;
                let life = self.servers[n].life;
                self.push_in(wait, Ev::ThawServer(n, life));
            }
            Some(Doom::Crash(wait)) => {
                self.crash_server(n);
                self.push_in(wait, Ev::StartServer(n));
            }
            None => {}
        }
    }

    pub(super) fn thaw_server(&mut self, n: usize, life: u64) {
        let server = &mut self.servers[n];
        if server.life == life && server.frozen {
            server.frozen = false;
            for event in std::mem::take(&mut server.deferred) {
                self.push_in(0, event);
            }
        }
    }

    pub(super) fn connect(&mut self, worker: usize, server: usize) -> Conn {
        let conn = self.next_conn;
        self.next_conn += 1;
        let wire = Wire {
            worker,
            worker_life: self.workers[worker].life,
            server,
            server_life: self.servers[server].life,
            open_at_worker: true,
            open_at_server: true,
            last_up: 0,
            last_down: 0,
            held_up: Vec::new(),
            held_down: Vec::new(),
            stream: Stream::default(),
            inbox: VecDeque::new(),
            busy: false,
        };
        self.wires.insert(conn, wire);
        conn
    }

    pub(super) fn send_up(&mut self, conn: Conn, message: Up) {
        let wait = self.rng.between(200, 5_000);
        let Some(wire) = self.wires.get_mut(&conn).filter(|w| w.open_at_worker) else {
            return;
        };
        if let Some(fault) = self.blocked_up.get(&(wire.worker, wire.server)).copied() {
            wire.held_up.push(message);
            return self.took_hold(fault);
        }
        wire.last_up = (self.now + wait).max(wire.last_up + 1);
        let at = wire.last_up;
        self.push_at(at, Ev::Up { conn, message });
    }

    pub(super) fn send_down(&mut self, conn: Conn, message: Down) {
        let wait = self.rng.between(200, 5_000);
        let lose = !self.healed && self.rng.chance(self.options.lost_answers);
        let Some(wire) = self.wires.get_mut(&conn).filter(|w| w.open_at_server) else {
            return;
        };
        let answer = matches!(
            message,
            Down::Welcome(_)
                | Down::BeatAck(_)
                | Down::FinishAck(_)
                | Down::CheckpointAck(_)
                | Down::Grant(_)
        );
        if answer && lose {
            // On a stream nothing is lost alone: it breaks, and the answer with it.
            // Whoever has hung up meanwhile misses nothing.
            *self.faults.entry(LOST_ANSWER).or_default() += u64::from(wire.open_at_worker);
            match message {
                Down::FinishAck(_) => *self.hits.entry("unsent report").or_default() += 1,
                Down::Grant(_) => *self.hits.entry("live lease").or_default() += 1,
                _ => {}
            }
            let wait = self.rng.between(1_000, 20_000);
            self.push_in(wait, Ev::WorkerClosed(conn));
            self.push_in(wait, Ev::ServerClosed(conn));
            return;
        }
        if let Some(fault) = self.blocked_down.get(&(wire.worker, wire.server)).copied() {
            wire.held_down.push(message);
            return self.took_hold(fault);
        }
        wire.last_down = (self.now + wait).max(wire.last_down + 1);
        let at = wire.last_down;
        self.push_at(at, Ev::Down { conn, message });
    }

    /// What waited for the way to heal goes on.
    pub(super) fn release_held(&mut self, worker: usize, server: usize) {
        let conns: Vec<Conn> = self
            .wires
            .iter()
            .filter(|(_, w)| w.worker == worker && w.server == server)
            .map(|(conn, _)| *conn)
            .collect();
        for conn in conns {
            let Some(wire) = self.wires.get_mut(&conn) else {
                continue;
            };
            let (up, down) = (
                std::mem::take(&mut wire.held_up),
                std::mem::take(&mut wire.held_down),
            );
            let dead = !wire.open_at_server;
            // What was sent before its sender hung up still arrives: late, and perhaps stale.
            for message in up {
                let wait = self.rng.between(200, 2_000);
                let Some(wire) = self.wires.get_mut(&conn) else {
                    continue;
                };
                wire.last_up = (self.now + wait).max(wire.last_up + 1);
                let at = wire.last_up;
                self.push_at(at, Ev::Up { conn, message });
            }
            for message in down {
                self.send_down(conn, message);
            }
            if dead {
                self.push_in(5_000, Ev::WorkerClosed(conn));
            }
        }
    }

    pub(super) fn take_up(&mut self, conn: Conn, message: Up) {
        let Some(wire) = self.wires.get_mut(&conn) else {
            return;
        };
        let server = &self.servers[wire.server];
        if wire.open_at_server && server.up && server.life == wire.server_life {
            wire.inbox.push_back(message);
            self.pump(conn);
        }
    }

    fn pump(&mut self, conn: Conn) {
        let Some(wire) = self.wires.get_mut(&conn) else {
            return;
        };
        if wire.busy || !wire.open_at_server {
            return;
        }
        let n = wire.server;
        let Some((engine, port)) = self.servers[n].engine.clone() else {
            return;
        };
        let Some(message) = wire.inbox.pop_front() else {
            return;
        };
        wire.busy = true;
        let stream = wire.stream.clone();
        let hello = matches!(message, Up::Hello(_));
        self.begin(n, async move {
            Done::Served(conn, edge::serve(engine, port, conn, stream, message).await)
        });
        let doomed = self.servers[n].doomed.is_some();
        if hello && doomed && self.options.strike_hellos && self.rng.chance(500) {
            self.strike_hello(n);
        }
    }

    fn served(&mut self, n: usize, conn: Conn, served: Served) {
        if served.dispatch {
            self.wake(n, Duty::Dispatch);
        }
        if served.reap {
            self.wake(n, Duty::Reap);
        }
        let Some(wire) = self.wires.get_mut(&conn) else {
            return;
        };
        wire.stream = served.stream;
        wire.busy = false;
        if served.cut {
            let at = wire.last_down.max(self.now) + 2_000;
            self.server_closed(conn);
            self.push_at(at, Ev::WorkerClosed(conn));
        } else {
            self.pump(conn);
        }
    }

    pub(super) fn server_closed(&mut self, conn: Conn) {
        let Some(wire) = self.wires.get_mut(&conn) else {
            return;
        };
        wire.open_at_server = false;
        wire.inbox.clear();
        if let Some(port) = self.servers[wire.server].port() {
            port.close(conn);
        }
    }
}
