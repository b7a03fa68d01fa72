//! `sichen man`: manual pages, one a command.
//!
//! # Not here
//! Installing them (`cargo xtask dist`).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::failure::{Exit, Failure};
use crate::output;

/// Write the manual pages, one a command, into a directory that is there.
#[derive(Debug, Args)]
pub struct Man {
    /// The directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Carries out `sichen man`.
pub fn write(args: &Man) -> Result<ExitCode, Failure> {
    let written = clap_mangen::generate_to(Cli::command(), &args.directory);
    written.map_err(|error| {
        let path = args.directory.display();
        Failure::new(
            Exit::Usage,
            format!("no manual pages can be written into {path}: {error}"),
        )
    })?;
    output::print(&format!("{}\n", args.directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
