//! Whom a fault is done to: who is at work, and which of several servers has the workers' pool.
//!
//! # Not here
//! Doing it ([`crate::nemesis`]).

use std::collections::BTreeSet;

use super::{SEEK_MS, Stage, TICK, is_of_a_peer};
use crate::clock::{Stopwatch, wall_us};
use crate::drill::{Act, Link, Who};
use crate::evidence::{self, Attempt};
use crate::judge;
use crate::load::STEPS;
use crate::members::{self, Members, POOL};
use crate::nemesis::Victim;
use crate::schedule::Planned;

impl Stage {
    /// Which server has the workers' pool, as the servers say.
    async fn owner_of_pool(&self) -> Option<usize> {
        let members = self.members().await?;
        let owner = members::host(members.owner(POOL)?).to_owned();
        let mut servers = self.cluster.servers.iter();
        servers.position(|server| members::host(&server.address) == owner)
    }

    pub(super) async fn held_by(&self, victim: Victim) -> Vec<String> {
        let (server, members) = (&self.cluster.servers[victim.server], self.members().await);
        members.map_or(Vec::new(), |members| members.held(&server.address))
    }

    /// As the first that answers sees them.
    async fn members(&self) -> Option<Members> {
        for server in self.cluster.servers.iter().filter(|s| s.is_up()) {
            let said = Members::ask(&server.address, &self.program.token_file).await;
            if said.is_some() {
                return said;
            }
        }
        None
    }

    /// Who it will be, and what is at work there: waits a while for something that has done a part of
    /// its work and has some of it before it, which is when a fault can do the most harm.
    pub(super) async fn seek(&mut self, planned: &Planned) -> (Victim, Vec<String>) {
        let watch = Stopwatch::start();
        let of_a_peer = is_of_a_peer(self.drill, planned.act);
        loop {
            self.growing.look();
            let at_work = self.at_work();
            let in_time = watch.ms() <= SEEK_MS;
            let half_done = at_work
                .iter()
                .filter(|a| (1..=STEPS / 2).contains(&a.steps));
            let busy: BTreeSet<String> = half_done.map(|a| a.worker.clone()).collect();
            let place = |worker: &crate::cluster::Member| busy.contains(&worker.name);
            let worker = match planned.act {
                act if is_of_one_worker(act) => Some(self.draw(planned.draw, &busy)),
                // The small disk is the first one's.
                Act::FillJournal => Some(Some(0)),
                _ => None,
            };
            let is_busy = match worker {
                Some(place_of) => place_of.is_some_and(|w| place(&self.cluster.workers[w])),
                None => !busy.is_empty(),
            };
            let server = match of_a_peer {
                true => self.owner_of_pool().await,
                false => Some(0),
            };
            if is_busy && server.is_some() || !in_time {
                let worker = worker.flatten();
                let named = worker.map(|w| self.cluster.workers[w].name.clone());
                let hit = at_work
                    .iter()
                    .filter(|a| named.as_ref().is_none_or(|n| &a.worker == n));
                let victim = Victim {
                    worker,
                    server: server.unwrap_or(0),
                };
                return (victim, hit.map(judge::name).collect());
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// One of the workers, of the `busy` ones if there are any.
    fn draw(&self, draw: u32, busy: &BTreeSet<String>) -> Option<usize> {
        let workers = self.cluster.workers.iter().enumerate();
        let from = workers.filter(|(_, w)| busy.is_empty() || busy.contains(&w.name));
        let from: Vec<usize> = from.map(|(place, _)| place).collect();
        let place = usize::try_from(draw).ok()?.checked_rem(from.len())?;
        from.get(place).copied()
    }

    /// Attempts that have begun and not ended, as far as their own evidence says, on workers that are
    /// up. Older ones than a session may have been cut short long ago.
    fn at_work(&self) -> Vec<Attempt> {
        let up: BTreeSet<&str> = self
            .cluster
            .workers
            .iter()
            .filter(|w| w.is_up() && !w.is_frozen())
            .map(|w| w.name.as_str())
            .collect();
        let fresh = wall_us() - 2_000_000;
        let attempts = evidence::attempts(&self.growing.lines).into_iter();
        attempts
            .filter(|a| a.ended_us.is_none() && !a.refused && a.last_us > fresh)
            .filter(|a| up.contains(a.worker.as_str()))
            .collect()
    }

    pub(super) fn name(&self, act: Act, victim: Victim) -> String {
        if let Some(member) = victim.worker.and_then(|w| self.cluster.workers.get(w)) {
            return member.name.clone();
        }
        let server = match self.cluster.servers.as_slice() {
            [_] => "the server".to_owned(),
            servers => servers[victim.server].name.clone(),
        };
        match act {
            Act::Kill { who } | Act::Freeze { who } | Act::Roll { who } => match who {
                Who::Server => server,
                Who::AWorker | Who::All => "server and workers".to_owned(),
            },
            Act::LoseAnswers {
                link: Link::Database,
            }
            | Act::Stall {
                link: Link::Database,
            }
            | Act::Cut { .. } => format!("{server}'s way to its database"),
            Act::Stall { .. } | Act::LoseAnswers { .. } | Act::LoseRequests { .. } => {
                "the workers' way to the server".to_owned()
            }
            Act::LoseBeats | Act::LosePackets { .. } | Act::DelayPackets { .. } => {
                "the workers' way to the server".to_owned()
            }
            _ => String::new(),
        }
    }
}

/// Whether an act is done to one of the workers, drawn from the seed.
fn is_of_one_worker(act: Act) -> bool {
    matches!(
        act,
        Act::Kill { who: Who::AWorker }
            | Act::Freeze { who: Who::AWorker }
            | Act::CutOneWay
            | Act::Unplug
    )
}
