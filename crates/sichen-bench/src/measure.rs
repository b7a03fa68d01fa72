//! The measurements: each on a database of its own, which the checker must accept afterwards.
//!
//! # Not here
//! Requests ([`crate::load`]), processes ([`crate::process`]), floors and tables
//! ([`crate::report`]).

mod crowd;
mod old;
mod ready;
mod trial;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use crate::clock::{now_us, until};
use crate::load::{self, JOB};
use crate::postgres::Postgres;
use crate::report::{Figure, Unit, share};

pub use trial::{Judged, Trial};

/// How large the measurements are.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Runs in bulk.
    pub runs: u64,
    /// Runs by callers that wait.
    pub acknowledged: u64,
    /// Shards of the large run.
    pub shards: u32,
    /// Jobs due at one instant.
    pub due: u64,
    /// Runs of the history that is judged.
    pub judged: u64,
    /// Shards that are ready at once.
    pub ready: u32,
    /// Seconds of light load, and of idleness.
    pub seconds: u64,
    /// Runs that wait for a later instant.
    pub crowd: u64,
    /// Minutes for which a foreign transaction stays open.
    pub minutes: u64,
    /// Attempts at once in the worker.
    pub slots: u32,
}

/// What is measured, by name; [`SLOW`] only when asked for.
pub const ALL: &[&str] = &[
    "bulk",
    "acknowledged-16",
    "acknowledged-256",
    "shards",
    "pickup",
    "planned",
    "delayed",
    "idle",
    "due",
    "verify",
    "ready",
];

/// What takes many minutes.
pub const SLOW: &[&str] = &["old", "crowd"];

/// Where everything is that a measurement needs.
#[derive(Debug)]
pub struct Bench {
    /// The database server.
    pub postgres: Postgres,
    /// The program `sichen`.
    pub sichen: PathBuf,
    /// For data directories.
    pub place: PathBuf,
    /// How large.
    pub sizes: Sizes,
}

impl Bench {
    /// Makes the measurement `name`; its figures.
    ///
    /// # Errors
    /// If anything fails, or the checker does not accept the history.
    pub async fn measure(&self, name: &str) -> Result<Vec<Figure>> {
        match name {
            "bulk" => self.bulk().await,
            "acknowledged-16" => self.acknowledged(16, "acknowledged_16").await,
            "acknowledged-256" => self.acknowledged(256, "acknowledged_256").await,
            "shards" => self.shards().await,
            "pickup" => self.pickup().await,
            "planned" => self.planned().await,
            "delayed" => self.delayed().await,
            "idle" => self.idle().await,
            "due" => self.due().await,
            "verify" => self.verify().await,
            "ready" => self.ready().await,
            "old" => self.old().await,
            "crowd" => self.crowd().await,
            _ => anyhow::bail!("there is no measurement {name:?}; there are {ALL:?} and {SLOW:?}"),
        }
    }

    async fn trial(&self, database: &str, wanted: u64) -> Result<Trial<'_>> {
        Trial::start(self, database, wanted).await
    }

    async fn bulk(&self) -> Result<Vec<Figure>> {
        let n = self.sizes.runs;
        let trial = self.trial("bulk", n).await?;
        let begin = now_us();
        load::bulk(&trial.api, n).await?;
        let written = now_us();
        let end = trial.all_final(n).await?;
        let mut figures = vec![
            Figure::rate("bulk_runs", n, end - begin),
            Figure::rate("bulk_enqueue", n, written - begin),
        ];
        figures.extend(trial.memory("loaded"));
        figures.extend(trial.cpu(n));
        trial.end().await?;
        Ok(figures)
    }

    async fn acknowledged(&self, callers: u32, name: &str) -> Result<Vec<Figure>> {
        let n = self.sizes.acknowledged;
        let trial = self.trial(name, n).await?;
        let begin = now_us();
        load::one_by_one(&trial.api, n, callers).await?;
        let written = now_us();
        let end = trial.all_final(n).await?;
        trial.end().await?;
        Ok(vec![
            Figure::rate(&format!("{name}_runs"), n, end - begin),
            Figure::rate(&format!("{name}_enqueue"), n, written - begin),
        ])
    }

    async fn shards(&self) -> Result<Vec<Figure>> {
        let n = u64::from(self.sizes.shards);
        let trial = self.trial("shards", n).await?;
        trial
            .api
            .apply(load::job("large", self.sizes.shards))
            .await?;
        let begin = now_us();
        let run = crate::api::Start::now("one".to_owned());
        trial.api.start("large", &run).await?;
        let written = now_us();
        let end = trial.all_final(1).await?;
        let mut figures = vec![
            Figure::rate("large_run_shards", n, end - begin),
            Figure::new(
                "large_run_written",
                (written - begin) as f64 / 1e3,
                Unit::Ms,
            ),
        ];
        figures.extend(trial.memory("loaded_shards"));
        trial.end().await?;
        Ok(figures)
    }

    async fn pickup(&self) -> Result<Vec<Figure>> {
        let rate = 20.0;
        let n = self.sizes.seconds * 20;
        let trial = self.trial("pickup", n).await?;
        // Warm, as a server in use is.
        tokio::time::sleep(Duration::from_secs(2)).await;
        load::steady(&trial.api, n, rate).await?;
        trial.all_final(n).await?;
        let late = trial.end().await?;
        Ok(vec![
            Figure::new("pickup_p50", share(&late, 0.5), Unit::Ms),
            Figure::new("pickup_p99", share(&late, 0.99), Unit::Ms),
        ])
    }

    async fn planned(&self) -> Result<Vec<Figure>> {
        let n = 300;
        let trial = self.trial("planned", n).await?;
        load::planned(&trial.api, n).await?;
        trial.all_final(n).await?;
        let late = trial.end().await?;
        let early = late.iter().filter(|us| **us < 0).count();
        Ok(vec![
            Figure::new("lateness_p50", share(&late, 0.5), Unit::Ms),
            Figure::new("lateness_p99", share(&late, 0.99), Unit::Ms),
            Figure::new("early_starts", early as f64, Unit::Count),
        ])
    }

    async fn delayed(&self) -> Result<Vec<Figure>> {
        let n = 300;
        let trial = self.trial("delayed", n).await?;
        load::delayed(&trial.api, n).await?;
        trial.all_final(n).await?;
        let late = trial.end().await?;
        let early = late.iter().filter(|us| **us < 0).count();
        Ok(vec![
            Figure::new("delayed_lateness_p50", share(&late, 0.5), Unit::Ms),
            Figure::new("delayed_lateness_p99", share(&late, 0.99), Unit::Ms),
            Figure::new("delayed_early_starts", early as f64, Unit::Count),
        ])
    }

    async fn idle(&self) -> Result<Vec<Figure>> {
        let trial = self.trial("idle", 1).await?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let seconds = self.sizes.seconds.max(20);
        let before = trial.statements().await?;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let after = trial.statements().await?;
        let mut said: Vec<(i64, &str)> = after
            .iter()
            .map(|(text, n)| (n - before.get(text).unwrap_or(&0), text.as_str()))
            .filter(|(n, _)| *n > 0)
            .collect();
        said.sort_unstable_by(|a, b| b.cmp(a));
        for (n, text) in &said {
            eprintln!(
                "{n:>6} times in {seconds} s: {}",
                text.lines().next().unwrap_or_default()
            );
        }
        let all: i64 = said.iter().map(|(n, _)| n).sum();
        let mut figures = vec![Figure::new(
            "idle_statements",
            all as f64 / seconds as f64,
            Unit::PerSecond,
        )];
        figures.extend(trial.memory("idle"));
        trial.end().await?;
        Ok(figures)
    }

    async fn due(&self) -> Result<Vec<Figure>> {
        let n = self.sizes.due;
        let trial = self.trial("due", n).await?;
        let begin = now_us();
        let at = load::jobs_due_at_once(&trial.api, n).await?;
        let registered = now_us();
        until(at).await;
        let end = trial.all_final(n).await?;
        let (worker, server) = (trial.memory("due"), trial.jobs_behind(at).await?);
        let late = trial.end().await?;
        let mut figures = vec![
            Figure::new("due_last_start", share(&late, 1.0), Unit::Ms),
            Figure::new("due_all_final", (end - at) as f64 / 1e3, Unit::Ms),
            Figure::rate("jobs_registered", n, registered - begin),
            Figure::new("due_early_starts", server, Unit::Count),
        ];
        figures.extend(worker);
        Ok(figures)
    }
}

impl Bench {
    /// The checker over the history of a real server and worker.
    async fn verify(&self) -> Result<Vec<Figure>> {
        let n = self.sizes.judged;
        let trial = self.trial("verify", n).await?;
        load::bulk(&trial.api, n).await?;
        trial.all_final(n).await?;
        let (_, judged) = trial.judged().await?;
        #[expect(clippy::cast_precision_loss, reason = "a count for people")]
        let events = judged.events as f64;
        let seconds = judged.took.as_secs_f64();
        let each_million = seconds * 1e3 * 1e6 / events.max(1.0);
        Ok(vec![
            Figure::new("verify_events", events, Unit::Count),
            Figure::new("verify_per_million_events", each_million, Unit::Ms),
            Figure::new("memory_verify", judged.memory_mib, Unit::MiB),
        ])
    }
}

/// The document of the plain job.
#[must_use]
pub fn plain() -> String {
    load::job(JOB, 1)
}

/// The program beside this one.
///
/// # Errors
/// If this program's own place is not known.
pub fn beside(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().unwrap_or(Path::new(".")).join(name))
}
