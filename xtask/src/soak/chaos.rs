//! Drills of real processes, again and again, each time from the next seed.
//!
//! # Invariants
//! - A drill that failed leaves its folder of evidence; of the others nothing is kept.
//! - Each soak has a folder of its own: what another one has left is neither counted nor touched.
//! - What can't be carried out here the program says beforehand; it is told with its reason, never
//!   counted as passed. A drill that was begun and did not pass is a failure, whatever it ended with.
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

/// Folders of soaks whose evidence was left, beside one summary.
const MAX_SOAKS: u32 = 10_000;

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
    /// Fail when no fault of this class hit work in flight
    #[arg(long, value_enum)]
    must_hit: Vec<Class>,
}

/// A class of faults, whoever they are done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Class {
    /// A process is killed
    Kill,
    /// A process stands still
    Freeze,
    /// Nothing passes, either way
    Cut,
    /// Nothing passes one way
    CutOneWay,
    /// What was asked arrives, the answer does not
    LostAnswer,
    /// A disk is full
    DiskFull,
    /// The database's processes are killed
    DatabaseCrash,
    /// A clock is set
    Clock,
}

impl Class {
    /// That of a fault, by the word that a drill writes down for what it did.
    fn of(act: &str) -> Option<Self> {
        Some(match act {
            "kill" => Class::Kill,
            "freeze" => Class::Freeze,
            "cut" | "stall" | "unplug" => Class::Cut,
            "cut-one-way" => Class::CutOneWay,
            "lose-answers" => Class::LostAnswer,
            "fill-journal" | "fill-store" => Class::DiskFull,
            "crash-database" => Class::DatabaseCrash,
            "step-clock" => Class::Clock,
            _ => return None,
        })
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// A drill of the program, and why it can't be carried out here, if it can't.
struct Candidate {
    name: String,
    cannot: Option<String>,
}

/// A drill that was begun.
struct Drilled {
    ended: &'static str,
    faults: BTreeMap<String, u64>,
    /// Those of them that hit work in flight, and of those the ones of a class.
    hit: u64,
    hits: BTreeMap<Class, u64>,
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
    hit: u64,
    hits: BTreeMap<Class, u64>,
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
        if self.names.is_empty() {
            return None;
        }
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
    let at = summary_at(options, ran.kind)?;
    let (sums, folder, secs) = soak(options, which, &program, &at)?;
    let failed = sums.violations.len();
    let hits: BTreeMap<String, u64> = sums.hits.iter().map(|(c, n)| (c.name(), *n)).collect();
    let summary = json!({
        "first_seed": options.seed,
        "drills": &sums.ended,
        "not_run": &sums.not_run,
        "faults": sums.faults.values().sum::<u64>(),
        "faults_by_class": &sums.faults,
        "hits": sums.hit,
        "hits_by_class": hits,
        "tasks": sums.tasks,
        "drill_secs": sums.took_ms / 1_000,
        "violations": &sums.violations,
        "evidence": folder,
        "wall_secs": secs,
    });
    ran.write(&at, summary)?;
    let passed = sums.ended.values().filter_map(|of| of.get("passed"));
    println!(
        "chaos: {} drills passed, {failed} failed; {} faults over {} tasks; work was hit by {hits:?}",
        passed.sum::<u64>(),
        sums.faults.values().sum::<u64>(),
        sums.tasks
    );
    for (name, why) in &sums.not_run {
        println!(
            "chaos: NOT RUN {name}: {}",
            why.lines().next().unwrap_or_default()
        );
    }
    ensure!(
        failed == 0,
        "{failed} drills failed; their evidence is in {}",
        folder.display()
    );
    which.are_enough(&sums)
}

/// All drills that there is time for, the folder of their evidence, and how long it took in seconds.
fn soak(
    options: &Options,
    which: &Which,
    program: &Path,
    at: &Path,
) -> Result<(Sums, PathBuf, u64)> {
    let (can, cannot): (Vec<_>, Vec<_>) = candidates(program, &which.only)?
        .into_iter()
        .partition(|candidate| candidate.cannot.is_none());
    let folder = own_folder(at)?;
    let begun = Instant::now();
    let names: Vec<String> = can.into_iter().map(|candidate| candidate.name).collect();
    let turns = Turns {
        names: &names,
        once: which.once,
        end: begun + Duration::from_secs(options.minutes * 60),
    };
    let not_run = cannot
        .into_iter()
        .map(|c| (c.name, c.cannot.unwrap_or_default()));
    let sums = Mutex::new(Sums {
        not_run: not_run.collect(),
        ..Sums::default()
    });
    std::thread::scope(|scope| {
        for _ in 0..which.at_once.max(1) {
            scope.spawn(|| drills(options, program, &folder, &turns, &sums));
        }
    });
    let sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(broken) = sums.broken {
        return Err(broken);
    }
    // It stays if there is something in it.
    let _ = std::fs::remove_dir(&folder);
    Ok((sums, folder, begun.elapsed().as_secs()))
}

/// A new folder beside the summary, which no other soak has or ever had anything in.
fn own_folder(at: &Path) -> Result<PathBuf> {
    let all = at.with_extension("evidence");
    std::fs::create_dir_all(&all).with_context(|| format!("making {}", all.display()))?;
    for n in 1..=MAX_SOAKS {
        let folder = all.join(format!("soak-{n}"));
        match std::fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error).with_context(|| format!("making {}", folder.display()));
            }
        }
    }
    bail!(
        "{} soaks have left evidence in {}: look at it and remove what is not needed",
        MAX_SOAKS,
        all.display()
    )
}

impl Which {
    /// Whether they came to what is asked for.
    fn are_enough(&self, sums: &Sums) -> Result<()> {
        let missing = sums.not_run.keys().next();
        if let Some(name) = missing.filter(|_| self.none_missing) {
            bail!("{name} could not be carried out here, and none may be missing");
        }
        ensure!(sums.hit > 0, "nothing was hit");
        let never = self.must_hit.iter().find(|c| !sums.hits.contains_key(c));
        match never {
            // Said above: the drills that hit it can't be carried out here.
            Some(class) if missing.is_some() => {
                println!("chaos: NOT HIT {}: see what was not run", class.name());
            }
            Some(class) => bail!("no fault of the class {} hit work in flight", class.name()),
            None => {}
        }
        let (secs, least) = (sums.took_ms / 1_000, self.at_least);
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
        let passed = drilled.ended == "passed";
        if !passed {
            eprintln!("{}", drilled.said);
            sums.violations.push(json!({
                "drill": name, "seed": seed, "ended": drilled.ended, "evidence": evidence,
                "load": { "begin": began, "end": load() }, "said": drilled.said,
            }));
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
        sums.hit += drilled.hit;
        for (class, n) in drilled.hits {
            *sums.hits.entry(class).or_default() += n;
        }
        sums.tasks += drilled.tasks;
        sums.took_ms += drilled.took_ms;
        if passed && evidence.is_dir() {
            // What can't be removed is no finding.
            let _ = std::fs::remove_dir_all(&evidence);
        }
    }
}

/// The drills of the program, or those asked for.
fn candidates(program: &Path, only: &[String]) -> Result<Vec<Candidate>> {
    let listed = Command::new(program)
        .args(["drill", "list", "-o", "json"])
        .output();
    let listed: Value = serde_json::from_slice(&listed.context("starting sichen")?.stdout)?;
    let all = listed.as_array().into_iter().flatten();
    let of = |row: &Value| {
        Some(Candidate {
            name: row["name"].as_str()?.to_owned(),
            cannot: row["cannot"].as_str().map(str::to_owned),
        })
    };
    let mut all: Vec<Candidate> = all.filter_map(of).collect();
    let is_known = |name: &&String| all.iter().any(|candidate| candidate.name == **name);
    if let Some(unknown) = only.iter().find(|name| !is_known(name)) {
        bail!("{} has no drill {unknown}", program.display());
    }
    all.retain(|candidate| only.is_empty() || only.contains(&candidate.name));
    ensure!(!all.is_empty(), "{} lists no drills", program.display());
    Ok(all)
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
        _ => "failed",
    };
    let (mut faults, mut hit, mut hits) = (BTreeMap::new(), 0, BTreeMap::new());
    let read = |file: &str| std::fs::read_to_string(evidence.join(file)).unwrap_or_default();
    for line in read("faults.jsonl").lines() {
        let fault: Value = serde_json::from_str(line)?;
        let class = fault["act"]["do"].as_str().and_then(Class::of);
        hit += u64::from(fault["hit"] == true);
        if let Some(class) = class.filter(|_| fault["hit"] == true) {
            *hits.entry(class).or_default() += 1;
        }
        let act = &fault["act"];
        let parts = ["do", "who", "link"].map(|part| act[part].as_str());
        let class: Vec<&str> = parts.into_iter().flatten().collect();
        *faults.entry(class.join(" ")).or_default() += 1;
    }
    let (out, err) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr),
    );
    let bad = out.lines().filter(|l| {
        ["NOT SO", "stopped", "not finished"]
            .iter()
            .any(|w| l.starts_with(w))
    });
    let said: Vec<&str> = bad.chain(err.lines()).collect();
    Ok(Drilled {
        ended,
        faults,
        hit,
        hits,
        tasks: read("tasks.jsonl").matches("\"begin\"").count() as u64,
        took_ms: u64::try_from(watch.elapsed().as_millis()).unwrap_or(u64::MAX),
        said: said.join("\n"),
    })
}

#[cfg(test)]
mod tests;
