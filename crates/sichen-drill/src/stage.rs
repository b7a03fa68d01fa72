//! Carries a drill out: builds the cluster, puts the load on it, does the faults, watches when to stop.
//!
//! # Invariants
//! - What it decides by comes from the tasks' evidence and the plan; of the scheduler it asks only whom
//!   a fault must be done to.
//! - Everything has a limit: a cluster that does not settle is a finding, not a wait.
//! - However it ends, nothing that it started is left.
//!
//! # Not here
//! Building it ([`build`]), whom a fault is done to ([`seek`]), the faults ([`crate::nemesis`]), what came of it ([`crate::outcome`]).

mod build;
mod seek;

use std::path::PathBuf;
use std::time::Duration;

use crate::clock::{Stopwatch, wall_us};
use crate::cluster::{Cluster, Living, Member};
use crate::conditions::{Around, conditions};
use crate::database::{Database, watch};
use crate::drill::{Act, Drill, RECOVERY_MS, Variant};
use crate::error::Error;
use crate::evidence::{self, Occasion};
use crate::ground::{self, Disk, Net};
use crate::guard::{Calm, Guard};
use crate::home::{Growing, Home};
use crate::judge::{self, Done};
use crate::load::{self, JOBS};
use crate::nemesis::Victim;
use crate::program::Program;
use crate::proxy::Proxy;
use crate::schedule::{Plan, Planned};
use crate::stop;
use crate::{catalogue, metrics};
use tokio::task::JoinSet;

/// How often the evidence is looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long a victim that is at work is waited for.
const SEEK_MS: u64 = 5_000;
/// How long the history of a drill that could not be finished is waited for.
const RESCUE: Duration = Duration::from_secs(10);
/// How long the cluster may take to become quiet after the load, beyond what the drill held it up.
const SETTLE_MS: u64 = 60_000;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Order {
    /// The program under drill.
    pub exe: PathBuf,
    /// What will be done.
    pub plan: Plan,
    /// The address of a PostgreSQL database that the server is to use.
    pub store: Option<String>,
    /// Told what happens, for people.
    pub say: fn(&str),
}

/// A cluster with its load, and what was seen of it.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) drill: &'static Drill,
    pub(crate) plan: Plan,
    pub(crate) cluster: Cluster,
    /// To the first server, once that answers.
    pub(crate) workers_link: Option<Proxy>,
    /// Each server's own.
    pub(crate) database_links: Vec<Proxy>,
    /// After the cluster, which uses it.
    pub(crate) database: Option<Database>,
    pub(crate) watched: watch::Shared,
    watching: JoinSet<()>,
    /// Another program that takes rows.
    pub(crate) entangled: JoinSet<()>,
    /// How to make again the index that was dropped.
    pub(crate) index: Option<String>,
    /// What each server counted, at the end of the load.
    pub(crate) metrics: Vec<(String, String)>,
    /// Plans, and when they were made.
    pub(crate) plans: Vec<(&'static str, String)>,
    pub(crate) disk: Option<Disk>,
    pub(crate) net: Option<Net>,
    pub(crate) program: Program,
    pub(crate) growing: Growing,
    pub(crate) seen: Seen,
    pub(crate) home: Home,
    pub(crate) secrets: Vec<String>,
    calm: Calm,
    say: fn(&str),
}

/// What the stage has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) began_us: i64,
    /// Occasions in (.0, .1] may have been taken, those in (.1, …] must: jobs were written between.
    pub(crate) applied_us: (i64, i64),
    pub(crate) paused_us: (i64, i64),
    pub(crate) faults: Vec<Done>,
    /// The last of them is not healed yet.
    pub(crate) fault_is_on: bool,
    pub(crate) deaths: Vec<String>,
    pub(crate) open: Vec<String>,
    /// Of the program and the store: what was known of them.
    pub(crate) around: Around,
    pub(crate) checksum_before: String,
    /// The condition that stopped it, and how long the stop took; `None` where something had not ended
    /// when it should have.
    pub(crate) stopped: Option<(String, Option<u64>)>,
    pub(crate) verdict: serde_json::Value,
}

/// The drill that is asked for, if it can be carried out here.
///
/// # Errors
/// [`Error::Refused`], before anything is started or written.
pub(crate) fn find(order: &Order) -> Result<&'static Drill, Error> {
    let unknown = || {
        let name = &order.plan.drill;
        Error::Refused(format!(
            "there is no drill {name:?}; `sichen drill list` has them"
        ))
    };
    let drill = catalogue::find(&order.plan.drill).ok_or_else(unknown)?;
    ground::check(drill, order.store.as_deref())?;
    Ok(drill)
}

/// The load that a variant puts on.
pub(crate) fn load_of(drill: &Drill, variant: Variant) -> crate::drill::Load {
    match variant {
        Variant::Normal if drill.fault == Act::Nothing => crate::drill::Load::Usual,
        _ => drill.shape.load,
    }
}

impl Stage {
    pub(crate) fn load(&self) -> crate::drill::Load {
        load_of(self.drill, self.plan.variant)
    }

    /// One in which nothing has been done yet.
    ///
    /// # Errors
    /// If there is no directory to be had for its files.
    pub(crate) fn new(order: &Order, drill: &'static Drill) -> Result<Self, Error> {
        let home = Home::make()?;
        let plan = order.plan.clone();
        let secret = format!("planted-{:016x}", plan.seed ^ 0x5eed_0bad_cafe_f00d);
        let living = Living::default();
        let server = Member::new(&order.exe, "server", &home.logs(), &living);
        let program = Program {
            exe: order.exe.clone(),
            server: String::new(),
            token_file: home.server().join("token"),
        };
        Ok(Self {
            cluster: Cluster {
                servers: vec![server],
                workers: Vec::new(),
                living,
            },
            workers_link: None,
            database_links: Vec::new(),
            database: None,
            watched: watch::Shared::default(),
            watching: JoinSet::new(),
            entangled: JoinSet::new(),
            index: None,
            metrics: Vec::new(),
            plans: Vec::new(),
            disk: None,
            net: None,
            program,
            growing: Growing::new(home.tasks()),
            seen: Seen {
                began_us: wall_us(),
                ..Seen::default()
            },
            drill,
            plan,
            home,
            secrets: vec![secret, order.store.clone().unwrap_or_default()],
            calm: Calm::default(),
            say: order.say,
        })
    }

    /// All conditions, by name.
    pub(crate) fn conditions(&self) -> std::collections::BTreeMap<String, String> {
        conditions(self.drill, &self.plan, &self.seen.around)
    }

    /// From the first job to the quiet after the last, or to the moment in which it must be stopped.
    pub(crate) async fn play(&mut self) -> Result<(), Error> {
        let new = |stage: &Self| Guard::new(&stage.home, &stage.cluster.living, &stage.calm);
        let mut last = new(self);
        let mut guard = JoinSet::new();
        // Whatever it is in the middle of: it is looked for beside it.
        guard.spawn(new(self).until_harm());
        let played = tokio::select! {
            Some(Ok(reason)) = guard.join_next() => Ok(Some(reason)),
            played = self.play_on(&mut last) => played,
        };
        // What can't go on because something ended by itself was stopped by that.
        let reason = match played {
            Ok(reason) => reason,
            Err(error) => Some(last.look().ok_or(error)?),
        };
        let Some(reason) = reason else { return Ok(()) };
        let watch = Stopwatch::start();
        self.seen.deaths.extend(self.cluster.living.deaths());
        self.fault_ends();
        let rest = Duration::from_millis(stop::WITHIN_MS - stop::LOOK_MS);
        // What has got SIGKILL and does not end (its disk hangs) is not waited for any longer.
        let ended = tokio::time::timeout(rest, self.cluster.kill()).await;
        self.seen.paused_us = (wall_us(), wall_us());
        (self.say)(&format!("stopped: {reason}"));
        self.seen.stopped = Some((reason, ended.is_ok().then(|| watch.ms())));
        Ok(())
    }

    /// Why it must be stopped, if it must.
    async fn play_on(&mut self, last: &mut Guard) -> Result<Option<String>, Error> {
        self.seen.applied_us.0 = wall_us();
        for job in &JOBS {
            let path = self.home.document(job.name);
            write(&path, &load::document(job).to_string())?;
            let path = path.to_string_lossy().into_owned();
            self.program.run(&["apply", "-f", &path]).await?;
        }
        self.seen.applied_us.1 = wall_us();
        (self.say)(&format!(
            "{}: {} server(s) and {} workers are at work",
            self.plan.drill,
            self.cluster.servers.len(),
            self.cluster.workers.len()
        ));
        self.calm.begins();
        self.under_load().await?;
        self.calm.ends();
        self.seen.paused_us.0 = wall_us();
        for job in &JOBS {
            self.program.run(&["pause", job.name]).await?;
        }
        self.seen.paused_us.1 = wall_us();
        self.settle().await?;
        self.program
            .write(&["export"], &self.home.history())
            .await?;
        self.read_metrics().await;
        if let Some(reason) = last.look() {
            return Ok(Some(reason));
        }
        self.cluster.dismiss().await?;
        self.watching.shutdown().await;
        self.plans("end").await;
        self.growing.look();
        self.seen.verdict = self.program.verdict(&self.home.history()).await?;
        Ok(None)
    }

    /// Of a drill that could not be finished: what there is of its history, and the end of all its
    /// processes.
    pub(crate) async fn give_up(&mut self) {
        let until = wall_us();
        self.fault_ends();
        if self.seen.applied_us.1 != 0 && self.seen.paused_us.0 == 0 {
            self.seen.paused_us = (until, until);
        }
        if self.seen.applied_us.0 != 0 && !self.home.history().exists() {
            let history = self.home.history();
            let asked = async {
                self.program.write(&["export"], &history).await?;
                self.program.verdict(&history).await
            };
            if let Ok(Ok(verdict)) = tokio::time::timeout(RESCUE, asked).await {
                self.seen.verdict = verdict;
            }
        }
        self.read_metrics().await;
        if let Some(server) = self.database.as_mut().and_then(|d| d.own.as_mut()) {
            server.thaw();
        }
        self.cluster.kill().await;
        self.watching.shutdown().await;
        self.entangled.shutdown().await;
    }

    async fn read_metrics(&mut self) {
        for server in self
            .cluster
            .servers
            .iter()
            .filter(|s| s.is_up() && !s.is_frozen())
        {
            let text = metrics::read(&server.address, &self.program.token_file).await;
            self.metrics.push((server.name.clone(), text));
        }
    }

    /// The load and the faults, and the load still on until what was hit is at work again, or should be.
    async fn under_load(&mut self) -> Result<(), Error> {
        let watch = Stopwatch::start();
        let mut coming: std::collections::VecDeque<Planned> = self.plan.faults.clone().into();
        while watch.ms() < self.plan.duration_ms || !coming.is_empty() || self.awaits_recovery() {
            self.growing.look();
            match coming.front().copied() {
                Some(planned) if watch.ms() >= planned.at_ms => {
                    coming.pop_front();
                    self.fault(&planned).await?;
                }
                _ => tokio::time::sleep(TICK).await,
            }
        }
        Ok(())
    }

    fn awaits_recovery(&self) -> bool {
        let recovery_us = i64::try_from(RECOVERY_MS).unwrap_or(0) * 1_000;
        let Some(last) = self.seen.faults.last() else {
            return false;
        };
        wall_us() < last.healed_us + recovery_us
            && judge::recovery(last, &evidence::attempts(&self.growing.lines)).is_none()
    }

    /// One fault from its begin to its heal.
    async fn fault(&mut self, planned: &Planned) -> Result<(), Error> {
        let (victim, in_flight) = self.seek(planned).await;
        let named = self.name(planned.act, victim);
        let held = match is_of_a_peer(self.drill, planned.act) {
            true => self.held_by(victim).await,
            false => Vec::new(),
        };
        let at_us = wall_us();
        let watch = Stopwatch::start();
        let lost = links_lost(&self.workers_link, &self.database_links);
        self.calm.ends();
        let done = Done {
            act: planned.act,
            victim: named,
            at_us,
            healed_us: at_us,
            hit: judge::is_hit(self.drill, &in_flight, &held),
            in_flight,
            held,
            lost_bytes: 0,
            can_miss: planned.act != Act::Nothing,
        };
        // Written down first: the drill may be stopped in the middle of it.
        self.seen.faults.push(done.clone());
        self.seen.fault_is_on = true;
        let ended = self.do_and_heal(planned, victim, &done, watch).await;
        self.fault_ends();
        if let Some(fault) = self.seen.faults.last_mut() {
            fault.lost_bytes = links_lost(&self.workers_link, &self.database_links) - lost;
        }
        self.calm.begins();
        ended
    }

    /// It is healed, or all that it was done to is at its end.
    fn fault_ends(&mut self) {
        if let (true, Some(fault)) = (self.seen.fault_is_on, self.seen.faults.last_mut()) {
            fault.healed_us = wall_us();
        }
        self.seen.fault_is_on = false;
    }

    async fn do_and_heal(
        &mut self,
        planned: &Planned,
        victim: Victim,
        done: &Done,
        watch: Stopwatch,
    ) -> Result<(), Error> {
        self.act(planned.act, victim).await?;
        (self.say)(&format!(
            "{} {}, {} tasks in flight",
            what(planned.act),
            done.victim,
            done.in_flight.len()
        ));
        while planned.heal.is_some() && watch.ms() < planned.hold_ms {
            self.growing.look();
            tokio::time::sleep(TICK).await;
        }
        if let Some(heal) = planned.heal {
            self.act(heal, victim).await?;
            (self.say)(&format!("{} after {} ms", what(heal), watch.ms()));
        }
        Ok(())
    }

    /// Waits until no run is open.
    async fn settle(&mut self) -> Result<(), Error> {
        let watch = Stopwatch::start();
        loop {
            let mut open = Vec::new();
            for state in ["scheduled", "running"] {
                let runs = self
                    .program
                    .json(&["runs", "--limit", "100", "--state", state])
                    .await?;
                let keys = runs["items"].as_array().into_iter().flatten();
                open.extend(
                    keys.map(|r| format!("{} is {state}", r["key"].as_str().unwrap_or("?"))),
                );
            }
            if open.is_empty() || watch.ms() > SETTLE_MS {
                self.seen.open = open;
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// What must have been taken, and what may have been.
    pub(crate) fn occasions(&self) -> (Vec<Occasion>, Vec<Occasion>) {
        let (asked, done) = self.seen.applied_us;
        let (pausing, paused) = self.seen.paused_us;
        let must = load::occasions(done, pausing);
        let mut may = load::occasions(asked, done);
        may.extend(load::occasions(pausing, paused));
        (must, may)
    }
}

fn links_lost(workers: &Option<Proxy>, database: &[Proxy]) -> u64 {
    workers.iter().chain(database).map(Proxy::lost_bytes).sum()
}

/// Whether an act is done to one of several servers.
fn is_of_a_peer(drill: &Drill, act: Act) -> bool {
    drill.shape.peers > 0 && act != Act::Nothing
}

/// An act's word.
pub(crate) fn what(act: Act) -> String {
    let value = serde_json::to_value(act).unwrap_or_default();
    value["do"].as_str().unwrap_or("act").replace('-', " ")
}

fn write(path: &std::path::Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|e| Error::folder(path, e))
}
