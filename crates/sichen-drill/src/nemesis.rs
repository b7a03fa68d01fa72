//! Does what a drill does to its cluster.
//!
//! # Invariants
//! - Only what the drill has started is touched.
//!
//! # Not here
//! When ([`crate::schedule`]), and whether it mattered ([`crate::judge`]).

use crate::database::{self, Database, watch};
use crate::drill::{Act, Link, Who};
use crate::error::Error;
use crate::ground::{Disk, Net};
use crate::proxy::Mode;
use crate::stage::Stage;

/// Who an act is done to, by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    /// The worker, where one is meant.
    pub(crate) worker: Option<usize>,
    /// The server, where one is meant: the first, unless there are several.
    pub(crate) server: usize,
}

impl Stage {
    /// Does it.
    pub(crate) async fn act(&mut self, act: Act, victim: Victim) -> Result<(), Error> {
        match act {
            Act::Nothing => Ok(()),
            Act::Kill { who } => self.kill(who, victim).await,
            Act::Start { who } => self.start(who, victim).await,
            Act::Freeze { who } => self.each(who, victim, |member| member.freeze()),
            Act::Thaw { who } => self.each(who, victim, |member| member.thaw()),
            Act::Roll { who } => self.roll(who).await,
            Act::LoseAnswers { link } => self.set(link, victim, Mode::LoseAnswers),
            Act::LoseRequests { link } => self.set(link, victim, Mode::LoseRequests),
            Act::Stall { link } => self.set(link, victim, Mode::Stall),
            Act::Cut { link } => self.set(link, victim, Mode::Cut),
            Act::Mend { link } => self.set(link, victim, Mode::Carry),
            Act::RestartWorkers => {
                for worker in &mut self.cluster.workers {
                    worker.kill().await?;
                }
                self.set(Link::Workers, victim, Mode::Cut)?;
                self.set(Link::Workers, victim, Mode::Carry)?;
                self.start_workers()
            }
            Act::SlowDownstream => {
                let path = self.home.slow();
                std::fs::write(&path, "").map_err(|e| Error::folder(&path, e))
            }
            Act::QuickDownstream => {
                let path = self.home.slow();
                std::fs::remove_file(&path).map_err(|e| Error::folder(&path, e))
            }
            Act::LoseBeats => self.set(Link::Workers, victim, Mode::LoseBeats),
            Act::CrashDatabase => self.crash_database(victim).await,
            Act::StartDatabase => self.start_database(victim).await,
            Act::PauseDatabase | Act::ResumeDatabase => {
                let pausing = act == Act::PauseDatabase;
                match self.database.as_mut().and_then(|d| d.own.as_mut()) {
                    Some(server) if pausing => server.freeze(),
                    Some(server) => server.thaw(),
                    None => {
                        let mode = if pausing { Mode::Stall } else { Mode::Carry };
                        self.set(Link::Database, victim, mode)?;
                    }
                }
                Ok(())
            }
            Act::DropIndex => {
                self.plans("before").await;
                self.index = Some(self.database()?.drop_index().await?);
                Ok(())
            }
            Act::MakeIndex => {
                self.plans("during").await;
                match self.index.take() {
                    Some(index) => self.database()?.execute(&index).await,
                    None => Ok(()),
                }
            }
            Act::Entangle => {
                let url = self.database()?.url().to_owned();
                self.entangled.spawn(database::entangle(url));
                Ok(())
            }
            Act::Disentangle => {
                self.entangled.shutdown().await;
                Ok(())
            }
            Act::FillJournal | Act::FillStore => self.disk()?.fill(),
            Act::FreeDisk => self.disk()?.free(),
            Act::StepClock { seconds } => self.set_clock(seconds),
            Act::UnstepClock => self.set_clock(0),
            Act::CutOneWay | Act::UncutOneWay | Act::Unplug | Act::Plug => {
                let (net, worker) = (self.net()?, victim.worker.unwrap_or_default());
                match act {
                    Act::CutOneWay => net.cut(worker).await,
                    Act::UncutOneWay => net.mend(worker).await,
                    Act::Unplug => net.unplug(worker).await,
                    _ => net.plug(worker).await,
                }
            }
            Act::LosePackets { per_cent } => self.net()?.lose(per_cent).await,
            Act::DelayPackets { ms, jitter_ms } => {
                let exe = self.program.exe.clone();
                self.net()?.delay(&exe, ms, jitter_ms).await
            }
            Act::CarryPackets => self.net()?.carry().await,
        }
    }

    fn net(&mut self) -> Result<&mut Net, Error> {
        let none = || Error::stage("what is changed", "there are no network namespaces");
        self.net.as_mut().ok_or_else(none)
    }

    fn database(&self) -> Result<&Database, Error> {
        let none = || Error::stage("what is changed", "the server is not on PostgreSQL");
        self.database.as_ref().ok_or_else(none)
    }

    fn disk(&self) -> Result<&Disk, Error> {
        let none = || Error::stage("what is changed", "there is no small disk");
        self.disk.as_ref().ok_or_else(none)
    }

    /// The plans of the statements that were seen so far, as they are now.
    pub(crate) async fn plans(&mut self, when: &'static str) {
        if let Some(database) = &self.database {
            let text = watch::plans(database.url(), &self.watched).await;
            self.plans.push((when, text));
        }
    }

    fn set_clock(&self, seconds: i64) -> Result<(), Error> {
        let path = self.home.clock();
        std::fs::write(&path, format!("{seconds:+}s\n")).map_err(|e| Error::folder(&path, e))
    }

    async fn crash_database(&mut self, victim: Victim) -> Result<(), Error> {
        match self.database.as_mut().and_then(|d| d.own.as_mut()) {
            Some(server) => server.crash().await,
            None => self.set(Link::Database, victim, Mode::Cut),
        }
    }

    async fn start_database(&mut self, victim: Victim) -> Result<(), Error> {
        match self.database.as_mut().and_then(|d| d.own.as_mut()) {
            Some(server) => server.start_again().await,
            None => self.set(Link::Database, victim, Mode::Carry),
        }
    }

    fn set(&mut self, link: Link, victim: Victim, mode: Mode) -> Result<(), Error> {
        let link = match link {
            Link::Workers => self.workers_link.as_ref(),
            Link::Database => self.database_links.get(victim.server),
        };
        let none = || Error::stage("a way that is changed", "no proxy is on it");
        link.ok_or_else(none)?.set(mode);
        Ok(())
    }

    fn each(
        &mut self,
        who: Who,
        victim: Victim,
        mut act: impl FnMut(&mut crate::cluster::Member),
    ) -> Result<(), Error> {
        match who {
            Who::Server => act(&mut self.cluster.servers[victim.server]),
            Who::AWorker => {
                if let Some(member) = self.victim(victim) {
                    act(member);
                }
            }
            Who::All => self.cluster.members().for_each(act),
        }
        Ok(())
    }

    fn victim(&mut self, victim: Victim) -> Option<&mut crate::cluster::Member> {
        self.cluster.workers.get_mut(victim.worker?)
    }

    async fn kill(&mut self, who: Who, victim: Victim) -> Result<(), Error> {
        match who {
            Who::Server => self.cluster.servers[victim.server].kill().await,
            Who::AWorker => match self.victim(victim) {
                Some(member) => member.kill().await,
                None => Ok(()),
            },
            Who::All => {
                self.cluster.kill().await;
                Ok(())
            }
        }
    }

    async fn start(&mut self, who: Who, victim: Victim) -> Result<(), Error> {
        match who {
            Who::Server => self.start_server(victim.server).await,
            Who::AWorker => match self.victim(victim) {
                Some(member) => member.start(),
                None => Ok(()),
            },
            Who::All => {
                for n in 0..self.cluster.servers.len() {
                    self.start_server(n).await?;
                }
                self.start_workers()
            }
        }
    }

    async fn start_server(&mut self, n: usize) -> Result<(), Error> {
        let server = &mut self.cluster.servers[n];
        if server.start_server().await? {
            return Ok(());
        }
        let tail = self.home.tail(&server.name);
        Err(Error::stage(
            &format!("{} did not start", server.name),
            tail,
        ))
    }

    fn start_workers(&mut self) -> Result<(), Error> {
        for worker in self.cluster.workers.iter_mut().filter(|w| !w.is_up()) {
            worker.start()?;
        }
        Ok(())
    }

    async fn roll(&mut self, who: Who) -> Result<(), Error> {
        if who != Who::Server {
            for worker in &mut self.cluster.workers {
                worker.end().await?;
                worker.start()?;
            }
        }
        if who != Who::AWorker {
            for n in 0..self.cluster.servers.len() {
                self.cluster.servers[n].end().await?;
                self.start_server(n).await?;
            }
        }
        Ok(())
    }
}
