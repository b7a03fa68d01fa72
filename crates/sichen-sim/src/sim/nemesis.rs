//! What goes wrong, and how it heals.
//!
//! # Invariants
//! - A fault counts once it has taken hold: its server was struck, a message or a call met its broken
//!   way, a sign that was seen went out. One that found nobody, or was undone before, counts for nothing.

use super::node::Doom;
use super::{Ev, Sim};
use crate::store::Broken;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    ServerCrash,
    ServerFreeze,
    ServerCut,
    SignLost,
    WorkerCrash,
    WorkerFreeze,
    LinkCut,
    LinkOneWay,
    Isolate,
    AllCrash,
    ServerDeaf,
}

/// Every kind of fault, by its name.
pub const FAULTS: [&str; 13] = [
    Fault::ServerCrash.name(),
    Fault::ServerFreeze.name(),
    Fault::ServerCut.name(),
    Fault::ServerDeaf.name(),
    Fault::SignLost.name(),
    Fault::WorkerCrash.name(),
    Fault::WorkerFreeze.name(),
    Fault::LinkCut.name(),
    Fault::LinkOneWay.name(),
    Fault::Isolate.name(),
    Fault::AllCrash.name(),
    LOST_ANSWER,
    LOST_COMMIT,
];
/// An answer to a worker is lost with its stream.
pub(super) const LOST_ANSWER: &str = "lost answer";
/// An answer of the store is lost after its commit.
pub(super) const LOST_COMMIT: &str = "answer of the store lost";

impl Fault {
    const ALL: [Fault; 11] = [
        Fault::ServerCrash,
        Fault::ServerFreeze,
        Fault::ServerCut,
        Fault::SignLost,
        Fault::WorkerCrash,
        Fault::WorkerFreeze,
        Fault::LinkCut,
        Fault::LinkOneWay,
        Fault::Isolate,
        Fault::AllCrash,
        Fault::ServerDeaf,
    ];

    const fn name(self) -> &'static str {
        match self {
            Fault::ServerCrash => "server crash",
            Fault::ServerFreeze => "server freeze",
            Fault::ServerCut => "server cut from the store",
            Fault::SignLost => "sign of life lost",
            Fault::WorkerCrash => "worker crash",
            Fault::WorkerFreeze => "worker freeze",
            Fault::LinkCut => "link cut",
            Fault::LinkOneWay => "link cut one way",
            Fault::Isolate => "worker isolated",
            Fault::AllCrash => "all servers crash",
            Fault::ServerDeaf => "server hears no answer of the store",
        }
    }
}

impl Sim {
    fn mean_ms(&self, fault: Fault) -> Option<i64> {
        let o = &self.options;
        match fault {
            Fault::ServerCrash => o.server_crash,
            Fault::ServerFreeze => o.server_freeze,
            Fault::ServerCut => o.server_cut,
            Fault::SignLost => o.sign_lost,
            Fault::WorkerCrash => o.worker_crash,
            Fault::WorkerFreeze => o.worker_freeze,
            Fault::LinkCut => o.link_cut,
            Fault::LinkOneWay => o.link_one_way,
            Fault::Isolate => o.isolate,
            Fault::AllCrash => o.all_crash,
            Fault::ServerDeaf => o.server_deaf,
        }
    }

    pub(super) fn plan_faults(&mut self) {
        for fault in Fault::ALL {
            self.plan(fault);
        }
    }

    fn plan(&mut self, fault: Fault) {
        if let Some(mean) = self.mean_ms(fault) {
            let wait = self.rng.between(mean / 3, mean * 5 / 3);
            self.push_in(wait * 1_000, Ev::Fault(fault));
        }
    }

    /// A fault that has begun and will count when it has taken hold of so much.
    fn pend(&mut self, fault: Fault, of: usize) -> u64 {
        let id = self.next_fault;
        self.next_fault += 1;
        self.pending.insert(id, (fault, of));
        id
    }

    /// It has done something; what it does beyond that is the same fault.
    pub(super) fn took_hold(&mut self, id: u64) {
        let Some((fault, left)) = self.pending.get_mut(&id) else {
            return;
        };
        *left = left.saturating_sub(1);
        if *left == 0 {
            *self.faults.entry(fault.name()).or_default() += 1;
            self.pending.remove(&id);
        }
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        if self.healed {
            return;
        }
        self.plan(fault);
        let id = self.pend(fault, 1);
        let server = self.rng.below(self.servers.len());
        let worker = self.rng.below(self.workers.len());
        let secs = |sim: &mut Self, from: i64, to: i64| sim.rng.between(from, to * 1_000_000);
        match fault {
            Fault::ServerCrash => self.crash_and_restart(server, id),
            Fault::AllCrash => {
                let all = 0..self.servers.len();
                let alive = all.clone().filter(|n| self.can_be_struck(*n)).count();
                self.pending.insert(id, (fault, alive));
                all.for_each(|n| self.crash_and_restart(n, id));
            }
            Fault::ServerFreeze => {
                let wait = match self.options.strike_hellos {
                    // Its worker asks again after 10 s, here or elsewhere.
                    true => secs(self, 9_000_000, 25),
                    false => secs(self, 500_000, 12),
                };
                if self.can_be_struck(server) {
                    self.servers[server].doomed = Some(Doom::Freeze(wait));
                    self.servers[server].doomed_by = id;
                    if self.rng.chance(300) && !self.options.strike_hellos {
                        self.strike(server);
                    }
                }
            }
            Fault::ServerCut => {
                self.cut(server, id);
                // With more than two of them, any others too.
                let others = (0..self.servers.len()).filter(|n| *n != server);
                let others: Vec<usize> = others.filter(|_| self.servers.len() > 2).collect();
                for other in others {
                    if self.rng.chance(300) {
                        self.cut(other, id);
                    }
                }
            }
            Fault::ServerDeaf => {
                let wait = secs(self, 500_000, 12);
                self.gate().deaf.insert(server, Broken::by(id));
                self.push_in(wait, Ev::Hears(server));
            }
            Fault::SignLost => {
                let wait = secs(self, 100_000, 5);
                if self.air.goes_out(server) {
                    self.took_hold(id);
                }
                self.push_in(wait, Ev::SignBack(server));
                // It may learn of it only when it is back.
                if self.rng.chance(500) {
                    self.sign_is_out(server);
                }
            }
            Fault::WorkerCrash => {
                let wait = secs(self, 200_000, 10);
                if self.workers[worker].up {
                    self.took_hold(id);
                    self.hit_worker(worker, None);
                    self.crash_worker(worker);
                    if self.rng.chance(150) {
                        self.workers[worker].boot_id += 1;
                    }
                    self.push_in(wait, Ev::StartWorker(worker));
                }
            }
            Fault::WorkerFreeze => {
                let wait = secs(self, 500_000, 35);
                if self.workers[worker].up && !self.workers[worker].frozen {
                    self.took_hold(id);
                    self.hit_worker(worker, None);
                    self.workers[worker].frozen = true;
                    let life = self.workers[worker].life;
                    self.push_in(wait, Ev::ThawWorker(worker, life));
                }
            }
            Fault::Isolate => {
                self.hit_worker(worker, None);
                let wait = secs(self, 5_000_000, 40);
                let up = self.rng.chance(500);
                for server in 0..self.servers.len() {
                    // Even one way is enough: no beat is answered.
                    if up || self.rng.chance(800) {
                        self.blocked_up.insert((worker, server), id);
                    } else {
                        self.blocked_down.insert((worker, server), id);
                    }
                    self.push_in(wait, Ev::Unblock(worker, server));
                }
            }
            Fault::LinkCut | Fault::LinkOneWay => {
                self.hit_worker(worker, Some(server));
                let wait = secs(self, 500_000, 25);
                let up = fault == Fault::LinkCut || self.rng.chance(500);
                if up {
                    self.blocked_up.insert((worker, server), id);
                }
                if fault == Fault::LinkCut || !up {
                    self.blocked_down.insert((worker, server), id);
                }
                self.push_in(wait, Ev::Unblock(worker, server));
            }
        }
    }

    /// A server that serves a Hello stands still, and with it, half of the time, all that could take its
    /// pool: then it answers a worker that has come to it again meanwhile.
    pub(super) fn strike_hello(&mut self, n: usize) {
        let alone = self.rng.chance(500);
        if let Some(Doom::Freeze(wait)) = self.servers[n].doomed
            && alone
        {
            for other in (0..self.servers.len()).filter(|other| *other != n) {
                self.gate().cut.insert(other, Broken::default());
                self.push_in(wait, Ev::Uncut(other));
            }
        }
        self.strike(n);
    }

    /// Cuts a server from the store.
    fn cut(&mut self, server: usize, fault: u64) {
        let wait = self.rng.between(500_000, 12_000_000);
        self.gate().cut.insert(server, Broken::by(fault));
        self.push_in(wait, Ev::Uncut(server));
    }

    fn can_be_struck(&self, n: usize) -> bool {
        self.servers[n].up && !self.servers[n].frozen
    }

    fn crash_and_restart(&mut self, n: usize, fault: u64) {
        let wait = self.rng.between(300_000, 12_000_000);
        if self.can_be_struck(n) {
            self.servers[n].doomed = Some(Doom::Crash(wait));
            self.servers[n].doomed_by = fault;
            if self.rng.chance(500) {
                self.strike(n);
            }
        }
    }

    pub(super) fn unblock(&mut self, worker: usize, server: usize) {
        self.blocked_up.remove(&(worker, server));
        self.blocked_down.remove(&(worker, server));
        self.release_held(worker, server);
    }

    /// Everything works from here on; nothing is restarted that runs.
    pub(super) fn heal(&mut self) {
        self.healed = true;
        self.share_plenty();
        {
            let mut gate = self.gate();
            gate.cut.clear();
            gate.deaf.clear();
            gate.lost_commits = 0;
        }
        for server in 0..self.servers.len() {
            for worker in 0..self.workers.len() {
                self.unblock(worker, server);
            }
            self.servers[server].doomed = None;
            self.air.comes_back(server);
            let life = self.servers[server].life;
            self.thaw_server(server, life);
            self.start_server(server);
        }
        for worker in 0..self.workers.len() {
            let life = self.workers[worker].life;
            self.thaw_worker(worker, life);
            self.start_worker(worker);
        }
    }
}
