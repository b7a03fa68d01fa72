//! `sichen forecast`: what a pool will have to do, and when more will be wanted than there is.
//!
//! # Not here
//! Reckoning (the server).

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use jiff::SignedDuration;
use sichen_server::rest::wire::{Forecast, ForecastPart, JobForecast, LimitForecast, Overbooked};

use super::{run, waiting};
use crate::client::{Client, Connection};
use crate::failure::Failure;
use crate::output::{self, Output};

/// Cells of a bar that stands for all there is.
const BAR: u64 = 20;

/// Show what a pool will have to do, hour by hour, and when more is wanted than it has slots or its jobs'
/// capacities have units: reckoned from the schedules of all jobs and from how long their runs took. Runs
/// that are asked for, retries and backfills are not in it.
#[derive(Debug, Args)]
pub struct ForecastArgs {
    /// The pool.
    #[arg(long, value_name = "POOL", default_value = "default")]
    pool: String,
    /// The beginning [default: now].
    #[arg(long, value_name = "TIME", value_parser = run::instant)]
    from: Option<String>,
    /// The end, at most 366 days later [default: a day later].
    #[arg(long, value_name = "TIME", value_parser = run::instant)]
    to: Option<String>,
    /// The length of a line's part of the time, at most 1,000 parts [default: a 24th].
    #[arg(long, value_name = "LENGTH", value_parser = waiting::length)]
    part: Option<Duration>,
    /// Reckon with so many slots [default: those of the pool's live workers].
    #[arg(long, value_name = "N")]
    slots: Option<u32>,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    output: Output,
}

/// Carries out `sichen forecast`.
pub async fn show(args: ForecastArgs) -> Result<ExitCode, Failure> {
    let client = Client::new(&args.connection)?;
    let mut query = vec![("pool", args.pool)];
    query.extend(args.from.map(|from| ("from", from)));
    query.extend(args.to.map(|to| ("to", to)));
    let part = args.part.map(|part| part.as_millis().to_string());
    query.extend(part.map(|part| ("part_ms", part)));
    query.extend(args.slots.map(|slots| ("slots", slots.to_string())));
    let told: Forecast = client.get(&["forecast"], query).await?;
    args.output.show(&told, shown)?;
    Ok(ExitCode::SUCCESS)
}

fn shown(told: &Forecast) -> String {
    let mut text = String::new();
    for limit in &told.limits {
        if limit.limit == "slots" {
            let slots = output::count(limit.there.into(), "slot");
            text.push_str(&format!("Pool {}, {slots}\n", told.pool));
            text.push_str(&table(&limit.parts));
        }
        text.push_str(&output::prose(&verdict(limit)));
    }
    let unknown = told.jobs.iter().filter(|job| job.length_ms.is_none());
    let unknown: Vec<String> = unknown.map(without_length).collect();
    if !unknown.is_empty() {
        text.push_str(&output::prose(&format!(
            "Not reckoned, since no run of theirs has succeeded yet: {}.\n",
            unknown.join(", ")
        )));
    }
    if told.jobs.is_empty() {
        text.push_str("No job has a planned time in it.\n");
    }
    let slots = told.limits.iter().find(|limit| limit.limit == "slots");
    if slots.is_some_and(|slots| slots.there == 0) {
        text.push_str(&output::prose(&format!(
            "No live worker serves pool {}: `sichen get workers` lists those that are there, with their pools; \
             --slots N reckons with slots to come.\n",
            told.pool
        )));
    }
    if told.cut {
        let text_of_cut =
            "Jobs or planned times were left out, being too many: look at a shorter time.\n";
        text.push_str(&output::prose(text_of_cut));
    }
    text
}

fn table(parts: &[ForecastPart]) -> String {
    let rows = parts.iter().map(|part| {
        [
            output::instant(&part.from, 0),
            output::grouped(part.runs),
            output::grouped(part.wanted),
            format!("{:>3}%", part.used_percent),
            behind(part),
            bar(part.used_percent),
        ]
    });
    let head = ["FROM", "RUNS", "WANTED", "USED", "BEHIND", ""];
    output::table(head, rows)
}

fn bar(percent: u64) -> String {
    let full = (percent * BAR).div_ceil(100).min(BAR);
    (0..full).map(|_| '█').collect()
}

/// Beyond that it is as good as never.
const FAR: SignedDuration = SignedDuration::from_hours(24 * 365);

fn behind(part: &ForecastPart) -> String {
    match length(part.behind_ms) {
        none if none.is_zero() => "-".to_owned(),
        length if length > FAR => "for good".to_owned(),
        length => output::span(length),
    }
}

fn length(ms: u64) -> SignedDuration {
    SignedDuration::from_millis(i64::try_from(ms).unwrap_or(i64::MAX))
}

/// What a person is to know of a limit.
fn verdict(limit: &LimitForecast) -> String {
    let (what, units) = match limit.limit.as_str() {
        name if limit.rate.is_some() => {
            let rate = limit.rate.as_deref().unwrap_or_default();
            (format!("Rate {rate} of {name}"), format!("{rate}, starts"))
        }
        "slots" => (
            "Slots".to_owned(),
            output::count(limit.there.into(), "slot"),
        ),
        name => (
            format!("Capacity {name}"),
            output::count(limit.there.into(), "unit"),
        ),
    };
    let most = limit.parts.iter().map(|part| part.wanted).max();
    if limit.overbooked.is_empty() {
        let most = output::grouped(most.unwrap_or(0));
        return format!("{what}: enough; at most {most} of {units} wanted at once.\n");
    }
    let spans = limit
        .overbooked
        .iter()
        .map(|span| format!("{what}: overbooked {}.\n", overbooked(span, &units)));
    spans.collect()
}

fn overbooked(span: &Overbooked, units: &str) -> String {
    let until = match &span.until {
        Some(until) => format!("worked off by {}", output::instant(until, 0)),
        None => "not worked off by the end".to_owned(),
    };
    format!(
        "from {}, {until}: {} wanted at once of {units}, most by {}",
        output::instant(&span.from, 0),
        output::grouped(span.wanted),
        span.jobs.join(", ")
    )
}

fn without_length(job: &JobForecast) -> String {
    let runs = output::count(job.runs, "run");
    format!("{}/{} ({runs})", job.namespace, job.job)
}
