//! `sichen describe`: all about one job, run or shard.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use sichen_server::rest::wire::{
    Attempt, Attempts, Decision, DecisionPage, Explanation, Job, NextInstants, Progress, Run,
    RunPage, Shard,
};

use super::runs::PageArgs;
use super::waiting::is_closed;
use super::{explain, shards, which};
use crate::client::{Client, Connection};
use crate::clock;
use crate::failure::Failure;
use crate::names;
use crate::output::{self, Output};

/// Shards of each kind that are shown.
const SHOWN_SHARDS: u32 = 10;

/// Show all about one job, calendar, run or shard.
#[derive(Debug, Subcommand)]
pub enum Describe {
    /// A job: its document, its next planned times, its last runs, what was not run and why.
    Job(One),
    /// A calendar: its dates by name, and the jobs that use it.
    Calendar(One),
    /// A run: its state, what it waits for, its progress, its failed shards.
    Run(One),
    /// A shard: its state and every attempt.
    Shard(OneShard),
}

/// Which one.
#[derive(Debug, Args)]
pub struct One {
    /// A job or a calendar by its exact name; a run by number, key, trace id, or its job if it is
    /// the newest.
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Which shard.
#[derive(Debug, Args)]
pub struct OneShard {
    /// The run, by number, key or trace id; or a job, for its newest run.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// The shard's number; -1 is the plan step.
    #[arg(value_name = "SHARD", allow_negative_numbers = true)]
    pub shard: i32,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// All about a job.
#[derive(Debug, Serialize)]
struct JobView {
    job: Job,
    next: NextInstants,
    runs: Vec<Run>,
    decisions: Vec<Decision>,
}

/// All about a run.
#[derive(Debug, Serialize)]
struct RunView {
    run: Run,
    explanation: Explanation,
    failed: Vec<Shard>,
    running: Vec<Shard>,
}

/// Carries out `sichen describe`.
pub async fn show(what: Describe) -> Result<ExitCode, Failure> {
    match what {
        Describe::Job(one) => job(&one).await?,
        Describe::Calendar(one) => {
            super::calendars::describe(&one.name, &one.connection, &one.output).await?;
        }
        Describe::Run(one) => run(&one).await?,
        Describe::Shard(one) => shard(&one).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn job(one: &One) -> Result<(), Failure> {
    let name = names::job(&one.name)?;
    let client = Client::new(&one.connection)?;
    let path = ["jobs", name.namespace.as_str(), name.name.as_str()];
    let job: Job = match client.get(&path, Vec::new()).await {
        Ok(job) => job,
        Err(failure) => return Err(client.with_candidates(failure, &name).await),
    };
    let below = |last| [path[0], path[1], path[2], last];
    let next: NextInstants = client
        .get(&below("next"), vec![("count", "5".to_owned())])
        .await?;
    let last = vec![("job", name.to_string()), ("limit", "10".to_owned())];
    let runs: RunPage = client.get(&["runs"], last).await?;
    let decisions: DecisionPage = client
        .get(&below("decisions"), vec![("limit", "1000".to_owned())])
        .await?;
    let view = JobView {
        job,
        next,
        runs: runs.items,
        decisions: decisions.items,
    };
    one.output.show(&view, job_text)
}

fn job_text(view: &JobView) -> String {
    let now = clock::now();
    let job = &view.job;
    let next = view.next.items.iter();
    let next: Vec<String> = next.map(|t| output::instant(t, 0)).collect();
    let mut text = output::facts(&[
        ("Job", names::shown(&job.namespace, &job.name)),
        ("Title", job.title.clone().unwrap_or_default()),
        ("Uid", job.uid.clone()),
        ("Revision", job.revision.to_string()),
        (
            "State",
            if job.paused { "paused" } else { "active" }.to_owned(),
        ),
        ("Time zone", job.time_zone.clone()),
        ("Open runs", job.active_runs.to_string()),
        ("Decided until", output::instant(&job.decided_until, 0)),
        ("Next", next.join("\n")),
    ]);
    if view.next.items.is_empty() {
        text.push_str("No planned times ahead: it runs on request.\n");
    }
    if !view.runs.is_empty() {
        text.push_str("\nLast runs:\n");
        let rows = view.runs.iter().map(|r| {
            [
                r.id.to_string(),
                r.key.clone(),
                r.state.clone(),
                output::age(&r.created_at, now),
            ]
        });
        text.push_str(&output::table(["RUN", "KEY", "STATE", "AGE"], rows));
    }
    if !view.decisions.is_empty() {
        text.push_str("\nPlanned times that were not run (last 10 records):\n");
        let from = view.decisions.len().saturating_sub(10);
        let rows = view.decisions[from..].iter().map(|d| {
            [
                output::instant(&d.from, 0),
                output::instant(&d.to, 0),
                d.count.to_string(),
                d.reason.clone(),
                d.reference.clone(),
            ]
        });
        let head = ["FROM", "TO", "COUNT", "REASON", "REFERS TO"];
        text.push_str(&output::table(head, rows));
    }
    if let Some(document) = &job.document
        && let Ok(yaml) = serde_saphyr::to_string(document)
    {
        text.push_str("\nDocument:\n");
        for line in yaml.lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text
}

async fn run(one: &One) -> Result<(), Failure> {
    let client = Client::new(&one.connection)?;
    let named = which::run(&client, &one.name).await?;
    let run: Run = client.get(&["runs", &named], Vec::new()).await?;
    let id = run.id.to_string();
    let path = ["runs", id.as_str(), "shards"];
    let page = PageArgs {
        limit: SHOWN_SHARDS,
        after: None,
    };
    let failed = if run.shards.failed > 0 {
        shards::filtered(&client, &path, &page, "failed")
            .await?
            .items
    } else {
        Vec::new()
    };
    let running = if run.state == "running" {
        shards::filtered(&client, &path, &page, "running")
            .await?
            .items
    } else {
        Vec::new()
    };
    let why = ["runs", id.as_str(), "explain"];
    let explanation: Explanation = client.get(&why, Vec::new()).await?;
    let view = RunView {
        run,
        explanation,
        failed,
        running,
    };
    one.output.show(&view, run_text)
}

fn run_text(view: &RunView) -> String {
    let now = clock::now();
    let run = &view.run;
    let s = run.shards;
    let progress = run.progress.clone().unwrap_or_default();
    let period = run.period.as_ref();
    let stop = run.stop.as_ref();
    let mut text = output::facts(&[
        ("Run", format!("{} (number {})", run.key, run.id)),
        ("Job", names::shown(&run.namespace, &run.job)),
        ("Revision", run.revision.to_string()),
        ("State", run.state.clone()),
        ("Reason", run.reason.clone()),
        (
            "Stopping",
            stop.map_or_else(String::new, |s| {
                format!("{} since {}", s.cause, output::instant(&s.at, 3))
            }),
        ),
        (
            "Planned",
            run.planned_at
                .as_deref()
                .map_or_else(String::new, |t| output::instant(t, 0)),
        ),
        (
            "Period",
            period.map_or_else(String::new, |p| {
                let (start, end) = (output::instant(&p.start, 0), output::instant(&p.end, 0));
                format!("{start} until before {end}")
            }),
        ),
        ("Pool", run.pool.clone()),
        ("Handler", run.handler.clone()),
        ("Parameters", parameters(run)),
        (
            "Round",
            match run.round {
                1 => String::new(),
                n => format!("{n} (retried)"),
            },
        ),
        (
            "Failed attempts",
            match run.failures {
                0 => String::new(),
                n => format!("{n} of those that `retry.maxFailures` allows all shards together"),
            },
        ),
        (
            "Shards",
            format!(
                "{}: {} succeeded, {} failed, {} cancelled, {} open",
                s.total, s.succeeded, s.failed, s.cancelled, s.open
            ),
        ),
        ("Items", items(&progress)),
        ("Waits on", progress.waiting_on.clone()),
        ("Created", output::instant(&run.created_at, 3)),
        ("Started", moment(run.started_at.as_deref())),
        ("Deadline", moment(run.deadline.as_deref())),
        ("Ended", moment(run.ended_at.as_deref())),
        (
            "Took",
            match &run.started_at {
                Some(at) => output::between(Some(at), run.ended_at.as_deref(), now),
                None => String::new(),
            },
        ),
    ]);
    if !is_closed(run) {
        text.push_str("\nWhy it is not further:\n");
        text.push_str(&explain::reasons(&view.explanation));
    }
    for (title, list, all) in [
        ("Failed shards", &view.failed, s.failed as usize),
        ("Running shards", &view.running, view.running.len()),
    ] {
        if !list.is_empty() {
            text.push_str(&format!("\n{title}:\n{}", shards::table(list)));
            if all > list.len() {
                let more = all - list.len();
                text.push_str(&format!("… and {more} more: `sichen shards {}`\n", run.id));
            }
        }
    }
    if s.failed > 0 && is_closed(run) {
        text.push_str(&format!(
            "\n`sichen retry {}` retries them from their checkpoints.\n",
            run.id
        ));
    }
    text
}

/// All about a shard.
#[derive(Debug, Serialize)]
struct ShardView {
    shard: Shard,
    attempts: Vec<Attempt>,
}

async fn shard(one: &OneShard) -> Result<(), Failure> {
    let client = Client::new(&one.connection)?;
    let run = which::run(&client, &one.run).await?;
    let shard = shards::one(&client, &run, one.shard).await?;
    let no = one.shard.to_string();
    let path = ["runs", run.as_str(), "shards", &no, "attempts"];
    let attempts: Attempts = client.get(&path, Vec::new()).await?;
    let attempts = attempts.items;
    one.output.show(&ShardView { shard, attempts }, shard_text)
}

fn shard_text(view: &ShardView) -> String {
    let now = clock::now();
    let s = &view.shard;
    let mut text = output::facts(&[
        (
            "Shard",
            format!("{} of run {}", shards::number(s.no), s.run),
        ),
        ("Part", shards::part(&s.part, s.no)),
        ("State", s.state.clone()),
        ("Token", s.token.to_string()),
        ("Takeovers", s.takeovers.to_string()),
        ("Items", items(&s.progress)),
        ("Waits on", s.progress.waiting_on.clone()),
        (
            "Not before",
            match s.state.as_str() {
                "scheduled" | "retry" => output::instant(&s.ready_at, 3),
                _ => String::new(),
            },
        ),
        (
            "Checkpoint",
            s.checkpoint.as_ref().map_or_else(String::new, |c| {
                format!("{} (number {})", c.position, c.seq)
            }),
        ),
    ]);
    if view.attempts.is_empty() {
        text.push_str("No attempt yet.\n");
        return text;
    }
    text.push_str("\nAttempts:\n");
    let rows = view.attempts.iter().map(|a| {
        [
            a.number.to_string(),
            a.worker.clone(),
            a.token.to_string(),
            a.end.clone().unwrap_or_else(|| "running".to_owned()),
            match a.from_checkpoint {
                0 => "the start".to_owned(),
                n => n.to_string(),
            },
            output::or_dash(a.checkpoint),
            a.refused_reports.to_string(),
            output::between(a.started_at.as_deref(), a.ended_at.as_deref(), now),
        ]
    });
    let head = [
        "ATTEMPT",
        "WORKER",
        "TOKEN",
        "END",
        "FROM CHECKPOINT",
        "TO",
        "REFUSED REPORTS",
        "TOOK",
    ];
    text.push_str(&output::table(head, rows));
    for a in &view.attempts {
        if let Some(f) = &a.failure {
            let end = a.end.as_deref().unwrap_or_default();
            text.push_str(&format!("\nAttempt {} {end}:\n", a.number));
            text.push_str(&output::block(&shards::why(&f.code, &f.message)));
        }
    }
    text
}

fn moment(instant: Option<&str>) -> String {
    instant.map_or_else(String::new, |t| output::instant(t, 3))
}

/// Items done, if any are counted.
fn items(progress: &Progress) -> String {
    match shards::progress(progress) {
        none if none == "-" => String::new(),
        some => some,
    }
}

fn parameters(run: &Run) -> String {
    match run.parameters.as_object() {
        Some(map) if map.is_empty() => String::new(),
        Some(_) | None => run.parameters.to_string(),
    }
}
