//! `sichen runs`: runs, newest first.

use std::process::ExitCode;

use clap::Args;
use sichen_core::name::JobName;
use sichen_server::rest::wire::{Run, RunPage};

use super::planned;
use crate::client::{Client, Connection, Query};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output::{self, Output};

/// Runs of all jobs among which those of a deleted one are looked for.
const MAX_LOOKED_AT: u32 = 1_000;

/// List runs, newest first.
#[derive(Debug, Args)]
pub struct Runs {
    /// Of this job alone.
    #[arg(value_name = "JOB")]
    pub job: Option<String>,
    /// In this state alone.
    #[arg(long, value_parser = ["scheduled", "running", "succeeded", "partial", "failed", "cancelled"])]
    state: Option<String>,
    /// Of this backfill alone.
    #[arg(long, value_name = "ID", conflicts_with_all = ["job", "state"])]
    backfill: Option<u64>,
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
    query.extend(args.state.iter().map(|s| ("state", s.clone())));
    query.extend(args.backfill.map(|id| ("backfill", id.to_string())));
    let page: RunPage = match (client.get(&["runs"], query).await, &name) {
        (Ok(page), _) => page,
        (Err(failure), Some(name)) => match deleted(&client, &failure, name, &args).await? {
            Some(page) => page,
            None => return Err(client.with_candidates(failure, name).await),
        },
        (Err(failure), None) => return Err(failure),
    };
    args.output.show(&page, |page| table(&page.items))?;
    if args.output.is_table() && page.items.is_empty() {
        output::remark(&none(&client, name.as_ref(), &args).await);
    }
    if args.output.is_table() {
        output::remark_more(page.next.as_deref());
    }
    Ok(ExitCode::SUCCESS)
}

/// Why the list is empty, and what fills it.
async fn none(client: &Client, name: Option<&JobName>, args: &Runs) -> String {
    let kind = match &args.state {
        Some(state) => format!("{state} run"),
        None => "run".to_owned(),
    };
    match (name, args.backfill) {
        _ if args.page.after.is_some() => format!("no {kind} after that one"),
        (Some(name), _) => match planned::job(client, name).await {
            Ok(job) if args.state.is_none() => {
                format!("job {name} has no run yet; {}", planned::prospect(&job))
            }
            Ok(_) | Err(_) => format!("job {name} has no {kind}"),
        },
        (None, Some(id)) => format!("backfill {id} has no {kind} yet"),
        (None, None) => {
            format!(
                "no {kind}; `sichen get jobs` lists what can run, `sichen run JOB` starts a run"
            )
        }
    }
}

/// The runs of a deleted job, whose history stays: those among the newest runs of all jobs.
async fn deleted(
    client: &Client,
    failure: &Failure,
    name: &JobName,
    args: &Runs,
) -> Result<Option<RunPage>, Failure> {
    if failure.exit != Exit::NotFound {
        return Ok(None);
    }
    let mut query = vec![("limit", MAX_LOOKED_AT.to_string())];
    query.extend(args.page.after.clone().map(|after| ("after", after)));
    query.extend(args.state.iter().map(|s| ("state", s.clone())));
    let mut page: RunPage = client.get(&["runs"], query).await?;
    let (namespace, job) = (name.namespace.as_str(), name.name.as_str());
    page.items
        .retain(|run| run.namespace == namespace && run.job == job);
    if page.items.is_empty() {
        return Ok(None);
    }
    if page.items.len() > args.page.limit as usize {
        page.items.truncate(args.page.limit as usize);
        page.next = page.items.last().map(|run| run.id.to_string());
    }
    output::remark(&format!(
        "job {name} was deleted; these of the newest {MAX_LOOKED_AT} runs of all jobs are its own"
    ));
    Ok(Some(page))
}

fn table(runs: &[Run]) -> String {
    let now = clock::now();
    let rows = runs.iter().map(|r| {
        let s = r.shards;
        let state = if r.stop.is_some() && !super::waiting::is_closed(r) {
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
