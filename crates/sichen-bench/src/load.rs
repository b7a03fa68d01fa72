//! Work given to a server: in bulk, by many callers at once, at a steady rate, for a later instant.
//!
//! # Not here
//! What is measured with it ([`crate::measure`]), the requests ([`crate::api`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::api::{Api, BATCH, Start};
use crate::clock::{instant, now_us, until};

/// The job that has one shard and no schedule.
pub const JOB: &str = "noop";

/// Its document, with `shards` shards.
#[must_use]
pub fn job(name: &str, shards: u32) -> String {
    let cut = if shards > 1 {
        format!(r#","shards":{{"count":{shards}}}"#)
    } else {
        String::new()
    };
    format!(
        r#"{{"apiVersion":"sichen/v1","kind":"Job","metadata":{{"name":"{name}"}},"spec":{{"run":{{"handler":"noop"}}{cut}}}}}"#
    )
}

/// A capacity of so many units, which closes the way of [`behind_the_gate`] if there are none.
#[must_use]
pub fn gate(units: u32) -> String {
    format!(
        r#"{{"apiVersion":"sichen/v1","kind":"Capacity","metadata":{{"name":"gate"}},"spec":{{"units":{units}}}}}"#
    )
}

/// The document of a job that uses the gate.
#[must_use]
pub fn behind_the_gate(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"sichen/v1","kind":"Job","metadata":{{"name":"{name}"}},"spec":{{"run":{{"handler":"noop"}},"uses":{{"gate":1}}}}}}"#
    )
}

/// Runs in `namespaces` namespaces, one each with `shards` shards.
///
/// # Errors
/// If the server refuses any.
pub async fn waiting(api: &Api, namespaces: u32, shards: u32) -> Result<()> {
    let name = |n: u32| format!("tenant-{n}");
    let document = |n: u32| {
        format!(
            r#"{{"apiVersion":"sichen/v1","kind":"Job","metadata":{{"namespace":"{}","name":"{JOB}"}},"spec":{{"run":{{"handler":"noop"}},"shards":{{"count":{shards}}}}}}}"#,
            name(n)
        )
    };
    let documents: Vec<String> = (0..namespaces).map(document).collect();
    for part in documents.chunks(500) {
        api.apply(part.join("\n---\n")).await?;
    }
    let next = Arc::new(AtomicU64::new(0));
    let mut all = JoinSet::new();
    for _ in 0..APPLIERS {
        let (api, next) = (api.clone(), next.clone());
        all.spawn(async move {
            loop {
                let n = u32::try_from(next.fetch_add(1, Ordering::Relaxed))?;
                if n >= namespaces {
                    return anyhow::Ok(());
                }
                api.start_in(&name(n), JOB, &Start::now("one".to_owned()))
                    .await?;
            }
        });
    }
    joined(all).await
}

/// Batch requests under way at once.
const BATCHES: u64 = 2;

/// `n` runs, many a request.
///
/// # Errors
/// If the server refuses any.
pub async fn bulk(api: &Api, n: u64) -> Result<()> {
    many(api, JOB, n).await
}

/// `n` runs of `job` that may start at once, many a request.
///
/// # Errors
/// If the server refuses any.
pub async fn many(api: &Api, job: &str, n: u64) -> Result<()> {
    batches(api, job, n, |i| Start::now(i.to_string())).await
}

/// `n` runs of `job` that are not to start for an hour, over a year, many a request.
///
/// # Errors
/// If the server refuses any.
pub async fn later(api: &Api, job: &str, n: u64) -> Result<()> {
    const YEAR_S: i64 = 365 * 24 * 3_600;
    let base = now_us() + 3_600_000_000;
    let step = YEAR_S * 1_000_000 / i64::try_from(n.max(1))?;
    batches(api, job, n, move |i| Start {
        not_before_us: i64::try_from(i).ok().map(|i| base + i * step),
        ..Start::now(format!("later {i}"))
    })
    .await
}

async fn batches(
    api: &Api,
    job: &str,
    n: u64,
    run: impl Fn(u64) -> Start + Send + Sync + 'static,
) -> Result<()> {
    let (batch, run) = (BATCH as u64, Arc::new(run));
    let next = Arc::new(AtomicU64::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..BATCHES {
        let (api, next, run, job) = (api.clone(), next.clone(), run.clone(), job.to_owned());
        callers.spawn(async move {
            loop {
                let from = next.fetch_add(batch, Ordering::Relaxed);
                if from >= n {
                    return anyhow::Ok(());
                }
                let runs: Vec<Start> = (from..n.min(from + batch)).map(&*run).collect();
                api.start_many(&job, &runs).await?;
            }
        });
    }
    joined(callers).await
}

/// `n` runs, one a request, by `callers` that each wait for their own commit.
///
/// # Errors
/// If the server refuses any.
pub async fn one_by_one(api: &Api, n: u64, callers: u32) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    let mut all = JoinSet::new();
    for _ in 0..callers {
        let (api, next) = (api.clone(), next.clone());
        all.spawn(async move {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= n {
                    return anyhow::Ok(());
                }
                api.start(JOB, &Start::now(i.to_string())).await?;
            }
        });
    }
    joined(all).await
}

/// `n` runs at `rate` a second; each tells its handler when its request was sent.
///
/// # Errors
/// If the server refuses any.
pub async fn steady(api: &Api, n: u64, rate: f64) -> Result<()> {
    let begin = now_us();
    let mut all = JoinSet::new();
    for i in 0..n {
        #[expect(clippy::cast_precision_loss, reason = "a few thousand runs")]
        let after = (i as f64 * 1e6 / rate).round();
        #[expect(clippy::cast_possible_truncation, reason = "minutes in microseconds")]
        let at = begin + after as i64;
        until(at).await;
        let api = api.clone();
        all.spawn(async move {
            let run = Start {
                from_us: Some(now_us()),
                ..Start::now(i.to_string())
            };
            api.start(JOB, &run).await
        });
    }
    joined(all).await
}

/// `n` jobs with one planned instant each, whole seconds 5 to 20 s ahead.
///
/// # Errors
/// If the server refuses any, or an instant has come before its job was registered.
pub async fn planned(api: &Api, n: u64) -> Result<()> {
    let base = now_us() / 1_000_000 + 5;
    let at = |i: u64| Ok::<i64, anyhow::Error>((base + i64::try_from(i * 15 / n)?) * 1_000_000);
    let mut documents = Vec::new();
    for i in 0..n {
        documents.push(due_once(i, at(i)?));
    }
    api.apply(documents.join("\n---\n")).await?;
    anyhow::ensure!(now_us() < at(0)?, "registering took longer than 5 s");
    Ok(())
}

/// `n` runs that are not to start before scattered milliseconds 3 to 18 s ahead.
///
/// # Errors
/// If the server refuses any.
pub async fn delayed(api: &Api, n: u64) -> Result<()> {
    let base = now_us() + 3_000_000;
    for i in 0..n {
        let ahead = i * 15_000_000 / n + (i * 7_919) % 50 * 1_000;
        let at = base + i64::try_from(ahead)?;
        let run = Start {
            key: i.to_string(),
            from_us: Some(at),
            not_before_us: Some(at),
        };
        api.start(JOB, &run).await?;
    }
    Ok(())
}

async fn joined(mut all: JoinSet<Result<()>>) -> Result<()> {
    while let Some(ended) = all.join_next().await {
        ended??;
    }
    Ok(())
}

/// Requests under way at once when jobs are registered.
const APPLIERS: u64 = 8;
/// Documents of one request.
const DOCUMENTS: u64 = 500;

/// `n` jobs that are all due once, at the same instant; that instant, in microseconds.
///
/// # Errors
/// If the server refuses any, or the instant has come before all were registered.
pub async fn jobs_due_at_once(api: &Api, n: u64) -> Result<i64> {
    // The time that registering takes is not known before: four milliseconds a job are plenty.
    let ahead = 15 + n / 250;
    let at = (now_us() / 1_000_000 + i64::try_from(ahead)?) * 1_000_000;
    let next = Arc::new(AtomicU64::new(0));
    let mut all = JoinSet::new();
    for _ in 0..APPLIERS {
        let (api, next) = (api.clone(), next.clone());
        all.spawn(async move {
            loop {
                let from = next.fetch_add(DOCUMENTS, Ordering::Relaxed);
                if from >= n {
                    return anyhow::Ok(());
                }
                let jobs = (from..n.min(from + DOCUMENTS)).map(|i| due_once(i, at));
                let documents: Vec<String> = jobs.collect();
                api.apply(documents.join("\n---\n")).await?;
            }
        });
    }
    joined(all).await?;
    anyhow::ensure!(
        now_us() < at,
        "the instant came before all jobs were registered"
    );
    Ok(at)
}

fn due_once(i: u64, at_us: i64) -> String {
    let at = instant(at_us);
    format!(
        r#"{{"apiVersion":"sichen/v1","kind":"Job","metadata":{{"name":"due-{i}"}},"spec":{{"schedules":[{{"at":"{at}"}}],"run":{{"handler":"noop"}}}}}}"#
    )
}
