//! Drills of real processes, again and again, each time from the next seed.
//!
//! # Invariants
//! - A drill that failed leaves its folder of evidence; of the others nothing is kept.
//! - What could not be carried out here is told with its reason, never counted as passed.
//!
//! # Not here
//! What a drill does and how it is judged (`sichen drill`).

#![expect(
    clippy::disallowed_methods,
    reason = "it is told how long to go on, in real time"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::{Options, Ran, load, summary_at};
use crate::workspace;

/// Which drills, and what they must come to.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// Only these drills
    #[arg(long)]
    only: Vec<String>,
    /// Each drill once, however long that takes
    #[arg(long)]
    once: bool,
    /// Drills at once
    #[arg(long, default_value_t = 1)]
    at_once: usize,
    /// Fail when one of them could not be carried out here
    #[arg(long)]
    none_missing: bool,
    /// Fail when they took fewer seconds than these together
    #[arg(long, default_value_t = 0)]
    at_least: u64,
}

/// A drill that was carried out, or could not be.
struct Drilled {
    ended: &'static str,
    faults: BTreeMap<String, u64>,
    tasks: u64,
    took_ms: u64,
    /// Of one that did not pass.
    said: String,
}

/// What all of them came to.
#[derive(Default)]
struct Sums {
    next: usize,
    ended: BTreeMap<String, BTreeMap<&'static str, u64>>,
    faults: BTreeMap<String, u64>,
    tasks: u64,
    took_ms: u64,
    violations: Vec<Value>,
    not_run: BTreeMap<String, String>,
    broken: Option<anyhow::Error>,
}

/// The round and the name of the drill that is next, if there is one.
struct Turns<'a> {
    names: &'a [String],
    once: bool,
    end: Instant,
}

impl Turns<'_> {
    fn take(&self, sums: &mut Sums) -> Option<(u64, String)> {
        let (round, place) = (sums.next / self.names.len(), sums.next % self.names.len());
        let over = match self.once {
            true => round > 0,
            false => Instant::now() >= self.end,
        };
        if over || sums.broken.is_some() {
            return None;
        }
        sums.next += 1;
        Some((round as u64, self.names[place].clone()))
    }
}

/// Drills.
///
/// # Errors
/// When the program can't be built or started, a drill failed, or nothing was hit.
pub(super) fn run(options: &Options, which: &Which) -> Result<()> {
    let ran = Ran::begin("chaos");
    let program = match &options.program {
        Some(program) => std::path::absolute(program)?,
        None => release()?,
    };
    let names = names(&program, &which.only)?;
    let at = summary_at(options, ran.kind)?;
    let folder = at.with_extension("evidence");
    let begun = Instant::now();
    let turns = Turns {
        names: &names,
        once: which.once,
        end: begun + Duration::from_secs(options.minutes * 60),
    };
    let sums = Mutex::new(Sums::default());
    std::thread::scope(|scope| {
        for _ in 0..which.at_once.max(1) {
            scope.spawn(|| drills(options, &program, &folder, &turns, &sums));
        }
    });
    let sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(broken) = sums.broken {
        return Err(broken);
    }
    let hit: u64 = sums.faults.values().sum();
    let failed = sums.violations.len();
    let summary = json!({
        "first_seed": options.seed,
        "drills": &sums.ended,
        "not_run": &sums.not_run,
        "faults": hit,
        "faults_by_class": sums.faults,
        "tasks": sums.tasks,
        "drill_secs": sums.took_ms / 1_000,
        "violations": sums.violations,
        "wall_secs": begun.elapsed().as_secs(),
    });
    ran.write(&at, summary)?;
    let passed = sums.ended.values().filter_map(|of| of.get("passed"));
    println!(
        "chaos: {} drills passed, {failed} failed; {hit} faults over {} tasks",
        passed.sum::<u64>(),
        sums.tasks
    );
    for (name, why) in &sums.not_run {
        println!(
            "chaos: NOT RUN {name}: {}",
            why.lines().next().unwrap_or_default()
        );
    }
    ensure!(hit > 0, "nothing was hit");
    ensure!(failed == 0, "{failed} drills failed");
    which.are_enough(sums.took_ms / 1_000, sums.not_run.keys())
}

impl Which {
    /// Whether they came to what is asked for.
    fn are_enough<'a>(
        &self,
        secs: u64,
        mut not_run: impl Iterator<Item = &'a String>,
    ) -> Result<()> {
        let missing = not_run.next().filter(|_| self.none_missing);
        if let Some(name) = missing {
            bail!("{name} could not be carried out here, and none may be missing");
        }
        let least = self.at_least;
        ensure!(secs >= least, "{secs} s of drills, fewer than {least}");
        Ok(())
    }
}

/// One drill after another, as long as there are turns.
fn drills(options: &Options, program: &Path, folder: &Path, turns: &Turns<'_>, sums: &Mutex<Sums>) {
    let locked = || sums.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let turn = turns.take(&mut locked());
        let Some((round, name)) = turn else { return };
        let seed = options.seed + round;
        let evidence = folder.join(format!("{name}-{seed}"));
        let began = load();
        let drilled = drill(program, &name, seed, &evidence);
        let mut sums = locked();
        let drilled = match drilled {
            Ok(drilled) => drilled,
            Err(error) => {
                sums.broken = Some(error);
                return;
            }
        };
        println!(
            "{name} {seed}: {} in {} s",
            drilled.ended,
            drilled.took_ms / 1_000
        );
        match drilled.ended {
            "not run" => drop(sums.not_run.insert(name.clone(), drilled.said)),
            "passed" => {}
            ended => {
                eprintln!("{}", drilled.said);
                sums.violations.push(json!({
                    "drill": name, "seed": seed, "ended": ended, "evidence": evidence,
                    "load": { "begin": began, "end": load() }, "said": drilled.said,
                }));
            }
        }
        *sums
            .ended
            .entry(name)
            .or_default()
            .entry(drilled.ended)
            .or_default() += 1;
        for (class, n) in drilled.faults {
            *sums.faults.entry(class).or_default() += n;
        }
        sums.tasks += drilled.tasks;
        if drilled.ended != "not run" {
            sums.took_ms += drilled.took_ms;
        }
        if matches!(drilled.ended, "passed" | "not run") && evidence.is_dir() {
            // What can't be removed is no finding.
            let _ = std::fs::remove_dir_all(&evidence);
        }
    }
}

/// The drills of the program, or those asked for.
fn names(program: &Path, only: &[String]) -> Result<Vec<String>> {
    let listed = Command::new(program)
        .args(["drill", "list", "-o", "json"])
        .output();
    let listed: Value = serde_json::from_slice(&listed.context("starting sichen")?.stdout)?;
    let all = listed.as_array().into_iter().flatten();
    let mut names: Vec<String> = all
        .filter_map(|row| row["name"].as_str().map(str::to_owned))
        .collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
        bail!("{} has no drill {unknown}", program.display());
    }
    names.retain(|name| only.is_empty() || only.contains(name));
    ensure!(!names.is_empty(), "{} lists no drills", program.display());
    Ok(names)
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
    let watch = Instant::now();
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(program)
        .args(["drill", "run", name, "--seed", &seed.to_string()])
        .arg("--evidence")
        .arg(evidence)
        .output()
        .with_context(|| format!("starting {}", program.display()))?;
    let ended = match status.code() {
        Some(0) => "passed",
        Some(3) => "stopped",
        // Refused before anything was started: what it needs is not here, and it has said so.
        Some(2) => "not run",
        _ => "failed",
    };
    let mut faults = BTreeMap::new();
    let read = |file: &str| std::fs::read_to_string(evidence.join(file)).unwrap_or_default();
    for line in read("faults.jsonl").lines() {
        let fault: Value = serde_json::from_str(line)?;
        let act = &fault["act"];
        let parts = ["do", "who", "link"].map(|part| act[part].as_str());
        let class: Vec<&str> = parts.into_iter().flatten().collect();
        *faults.entry(class.join(" ")).or_default() += 1;
    }
    let (out, err) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr),
    );
    let bad = out
        .lines()
        .filter(|l| l.starts_with("NOT SO") || l.starts_with("stopped"));
    let said: Vec<&str> = bad.chain(err.lines()).collect();
    Ok(Drilled {
        ended,
        faults,
        tasks: read("tasks.jsonl").matches("\"begin\"").count() as u64,
        took_ms: u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX),
        said: said.join("\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_and_what_is_missing_fail_where_that_is_asked() {
        let which = |none_missing, at_least| Which {
            only: Vec::new(),
            once: true,
            at_once: 1,
            none_missing,
            at_least,
        };
        let missing = ["one-way-cut".to_owned()];
        let none: [String; 0] = [];
        assert!(which(true, 90).are_enough(90, none.iter()).is_ok());
        assert!(which(true, 90).are_enough(89, none.iter()).is_err());
        assert!(which(false, 0).are_enough(0, missing.iter()).is_ok());
        let said = which(true, 0).are_enough(90, missing.iter()).unwrap_err();
        assert!(said.to_string().contains("one-way-cut"));
    }
}
