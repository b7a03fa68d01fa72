//! `sichen pause`, `resume`, `delete`.

use std::process::ExitCode;

use clap::Args;
use sichen_core::name::JobName;
use sichen_server::rest::wire::{AppliedDocument, Change, DeletedJob, Job, Preview};

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

/// A job to pause.
#[derive(Debug, Args)]
pub struct Pause {
    #[command(flatten)]
    job: OneJob,
    /// Show what it would do now, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

/// A job to resume.
#[derive(Debug, Args)]
pub struct Resume {
    #[command(flatten)]
    job: OneJob,
    /// Let the catch-up policy decide the planned times that fell into the pause.
    #[arg(long)]
    catch_up: bool,
    /// Show what it would do now, and do nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Carries out `sichen pause`.
pub async fn pause(args: Pause) -> Result<ExitCode, Failure> {
    set_paused(args.job, "pause", Vec::new(), args.dry_run).await
}

/// Carries out `sichen resume`.
pub async fn resume(args: Resume) -> Result<ExitCode, Failure> {
    let query = if args.catch_up {
        vec![("catch_up", "true".to_owned())]
    } else {
        Vec::new()
    };
    set_paused(args.job, "resume", query, args.dry_run).await
}

async fn set_paused(
    args: OneJob,
    verb: &'static str,
    query: Vec<(&'static str, String)>,
    dry_run: bool,
) -> Result<ExitCode, Failure> {
    let name = names::job(&args.job)?;
    let client = Client::new(&args.connection)?;
    let (namespace, job) = (name.namespace.as_str(), name.name.as_str());
    if dry_run {
        let path = ["jobs", namespace, job, "preview"];
        let preview = match client.get::<Preview>(&path, query).await {
            Ok(preview) => preview,
            Err(failure) => return Err(client.with_candidates(failure, &name).await),
        };
        args.output
            .show(&preview, |preview| previewed(&name, verb, preview))?;
        return Ok(ExitCode::SUCCESS);
    }
    let catch_up = !query.is_empty();
    let path = ["jobs", namespace, job, verb];
    let answer = client.post_with::<AppliedDocument>(&path, query);
    let applied = match answer.await {
        Ok(applied) => applied,
        Err(failure) => return Err(client.with_candidates(failure, &name).await),
    };
    let paused = verb == "pause";
    args.output.show(&applied, |applied| {
        let state = if paused { "paused" } else { "running" };
        match applied.change {
            Change::Unchanged => format!("job {name} was {state} already\n"),
            Change::Created | Change::Updated if paused => {
                format!("job {name} paused; `sichen resume {name}` goes on\n")
            }
            Change::Created | Change::Updated if catch_up => format!(
                "job {name} resumed; its catch-up policy has decided what fell into the pause\n"
            ),
            Change::Created | Change::Updated => format!(
                "job {name} resumed; what fell into the pause is recorded as skipped, unless the \
                 job says `onResume: catchUp`\n"
            ),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What a pause, a resume or a deletion would do, for people.
fn previewed(name: &JobName, verb: &str, preview: &Preview) -> String {
    if verb != "delete" && preview.paused == (verb == "pause") {
        let state = if preview.paused { "paused" } else { "running" };
        return format!("job {name} is {state} already\n");
    }
    let doing = match verb {
        "delete" => "deleting",
        _ if preview.paused => "resuming",
        _ => "pausing",
    };
    let mut text = format!(
        "{doing} now would run {} and record {} as not run\n",
        output::count(preview.run_count, "planned time"),
        preview.skip_count
    );
    for run in &preview.runs {
        text.push_str(&format!("  run   {run}\n"));
    }
    for d in &preview.decisions {
        let range = if d.from == d.to {
            d.from.clone()
        } else {
            format!("{} to {} ({})", d.from, d.to, d.count)
        };
        text.push_str(&format!("  skip  {range}: {}\n", d.reason));
    }
    if let Some(next) = &preview.next_at {
        text.push_str(&format!("then the next is {next}\n"));
    }
    text
}

/// A job to delete.
#[derive(Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    job: OneJob,
    /// It is a calendar; one that jobs use is not deleted.
    #[arg(long)]
    calendar: bool,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    /// Show what would be recorded of its planned times now, and do nothing.
    #[arg(long, conflicts_with = "calendar")]
    dry_run: bool,
}

/// Carries out `sichen delete`. On a terminal it asks first; elsewhere it wants `--yes`.
pub async fn delete(args: Delete) -> Result<ExitCode, Failure> {
    let Delete {
        job: args,
        calendar,
        yes,
        dry_run,
    } = args;
    if dry_run {
        let query = vec![("delete", "true".to_owned())];
        return set_paused(args, "delete", query, true).await;
    }
    if calendar {
        return super::calendars::delete(&args.job, yes, &args.connection, &args.output).await;
    }
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

/// Asks whether the job is to be deleted.
fn asked(name: &JobName, job: &Job) -> Result<bool, Failure> {
    let open = output::count(u64::from(job.active_runs), "open run");
    let question = format!(
        "Delete job {name} (revision {}, {open})? [y/N] ",
        job.revision
    );
    output::confirmed(&question, &format!("whether job {name} is to be deleted"))
}
