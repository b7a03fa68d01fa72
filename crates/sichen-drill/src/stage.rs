//! Carries a drill out: builds the cluster, puts the load on it, does the faults, watches when to stop.
//!
//! # Invariants
//! - What it decides by comes from the tasks' evidence and the plan, never from the scheduler.
//! - Everything has a limit: a cluster that does not settle is a finding, not a wait.
//! - However it ends, nothing that it started is left.
//!
//! # Not here
//! The faults ([`crate::nemesis`]), what came of it ([`crate::outcome`]).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::clock::{Stopwatch, wall_us};
use crate::cluster::{Cluster, Member};
use crate::database::{Database, watch};
use crate::drill::{Act, BEAT_MS, Drill, Ground, Link, SESSION_MS, Store, Variant, Who};
use crate::error::Error;
use crate::evidence::{self, Attempt, Occasion};
use crate::ground::{self, Disk, Net};
use crate::home::{Growing, Home};
use crate::judge::{self, Done};
use crate::load::{self, JOBS};
use crate::nemesis::Victim;
use crate::program::Program;
use crate::proxy::Proxy;
use crate::schedule::{Plan, Planned};
use crate::stop;
use crate::task::{self, Setting};
use crate::{business, catalogue, metrics};
use tokio::task::JoinSet;

/// How often the evidence is looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long a victim that is at work is waited for.
const SEEK_MS: u64 = 5_000;
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
    pub(crate) workers_link: Proxy,
    pub(crate) database_link: Option<Proxy>,
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
    pub(crate) deaths: Vec<String>,
    pub(crate) open: Vec<String>,
    pub(crate) checksum_before: String,
    /// The condition that stopped it, and how long the stop took.
    pub(crate) stopped: Option<(String, u64)>,
    pub(crate) verdict: serde_json::Value,
}

/// The load that a variant puts on.
fn load_of(drill: &Drill, variant: Variant) -> crate::drill::Load {
    match variant {
        Variant::Normal if drill.fault == Act::Nothing => crate::drill::Load::Usual,
        _ => drill.shape.load,
    }
}

impl Stage {
    pub(crate) fn load(&self) -> crate::drill::Load {
        load_of(self.drill, self.plan.variant)
    }

    /// Builds the cluster and waits until it takes work.
    pub(crate) async fn build(order: &Order) -> Result<Self, Error> {
        let plan = order.plan.clone();
        let unknown = || {
            let name = &plan.drill;
            Error::Refused(format!(
                "there is no drill {name:?}; `sichen drill list` has them"
            ))
        };
        let drill = catalogue::find(&plan.drill).ok_or_else(unknown)?;
        ground::check(drill, order.store.as_deref())?;
        let began_us = wall_us();
        let home = Home::make()?;
        let business = |e| Error::stage("the business database", e);
        business::create(&home.business()).map_err(business)?;
        let checksum_before = business::content(&home.business())
            .map_err(business)?
            .checksum;
        let secret = format!("planted-{:016x}", plan.seed ^ 0x5eed_0bad_cafe_f00d);
        // Where nothing is to be reached yet; set when the server answers.
        let nowhere = Proxy::to("127.0.0.1:9".to_owned()).await;
        let server = Member::new(&order.exe, "server", &home.logs());
        let program = Program {
            exe: order.exe.clone(),
            server: String::new(),
            token_file: home.server().join("token"),
        };
        let mut stage = Self {
            cluster: Cluster {
                server,
                peers: Vec::new(),
                workers: Vec::new(),
            },
            workers_link: nowhere.map_err(|e| Error::stage("a proxy", e))?,
            database_link: None,
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
                began_us,
                checksum_before,
                ..Seen::default()
            },
            drill,
            plan,
            home,
            secrets: vec![secret.clone(), order.store.clone().unwrap_or_default()],
            say: order.say,
        };
        stage.lay_ground().await?;
        stage.lay_store(order.store.as_deref()).await?;
        stage.serve().await?;
        stage.hire(&secret)?;
        stage.until_workers_are_there().await?;
        Ok(stage)
    }

    /// Small disks, namespaces, a clock.
    async fn lay_ground(&mut self) -> Result<(), Error> {
        match self.drill.shape.ground {
            Ground::Plain => {}
            Ground::SmallJournal => self.disk = Some(Disk::mount(&self.home.worker("worker-1"))?),
            Ground::SmallStore => self.disk = Some(Disk::mount(&self.home.server())?),
            Ground::Namespaces => {
                let net = Net::make(self.drill.shape.workers).await?;
                self.cluster.server.listen = format!("{}:0", net.server());
                self.cluster.server.words(["--allow-plaintext"]);
                self.net = Some(net);
            }
            Ground::OwnClock => {
                write(&self.home.clock(), "+0s\n")?;
                let server = &mut self.cluster.server;
                server.variable("LD_PRELOAD", ground::faketime().unwrap_or_default());
                server.variable(
                    "FAKETIME_TIMESTAMP_FILE",
                    &self.home.clock().to_string_lossy(),
                );
                server.variable("FAKETIME_CACHE_DURATION", "1");
                // Timers must not jump: it is the wall clock alone that is set.
                server.variable("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            }
        }
        Ok(())
    }

    /// The database, and the way to it.
    async fn lay_store(&mut self, store: Option<&str>) -> Result<(), Error> {
        if store.is_none() && self.drill.store != Store::Postgres {
            return Ok(());
        }
        let database = Database::open(store).await?;
        let link = Proxy::to(database.target()?).await;
        let link = link.map_err(|e| Error::stage("a proxy", e))?;
        // Not among its arguments, which everybody on the machine can read.
        self.cluster
            .server
            .variable("SICHEN_STORE", &database.store(link.address())?);
        self.watching.spawn(watch::watch(
            database.url().to_owned(),
            self.watched.clone(),
        ));
        self.database_link = Some(link);
        self.database = Some(database);
        Ok(())
    }

    /// Starts the server, and the way to it; then its peers.
    async fn serve(&mut self) -> Result<(), Error> {
        let server = &mut self.cluster.server;
        server.begin_with(as_server(self.home.server()));
        server.variable("SICHEN_LOG", "info");
        if !server.start_server().await? {
            return Err(Error::stage(
                "the server did not start",
                self.home.tail("server"),
            ));
        }
        self.program.server = server.address.clone();
        let to = server.address.trim_start_matches("http://").to_owned();
        self.workers_link = Proxy::to(to)
            .await
            .map_err(|e| Error::stage("a proxy", e))?;
        self.secrets
            .extend([read(&self.home, "token"), read(&self.home, "join-token")]);
        for n in 0..self.drill.shape.peers {
            let name = format!("server-{}", n + 2);
            let data = self.home.worker(&name);
            std::fs::create_dir_all(&data).map_err(|e| Error::folder(&data, e))?;
            // One cluster, one pair of tokens.
            for file in ["token", "join-token"] {
                let (from, to) = (self.home.server().join(file), data.join(file));
                std::fs::copy(from, &to).map_err(|e| Error::folder(&to, e))?;
            }
            let mut peer = Member::new(&self.program.exe, &name, &self.home.logs());
            peer.begin_with(as_server(data));
            peer.variable("SICHEN_LOG", "info");
            let database = self.database.as_ref().map(Database::direct);
            peer.variable("SICHEN_STORE", &database.unwrap_or_default());
            if !peer.start_server().await? {
                let tail = self.home.tail(&name);
                return Err(Error::stage(&format!("{name} did not start"), tail));
            }
            self.cluster.peers.push(peer);
        }
        Ok(())
    }

    /// Starts the workers.
    fn hire(&mut self, secret: &str) -> Result<(), Error> {
        let setting = Setting {
            business: self.home.business(),
            evidence: self.home.tasks(),
            slow: self.home.slow(),
            load: self.load().into(),
            mistake: self.plan.mistake,
        };
        let text = serde_json::to_string(&setting).map_err(|e| Error::stage("a setting", e))?;
        write(&self.home.setting(), &text)?;
        for n in 1..=self.drill.shape.workers {
            let name = format!("worker-{n}");
            let config = self.home.worker(&format!("{name}.json"));
            // JSON is YAML, too.
            let text = serde_json::json!({ "processes": { load::HANDLER: {
                "argv": [self.program.exe, "drill", "task"],
                "env": {
                    task::SETTING_VARIABLE: self.home.setting(),
                    task::WORKER_VARIABLE: name,
                    task::SECRET_VARIABLE: secret,
                },
            }}});
            write(&config, &text.to_string())?;
            let mut member = Member::new(&self.program.exe, &name, &self.home.logs());
            let place = self.cluster.workers.len();
            let server = match &self.net {
                Some(_) => self.program.server.clone(),
                None => format!("http://{}", self.workers_link.address()),
            };
            let others: Vec<String> = self
                .cluster
                .peers
                .iter()
                .map(|p| p.address.clone())
                .collect();
            let slots = self.drill.shape.slots.to_string();
            member.words([
                "worker", "--name", &name, "--server", &server, "--slots", &slots,
            ]);
            for other in &others {
                member.words(["--server", other]);
            }
            member.words(["--drain-grace", "10s", "--config"]);
            member.words([
                config.into_os_string(),
                "--data".into(),
                self.home.worker(&name).into(),
            ]);
            member.words([
                "--join-token-file".into(),
                self.home.server().join("join-token").into_os_string(),
            ]);
            if let Some(space) = self.net.as_ref().and_then(|net| net.space(place)) {
                member.inside(space);
            }
            member.start()?;
            self.cluster.workers.push(member);
        }
        Ok(())
    }

    async fn until_workers_are_there(&self) -> Result<(), Error> {
        let watch = Stopwatch::start();
        loop {
            let there = self.program.json(&["get", "workers"]).await?;
            let count = there["items"].as_array().map_or(0, Vec::len);
            if count >= self.cluster.workers.len() {
                return Ok(());
            }
            if watch.is_past(Duration::from_secs(60)) {
                return Err(Error::stage(
                    "the workers did not register",
                    self.home.tail("worker-1"),
                ));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// From the first job to the quiet after the last, or to the moment in which it must be stopped.
    pub(crate) async fn play(&mut self) -> Result<(), Error> {
        let harm = harm(self.home.business(), self.home.path().to_owned());
        // Whatever it is in the middle of: what can't wait is looked for beside it.
        let reason = tokio::select! {
            reason = harm => Some(reason),
            played = self.play_on() => played?,
        };
        let Some(reason) = reason else { return Ok(()) };
        let watch = Stopwatch::start();
        self.cluster.kill().await;
        self.seen.paused_us = (wall_us(), wall_us());
        (self.say)(&format!("stopped: {reason}"));
        self.seen.stopped = Some((reason, watch.ms()));
        Ok(())
    }

    /// Why it must be stopped, if it must.
    async fn play_on(&mut self) -> Result<Option<String>, Error> {
        self.seen.applied_us.0 = wall_us();
        for job in &JOBS {
            let path = self.home.document(job.name);
            write(&path, &load::document(job).to_string())?;
            let path = path.to_string_lossy().into_owned();
            self.program.run(&["apply", "-f", &path]).await?;
        }
        self.seen.applied_us.1 = wall_us();
        (self.say)(&format!(
            "{}: a server and {} workers are at work",
            self.plan.drill,
            self.cluster.workers.len()
        ));
        if let Some(reason) = self.under_load().await? {
            return Ok(Some(reason));
        }
        self.seen.paused_us.0 = wall_us();
        for job in &JOBS {
            self.program.run(&["pause", job.name]).await?;
        }
        self.seen.paused_us.1 = wall_us();
        self.settle().await?;
        let history = self.home.history();
        self.program.write(&["export"], &history).await?;
        self.read_metrics().await;
        self.cluster.dismiss().await?;
        self.watching.shutdown().await;
        self.plans("end").await;
        self.growing.look();
        self.seen.verdict = self.program.verdict(&history).await?;
        Ok(None)
    }

    async fn read_metrics(&mut self) {
        let servers = std::iter::once(&self.cluster.server).chain(&self.cluster.peers);
        for server in servers {
            let text = metrics::read(&server.address, &self.program.token_file).await;
            self.metrics.push((server.name.clone(), text));
        }
    }

    /// The load and the faults; why it was stopped, if it was.
    async fn under_load(&mut self) -> Result<Option<String>, Error> {
        let watch = Stopwatch::start();
        let mut coming: std::collections::VecDeque<Planned> = self.plan.faults.clone().into();
        let mut looked_ms = 0;
        while watch.ms() < self.plan.duration_ms || !coming.is_empty() {
            self.growing.look();
            if watch.ms() >= looked_ms + stop::LOOK_MS {
                looked_ms = watch.ms();
                if let Some(reason) = self.reason_to_stop(false) {
                    return Ok(Some(reason));
                }
            }
            match coming.front().copied() {
                Some(planned) if watch.ms() >= planned.at_ms => {
                    coming.pop_front();
                    if let Some(reason) = self.fault(&planned).await? {
                        return Ok(Some(reason));
                    }
                }
                _ => tokio::time::sleep(TICK).await,
            }
        }
        Ok(None)
    }

    /// One fault from its begin to its heal; why it was stopped, if it was.
    async fn fault(&mut self, planned: &Planned) -> Result<Option<String>, Error> {
        let (victim, in_flight) = self.seek(planned).await;
        let named = self.name(planned.act, victim);
        let at_us = wall_us();
        let watch = Stopwatch::start();
        let lost = self.lost_bytes();
        self.act(planned.act, victim).await?;
        (self.say)(&format!(
            "{} {named}, {} tasks in flight",
            what(planned.act),
            in_flight.len()
        ));
        let mut done = Done {
            act: planned.act,
            victim: named,
            at_us,
            healed_us: at_us,
            in_flight,
            lost_bytes: 0,
            can_miss: planned.act != Act::Nothing,
        };
        let mut looked_ms = 0;
        while planned.heal.is_some() && watch.ms() < planned.hold_ms {
            self.growing.look();
            if watch.ms() >= looked_ms + stop::LOOK_MS {
                looked_ms = watch.ms();
                if let Some(reason) = self.reason_to_stop(true) {
                    done.healed_us = wall_us();
                    self.seen.faults.push(done);
                    return Ok(Some(reason));
                }
            }
            tokio::time::sleep(TICK).await;
        }
        if let Some(heal) = planned.heal {
            self.act(heal, victim).await?;
            (self.say)(&format!("{} after {} ms", what(heal), watch.ms()));
        }
        done.healed_us = wall_us();
        done.lost_bytes = self.lost_bytes() - lost;
        self.seen.faults.push(done);
        Ok(None)
    }

    fn lost_bytes(&self) -> u64 {
        let links = std::iter::once(&self.workers_link).chain(&self.database_link);
        links.map(Proxy::lost_bytes).sum()
    }

    /// Who it will be, and what is at work there: waits a while for something that has done a part of
    /// its work, which is when a fault can do the most harm.
    async fn seek(&mut self, planned: &Planned) -> (Victim, Vec<String>) {
        let watch = Stopwatch::start();
        let one = matches!(
            planned.act,
            Act::Kill { who: Who::AWorker }
                | Act::Freeze { who: Who::AWorker }
                | Act::CutOneWay
                | Act::Unplug
        );
        loop {
            self.growing.look();
            let at_work = self.at_work();
            // Whoever has died meanwhile is not waited for.
            let dead = self.cluster.members().filter_map(Member::death);
            self.seen.deaths.extend(dead);
            let in_time = watch.ms() <= SEEK_MS && self.seen.deaths.is_empty();
            let half_done = at_work.iter().filter(|a| a.steps > 0);
            let busy: BTreeSet<String> = half_done.map(|a| a.worker.clone()).collect();
            if !busy.is_empty() || !in_time {
                let victim = if one {
                    self.draw(planned.draw, &busy)
                } else {
                    None
                };
                let named = victim.map(|w| self.cluster.workers[w].name.clone());
                let hit = at_work
                    .iter()
                    .filter(|a| named.as_ref().is_none_or(|n| &a.worker == n));
                return (Victim(victim), hit.map(judge::name).collect());
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

    fn name(&self, act: Act, Victim(worker): Victim) -> String {
        if let Some(member) = worker.and_then(|w| self.cluster.workers.get(w)) {
            return member.name.clone();
        }
        match act {
            Act::Kill { who } | Act::Freeze { who } | Act::Roll { who } => match who {
                Who::Server => "the server".to_owned(),
                Who::AWorker | Who::All => "server and workers".to_owned(),
            },
            Act::LoseAnswers {
                link: Link::Database,
            }
            | Act::Stall {
                link: Link::Database,
            } => "the server's way to its database".to_owned(),
            Act::Stall { .. } | Act::LoseAnswers { .. } | Act::LoseRequests { .. } => {
                "the workers' way to the server".to_owned()
            }
            Act::LoseBeats | Act::LosePackets { .. } | Act::DelayPackets { .. } => {
                "the workers' way to the server".to_owned()
            }
            Act::Cut { .. } => "the server's way to its database".to_owned(),
            _ => String::new(),
        }
    }

    /// Looks whether the drill must be stopped.
    fn reason_to_stop(&mut self, fault_is_on: bool) -> Option<String> {
        let deaths: Vec<String> = self.cluster.members().filter_map(Member::death).collect();
        self.seen.deaths.extend(deaths);
        let began = self.growing.lines.iter().map(|l| l.at_us).max();
        let healed = self.seen.faults.last().map(|f| f.healed_us);
        let since = began
            .into_iter()
            .chain(healed)
            .chain([self.seen.applied_us.1])
            .max();
        let silence_us = wall_us() - since.unwrap_or(i64::MAX);
        let silence_ms = match fault_is_on {
            true => 0,
            false => u64::try_from(silence_us / 1_000).unwrap_or(0),
        };
        stop::reason(&stop::Look {
            deaths: self.seen.deaths.clone(),
            silence_ms,
            // The rest is looked for beside it ([`harm`]).
            ..stop::Look::harmless()
        })
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

/// Harm that is seen without the cluster, at the moment in which it is there: a posting that stands
/// twice, a disk that is nearly full.
async fn harm(business: PathBuf, home: PathBuf) -> String {
    loop {
        tokio::time::sleep(Duration::from_millis(stop::LOOK_MS)).await;
        let look = stop::Look {
            // What can't be read now is read the next time.
            doubled: business::doubled(&business).unwrap_or_default(),
            free_bytes: free_bytes(&home),
            ..stop::Look::harmless()
        };
        if let Some(reason) = stop::reason(&look) {
            return reason;
        }
    }
}

/// The words of a server on `data`.
fn as_server(data: PathBuf) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["server".into(), "--data".into(), data.into()];
    words.extend(["--beat".into(), format!("{BEAT_MS}ms").into()]);
    words.extend(["--session-ttl".into(), format!("{SESSION_MS}ms").into()]);
    words
}

/// An act's word.
pub(crate) fn what(act: Act) -> String {
    let value = serde_json::to_value(act).unwrap_or_default();
    value["do"].as_str().unwrap_or("act").replace('-', " ")
}

fn read(home: &Home, name: &str) -> String {
    std::fs::read_to_string(home.server().join(name)).unwrap_or_default()
}

fn write(path: &std::path::Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|e| Error::folder(path, e))
}

fn free_bytes(path: &std::path::Path) -> u64 {
    #[allow(clippy::useless_conversion, reason = "of another width elsewhere")]
    let free = |stat: nix::sys::statvfs::Statvfs| {
        u64::from(stat.blocks_available()).saturating_mul(stat.fragment_size().into())
    };
    // A place that can't be asked is not said to be full.
    nix::sys::statvfs::statvfs(path).map_or(u64::MAX, free)
}
