//! Runs simulated clusters by seed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Parser;
use sichen_sim::hours::{Hours, Part};
use sichen_sim::options::Options;
use sichen_sim::panicked::{self, Panicked};
use sichen_sim::shrink::shrink;
use sichen_sim::sim::{self, Outcome};

/// Whole clusters, one for each seed; stops at the first that breaks a promise.
#[derive(Debug, Clone, Parser)]
struct Arguments {
    /// Seeds, `A..B` (B included) or one.
    #[arg(long, default_value = "1..100", value_parser = parse_seeds)]
    seeds: (u64, u64),
    /// Go on with the seeds after B until so many simulated hours count: 1,000 runs settled and 10
    /// faults hit something in each.
    #[arg(long)]
    hours: Option<u64>,
    /// Go on with the seeds after B for so many minutes.
    #[arg(long)]
    minutes: Option<u64>,
    /// Fail with fewer faults than this, or when some kind of fault never happened.
    #[arg(long)]
    faults: Option<u64>,
    /// Seeds at once, each in a thread of its own.
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// Length of the unsafe phase in seconds.
    #[arg(long)]
    secs: Option<i64>,
    /// Keep traces and histories of every seed here (else only of a failing one, in
    /// target/sim-traces).
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Write what ran, as JSON, here.
    #[arg(long)]
    summary: Option<PathBuf>,
    /// Go on after a failing seed.
    #[arg(long)]
    all: bool,
    /// Leave one rule out (see `cargo xtask zoo`).
    #[cfg(feature = "zoo")]
    #[arg(long)]
    zoo: Option<String>,
    /// Two servers and little work, as before there were more of both.
    #[arg(long)]
    two_servers: bool,
    /// More work than slots, over shared limits, while workers and servers leave and join.
    #[arg(long, conflicts_with = "two_servers")]
    saturated: bool,
    /// Change a seed's cluster: `link_cut=off`, `jobs=2`.
    #[arg(long, value_parser = parse_change)]
    set: Vec<String>,
    /// Look for the smallest cluster that fails as well, of each failing seed.
    #[arg(long)]
    shrink: bool,
}

fn parse_change(text: &str) -> Result<String, String> {
    Options::of(1).set(text).map(|()| text.to_owned())
}

fn parse_seeds(text: &str) -> Result<(u64, u64), String> {
    let number = |t: &str| t.trim().parse::<u64>().map_err(|e| format!("{t:?}: {e}"));
    match text.split_once("..") {
        Some((from, to)) => Ok((number(from)?, number(to)?)),
        None => number(text).map(|n| (n, n)),
    }
}

fn main() -> ExitCode {
    match play(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // The output itself may be what failed.
            let _ = writeln!(io::stderr(), "sichen-sim: {error}");
            ExitCode::from(2)
        }
    }
}

impl Arguments {
    fn options(&self, seed: u64) -> Options {
        let mut options = if self.two_servers {
            Options::on_two_servers(seed)
        } else if self.saturated {
            Options::saturated(seed)
        } else {
            Options::of(seed)
        };
        if let Some(secs) = self.secs {
            options.unsafe_secs = secs;
        }
        for change in &self.set {
            // It was tried when it was read.
            let _ = options.set(change);
        }
        options
    }

    /// The rule that is left out.
    #[cfg(feature = "zoo")]
    fn zoo(&self) -> Option<&str> {
        self.zoo.as_deref()
    }

    #[cfg(not(feature = "zoo"))]
    fn zoo(&self) -> Option<&str> {
        None
    }

    /// The words that play a seed again, smaller by `changes`.
    fn replay(&self, seed: u64, changes: &[String]) -> String {
        let (features, zoo) = match self.zoo() {
            // The rule that is left out is a feature of the build.
            Some(name) => (" --features zoo", format!(" --zoo {name}")),
            None => ("", String::new()),
        };
        let mut words =
            format!("cargo run --profile sim -p sichen-sim{features} -- --seeds {seed}{zoo}");
        if self.two_servers {
            words.push_str(" --two-servers");
        }
        if self.saturated {
            words.push_str(" --saturated");
        }
        let secs = self.secs.map(|secs| format!(" --secs {secs}"));
        words.push_str(&secs.unwrap_or_default());
        for change in self.set.iter().chain(changes) {
            words.push_str(&format!(" --set {change}"));
        }
        words + " --keep DIR"
    }

    /// What a person needs to see a failing seed again.
    fn tell(&self, seed: u64, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "  at commit {}", commit())?;
        writeln!(out, "  replay: {}", self.replay(seed, &[]))?;
        if !self.shrink {
            return Ok(());
        }
        let fails = |options: &Options| {
            let played = panicked::run(options.clone(), false);
            played.is_err() || played.is_ok_and(|outcome| !outcome.is_ok())
        };
        let changes = shrink(&self.options(seed), fails);
        writeln!(
            out,
            "  smallest that fails: {}",
            self.replay(seed, &changes)
        )
    }
}

/// What is checked out where it runs.
fn commit() -> String {
    let asked = std::process::Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .output();
    let said = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    said.ok()
        .filter(|said| !said.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// A seed's cluster, at its end.
type Played = Result<Outcome, Box<Panicked>>;

fn seed_of(played: &Played) -> u64 {
    match played {
        Ok(outcome) => outcome.options.seed,
        Err(panicked) => panicked.options.seed,
    }
}

/// What all threads know.
struct Shared {
    next: AtomicU64,
    over: AtomicBool,
}

/// The sums of all seeds.
#[derive(Default)]
struct Totals {
    hours: Hours,
    events: u64,
    seeds: u64,
    failed: Vec<u64>,
    pickups: Vec<i64>,
}

/// Whether every seed kept its promises, and enough happened.
fn play(arguments: &Arguments) -> io::Result<bool> {
    #[cfg(feature = "zoo")]
    if let Some(name) = &arguments.zoo {
        sichen_core::zoo::choose(name);
        sichen_sdk::session::zoo::choose(name);
    }
    #[expect(clippy::disallowed_methods, reason = "it is told how long to go on")]
    let begun = Instant::now();
    let shared = Shared {
        next: AtomicU64::new(arguments.seeds.0),
        over: AtomicBool::new(false),
    };
    let mut totals = Totals::default();
    let mut out = io::stdout().lock();
    std::thread::scope(|scope| {
        let (told, heard) = mpsc::sync_channel(4);
        for _ in 0..arguments.threads.max(1) {
            let (told, shared) = (told.clone(), &shared);
            scope.spawn(move || {
                while !shared.over.load(Ordering::Relaxed) {
                    let seed = shared.next.fetch_add(1, Ordering::Relaxed);
                    let played = panicked::run(arguments.options(seed), arguments.keep.is_some());
                    if told.send(played).is_err() {
                        break;
                    }
                }
            });
        }
        drop(told);
        let done = fold(arguments, begun, &heard, &mut totals, &mut out);
        shared.over.store(true, Ordering::Relaxed);
        drop(heard);
        done
    })?;
    let fault = totals.lack(arguments);
    totals.tell(&mut out)?;
    if let Some(fault) = &fault {
        writeln!(out, "too little happened: {fault}")?;
    }
    if let Some(path) = &arguments.summary {
        let summary = totals.summary(arguments, begun.elapsed());
        fs::write(path, format!("{summary:#}\n"))?;
    }
    Ok(totals.failed.is_empty() && fault.is_none())
}

/// Takes outcomes in the order of their seeds until there are enough.
fn fold(
    arguments: &Arguments,
    begun: Instant,
    heard: &mpsc::Receiver<Played>,
    totals: &mut Totals,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut early: BTreeMap<u64, Played> = BTreeMap::new();
    let (mut seed, last) = arguments.seeds;
    let minutes = arguments.minutes.map(|m| Duration::from_secs(m * 60));
    while seed <= last
        || arguments
            .hours
            .is_some_and(|hours| totals.hours.counted < hours)
        || minutes.is_some_and(|limit| begun.elapsed() < limit)
    {
        let Some(played) = early.remove(&seed) else {
            let Ok(played) = heard.recv() else {
                return Err(io::Error::other("the simulations ended by themselves"));
            };
            early.insert(seed_of(&played), played);
            continue;
        };
        if !take(arguments, totals, played, out)? && !arguments.all {
            break;
        }
        seed += 1;
    }
    Ok(())
}

/// Whether a seed kept its promises; keeps what shows that it did not.
fn take(
    arguments: &Arguments,
    totals: &mut Totals,
    played: Played,
    out: &mut impl Write,
) -> io::Result<bool> {
    let outcome = match played {
        Ok(outcome) => outcome,
        Err(panicked) => {
            writeln!(out, "{panicked}")?;
            arguments.tell(panicked.options.seed, out)?;
            totals.seeds += 1;
            totals.failed.push(panicked.options.seed);
            return Ok(false);
        }
    };
    totals.add(&outcome);
    if let Some(folder) = &arguments.keep {
        keep(folder, &outcome)?;
    }
    if !outcome.is_ok() {
        writeln!(out, "{outcome}")?;
        arguments.tell(outcome.options.seed, out)?;
        let again = sim::run(arguments.options(outcome.options.seed), true);
        keep(Path::new("target/sim-traces"), &again)?;
    }
    Ok(outcome.is_ok())
}

impl Totals {
    fn add(&mut self, outcome: &Outcome) {
        self.hours.add(&Part::of(outcome));
        self.events += outcome.events;
        self.seeds += 1;
        self.pickups.extend(&outcome.pickups_us);
        if !outcome.is_ok() {
            self.failed.push(outcome.options.seed);
        }
    }

    /// What there was too little of, so that it shows nothing.
    fn lack(&self, arguments: &Arguments) -> Option<String> {
        let faults = self.hours.faults();
        let wanted = arguments.faults?;
        if faults < wanted {
            return Some(format!("{faults} faults, not {wanted}"));
        }
        let never = sim::FAULTS
            .iter()
            .find(|name| !self.hours.all.faults.contains_key(*name));
        never.map(|name| format!("no \"{name}\""))
    }

    fn tell(&mut self, out: &mut impl Write) -> io::Result<()> {
        let all = &self.hours.all;
        writeln!(
            out,
            "simulated: {} seeds, {} hours that count, {} in which too little happened ({} s); {} settled runs, {} faults, {} events, {} failing seeds",
            self.seeds,
            self.hours.counted,
            self.hours.empty,
            all.secs,
            all.runs,
            self.hours.faults(),
            self.events,
            self.failed.len()
        )?;
        writeln!(out, "simulated: faults {:?}", all.faults)?;
        writeln!(out, "simulated: of them hit {:?}", all.hits)?;
        self.pickups.sort_unstable();
        if let Some(longest) = self.pickups.last() {
            let at = |part: usize| self.pickups[(self.pickups.len() - 1) * part / 1000] / 1000;
            writeln!(
                out,
                "from grant to start when healed: p50 {} ms, p99 {} ms, p99.9 {} ms, longest {} ms of {}",
                at(500),
                at(990),
                at(999),
                longest / 1000,
                self.pickups.len()
            )?;
        }
        if !self.failed.is_empty() {
            writeln!(out, "seeds that break a promise: {:?}", self.failed)?;
        }
        Ok(())
    }

    fn summary(&self, arguments: &Arguments, took: Duration) -> serde_json::Value {
        let all = &self.hours.all;
        serde_json::json!({
            "first_seed": arguments.seeds.0,
            "seeds": self.seeds,
            "counted_hours": self.hours.counted,
            "empty_hours": self.hours.empty,
            "simulated_secs": all.secs,
            "settled_runs": all.runs,
            "faults": self.hours.faults(),
            "faults_by_class": all.faults,
            "hits_by_class": all.hits,
            "events": self.events,
            "violating_seeds": self.failed,
            "wall_secs": took.as_secs(),
        })
    }
}

fn keep(folder: &Path, outcome: &Outcome) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let seed = outcome.options.seed;
    fs::write(
        folder.join(format!("seed-{seed}.trace.jsonl")),
        outcome.trace.join("\n"),
    )?;
    let mut lines = Vec::new();
    for event in &outcome.history {
        sichen_check::jsonl::write(&mut lines, event)?;
    }
    fs::write(folder.join(format!("seed-{seed}.events.jsonl")), &lines)
}

#[cfg(test)]
mod tests;
