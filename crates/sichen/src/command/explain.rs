//! `sichen explain`: why a run or a shard is not further, a planned time was not run, a job does not start.
//!
//! # Not here
//! Which run is meant ([`super::which`]); reasons in words (the server, [`super::planned`]).

use std::process::ExitCode;

use clap::Args;
use sichen_server::rest::wire::{Explanation, Job};

use super::planned::Skipped;
use super::waiting::failed_hint;
use super::which::Named;
use super::{planned, which};
use crate::client::{Client, Connection};
use crate::failure::Failure;
use crate::names;
use crate::output::{self, Output};

/// Say why a run or a shard is where it is: what it waits for, the nearest cause first. Of a planned
/// time that has no run: why it was not run. Of a job: what its schedules do next, too.
#[derive(Debug, Args)]
pub struct Explain {
    /// The run, by number, key or trace id; or a job, for its newest run.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// This shard of it alone; -1 is the plan step.
    #[arg(value_name = "SHARD", allow_negative_numbers = true)]
    pub shard: Option<i32>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Carries out `sichen explain`.
pub async fn show(args: Explain) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let mut of_job = String::new();
    let run = match which::named(&client, &args.run).await? {
        Named::Run(run) => run,
        Named::Newest(name, run) => {
            which::remark_newest(&name, &run);
            if args.output.is_table()
                && let Ok(job) = planned::job(&client, &name).await
            {
                let next = planned::prospect_since(&client, &name, &job).await;
                of_job = format!("job {name}: {next}\n");
            }
            run.id.to_string()
        }
        Named::Idle(job) => {
            idle(&client, &job, args.output).await?;
            return Ok(ExitCode::SUCCESS);
        }
        Named::Skipped(skipped) => {
            left_out(&skipped, args.output)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let path = ["runs", run.as_str(), "explain"];
    let of = args.shard.map(|no| ("shard", no.to_string()));
    let explanation: Explanation = client.get(&path, of.into_iter().collect()).await?;
    args.output.show(&explanation, |e| {
        let of = args
            .shard
            .map_or(String::new(), |no| format!("shard {no} of "));
        let run = format!("{of}run {} is {}", e.key, e.state);
        let mut text = format!("{of_job}{run}\n{}", detailed(e));
        if matches!(e.state.as_str(), "failed" | "partial") {
            text.push_str(&failed_hint(e.id));
        }
        output::prose(&text)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A job that has no run yet.
async fn idle(client: &Client, job: &Job, output: Output) -> Result<(), Failure> {
    let name = names::job(&names::shown(&job.namespace, &job.name))?;
    let next = planned::prospect_since(client, &name, job).await;
    output.show(job, |_| {
        output::prose(&format!("job {name} has no run yet: {next}\n"))
    })
}

/// A planned time that was not run.
fn left_out(skipped: &Skipped, output: Output) -> Result<(), Failure> {
    output.show(&skipped.decision, |_| {
        output::prose(&format!("{}{}\n", skipped.text(), skipped.hint()))
    })
}

/// Reasons, each with since when it holds and what ends it.
fn detailed(explanation: &Explanation) -> String {
    let lines = explanation.reasons.iter().map(|why| {
        let since = why.since.as_ref();
        let since = since.map_or(String::new(), |at| format!("    since: {at}\n"));
        let ends = match why.ends.as_str() {
            "" => String::new(),
            ends => format!("    ends with: {}\n", output::visible(ends)),
        };
        format!(
            "  {}: {}\n{since}{ends}",
            why.word,
            output::visible(&why.text)
        )
    });
    lines.collect()
}

/// One reason a line.
pub fn reasons(explanation: &Explanation) -> String {
    let lines = explanation.reasons.iter();
    let lines = lines.map(|why| format!("  {}: {}\n", why.word, output::visible(&why.text)));
    output::prose(&lines.collect::<String>())
}
