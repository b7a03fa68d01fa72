//! `cargo xtask bench`: builds the release programs and measures them (`crates/sichen-bench`).
//!
//! # Not here
//! What is measured and how, and the floors.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::workspace;

/// Everything behind the name goes to the program that measures.
#[derive(Debug, Args)]
pub struct Options {
    /// `--tmpfs`, `--check`, `--only NAME,…`, `--rounds N`, …; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds and measures.
///
/// # Errors
/// When a build fails, a measurement can't be made or its history is not accepted, or (with
/// `--check`) a figure falls short of its floor.
pub fn run(options: &Options) -> Result<()> {
    let packages = ["-p", "sichen", "-p", "sichen-bench"];
    let built = Command::new(workspace::cargo())
        .args(["build", "--release", "--locked"])
        .args(packages)
        .current_dir(workspace::root())
        .status()
        .context("cargo build --release")?;
    if !built.success() {
        bail!("the release programs could not be built");
    }
    let metadata = workspace::metadata()?;
    let target = metadata["target_directory"].as_str();
    let target = Path::new(target.context("cargo metadata names no target directory")?);
    let measured = Command::new(target.join("release/sichen-bench"))
        .arg("run")
        .args(&options.arguments)
        .status()
        .context("starting sichen-bench")?;
    if !measured.success() {
        bail!("the measurement failed, or a figure falls short of its floor");
    }
    Ok(())
}
