//! `sichen pause`, `resume`, `delete`.

use std::process::ExitCode;

use clap::Args;
use sichen_server::rest::wire::{AppliedDocument, Change, DeletedJob};

use crate::client::{Client, Connection};
use crate::failure::Failure;
use crate::names;
use crate::output::Output;

/// One job.
#[derive(Debug, Args)]
pub struct OneJob {
    /// The job, `name` or `namespace/name`, exactly.
    #[arg(value_name = "JOB")]
    pub job: String,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Carries out `sichen pause` and `sichen resume`.
pub async fn set_paused(args: OneJob, paused: bool) -> Result<ExitCode, Failure> {
    let name = names::job(&args.job)?;
    let client = Client::new(&args.connection)?;
    let verb = if paused { "pause" } else { "resume" };
    let (namespace, job) = (name.namespace.as_str(), name.name.as_str());
    let path = ["jobs", namespace, job, verb];
    let answer = client.post::<AppliedDocument>(&path, None::<&()>, true);
    let applied = match answer.await {
        Ok(applied) => applied,
        Err(failure) => return Err(client.with_candidates(failure, &name).await),
    };
    args.output.show(&applied, |applied| {
        let state = if paused { "paused" } else { "running" };
        match applied.change {
            Change::Unchanged => format!("job {name} was {state} already\n"),
            Change::Created | Change::Updated if paused => {
                format!("job {name} paused; `sichen resume {name}` goes on\n")
            }
            Change::Created | Change::Updated => {
                format!("job {name} resumed; what fell into the pause is recorded as skipped\n")
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Carries out `sichen delete`.
pub async fn delete(args: OneJob) -> Result<ExitCode, Failure> {
    let name = names::job(&args.job)?;
    let client = Client::new(&args.connection)?;
    let path = ["jobs", name.namespace.as_str(), name.name.as_str()];
    let deleted: DeletedJob = match client.delete(&path).await {
        Ok(deleted) => deleted,
        Err(failure) => return Err(client.with_candidates(failure, &name).await),
    };
    args.output.show(&deleted, |_| {
        format!("job {name} deleted; its open runs go on and its history stays\n")
    })?;
    Ok(ExitCode::SUCCESS)
}
