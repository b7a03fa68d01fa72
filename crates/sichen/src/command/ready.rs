//! `sichen ready`: whether a server can do its work, for those who start, watch and restart it.
//!
//! # Not here
//! Why not, beyond a line ([`super::doctor`]).

use std::process::ExitCode;

use clap::Args;

use crate::client::{Client, Connection};
use crate::failure::{Exit, Failure};
use crate::output;

/// Ask a server whether it can do its work: exit code 0, or 5 and why not. Needs no token.
#[derive(Debug, Args)]
pub struct Ready {
    #[command(flatten)]
    connection: Connection,
}

/// Carries out `sichen ready`.
pub async fn run(args: Ready) -> Result<ExitCode, Failure> {
    let (is_ready, said) = Client::nobody(&args.connection)?.ready().await?;
    output::print(&format!("{}\n", output::visible(&said)))?;
    Ok(match is_ready {
        true => ExitCode::SUCCESS,
        false => Exit::Unavailable.into(),
    })
}
