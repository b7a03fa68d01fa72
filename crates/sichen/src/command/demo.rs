//! `sichen demo`, and the worker program that it starts.
//!
//! # Not here
//! The demo itself ([`crate::demo`]).

use std::io::Write;
use std::process::ExitCode;

pub use crate::demo::Args;
use crate::demo::{self, worker};
use crate::output;

/// Runs the demo and prints its report; 0 only if everything holds.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let report = demo::run(&args).await?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?;
    } else {
        write!(out, "{}", output::prose(&report.text()))?;
    }
    Ok(if report.ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs one of the demo's workers.
pub async fn run_worker(args: worker::Args) -> anyhow::Result<ExitCode> {
    worker::run(args).await?;
    Ok(ExitCode::SUCCESS)
}
