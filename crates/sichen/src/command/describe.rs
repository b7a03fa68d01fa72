//! `sichen describe`: all about one job, run or shard.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use sichen_server::rest::wire::{
    Attempt, Attempts, Decision, Explanation, Job, NextInstants, Progress, Run, RunPage, Shard,
    ShardPage,
};

use super::runs::PageArgs;
use super::trace::timeline::{self, Entry};
use super::waiting::is_closed;
use super::{explain, planned, shards, trace, which};
use crate::client::{Client, Connection};
use crate::clock;
use crate::failure::Failure;
use crate::names;
use crate::output::{self, Output};

/// Shards of each kind that are shown.
const SHOWN_SHARDS: u32 = 10;
/// Records of planned times that were not run that are shown.
const SHOWN_DECISIONS: usize = 10;
/// Attempts that did not succeed that are shown.
const SHOWN_SETBACKS: usize = 10;
/// The most events that are read for the attempts that did not succeed.
const MAX_SETBACK_EVENTS: usize = 5_000;

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
    /// The run, by number, key or trace id; or a job, for its newest run. `7/2` is shard 2 of run 7.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// The shard's number; -1 is the plan step.
    #[arg(value_name = "SHARD", allow_negative_numbers = true)]
    pub shard: Option<i32>,
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
    /// Attempts that did not succeed, with what followed, and retries: the last ones, oldest first.
    setbacks: Vec<Entry>,
    /// Whether the whole log was read for them.
    setbacks_complete: bool,
    /// Shards without a number of their items, which the sums leave out; absent if nothing is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    uncounted_shards: Option<u64>,
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
    let decisions = planned::last_skipped(&client, &name, SHOWN_DECISIONS).await?;
    let view = JobView {
        job,
        next,
        runs: runs.items,
        decisions,
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
        ("Open runs", output::open_runs(job.active_runs)),
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
        text.push_str(&format!(
            "\nPlanned times that were not run (last {}):\n",
            output::count(view.decisions.len() as u64, "record")
        ));
        let rows = view.decisions.iter().map(|d| {
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
    let (events, setbacks_complete) = trace::events(&client, &id, None, MAX_SETBACK_EVENTS).await?;
    let mut setbacks = timeline::setbacks(&run, &events);
    setbacks.drain(..setbacks.len().saturating_sub(SHOWN_SETBACKS));
    let uncounted_shards = uncounted(&client, &run).await?;
    let view = RunView {
        run,
        explanation,
        failed,
        running,
        setbacks,
        setbacks_complete,
        uncounted_shards,
    };
    one.output.show(&view, run_text)
}

/// How many of the first 1,000 shards have told no number of their items, where others have: the
/// run's sums know nothing of them.
async fn uncounted(client: &Client, run: &Run) -> Result<Option<u64>, Failure> {
    let counted = run.progress.as_ref().is_some_and(|p| p.expected.is_some());
    if !counted || run.shards.succeeded == run.shards.total {
        return Ok(None);
    }
    let id = run.id.to_string();
    let query = vec![("limit", "1000".to_owned())];
    let page: ShardPage = client.get(&["runs", &id, "shards"], query).await?;
    let silent = |s: &&Shard| s.no >= 0 && s.state != "succeeded" && s.progress.expected.is_none();
    let silent = page.items.iter().filter(silent).count() as u64;
    Ok(Some(silent))
}

fn run_text(view: &RunView) -> String {
    let now = clock::now();
    let run = &view.run;
    let s = run.shards;
    let progress = run.progress.clone().unwrap_or_default();
    let period = run.period.as_ref();
    let stop = run.stop.as_ref();
    let like = run.planned_at.as_deref();
    let at = |text: &str| output::instant_like(text, 3, like);
    let moment = |text: Option<&str>| text.map_or_else(String::new, at);
    let mut text = output::facts(&[
        ("Run", format!("{} (number {})", run.key, run.id)),
        ("Job", names::shown(&run.namespace, &run.job)),
        ("Revision", run.revision.to_string()),
        ("State", run.state.clone()),
        ("Reason", run.reason.clone()),
        (
            "Stopping",
            stop.map_or_else(String::new, |s| format!("{} since {}", s.cause, at(&s.at))),
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
        ("Items", all_items(&progress, view.uncounted_shards)),
        ("Waits on", progress.waiting_on.clone()),
        ("Created", at(&run.created_at)),
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
    text.push_str(&setbacks_text(view));
    if s.failed > 0 && is_closed(run) {
        text.push_str(&format!(
            "\n`sichen retry {}` retries them from their checkpoints.\n",
            run.id
        ));
    }
    text
}

/// The attempts that did not succeed, and what followed.
fn setbacks_text(view: &RunView) -> String {
    if view.setbacks.is_empty() {
        return String::new();
    }
    let run = &view.run;
    let rows = view.setbacks.iter().map(|e| {
        [
            output::instant_like(&e.at, 3, run.planned_at.as_deref()),
            e.shard.map_or_else(String::new, shards::number),
            e.attempt.map_or_else(String::new, |a| a.to_string()),
            e.what.clone(),
            e.text.clone(),
        ]
    });
    let head = ["TIME", "SHARD", "ATTEMPT", "WHAT", "WHY, AND WHAT FOLLOWED"];
    let table = output::table(head, rows);
    let within = match view.setbacks_complete {
        true => String::new(),
        false => format!(" of the first {MAX_SETBACK_EVENTS} events"),
    };
    format!(
        "\nAttempts that did not succeed, and retries (the last {}{within}; `sichen trace {}` has all):\n{table}",
        view.setbacks.len(),
        run.id
    )
}

/// All about a shard.
#[derive(Debug, Serialize)]
struct ShardView {
    shard: Shard,
    attempts: Vec<Attempt>,
}

/// The run and the shard's number, which may be said as events say them: `7/2`.
fn of_run(one: &OneShard) -> Result<(&str, i32), Failure> {
    if let Some(no) = one.shard {
        return Ok((&one.run, no));
    }
    let parts = one.run.rsplit_once('/');
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    parts
        .filter(|(run, _)| number(run))
        .and_then(|(run, no)| Some((run, no.parse().ok()?)))
        .ok_or_else(|| {
            Failure::usage(format!(
                "which shard of {}? Say its number too, as `sichen shards {}` shows it",
                one.run, one.run
            ))
        })
}

async fn shard(one: &OneShard) -> Result<(), Failure> {
    let client = Client::new(&one.connection)?;
    let (run, no) = of_run(one)?;
    let run = which::run(&client, run).await?;
    let shard = shards::one(&client, &run, no).await?;
    let no = no.to_string();
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
        if let Some(returned) = returned(a) {
            text.push_str(&format!("\nAttempt {} returned:\n", a.number));
            text.push_str(&output::block(&returned));
        }
    }
    text
}

/// Items done, if any are counted.
fn items(progress: &Progress) -> String {
    match shards::progress(progress) {
        none if none == "-" => String::new(),
        some => some,
    }
}

/// The same of a run: what its sums leave out is said.
fn all_items(progress: &Progress, uncounted: Option<u64>) -> String {
    let mut text = items(progress);
    if let (Some(silent @ 1..), false) = (uncounted, text.is_empty()) {
        let shards = output::count(silent, "shard");
        let have = if silent == 1 { "has" } else { "have" };
        text.push_str(&format!(
            " of the shards that count them; {shards} {have} not said how many"
        ));
    }
    text
}

fn parameters(run: &Run) -> String {
    match run.parameters.as_object() {
        Some(map) if map.is_empty() => String::new(),
        Some(_) | None => run.parameters.to_string(),
    }
}

/// What an attempt returned, for people.
fn returned(attempt: &Attempt) -> Option<String> {
    let many = attempt.result_bytes;
    let many = many.map(|n| format!("{n} bytes, too many to be kept; see its log"));
    attempt.result.clone().or(many)
}
