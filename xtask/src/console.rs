//! The console: its generated client, its checks, its build, and its tests in a real browser.
//!
//! # Invariants
//! - A check changes no tracked file; without `--check` only the generated client is written.
//! - What can't be done for want of Node or Chromium is said, and fails when `CI` is set.
//! - The lock file names no registry: packages come from wherever this machine gets them.
//!
//! # Not here
//! Embedding what is built (`crates/sichen-console`); what the tests claim (`console/e2e`).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::{services, stage, workspace};

/// The oldest Node.js that will do, as `console/package.json` has it.
const NODE: (u32, u32) = (20, 19);
/// Where Debian and others put the browser.
const CHROMIUM: &[&str] = &["/usr/bin/chromium", "/usr/bin/chromium-browser"];
/// What counts the store's rows past the server.
const SQLITE: &str = "/usr/bin/sqlite3";
/// The browser, letters for Chinese, and that.
const PACKAGES: &[&str] = &["chromium", "fonts-noto-cjk", "sqlite3"];

#[derive(Debug, Args)]
pub struct Options {
    /// Write nothing: fail when the generated client is stale
    #[arg(long)]
    check: bool,
    /// Also run the built program with its console in a real browser
    #[arg(long)]
    e2e: bool,
    /// Also time it in a real browser over 10,000 jobs and 1,000,000 runs (minutes, 500 MB)
    #[arg(long)]
    scale: bool,
    /// The program for --e2e and --scale [default: the debug build]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Generates, checks, tests and builds the console.
///
/// # Errors
/// When one of these fails, and when CI is set and Node or Chromium can't be had.
pub fn run(options: &Options) -> Result<()> {
    if let Some(missing) = missing_node() {
        return untested(&missing);
    }
    names_no_registry()?;
    if !is_installed() {
        step("console-npm", npm(&["ci"]))?;
    }
    let api = if options.check { "api:check" } else { "api" };
    step("console-api", npm(&["run", api]))?;
    step("console-check", npm(&["run", "check"]))?;
    step("console-unit", npm(&["test"]))?;
    step("console-build", npm(&["run", "build"]))?;
    if !options.e2e && !options.scale {
        return Ok(());
    }
    if !can_browse() {
        services::install(PACKAGES)?;
    }
    if !can_browse() {
        let packages = PACKAGES.join(" ");
        return untested(&format!(
            "Chromium or sqlite3 is missing (Debian: apt-get install {packages})"
        ));
    }
    let program = match &options.program {
        Some(program) => program.clone(),
        None => workspace::root().join("target/debug/sichen"),
    };
    if !program.is_file() {
        bail!(
            "there is no {}; build it, or name it with --program",
            program.display()
        );
    }
    let in_browser = |script: &str| {
        let mut command = Command::new("node");
        command.arg(script).arg(&program).current_dir(folder());
        command
    };
    if options.e2e {
        step("console-e2e", in_browser("e2e/main.mjs"))?;
    }
    if options.scale {
        step("console-scale", in_browser("e2e/scale.mjs"))?;
    }
    Ok(())
}

/// Whether there is all that the tests in a browser need.
fn can_browse() -> bool {
    chromium().is_some() && Path::new(SQLITE).exists()
}

fn folder() -> PathBuf {
    workspace::root().join("console")
}

fn npm(words: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(words).current_dir(folder());
    command
}

fn step(name: &'static str, command: Command) -> Result<()> {
    if stage::run(name, command)?.ok {
        return Ok(());
    }
    bail!("{name} failed")
}

fn untested(why: &str) -> Result<()> {
    if sichen_testdb::in_ci() {
        bail!("CI is set, and the console is NOT tested: {why}");
    }
    println!("console: NOT tested: {why}");
    Ok(())
}

fn missing_node() -> Option<String> {
    let told = Command::new("node").arg("--version").output().ok();
    let told = told.map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned());
    match told.as_deref().and_then(version) {
        Some(version) if version >= NODE => None,
        Some(_) => Some(format!(
            "Node.js 20.19 or newer is needed, not {}",
            told.unwrap_or_default()
        )),
        None => Some("Node.js is missing (20.19 or newer, with npm)".to_owned()),
    }
}

/// The major and minor number of `v20.19.4`.
fn version(told: &str) -> Option<(u32, u32)> {
    let mut numbers = told.strip_prefix('v')?.split('.');
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

fn chromium() -> Option<&'static str> {
    let mut places = CHROMIUM.iter().copied();
    places.find(|place| Path::new(place).exists())
}

/// Whether what is installed is what the lock file says.
fn is_installed() -> bool {
    let changed = |path: &str| std::fs::metadata(folder().join(path)).and_then(|m| m.modified());
    let (lock, installed) = (
        changed("package-lock.json"),
        changed("node_modules/.package-lock.json"),
    );
    matches!((lock, installed), (Ok(lock), Ok(installed)) if lock <= installed)
}

fn names_no_registry() -> Result<()> {
    let lock = std::fs::read_to_string(folder().join("package-lock.json"))?;
    if lock.contains("\"resolved\"") {
        bail!(
            "console/package-lock.json names a registry (`resolved`): write it anew with \
             `npm install` in console/, whose .npmrc leaves that out"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{NODE, version};

    #[test]
    fn an_older_node_is_refused_by_its_minor_number_too() {
        let enough = |told: &str| version(told).is_some_and(|version| version >= NODE);
        assert!(enough("v20.19.0") && enough("v22.1.0"));
        assert!(!enough("v20.0.0") && !enough("v18.20.4") && !enough("20") && !enough(""));
    }
}
