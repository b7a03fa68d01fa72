//! `cargo xtask soak`: what the tests do in minutes, for hours; what ran goes to a summary file.
//!
//! # Invariants
//! - Seeds follow one another from `--seed` on, so that a later soak can go on where this one ended.
//! - A soak in which nothing was hit fails.
//!
//! # Not here
//! What is simulated, rehearsed or interleaved: it is that of the tests, with more seeds. Drills one
//! after another ([`chaos`]).

pub(crate) mod chaos;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::{test, workspace, zoo};

#[derive(Debug, Subcommand)]
pub enum Kind {
    /// Whole clusters in simulation
    Simulation(Options),
    /// Every drill of this program, again and again, on real processes
    Chaos {
        #[command(flatten)]
        options: Options,
        #[command(flatten)]
        which: chaos::Which,
    },
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
        Kind::Chaos { options, which } => chaos::run(options, which),
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

/// What soaks: noted before it begins, since the checkout may move on while it runs.
struct Ran {
    kind: &'static str,
    commit: String,
    changed_files: usize,
    load: Option<f64>,
}

/// The machine's load of the last minute, where it can be read.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

impl Ran {
    fn begin(kind: &'static str) -> Self {
        let git = |words: &[&str]| -> String {
            let asked = Command::new("git")
                .args(words)
                .current_dir(workspace::root())
                .output();
            let said =
                asked.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
            said.unwrap_or_default()
        };
        Self {
            kind,
            commit: git(&["rev-parse", "--short", "HEAD"]),
            changed_files: git(&["status", "--porcelain", "-uno"]).lines().count(),
            load: load(),
        }
    }

    /// Adds what ran, and writes it.
    fn write(&self, path: &Path, mut summary: Value) -> Result<()> {
        summary["kind"] = json!(self.kind);
        summary["commit"] = json!(self.commit);
        summary["changed_files"] = json!(self.changed_files);
        summary["load"] = json!({ "begin": self.load, "end": load() });
        std::fs::write(path, format!("{summary:#}\n"))?;
        println!("{summary:#}\nwritten to {}", path.display());
        Ok(())
    }
}

fn simulation(options: &Options) -> Result<()> {
    let ran = Ran::begin("simulation");
    let summary = summary_at(options, ran.kind)?;
    let mut command = test::simulator();
    command.args(["--all", "--shrink", "--faults", "1"]);
    command.args(["--seeds", &options.seed.to_string()]);
    command.args(["--minutes", &options.minutes.to_string()]);
    command.args(["--threads", &options.threads.to_string()]);
    command.arg("--summary").arg(&summary);
    let status = command.status().context("starting the simulator")?;
    let said = std::fs::read_to_string(&summary).context("the simulator left no summary")?;
    ran.write(&summary, serde_json::from_str(&said)?)?;
    ensure!(status.success(), "a promise was broken, or nothing was hit");
    Ok(())
}

fn interleaver(options: &Options) -> Result<()> {
    let ran = Ran::begin("interleaver");
    let at = summary_at(options, ran.kind)?;
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
    ran.write(&at, serde_json::from_str(&said)?)?;
    ensure!(status.success(), "a seed fits no serial order");
    Ok(())
}
