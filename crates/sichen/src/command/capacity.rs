//! `sichen capacity`: listed, shown with who holds and who waits, resized live, deleted.
//!
//! # Not here
//! Declaring one: `sichen apply` of a document of `kind: Capacity` ([`super::documents`]).

use std::process::ExitCode;

use clap::{Args, Subcommand};
use sichen_server::rest::wire::{
    AppliedCapacity, Capacity, CapacityPage, Change, DeletedCapacity, ResizeCapacity,
};

use super::runs::PageArgs;
use crate::client::{Client, Connection};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output::{self, Output};

/// Named capacities: what jobs of all namespaces share, such as connections of a database.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List capacities with their limits and what is used of them.
    List(List),
    /// Show one: who holds it, who waits for it, since when.
    Show(One),
    /// Change the limits of one live. What is held stays held: shrinking stops new grants alone.
    Set(Set),
    /// Delete one that nothing uses.
    Delete(Delete),
}

/// Which.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// One by its name.
#[derive(Debug, Args)]
pub struct One {
    /// The capacity's name.
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// New limits.
#[derive(Debug, Args)]
pub struct Set {
    /// The capacity's name.
    #[arg(value_name = "NAME")]
    name: String,
    /// Units that may be held at once; 0 lets nothing start.
    #[arg(long, value_name = "N", required_unless_present_any = ["rate", "burst"])]
    units: Option<u32>,
    /// Tokens a second, minute, hour or day: 50/s, 100/m, 1000/h, 5000/d.
    #[arg(long, value_name = "RATE")]
    rate: Option<String>,
    /// Tokens that gather while none is taken.
    #[arg(long, value_name = "N")]
    burst: Option<u32>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Which one to delete.
#[derive(Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    one: One,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

/// Carries out `sichen capacity`.
pub async fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::List(args) => list(&args).await,
        Command::Show(args) => show(&args).await,
        Command::Set(args) => set(&args).await,
        Command::Delete(args) => delete(&args).await,
    }
}

async fn list(args: &List) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let page: CapacityPage = client.get(&["capacities"], args.page.query()).await?;
    args.output.show(&page, |page| {
        let now = clock::now();
        let rows = page.items.iter().map(|c| {
            [
                c.name.clone(),
                output::or_dash(c.units),
                c.used.to_string(),
                rate(c),
                output::or_dash(c.tokens),
                output::age(&c.changed_at, now),
            ]
        });
        let head = ["CAPACITY", "UNITS", "USED", "RATE", "TOKENS", "CHANGED"];
        output::table(head, rows)
    })?;
    let none = "no capacities; `sichen apply -f FILE` makes some (`kind: Capacity`)";
    args.output.remark_empty(&page.items, none);
    if args.output.is_table() {
        output::remark_more(page.next.as_deref());
    }
    Ok(ExitCode::SUCCESS)
}

fn rate(capacity: &Capacity) -> String {
    match (&capacity.rate, capacity.burst) {
        (Some(rate), Some(burst)) => format!("{rate} burst {burst}"),
        (Some(rate), None) => rate.clone(),
        (None, _) => "-".to_owned(),
    }
}

async fn show(args: &One) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let found: Capacity = client.get(&["capacities", &args.name], Vec::new()).await?;
    args.output.show(&found, shown)?;
    Ok(ExitCode::SUCCESS)
}

fn shown(c: &Capacity) -> String {
    let now = clock::now();
    let used = match c.units {
        Some(units) => format!(
            "{} of {units}, by {}",
            c.used,
            output::count(c.holds.into(), "attempt")
        ),
        None => format!(
            "{}, by {}",
            c.used,
            output::count(c.holds.into(), "attempt")
        ),
    };
    let tokens = c.tokens.map(|n| n.to_string()).unwrap_or_default();
    let rate = c.rate.as_ref().map(|_| rate(c)).unwrap_or_default();
    let mut text = output::facts(&[
        ("Capacity", c.name.clone()),
        ("Version", c.version.to_string()),
        ("Changed", output::instant(&c.changed_at, 0)),
        ("Used", used),
        ("Rate", rate),
        ("Tokens", tokens),
    ]);
    if !c.holders.is_empty() {
        let rows = c.holders.iter().map(|h| {
            let until = h.until.as_deref();
            let until = until.map_or("-".to_owned(), |at| output::instant(at, 0));
            [
                format!("{}/{}", h.run, h.shard),
                h.units.to_string(),
                h.session.to_string(),
                output::age(&h.since, now),
                until,
            ]
        });
        let head = ["HOLDER", "UNITS", "SESSION", "SINCE", "LOST, FREE AT"];
        text = format!("{text}\n{}", output::table(head, rows));
    }
    if !c.waiters.is_empty() {
        let rows = c.waiters.iter().map(|w| {
            [
                w.run.to_string(),
                names::shown(&w.namespace, &w.name),
                w.pool.clone(),
                w.units.to_string(),
                output::age(&w.since, now),
            ]
        });
        let head = ["WAITING RUN", "JOB", "POOL", "NEEDS", "READY SINCE"];
        text = format!("{text}\n{}", output::table(head, rows));
    }
    text
}

async fn set(args: &Set) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let body = ResizeCapacity {
        units: args.units,
        rate: args.rate.clone(),
        burst: args.burst,
    };
    // The same limits again change nothing.
    let path = ["capacities", &args.name, "resize"];
    let applied: AppliedCapacity = client.post(&path, Some(&body), false).await?;
    args.output.show(&applied, applied_line)?;
    Ok(ExitCode::SUCCESS)
}

async fn delete(args: &Delete) -> Result<ExitCode, Failure> {
    let name = &args.one.name;
    let client = Client::new(&args.one.connection)?;
    if !args.yes {
        let question = format!("Delete capacity {name}? [y/N] ");
        let about = format!("whether capacity {name} is to be deleted");
        if !output::confirmed(&question, &about)? {
            output::remark("nothing was deleted");
            return Ok(Exit::Refused.into());
        }
    }
    let deleted: DeletedCapacity = client.delete(&["capacities", name]).await?;
    args.one
        .output
        .show(&deleted, |_| format!("capacity {name} deleted\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// What became of a capacity, in one line.
pub fn applied_line(applied: &AppliedCapacity) -> String {
    let change = match applied.change {
        Change::Created => "created",
        Change::Updated => "updated",
        Change::Unchanged => "unchanged",
    };
    let AppliedCapacity { name, version, .. } = applied;
    format!("capacity {name} {change} (version {version})\n")
}
