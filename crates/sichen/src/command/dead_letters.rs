//! `sichen dead-letters`: the shards that failed for good; retried or discarded, in bulk or one by one.
//!
//! # Invariants
//! - Each run is retried once and by itself: one that is refused stops no other, and each has its
//!   verdict.
//! - A dry run shows the very plan that would be carried out.
//!
//! - A discard changes no outcome: the history says what happened, and now also why nothing follows.
//!
//! # Not here
//! The retry of one run (`sichen retry`).

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use sichen_core::name::JobName;
use sichen_core::port::MAX_BATCH;
use sichen_server::rest::wire::{DeadLetter, DeadLetterPage, DiscardRun, RetryRun, Run};

use super::runs::PageArgs;
use super::shards;
use crate::client::{Client, Connection, Query};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::names;
use crate::output::{self, Output};

/// The longest failure shown in a table, in characters.
const MAX_FAILURE: usize = 300;
/// The longest checkpoint shown in a table, in characters.
const MAX_CHECKPOINT: usize = 32;
/// Error codes that the plan of a retry names for a run; the others are counted as `others`.
const MAX_CODES: usize = 5;

/// List dead letters: the failed shards of failed and partial runs, newest run first.
///
/// A job of the name `retry` or `discard` is written `default/retry`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DeadLetters {
    #[command(subcommand)]
    act: Option<Act>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Act {
    Retry(Retry),
    Discard(Discard),
}

/// Retry the runs of dead letters, each once: same run, same checkpoints, new attempts.
///
/// Without --code a run is retried as by `sichen retry`: its failed shards, and those that were
/// cancelled because of them. With --code only the shards whose last failure has that code are.
/// Exit code 0: every run was retried; else that of the first that was not.
#[derive(Debug, Args)]
struct Retry {
    #[command(flatten)]
    which: Which,
    /// At most this many runs, the newest, 1 to 1,000.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Show what it would do now, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Strike dead letters off the list: nothing else changes, and a later retry leaves them out unless
/// it names them (`sichen retry RUN --shard N`).
///
/// Who, when and why is an event in the history (`sichen trace`). Exit code 0: all of the plan was
/// discarded; else that of the first run of which it was not.
#[derive(Debug, Args)]
struct Discard {
    #[command(flatten)]
    which: Which,
    /// Why; it is in the history.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Who says so [default: the user's name here].
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Of this run alone, by number, key or trace id.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["job", "code"])]
    run: Option<String>,
    /// Only this shard of the run; may be given several times.
    #[arg(long = "shard", value_name = "NUMBER", requires = "run")]
    shards: Vec<i32>,
    /// Of at most this many runs, the newest, 1 to 1,000.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Show what it would do now, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Which dead letters are meant.
#[derive(Debug, Args)]
struct Which {
    /// Of this job alone.
    #[arg(value_name = "JOB")]
    job: Option<String>,
    /// Whose last failure has this code alone, such as `exit-1`.
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
}

/// Carries out `sichen dead-letters`.
pub async fn run(args: DeadLetters) -> Result<ExitCode, Failure> {
    match args.act {
        Some(Act::Retry(args)) => return retry(args).await,
        Some(Act::Discard(args)) => return discard(args).await,
        None => {}
    }
    let mut letters = Letters::of(&args.connection, args.which, args.page.after)?;
    let mut page = DeadLetterPage::default();
    let wanted = args.page.limit as usize;
    while page.items.len() < wanted
        && let Some(items) = letters.next(wanted - page.items.len()).await?
    {
        page.items.extend(items);
    }
    page.next = letters.place();
    args.output.show(&page, |page| table(&page.items))?;
    args.output.remark_empty(&page.items, "no dead letters");
    if args.output.is_table() {
        output::remark_more(page.next.as_deref());
    }
    Ok(ExitCode::SUCCESS)
}

/// The list, read page by page. The server's pages may be short before the end.
struct Letters {
    client: Client,
    job: Option<JobName>,
    code: Option<String>,
    /// Where the next page begins, once one was read or it was given.
    after: Option<String>,
    over: bool,
}

impl Letters {
    fn of(connection: &Connection, which: Which, after: Option<String>) -> Result<Self, Failure> {
        let job = which.job.as_deref().map(names::job).transpose()?;
        Ok(Self {
            client: Client::new(connection)?,
            job,
            code: which.code,
            after,
            over: false,
        })
    }

    /// The next page, of at most `limit`; `None` at the end.
    async fn next(&mut self, limit: usize) -> Result<Option<Vec<DeadLetter>>, Failure> {
        if self.over {
            return Ok(None);
        }
        let mut query: Query = vec![("limit", limit.min(1_000).to_string())];
        query.extend(self.after.take().map(|after| ("after", after)));
        query.extend(self.job.iter().map(|job| ("job", job.to_string())));
        query.extend(self.code.iter().map(|code| ("code", code.clone())));
        let answer = self.client.get::<DeadLetterPage>(&["dead-letters"], query);
        let page = match (answer.await, &self.job) {
            (Ok(page), _) => page,
            (Err(failure), Some(job)) => {
                return Err(self.client.with_candidates(failure, job).await);
            }
            (Err(failure), None) => return Err(failure),
        };
        self.over = page.next.is_none();
        self.after = page.next;
        Ok(Some(page.items))
    }

    /// What is to be done, run by run, for at most `limit` of them; `named`: their dead letters are
    /// named one by one.
    async fn plan(&mut self, named: bool, limit: usize) -> Result<Plan, Failure> {
        let mut plan = Plan::default();
        while let Some(items) = self.next(1_000).await? {
            for letter in &items {
                if !plan.add(letter, named, limit) {
                    return Ok(plan);
                }
            }
        }
        Ok(plan)
    }

    /// Where it goes on.
    fn place(self) -> Option<String> {
        self.after
    }
}

fn table(letters: &[DeadLetter]) -> String {
    let now = clock::now();
    let rows = letters.iter().map(|letter| {
        let shard = &letter.shard;
        let (code, message) = match &shard.failure {
            Some(f) => (f.code.clone(), output::gist(&f.message, MAX_FAILURE)),
            None => Default::default(),
        };
        let checkpoint = shard.checkpoint.as_ref();
        [
            letter.run.to_string(),
            letter.key.clone(),
            shards::number(shard.no),
            shard.attempt.to_string(),
            checkpoint.map_or_else(
                || "-".to_owned(),
                |c| output::short(&c.position, MAX_CHECKPOINT),
            ),
            shard
                .ended_at
                .as_deref()
                .map_or_else(|| "-".to_owned(), |at| output::age(at, now)),
            code,
            message,
        ]
    });
    output::table(
        [
            "RUN",
            "KEY",
            "SHARD",
            "ATTEMPTS",
            "CHECKPOINT",
            "AGE",
            "CODE",
            "LAST FAILURE",
        ],
        rows,
    )
}

/// What is or was to be done.
#[derive(Debug, Default, Serialize)]
struct Plan {
    items: Vec<Item>,
    /// Whether more runs have dead letters than the limit let in.
    more: bool,
}

/// One run's part of the plan.
#[derive(Debug, Serialize)]
struct Item {
    run: u64,
    key: String,
    state: String,
    /// The shards to be retried; absent: all that failed or were cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<Vec<i32>>,
    /// Failed shards to be retried.
    failed: u32,
    /// Cancelled shards to be retried.
    cancelled: u32,
    /// Failed and cancelled shards that stay so.
    left: u32,
    /// How often each code is the last failure of a shard to be retried.
    codes: BTreeMap<String, u32>,
    verdict: Verdict,
    /// Why it was not retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// A dry run: it would be.
    Planned,
    /// It was not come to.
    NotTried,
    Retried,
    Discarded,
    /// By the server, which has changed nothing.
    Refused,
    /// Nothing certain is known of it.
    Failed,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::NotTried => "not tried",
            Self::Retried => "retried",
            Self::Discarded => "discarded",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl Plan {
    /// Takes a dead letter in. Whether there was room for its run.
    fn add(&mut self, letter: &DeadLetter, by_code: bool, limit: usize) -> bool {
        if self.items.last().is_none_or(|item| item.run != letter.run) {
            if self.items.len() == limit {
                self.more = true;
                return false;
            }
            self.items.push(Item::of(letter, by_code));
        }
        if let Some(item) = self.items.last_mut() {
            item.add(letter);
        }
        true
    }
}

impl Item {
    fn of(letter: &DeadLetter, by_code: bool) -> Self {
        let (failed, cancelled, left) = match by_code {
            true => (0, 0, letter.run_failed + letter.run_cancelled),
            false => (letter.run_failed, letter.run_cancelled, 0),
        };
        Self {
            run: letter.run,
            key: letter.key.clone(),
            state: letter.run_state.clone(),
            shards: by_code.then(Vec::new),
            failed,
            cancelled,
            left,
            codes: BTreeMap::new(),
            verdict: Verdict::NotTried,
            error: None,
        }
    }

    fn add(&mut self, letter: &DeadLetter) {
        if let Some(shards) = &mut self.shards {
            // One request names no more; the others are dead letters again when the run has ended.
            if shards.len() == MAX_BATCH {
                return;
            }
            shards.push(letter.shard.no);
            self.failed += 1;
            self.left = self.left.saturating_sub(1);
        }
        let failure = letter.shard.failure.as_ref();
        let code = failure.map_or("", |f| f.code.as_str());
        let known = self.codes.len() < MAX_CODES || self.codes.contains_key(code);
        let code = if known { code } else { "others" };
        *self.codes.entry(code.to_owned()).or_default() += 1;
    }
}

async fn retry(args: Retry) -> Result<ExitCode, Failure> {
    let by_code = args.which.code.is_some();
    let mut letters = Letters::of(&args.connection, args.which, None)?;
    let mut plan = letters.plan(by_code, args.limit as usize).await?;
    let count = output::count(plan.items.len() as u64, "run");
    let mut exit = None;
    if args.dry_run {
        for item in &mut plan.items {
            item.verdict = Verdict::Planned;
        }
    } else if !plan.items.is_empty() {
        let question = format!("Retry the dead letters of {count}? [y/N] ");
        let whether = format!("whether {count} are to be retried");
        if !args.yes && !output::confirmed(&question, &whether)? {
            output::remark("nothing was retried");
            return Ok(Exit::Refused.into());
        }
        exit = carry_out(&mut plan.items, Verdict::Retried, async |run, shards| {
            let run = run.to_string();
            let path = ["runs", run.as_str(), "retry"];
            let body = RetryRun { shards };
            letters.client.post_once::<Run>(&path, &body).await
        })
        .await;
    }
    show(args.output, &plan, args.dry_run, Verdict::Retried)?;
    Ok(exit.map_or(ExitCode::SUCCESS, Exit::into))
}

async fn discard(args: Discard) -> Result<ExitCode, Failure> {
    let by = args.by.clone().unwrap_or_else(|| {
        let user = ["USER", "LOGNAME"].map(std::env::var);
        user.into_iter().find_map(Result::ok).unwrap_or_default()
    });
    let body = |shards| DiscardRun {
        shards,
        reason: args.reason.clone(),
        by: by.clone(),
    };
    if let Some(run) = &args.run {
        let client = Client::new(&args.connection)?;
        let shards = (!args.shards.is_empty()).then(|| args.shards.clone());
        return discard_one(&client, run, body(shards), &args).await;
    }
    // Only what the plan shows is struck off: a shard that fails meanwhile is not.
    let mut letters = Letters::of(&args.connection, args.which, None)?;
    let mut plan = letters.plan(true, args.limit as usize).await?;
    for item in &mut plan.items {
        item.cancelled = 0;
    }
    let count = output::count(plan.items.len() as u64, "run");
    let mut exit = None;
    if args.dry_run {
        for item in &mut plan.items {
            item.verdict = Verdict::Planned;
        }
    } else if !plan.items.is_empty() {
        let question = format!("Discard the dead letters of {count}? [y/N] ");
        let whether = format!("whether the dead letters of {count} are to be discarded");
        if !args.yes && !output::confirmed(&question, &whether)? {
            output::remark("nothing was discarded");
            return Ok(Exit::Refused.into());
        }
        exit = carry_out(&mut plan.items, Verdict::Discarded, async |run, shards| {
            let run = run.to_string();
            let path = ["runs", run.as_str(), "discard"];
            let body = body(shards);
            letters.client.post_once::<Run>(&path, &body).await
        })
        .await;
    }
    show(args.output, &plan, args.dry_run, Verdict::Discarded)?;
    Ok(exit.map_or(ExitCode::SUCCESS, Exit::into))
}

async fn discard_one(
    client: &Client,
    run: &str,
    body: DiscardRun,
    args: &Discard,
) -> Result<ExitCode, Failure> {
    let what = match &body.shards {
        Some(shards) => output::count(shards.len() as u64, "dead letter"),
        None => "all dead letters".to_owned(),
    };
    if args.dry_run {
        let run: Run = client.get(&["runs", run], Query::new()).await?;
        output::remark(&format!("a dry run: {what} of run {} would go", run.key));
        return Ok(ExitCode::SUCCESS);
    }
    let question = format!("Discard {what} of run {run}? [y/N] ");
    if !args.yes && !output::confirmed(&question, "whether that is meant")? {
        output::remark("nothing was discarded");
        return Ok(Exit::Refused.into());
    }
    let path = ["runs", run, "discard"];
    let run: Run = client.post(&path, Some(&body), false).await?;
    args.output.show(&run, |run| {
        format!(
            "{what} of run {} discarded; it stays {}\n",
            run.key, run.state
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A plan, and what became of it.
fn show(output: Output, plan: &Plan, dry_run: bool, done: Verdict) -> Result<(), Failure> {
    output.show(plan, planned)?;
    output.remark_empty(&plan.items, "no dead letters");
    if output.is_table() {
        say_sum(plan, dry_run, done);
    }
    Ok(())
}

/// Takes one run after the other. How the first that was refused ended. A run that is refused stops
/// nothing; a server that does not answer does, since it would answer no other either.
async fn carry_out<T>(
    items: &mut [Item],
    done: Verdict,
    mut act: impl AsyncFnMut(u64, Option<Vec<i32>>) -> Result<T, Failure>,
) -> Option<Exit> {
    let mut first = None;
    for item in items {
        let Err(failure) = act(item.run, item.shards.clone()).await else {
            item.verdict = done;
            continue;
        };
        first = first.or(Some(failure.exit));
        item.error = Some(failure.text);
        if !matches!(failure.exit, Exit::Refused | Exit::NotFound) {
            item.verdict = Verdict::Failed;
            break;
        }
        item.verdict = Verdict::Refused;
    }
    first
}

fn planned(plan: &Plan) -> String {
    let rows = plan.items.iter().map(|item| {
        let codes = item.codes.iter().map(|(code, n)| match (code.as_str(), n) {
            ("", n) => format!("no code ({n})"),
            (code, n) => format!("{code} ({n})"),
        });
        let codes: Vec<String> = codes.collect();
        let verdict = match &item.error {
            Some(error) => format!(
                "{}: {}",
                item.verdict.word(),
                output::short(error, MAX_FAILURE)
            ),
            None => item.verdict.word().to_owned(),
        };
        [
            item.run.to_string(),
            item.key.clone(),
            item.state.clone(),
            item.failed.to_string(),
            item.cancelled.to_string(),
            item.left.to_string(),
            codes.join(", "),
            verdict,
        ]
    });
    output::table(
        [
            "RUN",
            "KEY",
            "STATE",
            "FAILED",
            "CANCELLED",
            "LEFT",
            "CODES",
            "VERDICT",
        ],
        rows,
    )
}

fn say_sum(plan: &Plan, dry_run: bool, done: Verdict) {
    let (all, word) = (plan.items.len(), done.word());
    let so_far = plan.items.iter().filter(|i| i.verdict == done).count();
    if dry_run && all > 0 {
        output::remark(&format!("a dry run: nothing was {word}"));
    } else if so_far < all {
        output::remark(&format!(
            "{so_far} of {} {word}; `sichen dead-letters` lists what is left",
            output::count(all as u64, "run")
        ));
    }
    if plan.more {
        output::remark("more runs have dead letters: the same again goes on, or a greater --limit");
    }
}

#[cfg(test)]
#[path = "dead_letters_tests.rs"]
mod tests;
