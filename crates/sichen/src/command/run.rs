//! `sichen run`: start a run, and wait for its end.
//!
//! # Invariants
//! - A start carries a key or a planned instant, so sending it twice starts one run.
//!
//! # Not here
//! How its end is waited for ([`super::waiting`]).

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Map, Value};
use sichen_core::name::JobName;
use sichen_server::rest::wire::{Job, Period, StartRun, StartedRun};

use super::waiting::{self, Waiting};
use crate::client::{Client, Connection};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output::{self, Output};

/// Start a run of a job, or find the one that this planned time or key has already.
#[derive(Debug, Args)]
pub struct StartArgs {
    /// The job, `name` or `namespace/name`, exactly.
    #[arg(value_name = "JOB")]
    pub job: String,
    /// The run of this planned time (RFC 3339), such as 2026-08-30T00:00:00+08:00.
    #[arg(long, value_name = "TIME", conflicts_with = "key", value_parser = instant)]
    planned: Option<String>,
    /// The idempotency key: the same key again finds the same run [default: a new one].
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// A parameter that takes the place of the document's. The value is JSON, or else text.
    #[arg(long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// The period that the run stands for: its start (RFC 3339).
    #[arg(long, value_name = "TIME", requires = "period_end", value_parser = instant)]
    period_start: Option<String>,
    /// Its end, not included.
    #[arg(long, value_name = "TIME", requires = "period_start", value_parser = instant)]
    period_end: Option<String>,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// An instant as the API takes it.
/// A time with its offset, as it was written.
pub fn instant(text: &str) -> Result<String, String> {
    let bad = |_| {
        "it is no instant: write date, time and offset, such as 2026-08-30T00:00:00+08:00"
            .to_owned()
    };
    text.parse::<Timestamp>()
        .map(|_| text.to_owned())
        .map_err(bad)
}

/// Carries out `sichen run`.
pub async fn start(args: StartArgs) -> Result<ExitCode, Failure> {
    let name = names::job(&args.job)?;
    let parameters = parameters(&args.params)?;
    let client = Client::new(&args.connection)?;
    let key = match (&args.planned, args.key) {
        (Some(_), _) => None,
        (None, Some(key)) => Some(key),
        (None, None) => Some(clock::new_key()),
    };
    let requested = if key.is_some() { "key" } else { "planned time" };
    let wanted = StartRun {
        overlap: None,
        planned_at: args.planned,
        key,
        parameters,
        period: args
            .period_start
            .zip(args.period_end)
            .map(|(start, end)| Period { start, end }),
        not_before: None,
    };
    let path = ["jobs", name.namespace.as_str(), name.name.as_str(), "runs"];
    let sent = client.post(&path, Some(&wanted), true);
    let started: StartedRun = match args.waiting.in_time(sent).await {
        Ok(started) => started,
        Err(failure) => {
            let failure = unknown(failure, &args.job, wanted.key.as_deref());
            return Err(client.with_candidates(failure, &name).await);
        }
    };
    if started.created && !wanted.parameters.is_empty() {
        warn_unchecked(&client, &name).await;
    }
    if args.waiting.wait {
        if !started.created {
            output::remark(&format!(
                "{}; waiting for its end",
                already(&started, requested)
            ));
        }
        return waiting::finish(&client, started.id, args.waiting, args.output).await;
    }
    args.output.show(&started, |s| {
        if s.created {
            format!("run {} started (number {})\n", s.key, s.id)
        } else {
            format!(
                "{}\n  `sichen describe run {}` shows it\n",
                already(s, requested),
                s.id
            )
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Adds to a start that got no answer how it is found out what became of it.
fn unknown(mut failure: Failure, job: &str, key: Option<&str>) -> Failure {
    if let (Exit::Unavailable, Some(key)) = (failure.exit, key) {
        failure.text.push_str(&format!(
            "\n  whether the run was started is not known: `sichen run {job} --key {key}`, with the same \
             parameters, finds it or starts it"
        ));
    }
    failure
}

/// Remarks that nothing tells whether the parameters' names are right.
async fn warn_unchecked(client: &Client, name: &JobName) {
    let path = ["jobs", name.namespace.as_str(), name.name.as_str()];
    let Ok(job) = client.get::<Job>(&path, Vec::new()).await else {
        return;
    };
    let declared = job
        .document
        .is_none_or(|d| d["spec"]["parameters"].is_object());
    if !declared {
        output::remark(&format!(
            "warning: job {name} declares no `parameters`, so the names given were not checked"
        ));
    }
}

/// That the occasion had its run before this request.
fn already(run: &StartedRun, occasion: &str) -> String {
    format!(
        "no new run: this {occasion} has run {} already (number {})",
        run.key, run.id
    )
}

fn parameters(params: &[String]) -> Result<Map<String, Value>, Failure> {
    let mut map = Map::new();
    let mut seen = BTreeSet::new();
    for param in params {
        let Some((name, value)) = param.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            let text = format!("SC7006: --param {param:?} is not NAME=VALUE");
            return Err(Failure::usage(text));
        };
        if !seen.insert(name) {
            let text = format!("SC7006: --param {name} is given twice");
            return Err(Failure::usage(text));
        }
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        map.insert(name.to_owned(), value);
    }
    Ok(map)
}
