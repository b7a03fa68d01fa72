//! `sichen dead-letters`: the shards that failed for good, and their retry in bulk.
//!
//! # Invariants
//! - Each run is retried once and by itself: one that is refused stops no other, and each has its
//!   verdict.
//! - A dry run shows the very plan that would be carried out.
//!
//! # Not here
//! The retry of one run (`sichen retry`). Nothing discards a dead letter: the history says what
//! happened.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use sichen_core::name::JobName;
use sichen_core::port::MAX_BATCH;
use sichen_server::rest::wire::{DeadLetter, DeadLetterPage, RetryRun, Run};

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
/// A job of the name `retry` is written `default/retry`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DeadLetters {
    #[command(subcommand)]
    retry: Option<Act>,
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
    if let Some(Act::Retry(args)) = args.retry {
        return retry(args).await;
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
            Some(f) => (f.code.clone(), output::short(&f.message, MAX_FAILURE)),
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
    let mut plan = Plan::default();
    'reading: while let Some(items) = letters.next(1_000).await? {
        for letter in &items {
            if !plan.add(letter, by_code, args.limit as usize) {
                break 'reading;
            }
        }
    }
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
        exit = carry_out(&mut plan.items, async |run, body| {
            let run = run.to_string();
            let path = ["runs", run.as_str(), "retry"];
            letters.client.post::<Run>(&path, Some(&body), false).await
        })
        .await;
    }
    args.output.show(&plan, planned)?;
    args.output.remark_empty(&plan.items, "no dead letters");
    if args.output.is_table() {
        say_sum(&plan, args.dry_run);
    }
    Ok(exit.map_or(ExitCode::SUCCESS, Exit::into))
}

/// Retries one run after the other. How the first that was not retried ended. A run that is refused
/// stops nothing; a server that does not answer does, since it would answer no other either.
async fn carry_out<T>(
    items: &mut [Item],
    mut retry: impl AsyncFnMut(u64, RetryRun) -> Result<T, Failure>,
) -> Option<Exit> {
    let mut first = None;
    for item in items {
        let body = RetryRun {
            shards: item.shards.clone(),
        };
        let Err(failure) = retry(item.run, body).await else {
            item.verdict = Verdict::Retried;
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

fn say_sum(plan: &Plan, dry_run: bool) {
    let all = plan.items.len();
    let retried = plan.items.iter();
    let retried = retried.filter(|i| i.verdict == Verdict::Retried).count();
    if dry_run && all > 0 {
        output::remark("a dry run: nothing was retried");
    } else if retried < all {
        output::remark(&format!(
            "{retried} of {} retried; `sichen dead-letters` lists what is left",
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
