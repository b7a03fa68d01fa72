//! `sichen backfill`: runs for a past range of a job's planned times.
//!
//! # Invariants
//! - A dry run asks the server what each instant's fate would be, by the function that the real one
//!   goes by; it holds one page at a time, however long the range.
//!
//! # Not here
//! Running it (the server's `backfill` duty); its runs (`sichen runs --backfill`); counting again what
//! they did by hand ([`super::backfill_verify`]).

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use sichen_core::name::JobName;
use sichen_core::schedule::zone_by_name;
use sichen_server::rest::wire::{
    Backfill, BackfillCheck, BackfillCheckPage, BackfillInstant, BackfillPage, BackfillPreview,
    BackfillVerify, Job, StartBackfill,
};

use super::audit::{Bound, bound};
use super::backfill_verify::Verify;
use super::planned;
use super::runs::PageArgs;
use crate::client::{Client, Connection};
use crate::clock;
use crate::failure::Failure;
use crate::names;
use crate::output::{self, Output};

/// Instants of one page of a dry run.
const PAGE: u32 = 500;

/// Run past planned times of a job again, or for the first time.
#[derive(Debug, Subcommand)]
pub enum Command {
    Start(Box<Start>),
    List(List),
    Get(One),
    Checks(Checks),
    /// Start nothing more of a backfill until it is resumed; its open runs go on.
    Pause(One),
    /// Let a paused backfill go on.
    Resume(One),
    /// Give a backfill up for good; its open runs go on.
    Cancel(One),
    Verify(Verify),
}

/// Start a backfill over a range of a job's planned times.
///
/// What is not decided yet waits until it is. Its runs have a lane of their own: they neither block
/// the job's other runs nor are blocked by them.
#[derive(Debug, Args)]
pub struct Start {
    /// The job, `name` or `namespace/name`, exactly.
    #[arg(value_name = "JOB")]
    job: String,
    /// The first time that may run: an instant, or a date in the job's zone.
    #[arg(long, value_name = "TIME", value_parser = bound)]
    from: Bound,
    /// The first time that may not.
    #[arg(long, value_name = "TIME", value_parser = bound)]
    to: Bound,
    /// Which of them run.
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// Where it begins.
    #[arg(long, value_enum, default_value_t)]
    order: Order,
    /// Runs of it that may be open at once, 1 to 1,000.
    #[arg(long, value_name = "N", default_value_t = 1)]
    parallelism: u32,
    /// Runs that it may start in a minute, 1 to 60,000 [default: no limit].
    #[arg(long, value_name = "N")]
    rate: Option<u32>,
    /// A job of the same namespace that counts the business of each run that succeeds once more.
    #[arg(long, value_name = "JOB")]
    verify: Option<String>,
    /// With --verify: checks started in a minute, 1 to 60,000 [default: 60].
    #[arg(long, value_name = "N", requires = "verify")]
    verify_rate: Option<u32>,
    /// Why, in words; kept with it.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
    /// The same key again finds the same backfill [default: a new one].
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Show what it would do now, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: list at most this many instants, 0 for all; the totals are of all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    show: u64,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Which instants run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Those without a run get theirs.
    #[default]
    OnlyMissing,
    /// Failed and partial runs are retried.
    OnlyFailed,
    /// What has run gets a rerun.
    All,
}

/// Where a backfill begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Order {
    /// At the oldest time.
    #[default]
    Oldest,
    /// At the newest time.
    Newest,
}

/// List the backfills of a job, newest first.
#[derive(Debug, Args)]
pub struct List {
    /// The job, `name` or `namespace/name`, exactly.
    #[arg(value_name = "JOB")]
    job: String,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Show a backfill and how far it has come.
#[derive(Debug, Args)]
pub struct One {
    /// Its number.
    #[arg(value_name = "ID")]
    id: u64,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// List what was counted of a backfill's runs, if they are checked.
#[derive(Debug, Args)]
pub struct Checks {
    /// The backfill's number.
    #[arg(value_name = "ID")]
    id: u64,
    /// In this state alone.
    #[arg(long, value_enum)]
    state: Option<CheckState>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// The state of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CheckState {
    /// Its run is still to be started.
    Due,
    /// Its run is not closed.
    Open,
    /// As many were found as expected.
    Agrees,
    /// Another number was found than expected.
    Differs,
    /// Nothing was counted.
    Uncounted,
}

/// Carries out `sichen backfill`.
pub async fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Start(args) => start(*args).await,
        Command::List(args) => list(args).await,
        Command::Get(args) => {
            let client = Client::new(&args.connection)?;
            let path = ["backfills", &args.id.to_string()];
            let backfill: Backfill = client.get(&path, Vec::new()).await?;
            args.output.show(&backfill, described)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Checks(args) => checks(args).await,
        Command::Pause(args) => turn(args, "pause").await,
        Command::Resume(args) => turn(args, "resume").await,
        Command::Cancel(args) => turn(args, "cancel").await,
        Command::Verify(args) => super::backfill_verify::run(args).await,
    }
}

async fn start(args: Start) -> Result<ExitCode, Failure> {
    let name = names::job(&args.job)?;
    let client = Client::new(&args.connection)?;
    let (namespace, job) = (name.namespace.as_str(), name.name.as_str());
    let zone = match client
        .get::<Job>(&["jobs", namespace, job], Vec::new())
        .await
    {
        Ok(job) => zone_by_name(&job.time_zone).unwrap_or(TimeZone::UTC),
        Err(failure) => return Err(client.with_candidates(failure, &name).await),
    };
    let word = |value: Option<clap::builder::PossibleValue>| {
        value.map(|value| value.get_name().replace('-', "_"))
    };
    let body = StartBackfill {
        from: args.from.at(&zone).to_string(),
        to: args.to.at(&zone).to_string(),
        mode: word(args.mode.to_possible_value()),
        order: word(args.order.to_possible_value()),
        parallelism: Some(args.parallelism),
        rate: args.rate,
        verify: args.verify.map(|job| BackfillVerify {
            job,
            rate: args.verify_rate,
        }),
        reason: args.reason,
        key: Some(args.key.unwrap_or_else(clock::new_key)),
    };
    let path = ["jobs", namespace, job, "backfills"];
    if args.dry_run {
        return previewed(&client, &path, &body, args.show, args.output, &name).await;
    }
    let backfill: Backfill = client.post(&path, Some(&body), true).await?;
    args.output.show(&backfill, |b| {
        let remaining = b.instants.remaining.unwrap_or(0);
        format!(
            "backfill {} of job {name}: {} from {} to {}\n`sichen backfill get {}` shows how far it \
             has come\n",
            b.id,
            output::count(b.instants.done + remaining, "planned time"),
            b.from,
            b.to,
            b.id
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The answer of a dry run for programs.
#[derive(Debug, Default, Serialize)]
struct Preview {
    /// All instants of the range.
    instants: u64,
    /// Those of them that are not decided yet.
    waiting: u64,
    /// What would become of the others, by action; those left by why.
    totals: BTreeMap<String, u64>,
    /// How many of those that would get their run lie before the job was made.
    before_job: u64,
    /// When that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    job_created_at: Option<String>,
    /// The first of them.
    items: Vec<BackfillInstant>,
    /// Whether there are more than these.
    more: bool,
}

async fn previewed(
    client: &Client,
    path: &[&str; 4],
    body: &StartBackfill,
    show: u64,
    output: Output,
    name: &JobName,
) -> Result<ExitCode, Failure> {
    let path = [path[0], path[1], path[2], path[3], "preview"];
    // That the job has nothing there of itself, since it was not there, is worth a word.
    let created = planned::job(client, name).await.map(|job| job.created_at);
    let mut preview = Preview {
        job_created_at: created.ok(),
        ..Preview::default()
    };
    let instant = |text: &str| text.parse::<Timestamp>().ok();
    let born = preview.job_created_at.as_deref().and_then(instant);
    let mut after: Option<String> = None;
    loop {
        let mut query = vec![("limit", PAGE.to_string())];
        query.extend(after.map(|after| ("after", after)));
        let page: BackfillPreview = client.post_query(&path, query, body).await?;
        (preview.instants, preview.waiting) = (page.instants, page.waiting);
        for item in page.items {
            let early = instant(&item.at)
                .zip(born)
                .is_some_and(|(at, born)| at < born);
            preview.before_job += u64::from(early && item.action == "create");
            let of = match &item.why {
                Some(why) => format!("{}_{why}", item.action),
                None => item.action.clone(),
            };
            *preview.totals.entry(of).or_default() += 1;
            if show == 0 || (preview.items.len() as u64) < show {
                preview.items.push(item);
            } else {
                preview.more = true;
            }
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    output.show(&preview, |preview| preview_table(preview, name))?;
    Ok(ExitCode::SUCCESS)
}

fn preview_table(preview: &Preview, name: &JobName) -> String {
    let mut text = format!(
        "job {name} has {} in this range\n",
        output::count(preview.instants, "planned time")
    );
    for (of, n) in &preview.totals {
        let what = match of.as_str() {
            "create" => "would get their run",
            "rerun" => "would run again",
            "reopen" => "failed, and would be retried",
            "leave_has_run" => "have their run",
            "leave_not_failed" => "have no run that failed",
            "leave_open" => "have a run that is not closed",
            "leave_covered" => "are covered by another one's run",
            "leave_removed" => "have run, and their history was removed",
            other => other,
        };
        text.push_str(&format!("  {:>9}  {what}\n", output::grouped(*n)));
        if let ("create", 1.., Some(at)) =
            (of.as_str(), preview.before_job, &preview.job_created_at)
        {
            text.push_str(&format!(
                "  {:>9}  of these lie before the job was made ({})\n",
                output::grouped(preview.before_job),
                output::instant(at, 0)
            ));
        }
    }
    if preview.waiting > 0 {
        let waiting = output::grouped(preview.waiting);
        text.push_str(&format!(
            "  {waiting:>9}  are not decided yet, and would wait\n"
        ));
    }
    for item in &preview.items {
        let run = match (&item.run, &item.run_state) {
            (Some(run), Some(state)) => format!(" (run {run}, {state})"),
            _ if item.skipped => " (skipped)".to_owned(),
            _ => String::new(),
        };
        text.push_str(&format!("{}  {}{run}\n", item.at, item.action));
    }
    if preview.more {
        text.push_str("… and so on; `--show 0` lists all\n");
    }
    text
}

async fn list(args: List) -> Result<ExitCode, Failure> {
    let name = names::job(&args.job)?;
    let client = Client::new(&args.connection)?;
    let path = [
        "jobs",
        name.namespace.as_str(),
        name.name.as_str(),
        "backfills",
    ];
    let page: BackfillPage = match client.get(&path, args.page.query()).await {
        Ok(page) => page,
        Err(failure) => return Err(client.with_candidates(failure, &name).await),
    };
    args.output.show(&page, |page| table(&page.items))?;
    args.output.remark_empty(
        &page.items,
        "no backfills; `sichen backfill start JOB --from TIME --to TIME` starts one",
    );
    if args.output.is_table() {
        output::remark_more(page.next.as_deref());
    }
    Ok(ExitCode::SUCCESS)
}

fn table(backfills: &[Backfill]) -> String {
    let now = clock::now();
    let rows = backfills.iter().map(|b| {
        [
            b.id.to_string(),
            b.state.clone(),
            b.mode.clone(),
            b.from.clone(),
            b.to.clone(),
            output::grouped(b.instants.done),
            b.runs.open.to_string(),
            output::grouped(b.runs.succeeded),
            output::grouped(b.runs.failed),
            output::age(&b.created_at, now),
        ]
    });
    output::table(
        [
            "BACKFILL",
            "STATE",
            "MODE",
            "FROM",
            "TO",
            "TIMES DONE",
            "RUNS OPEN",
            "SUCCEEDED",
            "FAILED",
            "AGE",
        ],
        rows,
    )
}

async fn checks(args: Checks) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let mut query = args.page.query();
    let state = args.state.and_then(|state| state.to_possible_value());
    query.extend(state.map(|state| ("state", state.get_name().to_owned())));
    let path = ["backfills", &args.id.to_string(), "checks"];
    let page: BackfillCheckPage = client.get(&path, query).await?;
    args.output.show(&page, |page| check_table(&page.items))?;
    args.output.remark_empty(
        &page.items,
        "no checks; runs are checked once they succeed, if the backfill was started with `--verify JOB`",
    );
    if args.output.is_table() {
        output::remark_more(page.next.as_deref());
    }
    Ok(ExitCode::SUCCESS)
}

fn check_table(checks: &[BackfillCheck]) -> String {
    let number = |n: Option<u64>| n.map(output::grouped).unwrap_or_default();
    let rows = checks.iter().map(|check| {
        [
            check.planned_at.clone().unwrap_or_default(),
            check.run.to_string(),
            check.state.clone(),
            check.by.map_or(String::new(), |by| by.to_string()),
            number(check.found),
            number(check.expected),
            check.why.clone(),
        ]
    });
    output::table(
        ["PLANNED", "RUN", "STATE", "BY", "FOUND", "EXPECTED", "WHY"],
        rows,
    )
}

async fn turn(args: One, verb: &'static str) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let path = ["backfills", &args.id.to_string(), verb];
    // The same turn again changes nothing.
    let backfill: Backfill = client.post_with(&path, Vec::new()).await?;
    args.output.show(&backfill, |b| {
        let open = output::count(u64::from(b.runs.open), "open run");
        let goes_on = match (b.state.as_str(), b.runs.open) {
            ("running", _) | (_, 0) => String::new(),
            _ => format!("; its {open} go on"),
        };
        format!("backfill {} is {}{goes_on}\n", b.id, b.state)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn described(b: &Backfill) -> String {
    let name = names::shown(&b.namespace, &b.job);
    let counts = &b.instants;
    let progress = match counts.remaining {
        Some(remaining) => {
            let all = counts.done + remaining;
            let percent = (counts.done * 100).checked_div(all).unwrap_or(100);
            format!(
                "{} of {} ({percent} %)",
                output::grouped(counts.done),
                output::count(all, "planned time")
            )
        }
        None => output::count(counts.done, "planned time"),
    };
    let became = [
        (counts.created, "created"),
        (counts.filled, "of them had been skipped"),
        (counts.reopened, "retried"),
        (counts.reruns, "rerun"),
        (counts.left, "left as they are"),
    ];
    let became = became.iter().filter(|(n, _)| *n > 0);
    let became = became.map(|(n, what)| format!("{} {what}", output::grouped(*n)));
    let runs = format!(
        "{} open, {} succeeded, {} failed, {} cancelled",
        b.runs.open,
        output::grouped(b.runs.succeeded),
        output::grouped(b.runs.failed),
        output::grouped(b.runs.cancelled)
    );
    let checked_by = b.verify.as_ref().map_or(String::new(), |verify| {
        let rate = verify.rate.unwrap_or_default();
        format!("{}, {rate} a minute", verify.job)
    });
    let checks = b.checks.as_ref().map_or(String::new(), |c| {
        format!(
            "{} agree, {} differ, {} not counted, {} open, {} due",
            output::grouped(c.agree),
            output::grouped(c.differ),
            output::grouped(c.uncounted),
            c.open,
            output::grouped(c.due)
        )
    });
    output::facts(&[
        ("Backfill", b.id.to_string()),
        ("Job", name),
        ("State", b.state.clone()),
        ("Cause", b.cause.clone()),
        ("Range", format!("{} to {}", b.from, b.to)),
        ("Mode", format!("{}, {} first", b.mode, b.order)),
        ("Parallelism", b.parallelism.to_string()),
        (
            "Rate",
            b.rate.map_or(String::new(), |n| format!("{n} a minute")),
        ),
        ("Asked by", b.actor.clone()),
        ("Reason", b.reason.clone()),
        ("Progress", progress),
        ("Became", became.collect::<Vec<_>>().join(", ")),
        ("Runs", runs),
        ("Checked by", checked_by),
        ("Checks", checks),
        ("Next start", b.next_at.clone().unwrap_or_default()),
        ("Asked at", b.created_at.clone()),
        ("Over at", b.ended_at.clone().unwrap_or_default()),
    ])
}
