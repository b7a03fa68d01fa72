//! `sichen clock`: the store's clock, and believing it after a step.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use sichen_server::rest::wire;

use crate::client::{Client, Connection};
use crate::failure::Failure;
use crate::output::Output;

/// Show the store's clock, or accept that it stepped.
#[derive(Debug, Subcommand)]
pub enum Clock {
    /// Show the store's time, what its clock says, and whether it is believed.
    Show(Options),
    /// Believe a clock that stepped ahead. What runs is given as much more time; planned times in
    /// between are decided by each job's catch-up policy.
    Accept(Options),
}

/// What both take.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Carries out `sichen clock`.
pub async fn run(command: Clock) -> Result<ExitCode, Failure> {
    let (options, accept) = match command {
        Clock::Show(options) => (options, false),
        Clock::Accept(options) => (options, true),
    };
    let client = Client::new(&options.connection)?;
    let clock: wire::Clock = if accept {
        client
            .post(&["clock", "accept"], None::<&()>, false)
            .await?
    } else {
        client.get(&["clock"], Vec::new()).await?
    };
    options.output.show(&clock, |clock| said(clock, accept))?;
    Ok(ExitCode::SUCCESS)
}

fn said(clock: &wire::Clock, accept: bool) -> String {
    let wire::Clock { now, reading, .. } = clock;
    let ahead = clock.ahead_seconds;
    let what = match clock.accepted_seconds {
        Some(step) => format!("a step of {step} s is accepted; jobs fire again"),
        None if clock.held => format!(
            "the clock stepped ahead by {ahead} s and is not believed: nothing fires. If it is right \
             now: sichen clock accept"
        ),
        None if accept => "the clock is believed already; there is nothing to accept".to_owned(),
        None if clock.is_behind() => {
            let behind = ahead.saturating_neg();
            format!("the clock is behind by {behind} s: time stands still until it has caught up")
        }
        None => "the clock is believed".to_owned(),
    };
    format!("time   {now}\nclock  {reading}\n{what}\n")
}

#[cfg(test)]
mod tests;
