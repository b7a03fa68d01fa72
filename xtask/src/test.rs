//! The README's test command: sets up what the tests need, runs all of them, and closes with what
//! was tested, how long each stage took, and what was left out.
//!
//! # Invariants
//! - Works in a fresh clone: the databases that tests start are installed where that can be done
//!   unasked, else the first words say what to install; `cargo nextest` is used when it is there.
//! - Nothing is left out in silence: `--without` says so in the last lines, and fails when `CI` is
//!   set.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use sichen_testdb::Service;

use crate::soak::chaos::Class;
use crate::stage::{self, Outcome};
use crate::{services, workspace};

/// Features that no build has by default and tests need: the suites on PostgreSQL and MariaDB, and
/// the crash points.
pub const FEATURES: &str =
    "sichen-store/postgres,sichen-sdk/postgres,sichen-sdk/mysql,sichen/crash";

/// Simulated hours in which enough happens, and the faults in them.
const HOURS: &str = "100";
const FAULTS: &str = "20000";

/// The drills of the stage that makes chaos: each class of fault at least once, about 25 s each.
const CHAOS: &[&str] = &[
    // Processes: killed, frozen, alone and together, of servers and of workers.
    "kill-all",
    "freeze-worker",
    "freeze-peer",
    "kill-peer",
    // Networks: one way, both ways, packets lost.
    "one-way-cut",
    "partition-worker",
    "lossy-network",
    // The database: what it answers, itself.
    "lost-database-answers",
    "database-crash",
    // Clocks and disks.
    "clock-step",
    "disk-full-journal",
];

/// Classes of which some fault must hit work in flight.
const CLASSES: &[Class] = &[
    Class::Kill,
    Class::Freeze,
    Class::Cut,
    Class::CutOneWay,
    Class::LostAnswer,
    Class::DiskFull,
    Class::DatabaseCrash,
    Class::Clock,
];

/// Seconds of drills, less than which is a failure.
const CHAOS_SECS: &str = "90";

/// A part of the tests that can be left out by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Tests that start the built binary as real processes (the `sichen` crate's `tests/it`)
    Process,
    /// The simulated cluster and the protocol model (`sichen-sim`)
    Sim,
    /// The examples in the public documentation
    Doc,
    /// Everything on PostgreSQL
    Postgres,
    /// The fence kit for MySQL and MariaDB
    Mariadb,
    /// PostgreSQL through a pooler
    Pgbouncer,
    /// Processes that are shown another time of day
    Faketime,
    /// What a real Prometheus reads of a server
    Prometheus,
    /// Alerts by a real mail server
    Mail,
    /// The console, in a real browser against a real server and workers
    Console,
}

impl Part {
    fn untested(self) -> &'static str {
        match self {
            Part::Process => "real processes: kill, freeze, restart, the demo end to end",
            Part::Sim => "the simulated cluster and the protocol model",
            Part::Doc => "the examples in the public documentation",
            Part::Postgres => {
                "everything on PostgreSQL: the store, the process tests and the demo on it, its fence kit"
            }
            Part::Mariadb => "the fence kit for MySQL and MariaDB",
            Part::Pgbouncer => "the store through pgbouncer in transaction mode",
            Part::Faketime => "real servers whose clocks are minutes apart",
            Part::Mail => "alerts by mail",
            Part::Prometheus => "the metrics as Prometheus and promtool read them",
            Part::Console => "the console: its checks, its build, and what it does in a browser",
        }
    }

    /// The service that only this part needs.
    fn service(self) -> Option<Service> {
        match self {
            Part::Process | Part::Sim | Part::Doc | Part::Console => None,
            Part::Postgres => Some(Service::Postgres),
            Part::Mariadb => Some(Service::Mariadb),
            Part::Pgbouncer => Some(Service::Pgbouncer),
            Part::Faketime => Some(Service::Faketime),
            Part::Prometheus => Some(Service::Prometheus),
            Part::Mail => Some(Service::Mail),
        }
    }
}

#[derive(Debug, Args)]
pub struct Options {
    /// Leave a part out; the closing lines say what was not tested. Refused when CI is set
    #[arg(long, value_name = "PART")]
    without: Vec<Part>,
    /// Run only tests whose name contains one of these
    #[arg(value_name = "FILTER")]
    filters: Vec<String>,
}

impl Options {
    fn services_left_out(&self) -> Vec<Service> {
        self.without.iter().filter_map(|p| p.service()).collect()
    }

    /// Words for cargo that leave crates out.
    fn excludes(&self) -> Vec<&'static str> {
        let mut words = Vec::new();
        for (part, krate) in [(Part::Sim, "sichen-sim"), (Part::Process, "sichen")] {
            if self.without.contains(&part) {
                words.extend(["--exclude", krate]);
            }
        }
        words
    }
}

/// Runs the tests.
///
/// # Errors
/// When a stage fails, and when a part is left out although `CI` is set.
pub fn run(options: &Options) -> Result<()> {
    refuse_gaps(&options.without, sichen_testdb::in_ci())?;
    services::set_up(&options.services_left_out())?;
    let nextest = workspace::has_cargo_subcommand("nextest");
    let mut done = vec![stage::run("build", build())?];
    if done[0].ok {
        let binary = binary_path()?;
        // What is deployed is started on a root that can't be written.
        if !Path::new("/usr/bin/bwrap").exists() {
            services::install(&["bubblewrap"])?;
        }
        done.push(stage::run("tests", tests(options, nextest, &binary))?);
        if !options.without.contains(&Part::Sim) && options.filters.is_empty() {
            done.push(stage::run("hours", simulated_hours())?);
            done.push(stage::run("zoo", xtask(&["zoo", "--quick"]))?);
        }
        if !options.without.contains(&Part::Process) && options.filters.is_empty() {
            // Drills of networks say which packets are lost by it.
            if !Path::new("/usr/sbin/iptables").exists() {
                services::install(&["iptables"])?;
            }
            done.push(stage::run("chaos", chaos(&binary))?);
        }
        if !options.without.contains(&Part::Doc) && options.filters.is_empty() {
            done.push(stage::run("doc", doc_tests(&binary))?);
        }
        if !options.without.contains(&Part::Console) && options.filters.is_empty() {
            done.push(stage::run("console", console_tests(&binary))?);
        }
    }
    close(&done, options, nextest)
}

fn refuse_gaps(without: &[Part], in_ci: bool) -> Result<()> {
    if in_ci && let Some(part) = without.first() {
        bail!(
            "CI is set and `--without {}`: CI tests everything; not tested would be {}",
            name(*part),
            part.untested()
        );
    }
    Ok(())
}

/// Binaries first: the process tests start `sichen` by path.
fn build() -> Command {
    let mut command = cargo(&["build", "--workspace", "--bins", "--tests"]);
    command.args(["--features", FEATURES]);
    command
}

fn tests(options: &Options, nextest: bool, binary: &Path) -> Command {
    let mut command = if nextest {
        cargo(&[
            "nextest",
            "run",
            "--workspace",
            "--no-fail-fast",
            "--no-tests",
            "pass",
        ])
    } else {
        cargo(&[
            "test",
            "--workspace",
            "--lib",
            "--bins",
            "--tests",
            "--no-fail-fast",
        ])
    };
    let left_out = options.services_left_out();
    let left_out: Vec<&str> = left_out.into_iter().map(Service::name).collect();
    command.env(sichen_testdb::WITHOUT, left_out.join(","));
    command.env("SICHEN_BIN", binary);
    command.args(["--features", FEATURES]);
    command.args(options.excludes());
    // cargo test takes one filter, nextest many; several cargo test filters go to the harness.
    if nextest {
        // One more than cores: half of the process tests' time is waiting (.config/nextest.toml).
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        command.args(["--test-threads", &(cores + 1).to_string()]);
        command.args(&options.filters);
    } else if !options.filters.is_empty() {
        command.arg("--").args(&options.filters);
    }
    command
}

/// The simulator, optimized: in it an hour takes a second or two. The known-bad variants are in it,
/// so that it is built once for them and without them; none is chosen here.
pub(crate) fn simulator() -> Command {
    let mut command = cargo(&["run", "--locked", "--profile", "sim", "-p", "sichen-sim"]);
    command.args(["--features", "zoo", "--"]);
    command
}

fn simulated_hours() -> Command {
    let mut command = simulator();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    command.args(["--hours", HOURS, "--faults", FAULTS, "--shrink"]);
    command.args(["--threads", &threads.to_string()]);
    command
}

/// Faults of each class on real processes: of servers, of workers, of the ways between them and of the
/// database.
fn chaos(binary: &Path) -> Command {
    let mut command = xtask(&["soak", "chaos", "--once", "--at-once", "2", "--program"]);
    command.arg(binary).args(["--at-least", CHAOS_SECS]);
    if sichen_testdb::in_ci() {
        // Elsewhere it is said which of them could not be carried out.
        command.arg("--none-missing");
    }
    for class in CLASSES {
        command.args(["--must-hit", &class.name()]);
    }
    for drill in CHAOS {
        command.args(["--only", drill]);
    }
    command
}

fn xtask(words: &[&str]) -> Command {
    let mut command = cargo(&["xtask"]);
    command.args(words);
    command
}

fn doc_tests(binary: &Path) -> Command {
    let mut command = cargo(&["test", "--workspace", "--doc", "--no-fail-fast"]);
    command.env("SICHEN_BIN", binary);
    command
}

/// Through cargo: the stages before may have built this very program anew, elsewhere than it runs.
fn console_tests(binary: &Path) -> Command {
    let mut command = xtask(&["console", "--check", "--e2e", "--program"]);
    command.arg(binary);
    command
}

fn close(done: &[Outcome], options: &Options, nextest: bool) -> Result<()> {
    println!("\n== closing");
    for outcome in done {
        // Documentation tests close once for each crate; those without any say nothing.
        for line in outcome
            .closing
            .iter()
            .filter(|line| !line.contains("ok. 0 passed; 0 failed"))
        {
            println!("{line}");
        }
    }
    for outcome in done {
        let verdict = if outcome.ok { "ok" } else { "FAILED" };
        println!(
            "{:<8} {verdict:<6} {:>7.1} s",
            outcome.name,
            outcome.took.as_secs_f64()
        );
    }
    println!(
        "runner: {}",
        if nextest {
            "cargo nextest"
        } else {
            "cargo test (no cargo-nextest)"
        }
    );
    for part in &options.without {
        println!(
            "NOT tested (--without {}): {}",
            name(*part),
            part.untested()
        );
    }
    if !options.filters.is_empty() {
        println!(
            "NOT tested: everything that does not match {}",
            options.filters.join(", ")
        );
    }
    let failed: Vec<&str> = done.iter().filter(|o| !o.ok).map(|o| o.name).collect();
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    println!("all tests passed");
    Ok(())
}

/// Where `build` put the `sichen` binary.
fn binary_path() -> Result<PathBuf> {
    let metadata = workspace::metadata()?;
    let target = metadata["target_directory"]
        .as_str()
        .context("no target directory")?;
    let path = PathBuf::from(target)
        .join("debug")
        .join(format!("sichen{}", std::env::consts::EXE_SUFFIX));
    if !path.is_file() {
        bail!("the build left no {}", path.display());
    }
    Ok(path)
}

fn name(part: Part) -> String {
    part.to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(workspace::cargo());
    command.args(args).current_dir(workspace::root());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaving_a_part_out_fails_in_ci_and_names_what_is_untested() {
        for part in Part::value_variants() {
            let refused = refuse_gaps(&[*part], true).unwrap_err().to_string();
            let without = format!("--without {}", name(*part));
            assert!(refused.contains(&without) && refused.contains(part.untested()));
            assert!(refuse_gaps(&[*part], false).is_ok());
        }
        assert!(refuse_gaps(&[], true).is_ok());
    }

    #[test]
    fn closing_lines_of_both_runners_are_recognised() {
        for line in [
            "     Summary [   0.012s] 3 tests run: 3 passed, 0 skipped",
            "        FAIL [   0.004s] xtask tidy::tests::x",
            "test result: ok. 3 passed; 0 failed",
            "test tidy::tests::x ... FAILED",
        ] {
            assert!(stage::closes(line), "{line}");
        }
        assert!(!stage::closes("test tidy::tests::x ... ok"));
    }
}
