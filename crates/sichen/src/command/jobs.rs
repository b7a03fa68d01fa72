//! `sichen pause`, `resume`, `delete`.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use clap::Args;
use sichen_core::name::JobName;
use sichen_server::rest::wire::{AppliedDocument, Change, DeletedJob, Job};

use crate::client::{Client, Connection};
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output::{self, Output};

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

/// A job to delete.
#[derive(Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    job: OneJob,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

/// Carries out `sichen delete`. On a terminal it asks first; elsewhere it wants `--yes`.
pub async fn delete(args: Delete) -> Result<ExitCode, Failure> {
    let Delete { job: args, yes } = args;
    let name = names::job(&args.job)?;
    let client = Client::new(&args.connection)?;
    let path = ["jobs", name.namespace.as_str(), name.name.as_str()];
    if !yes {
        let job: Job = match client.get(&path, Vec::new()).await {
            Ok(job) => job,
            Err(failure) => return Err(client.with_candidates(failure, &name).await),
        };
        if !asked(&name, &job)? {
            output::remark("nothing was deleted");
            return Ok(Exit::Refused.into());
        }
    }
    let deleted: DeletedJob = match client.delete(&path).await {
        Ok(deleted) => deleted,
        Err(failure) => return Err(client.with_candidates(failure, &name).await),
    };
    args.output.show(&deleted, |_| {
        format!("job {name} deleted; its open runs go on and its history stays\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Asks whether the job is to be deleted; only `y` or `yes` is yes.
#[expect(
    clippy::print_stderr,
    reason = "a question beside the answer, on a terminal"
)]
fn asked(name: &JobName, job: &Job) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage(format!(
            "SC7011: nobody can be asked whether job {name} is to be deleted; give --yes"
        )));
    }
    let open = output::count(u64::from(job.active_runs), "open run");
    eprint!(
        "Delete job {name} (revision {}, {open})? [y/N] ",
        job.revision
    );
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    let answer = answer.trim().to_ascii_lowercase();
    Ok(answer == "y" || answer == "yes")
}
