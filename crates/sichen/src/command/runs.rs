//! `sichen runs`: runs, newest first.

use std::process::ExitCode;

use clap::Args;
use sichen_server::rest::wire::{Run, RunPage};

use crate::client::{Client, Connection, Query};
use crate::clock;
use crate::failure::Failure;
use crate::names;
use crate::output::{self, Output};

/// List runs, newest first.
#[derive(Debug, Args)]
pub struct Runs {
    /// Of this job alone.
    #[arg(value_name = "JOB")]
    pub job: Option<String>,
    /// In this state alone.
    #[arg(long, value_parser = ["scheduled", "running", "succeeded", "partial", "failed", "cancelled"])]
    state: Option<String>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// A part of a long list.
#[derive(Debug, Clone, Args)]
pub struct PageArgs {
    /// At most this many, 1 to 1,000.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub limit: u32,
    /// After this place, as the end of an earlier list names it.
    #[arg(long, value_name = "PLACE")]
    pub after: Option<String>,
}

impl PageArgs {
    /// As a query.
    pub fn query(&self) -> Query {
        let mut query = vec![("limit", self.limit.to_string())];
        query.extend(self.after.clone().map(|after| ("after", after)));
        query
    }
}

/// Carries out `sichen runs`.
pub async fn list(args: Runs) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let mut query = args.page.query();
    let name = args.job.as_deref().map(names::job).transpose()?;
    query.extend(name.iter().map(|n| ("job", n.to_string())));
    query.extend(args.state.map(|s| ("state", s)));
    let page: RunPage = match (client.get(&["runs"], query).await, &name) {
        (Ok(page), _) => page,
        (Err(failure), Some(name)) => return Err(client.with_candidates(failure, name).await),
        (Err(failure), None) => return Err(failure),
    };
    args.output.show(&page, |page| table(&page.items))?;
    args.output
        .remark_empty(&page.items, "no such runs; `sichen run JOB` starts one");
    if args.output.is_table() {
        output::remark_more(page.next.as_deref());
    }
    Ok(ExitCode::SUCCESS)
}

fn table(runs: &[Run]) -> String {
    let now = clock::now();
    let rows = runs.iter().map(|r| {
        let s = r.shards;
        let state = if r.stop.is_some() && !super::run::is_closed(r) {
            format!("{} (stopping)", r.state)
        } else {
            r.state.clone()
        };
        let closed = s.succeeded + s.failed + s.cancelled;
        [
            r.id.to_string(),
            r.key.clone(),
            state,
            format!("{closed} of {}", s.total),
            s.failed.to_string(),
            output::between(r.started_at.as_deref(), r.ended_at.as_deref(), now),
            output::age(&r.created_at, now),
        ]
    });
    output::table(
        [
            "RUN",
            "KEY",
            "STATE",
            "SHARDS ENDED",
            "FAILED",
            "TOOK",
            "AGE",
        ],
        rows,
    )
}
