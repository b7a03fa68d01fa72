//! The long search for inputs that break a reader, one target after another.
//!
//! # Not here
//! The search itself (`sichen-fuzz`), the targets: tests named `fuzz::NAME` in the crates that own the readers.

use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::workspace;

/// Which targets, and for how long.
#[derive(Debug, Args)]
pub struct Options {
    /// This one alone, such as `cron`
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// How long each: seconds, or minutes with an `m`
    #[arg(long = "for", value_name = "LENGTH", default_value = "60")]
    length: String,
    /// From what chance begins, to do a search again
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

/// Runs the targets, and keeps what they find under `testdata/fuzz`.
pub fn run(options: &Options) -> Result<()> {
    let seconds = seconds(&options.length)?;
    let drawn = || u64::from(std::process::id()) << 20 | seconds;
    let seed = options.seed.unwrap_or_else(drawn);
    let name = options.target.as_deref().unwrap_or("[a-z_]+");
    if !name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b"_[]-+".contains(&b))
    {
        bail!("{name:?} is no target's name");
    }
    println!("fuzz: seed {seed}, {seconds} s each");
    let filter = format!("test(/(^|::)fuzz::{name}$/)");
    let status = Command::new("cargo")
        .current_dir(workspace::root())
        .args([
            "nextest",
            "run",
            "--workspace",
            "--features",
            crate::test::FEATURES,
        ])
        .args(["-E", &filter, "--no-fail-fast", "--no-capture"])
        // What a test may take, unless it is one that takes as long as it is told.
        .args(["--config-file"])
        .arg(workspace::root().join(".config/fuzz.toml"))
        .env("SICHEN_FUZZ_SECONDS", seconds.to_string())
        .env("SICHEN_FUZZ_SEED", seed.to_string())
        .env("SICHEN_FUZZ_KEEP", "1")
        .status()
        .context("cargo nextest")?;
    match status.success() {
        true => Ok(()),
        false => bail!("a reader broke: what broke it is under testdata/fuzz, named found-…"),
    }
}

fn seconds(text: &str) -> Result<u64> {
    let (number, unit) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let number: u64 = number
        .parse()
        .with_context(|| format!("{text:?} is no length"))?;
    Ok(number * unit)
}
