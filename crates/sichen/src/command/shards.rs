//! `sichen shards`: the shards of a run.

use std::process::ExitCode;

use clap::Args;
use sichen_server::rest::wire::{Part, Progress, Shard, ShardPage};

use super::runs::PageArgs;
use super::which;
use crate::client::{Client, Connection};
use crate::clock;
use crate::failure::{Exit, Failure};
use crate::output::{self, Output};

/// The longest failure shown in a table, in characters; `sichen describe shard` has all of it.
const MAX_FAILURE: usize = 300;
/// The longest checkpoint shown in a table, in characters.
const MAX_CHECKPOINT: usize = 32;

/// List the shards of a run, with their progress and last failure.
#[derive(Debug, Args)]
pub struct Shards {
    /// The run, by number, key or trace id; or a job, for its newest run.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// In this state alone (of those in the page).
    #[arg(long, value_parser = ["scheduled", "running", "retry", "succeeded", "failed", "cancelled"])]
    state: Option<String>,
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Carries out `sichen shards`.
pub async fn list(args: Shards) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let run = which::run(&client, &args.run).await?;
    let path = ["runs", run.as_str(), "shards"];
    let page = match &args.state {
        None => client.get(&path, args.page.query()).await?,
        Some(state) => filtered(&client, &path, &args.page, state).await?,
    };
    args.output.show(&page, |page| table(&page.items))?;
    let empty = match &args.state {
        Some(state) => format!("no shard is {state}"),
        None => "the run has no shards (yet)".to_owned(),
    };
    args.output.remark_empty(&page.items, &empty);
    if args.output.is_table() {
        output::remark_more(page.next.as_deref());
    }
    Ok(ExitCode::SUCCESS)
}

/// One shard of a run.
pub async fn one(client: &Client, run: &str, no: i32) -> Result<Shard, Failure> {
    let mut query = vec![("limit", "1".to_owned())];
    if no > 0 {
        query.push(("after", (no - 1).to_string()));
    }
    let page: ShardPage = client.get(&["runs", run, "shards"], query).await?;
    let found = page.items.into_iter().find(|s| s.no == no);
    found.ok_or_else(|| {
        let text = format!(
            "SC5001: there is no shard {no} in run {run}; `sichen shards {run}` lists them"
        );
        Failure::new(Exit::NotFound, text)
    })
}

/// Reads on until the page is full of shards in `state`, so that the failed ones of a great run
/// are found wherever they stand.
pub async fn filtered(
    client: &Client,
    path: &[&str],
    wanted: &PageArgs,
    state: &str,
) -> Result<ShardPage, Failure> {
    let mut found = ShardPage {
        items: Vec::new(),
        next: wanted.after.clone(),
    };
    loop {
        let ask = PageArgs {
            limit: 1_000,
            after: found.next.take(),
        };
        let page: ShardPage = client.get(path, ask.query()).await?;
        found.next = page.next;
        for shard in page.items.into_iter().filter(|s| s.state == state) {
            if found.items.len() == wanted.limit as usize {
                // A shard's number is its place; the next page begins after the last one shown.
                found.next = found.items.last().map(|s| s.no.to_string());
                return Ok(found);
            }
            found.items.push(shard);
        }
        if found.next.is_none() {
            return Ok(found);
        }
    }
}

/// Shards as a table.
pub fn table(shards: &[Shard]) -> String {
    let now = clock::now();
    let rows = shards.iter().map(|s| {
        [
            number(s.no),
            part(&s.part, s.no),
            s.state.clone(),
            format!("{}{}", s.attempt, takeovers(s.takeovers)),
            s.token.to_string(),
            progress(&s.progress),
            s.checkpoint.as_ref().map_or_else(
                || "-".to_owned(),
                |c| output::short(&c.position, MAX_CHECKPOINT),
            ),
            output::between(s.started_at.as_deref(), s.ended_at.as_deref(), now),
            failure(s),
        ]
    });
    output::table(
        [
            "SHARD",
            "PART",
            "STATE",
            "ATTEMPT",
            "TOKEN",
            "DONE",
            "CHECKPOINT",
            "TOOK",
            "LAST FAILURE",
        ],
        rows,
    )
}

/// A shard's number; the plan step is `plan`.
pub fn number(no: i32) -> String {
    if no < 0 {
        "plan".to_owned()
    } else {
        no.to_string()
    }
}

fn takeovers(count: u32) -> String {
    match count {
        0 => String::new(),
        1 => " (1 takeover)".to_owned(),
        n => format!(" ({n} takeovers)"),
    }
}

/// What a shard has to do, in short.
pub fn part(part: &Part, no: i32) -> String {
    match part {
        Part::Whole => "whole".to_owned(),
        Part::Index => format!("index {no}"),
        Part::Range { from, to } => format!("[{from}, {to})"),
        Part::Item(item) => item.clone(),
        Part::Plan { data_source, .. } => format!("query on {data_source}"),
    }
}

/// `done/expected`.
pub fn progress(p: &Progress) -> String {
    match p.expected {
        Some(expected) => format!("{}/{expected}", p.done),
        None if p.done == 0 => "-".to_owned(),
        None => p.done.to_string(),
    }
}

fn failure(shard: &Shard) -> String {
    let Some(f) = &shard.failure else {
        return String::new();
    };
    let discarded = match shard.discarded_at {
        Some(_) => "(discarded) ",
        None => "",
    };
    discarded.to_owned() + &output::gist(&why(&f.code, &f.message), MAX_FAILURE)
}

/// `code: message`, or what there is of it. A message that says its code again stands alone.
pub fn why(code: &str, message: &str) -> String {
    let said = message.split([';', '\n']).next().unwrap_or_default();
    if message.is_empty() {
        code.to_owned()
    } else if code.is_empty() || said.replace("exit code ", "exit-") == code {
        message.to_owned()
    } else {
        format!("{code}: {message}")
    }
}
