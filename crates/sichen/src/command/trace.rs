//! `sichen trace`: the whole life of a run or a shard, in one timeline.
//!
//! # Invariants
//! - It tells what the event log says and adds nothing but the planned time.
//!
//! # Not here
//! Words for single events ([`timeline`]); what processes wrote (`sichen logs`).

pub mod timeline;

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use sichen_server::rest::wire::{Event, EventPage, Explanation, Run};

use super::waiting::is_closed;
use super::{explain, shards, which};
use crate::client::{Client, Connection, Query};
use crate::failure::{Exit, Failure};
use crate::output::{self, Output};
use timeline::Entry;

/// The most events that are read for one timeline.
const MAX_TRACE_EVENTS: usize = 50_000;

/// Show the whole life of a run or a shard in one timeline: planned, created, each attempt with its
/// worker and token, checkpoints, takeovers, refused reports, waits, the outcome.
#[derive(Debug, Args)]
pub struct Trace {
    /// A run by number, key or trace id (also as `TRACEPARENT`), or RUN/SHARD; or a job, for its
    /// newest run.
    #[arg(value_name = "ID")]
    pub id: String,
    /// Only this shard; -1 is the plan step.
    #[arg(value_name = "SHARD", allow_negative_numbers = true)]
    shard: Option<i32>,
    /// Every checkpoint; else those that follow each other are one line.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// A life.
#[derive(Debug, Serialize)]
struct Life {
    run: Run,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<i32>,
    /// Oldest first.
    entries: Vec<Entry>,
    /// Whether all events were read.
    complete: bool,
    /// Why it is not further, while it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<Explanation>,
}

/// Carries out `sichen trace`.
pub async fn show(args: Trace) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let (run, shard) = find(&client, &args).await?;
    let number = run.id.to_string();
    if let Some(no) = shard {
        shards::one(&client, &number, no).await?;
    }
    let (events, complete) = events(&client, &number, shard, MAX_TRACE_EVENTS).await?;
    let waits = match is_closed(&run) {
        true => None,
        false => Some(
            client
                .get(&["runs", &number, "explain"], Query::new())
                .await?,
        ),
    };
    let life = Life {
        entries: timeline::entries(&run, shard, &events, args.all),
        run,
        shard,
        complete,
        waits,
    };
    args.output.show(&life, text)?;
    if !life.complete && args.output.is_table() {
        output::remark(&format!(
            "only the first {} are shown; name one shard: sichen trace {} SHARD",
            output::count(MAX_TRACE_EVENTS as u64, "event"),
            life.run.id
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// What `ID` and `SHARD` mean. A slash may belong to a key, so the whole is tried first.
async fn find(client: &Client, args: &Trace) -> Result<(Run, Option<i32>), Failure> {
    let failure = match one(client, &args.id).await {
        Ok(run) => return Ok((run, args.shard)),
        Err(failure) => failure,
    };
    let parts = args.id.rsplit_once('/');
    let parts = parts.and_then(|(run, no)| Some((run, no.parse::<i32>().ok()?)));
    match parts {
        Some((run, no))
            if args.shard.is_none() && matches!(failure.exit, Exit::NotFound | Exit::Usage) =>
        {
            Ok((one(client, run).await?, Some(no)))
        }
        Some(_) | None => Err(failure),
    }
}

async fn one(client: &Client, text: &str) -> Result<Run, Failure> {
    let named = which::run(client, text).await?;
    client.get(&["runs", &named], Query::new()).await
}

/// The first `most` events of a run, or of one of its shards; whether these are all.
pub async fn events(
    client: &Client,
    run: &str,
    shard: Option<i32>,
    most: usize,
) -> Result<(Vec<Event>, bool), Failure> {
    let mut events: Vec<Event> = Vec::new();
    while events.len() < most {
        let mut query = vec![("limit", "1000".to_owned())];
        query.extend(shard.map(|no| ("shard", no.to_string())));
        query.extend(events.last().map(|e| ("after", e.seq.to_string())));
        let page: EventPage = client.get(&["runs", run, "events"], query).await?;
        let full = page.items.len() == 1_000;
        events.extend(page.items);
        if !full {
            return Ok((events, true));
        }
    }
    Ok((events, false))
}

fn text(life: &Life) -> String {
    let run = &life.run;
    let what = life.shard.map_or_else(String::new, |no| match no {
        -1 => "the plan step".to_owned(),
        no => no.to_string(),
    });
    let local = |at: &str| output::instant_like(at, 3, run.planned_at.as_deref());
    let start = life
        .entries
        .first()
        .map_or_else(String::new, |e| local(&e.at));
    let (day, time) = start.split_once('T').unwrap_or_default();
    // What follows the digits of a time of day is its offset.
    let offset = time.trim_start_matches(|c: char| c.is_ascii_digit() || ":.".contains(c));
    let zone = if offset == "Z" { "UTC" } else { offset };
    let mut text = output::facts(&[
        ("Run", format!("{} (number {})", run.key, run.id)),
        ("Shard", what),
        ("Trace", run.trace_id.clone()),
        ("State", run.state.clone()),
        ("Handler", format!("{}, pool {}", run.handler, run.pool)),
        ("Day", format!("{day}, times at {zone}")),
    ]);
    text.push('\n');
    let rows = life.entries.iter().map(|e| {
        let at = local(&e.at);
        let time = match at.split_once('T') {
            Some((date, time)) if date == day => time.trim_end_matches(offset).to_owned(),
            Some(_) | None => at,
        };
        [
            time,
            format!(
                "+{}",
                output::span(jiff::SignedDuration::from_millis(e.after_ms))
            ),
            e.shard.map_or_else(String::new, super::shards::number),
            e.attempt.map_or_else(String::new, |a| a.to_string()),
            e.what.clone(),
            e.text.clone(),
        ]
    });
    text.push_str(&output::table(
        ["TIME", "AFTER", "SHARD", "ATTEMPT", "WHAT", "DETAIL"],
        rows,
    ));
    if let Some(waits) = &life.waits {
        text.push_str("\nWhy it is not further:\n");
        text.push_str(&explain::reasons(waits));
    }
    text
}
