//! `cargo xtask soak`: what the tests do in minutes, for hours; what ran goes to a summary file.
//!
//! # Invariants
//! - Seeds follow one another from `--seed` on, so that a later soak can go on where this one ended.
//! - A soak in which nothing was hit fails.
//!
//! # Not here
//! What is simulated, rehearsed or interleaved: it is that of the tests, with more seeds.

#![expect(
    clippy::disallowed_methods,
    reason = "it is told how long to go on, in real time"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{test, workspace, zoo};

#[derive(Debug, Subcommand)]
pub enum Kind {
    /// Whole clusters in simulation
    Simulation(Options),
    /// Every drill of this program, one after the other, on real processes
    Chaos(Options),
    /// Statements on a real PostgreSQL in orders that seeds choose
    Interleaver(Options),
    /// Every known-bad variant once
    Zoo,
}

#[derive(Debug, Args)]
pub struct Options {
    /// How long; what has begun is finished
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Seeds of the simulation at once
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// The program that drills, when it is built already (else it is, for release)
    #[arg(long)]
    program: Option<PathBuf>,
    /// The summary [default: target/soak/KIND.json]
    #[arg(long)]
    summary: Option<PathBuf>,
}

/// Soaks.
///
/// # Errors
/// When something can't be built or started, and when a promise was broken or nothing was hit.
pub fn run(kind: &Kind) -> Result<()> {
    match kind {
        Kind::Simulation(options) => simulation(options),
        Kind::Chaos(options) => chaos(options),
        Kind::Interleaver(options) => interleaver(options),
        Kind::Zoo => zoo::run(&zoo::Options::default()),
    }
}

/// The summary's place, and its folder made.
fn summary_at(options: &Options, kind: &str) -> Result<PathBuf> {
    let default = || workspace::root().join(format!("target/soak/{kind}.json"));
    let path = options.summary.clone().unwrap_or_else(default);
    let path = std::path::absolute(path)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    Ok(path)
}

/// Adds what ran, and writes it.
fn write(path: &Path, kind: &str, mut summary: Value) -> Result<()> {
    let git = |words: &[&str]| -> String {
        let asked = Command::new("git")
            .args(words)
            .current_dir(workspace::root())
            .output();
        let said = asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        said.unwrap_or_default()
    };
    summary["kind"] = json!(kind);
    summary["commit"] = json!(git(&["rev-parse", "--short", "HEAD"]));
    summary["changed_files"] = json!(git(&["status", "--porcelain", "-uno"]).lines().count());
    std::fs::write(path, format!("{summary:#}\n"))?;
    println!("{summary:#}\nwritten to {}", path.display());
    Ok(())
}

fn simulation(options: &Options) -> Result<()> {
    let summary = summary_at(options, "simulation")?;
    let mut command = test::simulator();
    command.args(["--all", "--faults", "1"]);
    command.args(["--seeds", &options.seed.to_string()]);
    command.args(["--minutes", &options.minutes.to_string()]);
    command.args(["--threads", &options.threads.to_string()]);
    command.arg("--summary").arg(&summary);
    let status = command.status().context("starting the simulator")?;
    let said = std::fs::read_to_string(&summary).context("the simulator left no summary")?;
    write(&summary, "simulation", serde_json::from_str(&said)?)?;
    ensure!(status.success(), "a promise was broken, or nothing was hit");
    Ok(())
}

/// A drill that was carried out.
struct Drilled {
    ended: &'static str,
    faults: BTreeMap<String, u64>,
}

fn chaos(options: &Options) -> Result<()> {
    let program = match &options.program {
        Some(program) => std::path::absolute(program)?,
        None => release()?,
    };
    let listed = Command::new(&program)
        .args(["drill", "list", "-o", "json"])
        .output();
    let listed: Value = serde_json::from_slice(&listed.context("starting sichen")?.stdout)?;
    let names = listed.as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(|row| row["name"].as_str()).collect();
    ensure!(!names.is_empty(), "{} lists no drills", program.display());
    let at = summary_at(options, "chaos")?;
    let folder = at.with_extension("evidence");
    let end = Instant::now() + Duration::from_secs(options.minutes * 60);
    let begun = Instant::now();
    let mut ended: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    let mut faults: BTreeMap<String, u64> = BTreeMap::new();
    let mut violations = Vec::new();
    let mut seed = options.seed;
    'rounds: loop {
        for name in &names {
            if Instant::now() >= end {
                break 'rounds;
            }
            let evidence = folder.join(format!("{name}-{seed}"));
            let drilled = drill(&program, name, seed, &evidence)?;
            eprintln!("{name} {seed}: {}", drilled.ended);
            *ended
                .entry(name)
                .or_default()
                .entry(drilled.ended)
                .or_default() += 1;
            for (class, n) in drilled.faults {
                *faults.entry(class).or_default() += n;
            }
            if matches!(drilled.ended, "failed" | "stopped") {
                violations.push(evidence.display().to_string());
            } else if evidence.is_dir() {
                std::fs::remove_dir_all(&evidence)?;
            }
        }
        seed += 1;
    }
    let hit: u64 = faults.values().sum();
    let summary = json!({
        "first_seed": options.seed,
        "last_seed": seed,
        "drills": ended,
        "faults": hit,
        "faults_by_class": faults,
        "violations": violations,
        "wall_secs": begun.elapsed().as_secs(),
    });
    write(&at, "chaos", summary)?;
    ensure!(hit > 0, "nothing was hit");
    ensure!(violations.is_empty(), "drills failed: {violations:?}");
    Ok(())
}

fn release() -> Result<PathBuf> {
    let built = Command::new(workspace::cargo())
        .args(["build", "--release", "--locked", "-p", "sichen"])
        .current_dir(workspace::root())
        .status()
        .context("cargo build --release")?;
    ensure!(built.success(), "the release program could not be built");
    let metadata = workspace::metadata()?;
    let target = metadata["target_directory"].as_str();
    let target = Path::new(target.context("cargo metadata names no target directory")?);
    Ok(target.join("release/sichen"))
}

fn drill(program: &Path, name: &str, seed: u64, evidence: &Path) -> Result<Drilled> {
    let Output { status, stderr, .. } = Command::new(program)
        .args(["drill", "run", name, "--seed", &seed.to_string()])
        .arg("--evidence")
        .arg(evidence)
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    let ended = match status.code() {
        Some(0) => "passed",
        Some(3) => "stopped",
        // It left no evidence: what it needs is not there, and it has said so.
        _ if !evidence.join("record.yaml").is_file() => "not run",
        _ => "failed",
    };
    if ended != "passed" {
        eprintln!("{}", String::from_utf8_lossy(&stderr).trim());
    }
    let mut faults = BTreeMap::new();
    let lines = std::fs::read_to_string(evidence.join("faults.jsonl")).unwrap_or_default();
    for line in lines.lines() {
        let fault: Value = serde_json::from_str(line)?;
        // A fault with a value is written as an object of one key.
        let act = &fault["act"];
        let key = act.as_object().and_then(|act| act.keys().next().cloned());
        let class = key.or_else(|| act.as_str().map(str::to_owned));
        *faults.entry(class.unwrap_or_default()).or_default() += 1;
    }
    Ok(Drilled { ended, faults })
}

fn interleaver(options: &Options) -> Result<()> {
    let at = summary_at(options, "interleaver")?;
    let status = Command::new(workspace::cargo())
        .current_dir(workspace::root())
        .args([
            "test",
            "--locked",
            "-p",
            "sichen-store",
            "--features",
            "postgres",
            "--test",
            "it",
        ])
        .args(["--", "many_interleavings", "--ignored", "--nocapture"])
        .env("SICHEN_SEED", options.seed.to_string())
        .env("SICHEN_MINUTES", options.minutes.to_string())
        .env("SICHEN_SUMMARY", &at)
        .status()
        .context("starting cargo")?;
    let Ok(said) = std::fs::read_to_string(&at) else {
        bail!("the interleaver left no summary");
    };
    write(&at, "interleaver", serde_json::from_str(&said)?)?;
    ensure!(status.success(), "a seed fits no serial order");
    Ok(())
}
