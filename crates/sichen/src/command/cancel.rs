//! `sichen cancel`, `sichen retry`: ask something of a run.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use sichen_server::rest::wire::{RetryRun, Run};

use super::waiting::{self, Waiting};
use super::which;
use crate::client::{Client, Connection};
use crate::failure::Failure;
use crate::output::Output;

/// Stop a run: what waits is cancelled now, what runs is told to stop.
#[derive(Debug, Args)]
pub struct Cancel {
    /// The run, by number or key.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Wait until it has ended.
    #[arg(long)]
    wait: bool,
    /// Wait at most this long, such as `10m`.
    #[arg(long, value_name = "LENGTH", requires = "wait", value_parser = waiting::length)]
    timeout: Option<Duration>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Retry the failed and cancelled shards of a run that has ended: same run, same checkpoints, new
/// attempts.
#[derive(Debug, Args)]
pub struct Retry {
    /// The run, by number or key.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Only this shard; may be given several times.
    #[arg(long = "shard", value_name = "NUMBER")]
    shards: Vec<i32>,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Carries out `sichen cancel`. With `--wait` the exit code is 0 once the run has ended, whatever
/// its outcome.
pub async fn cancel(args: Cancel) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let path = ["runs", args.run.as_str(), "cancel"];
    let mut run: Run = match client.post(&path, None::<&()>, false).await {
        Ok(run) => run,
        Err(failure) => {
            let open = ["running", "scheduled"];
            return Err(which::with_run(&client, failure, "cancel", &args.run, &open).await);
        }
    };
    if args.wait {
        run = waiting::wait(&client, run.id, args.timeout).await?;
    }
    args.output.show(&run, |run| match &run.stop {
        Some(_) if waiting::is_closed(run) => format!("run {} ended: {}\n", run.key, run.state),
        Some(stop) => format!(
            "run {} is being stopped ({}); {} shards are not ended yet\n",
            run.key, stop.cause, run.shards.open
        ),
        None => format!("run {} is {}\n", run.key, run.state),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Carries out `sichen retry`.
pub async fn retry(args: Retry) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let shards = (!args.shards.is_empty()).then_some(args.shards);
    let path = ["runs", args.run.as_str(), "retry"];
    let run: Run = match client.post(&path, Some(&RetryRun { shards }), false).await {
        Ok(run) => run,
        Err(failure) => {
            let bad = ["failed", "partial"];
            return Err(which::with_run(&client, failure, "retry", &args.run, &bad).await);
        }
    };
    if args.waiting.wait {
        return waiting::finish(&client, run.id, args.waiting, args.output).await;
    }
    args.output.show(&run, |run| {
        format!(
            "run {} is in round {}: {} of {} shards to do\n",
            run.key, run.round, run.shards.open, run.shards.total
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
