//! `sichen explain`: why a run or a shard is not further.

use std::process::ExitCode;

use clap::Args;
use sichen_server::rest::wire::Explanation;

use super::waiting::failed_hint;
use super::which;
use crate::client::{Client, Connection};
use crate::failure::Failure;
use crate::output::{self, Output};

/// Say why a run or a shard is where it is: what it waits for, the nearest cause first.
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
    let run = which::run(&client, &args.run).await?;
    let path = ["runs", run.as_str(), "explain"];
    let of = args.shard.map(|no| ("shard", no.to_string()));
    let explanation: Explanation = client.get(&path, of.into_iter().collect()).await?;
    args.output.show(&explanation, |e| {
        let of = args
            .shard
            .map_or(String::new(), |no| format!("shard {no} of "));
        let mut text = format!("{of}run {} is {}\n{}", e.key, e.state, detailed(e));
        if matches!(e.state.as_str(), "failed" | "partial") {
            text.push_str(&failed_hint(e.id));
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
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
    lines
        .map(|why| format!("  {}: {}\n", why.word, output::visible(&why.text)))
        .collect()
}
