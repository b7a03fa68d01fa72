//! `sichen namespace`: what namespaces may have of the pools.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use sichen_server::rest::wire::{Namespace, NamespacePage, SetNamespace};

use super::runs::PageArgs;
use crate::client::{Client, Connection};
use crate::failure::Failure;
use crate::output::Output;

/// Show or set what namespaces may have of the pools: their weight, how many shards they run at once, and how many runs they may queue.
#[derive(Debug, Subcommand)]
pub enum Command {
    List(List),
    Set(Set),
}

/// List the namespaces of which something was set. All others have the weight 100 and no limit.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Set what a namespace may have. What is left out stays as it is.
#[derive(Debug, Args)]
pub struct Set {
    /// The namespace.
    #[arg(value_name = "NAMESPACE")]
    name: String,
    /// Its part of a pool beside the other namespaces that have work for it, 1 to 10,000; 100 if nothing was set.
    #[arg(long, value_name = "NUMBER", required_unless_present_any = ["max_running", "max_queued"])]
    weight: Option<u32>,
    /// Shards that may run at once, in all pools together, or `none`. What runs beyond that goes on.
    #[arg(long, value_name = "NUMBER", value_parser = most)]
    max_running: Option<Most>,
    /// Runs that may wait to be started at once, or `none`: beyond that requests for runs are refused, and
    /// planned times and backfills wait. What is queued beyond that stays.
    #[arg(long, value_name = "NUMBER", value_parser = most)]
    max_queued: Option<Most>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// A limit or none.
#[derive(Clone, Copy, Debug)]
struct Most(Option<u32>);

fn most(text: &str) -> Result<Most, String> {
    if text == "none" {
        return Ok(Most(None));
    }
    let number = text.parse().map(|n| Most(Some(n)));
    number.map_err(|_| "write a number from 0, or none".to_owned())
}

/// Carries out `sichen namespace`.
pub async fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::List(args) => list(args).await,
        Command::Set(args) => set(args).await,
    }
}

async fn list(args: List) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let page: NamespacePage = client.get(&["namespaces"], args.page.query()).await?;
    args.output.show(&page, |page| {
        let lines = page.items.iter().map(said);
        let mut text: String = lines.collect();
        if text.is_empty() {
            text.push_str("nothing is set: all namespaces have the weight 100 and no limit\n");
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn set(args: Set) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let change = SetNamespace {
        weight: args.weight,
        max_running: args.max_running.and_then(|most| most.0),
        unlimited: matches!(args.max_running, Some(Most(None))),
        max_queued: args.max_queued.and_then(|most| most.0),
        unlimited_queue: matches!(args.max_queued, Some(Most(None))),
    };
    let path = ["namespaces", args.name.as_str()];
    let namespace: Namespace = client.post(&path, Some(&change), false).await?;
    args.output.show(&namespace, said)?;
    Ok(ExitCode::SUCCESS)
}

fn said(namespace: &Namespace) -> String {
    let limit = match (namespace.max_running, namespace.running) {
        (Some(most), Some(running)) => format!("{running} of at most {most} shards run"),
        (Some(most), None) => format!("at most {most} shards run at once"),
        (None, _) => "no limit".to_owned(),
    };
    let queue = match (namespace.max_queued, namespace.queued) {
        (Some(most), Some(queued)) => format!("  {queued} of at most {most} runs are queued"),
        (Some(most), None) => format!("  at most {most} runs are queued"),
        (None, _) => String::new(),
    };
    format!(
        "{}  weight {}  {limit}{queue}\n",
        namespace.name, namespace.weight
    )
}
