//! `sichen get`: lists of jobs, workers, members.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use sichen_server::rest::wire::{Job, JobPage, Members, Worker, Workers};

use super::runs::PageArgs;
use crate::client::{Client, Connection};
use crate::clock;
use crate::failure::Failure;
use crate::names;
use crate::output::{self, Output};

/// List what there is.
#[derive(Debug, Subcommand)]
pub enum Get {
    /// Jobs, by namespace and name; or one job: with `-o yaml` its document, as it can be applied.
    #[command(visible_alias = "job")]
    Jobs {
        /// One job, `name` or `namespace/name`, exactly.
        #[arg(value_name = "JOB")]
        job: Option<String>,
        /// The document of this revision instead of the one in force.
        #[arg(long, value_name = "NUMBER", requires = "job")]
        revision: Option<u32>,
        #[command(flatten)]
        page: PageArgs,
        #[command(flatten)]
        common: Common,
    },
    /// Calendars, by namespace and name; or one: with `-o yaml` its document, as it can be applied.
    #[command(visible_alias = "calendar")]
    Calendars(super::calendars::Get),
    /// Runs, newest first; the same as `sichen runs`.
    #[command(visible_alias = "run")]
    Runs(super::runs::Runs),
    /// Workers whose session is not over.
    #[command(visible_alias = "worker")]
    Workers(Common),
    /// Server nodes and the duties they have.
    Members(Common),
    /// Tokens; the same as `sichen token list`.
    #[command(visible_alias = "token")]
    Tokens(super::token::List),
    /// Capacities; the same as `sichen capacity list`.
    #[command(visible_alias = "capacity")]
    Capacities(super::capacity::List),
    /// Namespaces; the same as `sichen namespace list`.
    #[command(visible_alias = "namespace")]
    Namespaces(super::namespace::List),
}

/// What every list has.
#[derive(Debug, Args)]
pub struct Common {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Carries out `sichen get`.
pub async fn list(what: Get) -> Result<ExitCode, Failure> {
    match what {
        Get::Jobs {
            job: Some(job),
            revision,
            common,
            ..
        } => one_job(&job, revision, &common).await?,
        Get::Jobs { page, common, .. } => jobs(&page, &common).await?,
        Get::Calendars(args) => super::calendars::get(&args).await?,
        Get::Runs(args) => return super::runs::list(args).await,
        Get::Workers(common) => workers(&common).await?,
        Get::Members(common) => members(&common).await?,
        Get::Tokens(args) => super::token::list(&args).await?,
        Get::Capacities(args) => {
            return super::capacity::run(super::capacity::Command::List(args)).await;
        }
        Get::Namespaces(args) => {
            return super::namespace::run(super::namespace::Command::List(args)).await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A job's document, which can be applied as it is; for people with its revision above it.
async fn one_job(job: &str, revision: Option<u32>, common: &Common) -> Result<(), Failure> {
    let name = names::job(job)?;
    let client = Client::new(&common.connection)?;
    let number = match revision {
        Some(number) => number,
        None => {
            let path = ["jobs", name.namespace.as_str(), name.name.as_str()];
            let found: Result<Job, Failure> = client.get(&path, Vec::new()).await;
            match found {
                Ok(job) => job.revision,
                Err(failure) => return Err(client.with_candidates(failure, &name).await),
            }
        }
    };
    let found = super::revisions::revision(&client, &name, number).await?;
    let remark = if found.current { ", in force" } else { "" };
    let head = format!("# job {name}, revision {number}{remark}\n");
    common.output.show(&found.document, |document| {
        let yaml = serde_saphyr::to_string(document).unwrap_or_else(|_| document.to_string());
        head + &yaml
    })
}

async fn jobs(page: &PageArgs, common: &Common) -> Result<(), Failure> {
    let client = Client::new(&common.connection)?;
    let page: JobPage = client.get(&["jobs"], page.query()).await?;
    common.output.show(&page, |page| {
        let now = clock::now();
        let rows = page.items.iter().map(|j| {
            [
                names::shown(&j.namespace, &j.name),
                j.revision.to_string(),
                if j.paused { "paused" } else { "active" }.to_owned(),
                j.next_at
                    .as_deref()
                    .map_or_else(|| "-".to_owned(), |t| output::instant(t, 0)),
                output::open_runs(j.active_runs),
                output::age(&j.created_at, now),
            ]
        });
        output::table(
            ["JOB", "REVISION", "STATE", "NEXT", "OPEN RUNS", "AGE"],
            rows,
        )
    })?;
    common
        .output
        .remark_empty(&page.items, "no jobs; `sichen apply -f FILE` makes some");
    if common.output.is_table() {
        output::remark_more(page.next.as_deref());
    }
    Ok(())
}

/// What a worker offers beside its handlers: `zone=a cpu:8`.
fn offer(worker: &Worker) -> String {
    let labels = worker
        .labels
        .iter()
        .map(|(label, value)| format!("{label}={value}"));
    let resources = worker
        .resources
        .iter()
        .map(|(name, n)| format!("{name}:{n}"));
    labels.chain(resources).collect::<Vec<_>>().join(" ")
}

async fn workers(common: &Common) -> Result<(), Failure> {
    let client = Client::new(&common.connection)?;
    let workers: Workers = client.get(&["workers"], Vec::new()).await?;
    common.output.show(&workers, |workers| {
        let now = clock::now();
        let rows = workers.items.iter().map(|w| {
            [
                w.session.to_string(),
                w.name.clone(),
                w.pool.clone(),
                format!("{} of {}", w.held, w.slots),
                if w.draining { "draining" } else { "live" }.to_owned(),
                output::age(&w.registered_at, now),
                w.handlers.join(" "),
                offer(w),
            ]
        });
        let head = [
            "SESSION",
            "WORKER",
            "POOL",
            "SLOTS USED",
            "STATE",
            "AGE",
            "HANDLERS",
            "LABELS AND RESOURCES",
        ];
        output::table(head, rows)
    })?;
    common.output.remark_empty(
        &workers.items,
        "no worker is connected; `sichen worker` starts one",
    );
    Ok(())
}

async fn members(common: &Common) -> Result<(), Failure> {
    let client = Client::new(&common.connection)?;
    let members: Members = client.get(&["members"], Vec::new()).await?;
    common.output.show(&members, |members| {
        let duties_of = |node: u64| {
            let owned = members.duties.iter().filter(|d| d.node == Some(node));
            let (mut triggers, mut words) = (0, Vec::new());
            for duty in owned {
                if duty.key.starts_with("trigger/") {
                    triggers += 1;
                } else {
                    words.push(duty.key.clone());
                }
            }
            if triggers > 0 {
                words.push(format!("{triggers} trigger partitions"));
            }
            words.join(", ")
        };
        let rows = members.nodes.iter().map(|n| {
            let this = members.this_node == Some(n.id);
            let mark = if this { " (answers)" } else { "" };
            [
                format!("{}{mark}", n.id),
                n.address.clone(),
                output::instant(&n.expires_at, 0),
                duties_of(n.id),
            ]
        });
        output::table(["NODE", "ADDRESS", "LEASE UNTIL", "DUTIES"], rows)
    })
}
