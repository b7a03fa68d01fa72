//! `sichen alerts`: what people are told without asking.
//!
//! # Not here
//! The file by which a server tells (`crate::config::alerts`).

use std::process::ExitCode;

use clap::Args;
use sichen_server::rest::wire;

use crate::client::{Client, Connection};
use crate::failure::Failure;
use crate::output::{self, Output};

/// List what is told of as failing, missing, late or stuck, and what is over lately.
#[derive(Debug, Args)]
pub struct Alerts {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Carries out `sichen alerts`.
pub async fn run(args: Alerts) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let alerts: wire::Alerts = client.get(&["alerts"], Vec::new()).await?;
    args.output.show(&alerts, said)?;
    let none = "no alerts; a server tells of them that was given --alerts FILE";
    args.output.remark_empty(&alerts.items, none);
    for waiting in alerts.waiting.iter().filter(|_| args.output.is_table()) {
        let (n, receiver) = (u64::from(waiting.count), &waiting.receiver);
        let notices = output::count(n, "notice");
        output::remark(&format!("{notices} to `{receiver}` not sent yet"));
    }
    Ok(ExitCode::SUCCESS)
}

fn said(alerts: &wire::Alerts) -> String {
    let rows = alerts.items.iter().map(|alert| {
        [
            alert.phase.clone(),
            output::instant(&alert.since, 0),
            alert.rule.clone(),
            output::visible(&alert.summary),
        ]
    });
    output::table(["PHASE", "SINCE", "RULE", "WHAT"], rows)
}
