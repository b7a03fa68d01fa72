//! `cargo xtask failover`: how long it takes until somebody else does the work of who goes.
//!
//! Three servers of the built program over one throwaway PostgreSQL, each with a way of its own to it, and
//! workers that hold an attempt; jobs with an instant each second, spread over the partitions, tell when these
//! are decided again. Round after round the owner of the workers' pool is stopped, killed,
//! frozen or silently cut off from the database, the database itself crashes, or a worker is killed. The
//! distributions go to the standard output as JSON, each with its bound
//! (docs/guide/production-postgresql.md).
//!
//! # Invariants
//! - A distribution whose p99 is beyond its bound fails the command, as does a history that the checker
//!   does not accept, and a lease that was lost while only servers went.
//!
//! # Not here
//! Claims about single cases: they are process tests (`crates/sichen/tests/it/peers.rs`).

#![expect(
    clippy::disallowed_methods,
    reason = "it measures real processes, in real time"
)]

mod cluster;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use cluster::{Cluster, SERVERS, is_taken, until};

/// How long a session lasts without a beat, by default.
const SESSION: Duration = Duration::from_secs(15);
/// The same where workers are killed, in seconds.
const SESSION_S: u128 = 6;
/// Jobs that tick, so many that each server has some of them.
const TICKING: usize = 24;

#[derive(Debug, Args)]
pub struct Options {
    /// Rounds of each kind
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// The program to measure
    #[arg(long, default_value = "target/release/sichen")]
    program: PathBuf,
}

/// How a server goes.
#[derive(Clone, Copy)]
enum How {
    Signal(Signal),
    /// Nothing passes between it and the database, and nobody is told.
    Cut,
}

/// A way to go, and the milliseconds within which the duties must be in other hands, every job's next instant
/// decided there, and the worker with another server.
struct Kind {
    name: &'static str,
    how: How,
    duties_ms: u128,
    decided_ms: u128,
    worker_ms: u128,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "stopped",
        how: How::Signal(Signal::SIGTERM),
        duties_ms: 1_000,
        decided_ms: 2_000,
        worker_ms: 3_000,
    },
    Kind {
        name: "killed",
        how: How::Signal(Signal::SIGKILL),
        duties_ms: 2_000,
        decided_ms: 2_000,
        worker_ms: 3_000,
    },
    Kind {
        name: "frozen",
        how: How::Signal(Signal::SIGSTOP),
        duties_ms: 7_000,
        decided_ms: 7_000,
        worker_ms: 10_000,
    },
    Kind {
        name: "cut from the database",
        how: How::Cut,
        duties_ms: 7_000,
        decided_ms: 7_000,
        worker_ms: 10_000,
    },
];

/// What was measured, by name, with its bound.
#[derive(Default)]
struct Figures(BTreeMap<String, (u128, Vec<u128>)>);

impl Figures {
    fn add(&mut self, name: String, bound_ms: u128, took_ms: u128) {
        let entry = self.0.entry(name);
        entry.or_insert((bound_ms, Vec::new())).1.push(took_ms);
    }

    /// Prints the distributions.
    fn report(self) -> Result<()> {
        let mut shown = serde_json::Map::new();
        let mut late = Vec::new();
        for (name, (bound, mut samples)) in self.0 {
            samples.sort_unstable();
            let at = |percent: usize| samples[(samples.len() - 1) * percent / 100];
            let p99 = samples[(samples.len() * 99).div_ceil(100) - 1];
            let distribution = json!({
                "samples": samples.len(), "p50_ms": at(50), "p90_ms": at(90), "p99_ms": p99,
                "max_ms": samples.last(), "bound_ms": bound,
            });
            if p99 > bound {
                late.push(name.clone());
            }
            shown.insert(name, distribution);
        }
        println!("{:#}", Value::Object(shown));
        if !late.is_empty() {
            bail!("out of bounds: {}", late.join("; "));
        }
        Ok(())
    }
}

/// Measures and prints.
///
/// # Errors
/// When there is no PostgreSQL, a server does not start, or a distribution is out of its bound.
pub fn run(options: &Options) -> Result<()> {
    let mut figures = Figures::default();
    servers_go(options, &mut figures)?;
    workers_go(options, &mut figures)?;
    figures.report()
}

fn servers_go(options: &Options, figures: &mut Figures) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut cluster = Cluster::start(&options.program, dir.path(), &[])?;
    cluster.work("w1")?;
    cluster.apply_sleep("held")?;
    cluster.command(&["run", "held", "--key", "k"])?;
    cluster.apply_ticking(TICKING)?;
    cluster.rested()?;
    for kind in KINDS {
        for round in 0..options.rounds {
            let Gone {
                moved,
                decided,
                beat,
                ready,
            } = goes(&mut cluster, kind)?;
            let name = kind.name;
            eprintln!("{name} {round}: {moved} {decided} {beat} {ready} ms");
            let named = |what: &str| format!("server {name}: {what}");
            figures.add(named("duties in other hands"), kind.duties_ms, moved);
            figures.add(named("its partitions decided"), kind.decided_ms, decided);
            figures.add(named("worker beats elsewhere"), kind.worker_ms, beat);
            figures.add(named("all ready after the heal"), 10_000, ready);
        }
    }
    for round in 0..options.rounds {
        let ready = database_crashes(&mut cluster)?;
        eprintln!("database crashed {round}: {ready} ms");
        let name = "database crashed: all ready after its start".to_owned();
        figures.add(name, 10_000, ready);
    }
    let attempts = cluster.shard("held:manual:k")?["attempt"].clone();
    ensure!(
        attempts == 1,
        "the worker's attempt was given out {attempts} times"
    );
    cluster.verify()
}

/// What was measured of one server that went, in milliseconds.
#[derive(Default)]
struct Gone {
    moved: u128,
    decided: u128,
    beat: u128,
    ready: u128,
}

/// One server goes and comes back: until its duties are in other hands, until every job has an instant decided from
/// after it went, until the worker has beaten at another, until all are ready again.
fn goes(cluster: &mut Cluster, kind: &Kind) -> Result<Gone> {
    let n = cluster.owner()?;
    let going = cluster.servers[n].url();
    let other = &cluster.servers[(n + 1) % SERVERS];
    // The database has this machine's clock; a session ends so long after its last beat.
    let went = jiff::Timestamp::now();
    let no_beat_since = went + SESSION;
    let started = Instant::now();
    match kind.how {
        How::Signal(signal) => cluster.servers[n].signal(signal)?,
        How::Cut => cluster.servers[n].link.swallow_all(),
    }
    let (mut moved, mut decided, mut beat) = (None, None, None);
    until("others have taken over", || {
        let at = || Some(started.elapsed().as_millis());
        if moved.is_none() {
            let members = other.get("/api/v1/members");
            moved = at().filter(|_| members.is_ok_and(|m| is_taken(&m, &going)));
        }
        if decided.is_none() {
            let oldest = other.decided_until();
            decided = at().filter(|_| oldest.is_ok_and(|oldest| oldest >= went));
        }
        if beat.is_none() {
            let end = other.expires_at("w1");
            beat = at().filter(|_| end.is_ok_and(|end| end > no_beat_since));
        }
        moved.is_some() && decided.is_some() && beat.is_some()
    })?;
    let healed = Instant::now();
    match kind.how {
        How::Signal(Signal::SIGSTOP) => cluster.servers[n].signal(Signal::SIGCONT)?,
        How::Signal(_) => cluster.serve_again(n)?,
        How::Cut => cluster.servers[n].link.heal(),
    }
    cluster.all_ready()?;
    let ready = healed.elapsed().as_millis();
    cluster.rested()?;
    Ok(Gone {
        moved: moved.unwrap_or_default(),
        decided: decided.unwrap_or_default(),
        beat: beat.unwrap_or_default(),
        ready,
    })
}

/// As a crash ends it, for a second; then until every server is ready.
fn database_crashes(cluster: &mut Cluster) -> Result<u128> {
    cluster.database.stop_at_once();
    until("a server says so", || !cluster.servers[0].is_ready())?;
    cluster.database.start_again();
    let healed = Instant::now();
    cluster.all_ready()?;
    let healed = healed.elapsed().as_millis();
    cluster.rested()?;
    Ok(healed)
}

fn workers_go(options: &Options, figures: &mut Figures) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ttl = format!("{SESSION_S}s");
    let rhythm = ["--beat", "1s", "--session-ttl", &ttl];
    let mut cluster = Cluster::start(&options.program, dir.path(), &rhythm)?;
    for name in ["w1", "w2"] {
        cluster.work(name)?;
    }
    cluster.apply_sleep("held")?;
    cluster.rested()?;
    for round in 0..options.rounds {
        for (comes_back, name, bound) in [
            (true, "worker killed and back: its shard granted", 2_000),
            (
                false,
                "worker killed for good: its shard granted",
                SESSION_S * 1_000 + 1_000,
            ),
        ] {
            let key = format!("{round}-{comes_back}");
            let took = worker_goes(&mut cluster, &key, comes_back)?;
            eprintln!("{name} {round}: {took} ms");
            figures.add(name.to_owned(), bound, took);
        }
    }
    cluster.verify()
}

/// The worker that holds a run's shard is killed: until the shard is granted again, counted from its own
/// start again or from its death.
fn worker_goes(cluster: &mut Cluster, key: &str, comes_back: bool) -> Result<u128> {
    cluster.command(&["run", "held", "--key", key])?;
    let run = format!("held:manual:{key}");
    let granted = |cluster: &Cluster, attempt: u64| {
        let shard = cluster.shard(&run).ok();
        shard.filter(|shard| shard["state"] == "running" && shard["attempt"] == attempt)
    };
    let mut shard = None;
    until("the shard runs", || {
        shard = granted(cluster, 1);
        shard.is_some()
    })?;
    let session = shard.and_then(|shard| shard["session"].as_u64());
    let holder = cluster.name_of(session.context("a running shard has a session")?)?;
    cluster.kill_worker(&holder)?;
    let started = Instant::now();
    if comes_back {
        cluster.work(&holder)?;
    }
    until("the shard is granted again", || {
        granted(cluster, 2).is_some()
    })?;
    let took = started.elapsed().as_millis();
    if !comes_back {
        cluster.work(&holder)?;
    }
    cluster.command(&["cancel", &run, "--wait"])?;
    Ok(took)
}
