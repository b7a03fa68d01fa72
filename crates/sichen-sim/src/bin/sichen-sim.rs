//! Runs simulated clusters by seed.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use sichen_sim::options::Options;
use sichen_sim::sim::{self, Outcome};

/// Whole clusters in one thread, one for each seed; stops at the first that breaks a promise.
#[derive(Debug, Parser)]
struct Arguments {
    /// Seeds, `A..B` (B included) or one.
    #[arg(long, default_value = "1..100", value_parser = parse_seeds)]
    seeds: (u64, u64),
    /// Go on with the seeds after B until so many simulated hours are done.
    #[arg(long)]
    hours: Option<i64>,
    /// Length of the unsafe phase in seconds.
    #[arg(long)]
    secs: Option<i64>,
    /// Keep traces and histories of every seed here (else only of a failing one, in
    /// target/sim-traces).
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Go on after a failing seed.
    #[arg(long)]
    all: bool,
    /// Leave one rule out (see `cargo xtask zoo`).
    #[cfg(feature = "zoo")]
    #[arg(long)]
    zoo: Option<String>,
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

/// Whether every seed kept its promises.
fn play(arguments: &Arguments) -> io::Result<bool> {
    #[cfg(feature = "zoo")]
    if let Some(name) = &arguments.zoo {
        sichen_core::zoo::choose(name);
        sichen_sdk::session::zoo::choose(name);
    }
    let mut out = io::stdout().lock();
    let (mut seconds, mut runs, mut faults, mut events) = (0i64, 0u64, 0u64, 0u64);
    let (mut seed, last) = arguments.seeds;
    let mut failed = Vec::new();
    let mut pickups: Vec<i64> = Vec::new();
    loop {
        let wanted = arguments.hours.is_some_and(|hours| seconds < hours * 3_600);
        if seed > last && !wanted {
            break;
        }
        let mut options = Options::of(seed);
        if let Some(secs) = arguments.secs {
            options.unsafe_secs = secs;
        }
        let outcome = sim::run(options.clone(), arguments.keep.is_some());
        seconds += outcome.simulated_secs;
        faults += outcome.faults.values().sum::<u64>();
        events += outcome.events;
        pickups.extend(&outcome.pickups_us);
        runs += outcome
            .verdict
            .counts
            .get(&sichen_check::Sight::RunSettled)
            .copied()
            .unwrap_or(0);
        if let Some(folder) = &arguments.keep {
            keep(folder, &outcome)?;
        }
        if !outcome.is_ok() {
            writeln!(out, "{outcome}")?;
            keep(
                &PathBuf::from("target/sim-traces"),
                &sim::run(options, true),
            )?;
            failed.push(seed);
            if !arguments.all {
                break;
            }
        }
        seed += 1;
    }
    let hours = seconds / 3_600;
    writeln!(
        out,
        "{seconds} simulated seconds ({hours} h), {runs} settled runs, {faults} faults, {events} events, {} failing seeds",
        failed.len()
    )?;
    pickups.sort_unstable();
    if let Some(longest) = pickups.last() {
        let at = |part: usize| pickups[(pickups.len() - 1) * part / 1000] / 1000;
        writeln!(
            out,
            "from grant to start when healed: p50 {} ms, p99 {} ms, p99.9 {} ms, longest {} ms of {}",
            at(500),
            at(990),
            at(999),
            longest / 1000,
            pickups.len()
        )?;
    }
    if !failed.is_empty() {
        writeln!(out, "seeds that break a promise: {failed:?}")?;
    }
    Ok(failed.is_empty())
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
