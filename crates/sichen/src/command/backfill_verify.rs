//! `sichen backfill verify`: counts the business of each run of a backfill again, by another job.
//!
//! # Invariants
//! - One check for each round of each run: the key of its run says which, so asking again goes on where
//!   the last time ended and checks nothing twice.
//! - No more checks are started in a minute than the rate says, whatever the number of runs.
//! - A run without a check that agrees is never passed over: it is counted by what is wrong with it.
//!
//! # Not here
//! Counting: the checking job's handler reports what it found and what it expected.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};
use sichen_core::name::JobName;
use sichen_server::rest::wire::{Backfill, Run, RunPage, StartRun, StartedRun};

use super::waiting;
use crate::client::{Client, Connection};
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output::{self, Output};

/// Runs looked at together; their checks are over before the next ones are looked at.
const PAGE: usize = 500;
/// Disagreements that are shown; the rest is counted.
const MAX_SHOWN: usize = 1_000;
/// Checks a minute, if nothing is said.
const RATE: u32 = 60;
/// Most checks a minute.
const MAX_RATE: u32 = 60_000;

/// Check the business counts of each run of a backfill that succeeded.
///
/// The checking job is started once for each such run, with the run's period and with the parameters
/// `backfill`, `run`, `job` and `planned_at`. Its handler counts again and reports how many it found and
/// how many it expected; they agree if both are the same. Exits with 0 only if the backfill is over and
/// every run of it succeeded and agrees.
#[derive(Debug, Args)]
pub struct Verify {
    /// The backfill's number.
    #[arg(value_name = "ID")]
    id: u64,
    /// The job that checks, `name` or `namespace/name`, exactly.
    #[arg(long, value_name = "JOB")]
    with: String,
    /// Checks started in a minute, 1 to 60,000.
    #[arg(long, value_name = "N", default_value_t = RATE, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RATE)))]
    rate: u32,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// The answer for programs.
#[derive(Debug, Default, Serialize)]
struct View {
    backfill: u64,
    /// The backfill's state when its runs were looked at.
    state: String,
    /// Its runs.
    runs: u64,
    agree: u64,
    disagree: u64,
    /// Runs that did not succeed, or are not over: there is nothing to count yet.
    unchecked: u64,
    /// What does not agree, at most 1,000.
    items: Vec<Item>,
}

#[derive(Debug, Serialize)]
struct Item {
    planned_at: Option<String>,
    run: u64,
    /// The run of the checking job.
    check: Option<u64>,
    found: Option<u64>,
    expected: Option<u64>,
    why: String,
}

/// Carries out `sichen backfill verify`.
pub async fn run(args: Verify) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let with = names::job(&args.with)?;
    let id = args.id.to_string();
    let backfill: Backfill = client.get(&["backfills", &id], Vec::new()).await?;
    let mut view = View {
        backfill: args.id,
        state: backfill.state,
        ..View::default()
    };
    let gap = Duration::from_secs(60) / args.rate.max(1);
    let mut after = None;
    loop {
        let mut query = vec![("backfill", id.clone()), ("limit", PAGE.to_string())];
        query.extend(after.map(|after| ("after", after)));
        let page: RunPage = client.get(&["runs"], query).await?;
        let mut checks = Vec::new();
        for run in page.items {
            view.runs += 1;
            if run.state != "succeeded" {
                let why = format!("the run is {}", run.state);
                view.unchecked += 1;
                view.add(&run, None, why);
                continue;
            }
            let started = start(&client, &with, args.id, &run).await?;
            checks.push((run, started.id));
            if started.created {
                tokio::time::sleep(gap).await;
            }
        }
        for (run, check) in checks {
            let check = waiting::wait(&client, check, None).await?;
            match disagreement(&check) {
                None => view.agree += 1,
                Some(why) => {
                    view.disagree += 1;
                    view.add(&run, Some(&check), why);
                }
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    args.output.show(&view, said)?;
    let over = matches!(view.state.as_str(), "finished" | "cancelled");
    Ok(if over && view.agree == view.runs {
        ExitCode::SUCCESS
    } else {
        Exit::Failed.into()
    })
}

/// Starts the check of a run, or finds the one that is there.
async fn start(
    client: &Client,
    with: &JobName,
    backfill: u64,
    run: &Run,
) -> Result<StartedRun, Failure> {
    let mut parameters = Map::new();
    parameters.insert("backfill".to_owned(), backfill.into());
    parameters.insert("run".to_owned(), run.id.into());
    parameters.insert(
        "job".to_owned(),
        names::shown(&run.namespace, &run.job).into(),
    );
    let planned = run.planned_at.clone().map_or(Value::Null, Value::from);
    parameters.insert("planned_at".to_owned(), planned);
    let body = StartRun {
        key: Some(format!("verify/{backfill}/{}/{}", run.id, run.round)),
        parameters,
        period: run.period.clone(),
        ..StartRun::default()
    };
    let path = ["jobs", with.namespace.as_str(), with.name.as_str(), "runs"];
    match client.post(&path, Some(&body), true).await {
        Ok(started) => Ok(started),
        Err(failure) => Err(client.with_candidates(failure, with).await),
    }
}

/// What does not agree, in words.
fn disagreement(check: &Run) -> Option<String> {
    let counts = check.progress.as_ref();
    let counts = counts.and_then(|counts| Some((counts.done, counts.expected?)));
    match counts {
        Some((found, expected)) if found != expected => {
            Some(format!("{found} found, {expected} expected"))
        }
        _ if check.state != "succeeded" => Some(match check.reason.as_str() {
            "" => format!("its check is {}", check.state),
            reason => format!("its check is {} ({reason})", check.state),
        }),
        Some(_) => None,
        None => Some("its check reported no counts".to_owned()),
    }
}

impl View {
    fn add(&mut self, run: &Run, check: Option<&Run>, why: String) {
        if self.items.len() >= MAX_SHOWN {
            return;
        }
        let counts = check.and_then(|check| check.progress.as_ref());
        self.items.push(Item {
            planned_at: run.planned_at.clone(),
            run: run.id,
            check: check.map(|check| check.id),
            found: counts.map(|counts| counts.done),
            expected: counts.and_then(|counts| counts.expected),
            why,
        });
    }
}

fn said(view: &View) -> String {
    let mut text = String::new();
    if !view.items.is_empty() {
        let rows = view.items.iter().map(|item| {
            [
                item.planned_at.clone().unwrap_or_default(),
                item.run.to_string(),
                item.check.map_or(String::new(), |check| check.to_string()),
                item.why.clone(),
            ]
        });
        text.push_str(&output::table(["PLANNED", "RUN", "CHECK", "WHAT"], rows));
        let more = view.disagree + view.unchecked - view.items.len() as u64;
        if more > 0 {
            text.push_str(&format!("… and {} more\n", output::grouped(more)));
        }
    }
    text.push_str(&format!(
        "backfill {} ({}): of {} {} agree, {} do not, {} could not be checked\n",
        view.backfill,
        view.state,
        output::count(view.runs, "run"),
        output::grouped(view.agree),
        output::grouped(view.disagree),
        output::grouped(view.unchecked),
    ));
    text
}

#[cfg(test)]
#[path = "backfill_verify_tests.rs"]
mod tests;
