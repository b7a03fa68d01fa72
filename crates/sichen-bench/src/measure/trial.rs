//! One measurement's surroundings: a new database, a server on it, a worker.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;
use tokio_postgres::Client;

use super::{Bench, plain};
use crate::api::Api;
use crate::clock::now_us;
use crate::process::{Process, Server, WorkerProcess};
use crate::report::{Figure, Unit};

/// Between two looks at the rows, at least: a look costs the database, whose work is being measured, and is
/// not to take a twentieth of it. Ends are seen late by as much, never early.
const POLL: Duration = Duration::from_millis(20);
/// The longest wait for work to be done.
const PATIENCE: Duration = Duration::from_secs(170);

/// A server and a worker on a database of their own, ready to work.
#[derive(Debug)]
pub struct Trial<'a> {
    bench: &'a Bench,
    database: String,
    server: Server,
    worker: WorkerProcess,
    /// The server's API.
    pub api: Api,
    rows: Client,
    _data: TempDir,
}

impl<'a> Trial<'a> {
    /// Starts everything, and waits until the worker is registered.
    pub(super) async fn start(bench: &'a Bench, database: &str, wanted: u64) -> Result<Self> {
        bench.postgres.create(database).await?;
        let data = tempfile::Builder::new()
            .prefix("sichen-bench-")
            .tempdir_in(&bench.place)?;
        let url = bench.postgres.url(database);
        let server = Server::start(&bench.sichen, &url, data.path().join("server")).await?;
        let api = server.api()?;
        api.apply(plain()).await?;
        let home = data.path().join("worker");
        let worker = WorkerProcess::start(&server, &home, bench.sizes.slots, wanted)?;
        let rows = bench.postgres.connect(database).await?;
        let trial = Self {
            bench,
            database: database.to_owned(),
            server,
            worker,
            api,
            rows,
            _data: data,
        };
        let registered = "select exists (select 1 from session where ended_at is null)";
        trial.until(registered).await?;
        Ok(trial)
    }

    async fn until(&self, is_so: &str) -> Result<()> {
        let end = now_us() + i64::try_from(PATIENCE.as_micros())?;
        let asked = self.rows.prepare(is_so).await?;
        loop {
            let before = now_us();
            if self.rows.query_one(&asked, &[]).await?.get::<_, bool>(0) {
                return Ok(());
            }
            let now = now_us();
            if now > end {
                bail!("not within {} s: {is_so}", PATIENCE.as_secs());
            }
            let took = Duration::from_micros(u64::try_from(now - before).unwrap_or(0));
            tokio::time::sleep(POLL.max(took * 20)).await;
        }
    }

    /// Waits until `n` runs are written and none is open; when that was seen.
    ///
    /// # Errors
    /// If it takes too long, or a run did not succeed.
    pub async fn all_final(&self, n: u64) -> Result<i64> {
        // The first of a state by the index that has them in this order: looked at often this is cheap, and the
        // rows are counted once.
        let none_open = "select (select id from run where state = 'scheduled' order by id limit 1) is null \
                         and (select id from run where state = 'running' order by id limit 1) is null";
        self.until(&format!("select (select count(*) from run) >= {n}"))
            .await?;
        self.until(none_open).await?;
        let end = now_us();
        let bad = "select count(*) from run where state <> 'succeeded'";
        let bad: i64 = self.rows.query_one(bad, &[]).await?.get(0);
        if bad > 0 {
            bail!("{bad} runs did not succeed");
        }
        Ok(end)
    }

    /// Waits until `n` runs have succeeded, whatever else waits.
    ///
    /// # Errors
    /// If it takes too long.
    pub async fn started(&self, n: u64) -> Result<()> {
        self.until(&format!(
            "select (select count(*) from run where state = 'succeeded') >= {n}"
        ))
        .await
    }

    /// Every statement that the database was told, by its text, with how often.
    ///
    /// # Errors
    /// What the database says.
    pub async fn statements(&self) -> Result<BTreeMap<String, i64>> {
        let text = "select s.query, sum(s.calls)::bigint from pg_stat_statements s
            join pg_database d on d.oid = s.dbid where d.datname = $1 and s.toplevel group by s.query";
        let client = self.bench.postgres.connect("postgres").await?;
        let rows = client.query(text, &[&self.database]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Runs that were written before their planned instant, which there must never be.
    ///
    /// # Errors
    /// What the database says.
    pub async fn jobs_behind(&self, planned_us: i64) -> Result<f64> {
        let text = "select count(*) from run where created_at < $1 or started_at < $1";
        let n: i64 = self.rows.query_one(text, &[&planned_us]).await?.get(0);
        #[expect(clippy::cast_precision_loss, reason = "a count for people")]
        Ok(n as f64)
    }

    /// Memory of server and worker: the most so far, or what it is now if `idle`.
    #[must_use]
    pub fn memory(&self, when: &str) -> Vec<Figure> {
        let of = |who: &str, process: &Process| {
            let (now, most) = process.memory_mib();
            let mib = if when == "idle" { now } else { most };
            Figure::new(&format!("memory_{who}_{when}"), mib, Unit::MiB)
        };
        vec![
            of("server", &self.server.process),
            of("worker", &self.worker.process),
        ]
    }

    /// Processor time of server and worker for each of `n` runs.
    #[must_use]
    pub fn cpu(&self, n: u64) -> Vec<Figure> {
        #[expect(clippy::cast_precision_loss, reason = "a count for people")]
        let each = |s: f64| s * 1e6 / n as f64;
        vec![
            Figure::new(
                "cpu_server_per_run",
                each(self.server.process.cpu_seconds()),
                Unit::Us,
            ),
            Figure::new(
                "cpu_worker_per_run",
                each(self.worker.process.cpu_seconds()),
                Unit::Us,
            ),
        ]
    }

    /// Drains the worker, stops the server, and has the checker judge the database; the lateness of
    /// each start in microseconds.
    ///
    /// # Errors
    /// If the checker does not accept it.
    pub async fn end(self) -> Result<Vec<i64>> {
        if std::env::var_os("SICHEN_BENCH_COSTS").is_some() {
            for line in self.bench.postgres.costs(&self.database).await? {
                crate::report::note(&line);
            }
        }
        let (late, _) = self.judged().await?;
        Ok(late)
    }

    /// [`Trial::end`] while runs are open.
    ///
    /// # Errors
    /// If the checker does not accept it.
    pub async fn leave(self) -> Result<Vec<i64>> {
        Ok(self.closed(false).await?.0)
    }

    /// [`Trial::end`], and what the judging took.
    ///
    /// # Errors
    /// If the checker does not accept it.
    pub async fn judged(self) -> Result<(Vec<i64>, Judged)> {
        self.closed(true).await
    }

    /// `quiescent`: nothing may be open.
    async fn closed(mut self, quiescent: bool) -> Result<(Vec<i64>, Judged)> {
        let late = self.worker.drain().await?;
        self.server.process.stop().await?;
        let url = self.bench.postgres.url(&self.database);
        let judged = verify(&self.bench.sichen, &url, quiescent).await?;
        drop(self.rows);
        self.bench.postgres.drop_database(&self.database).await?;
        Ok((late, judged))
    }
}

/// What it took to judge a history.
#[derive(Clone, Copy, Debug)]
pub struct Judged {
    /// Its events.
    pub events: u64,
    /// From the start of the program to its verdict.
    pub took: Duration,
    /// The most memory that it had.
    pub memory_mib: f64,
}

/// The checker's verdict of the history in `store`, which must be good.
pub(super) async fn verify(sichen: &Path, store: &str, quiescent: bool) -> Result<Judged> {
    let begin = now_us();
    let mut words = vec!["verify", "-o", "json", "--store", store];
    if quiescent {
        words.push("--quiescent");
    }
    let mut check = Process::start(sichen, &words)?;
    let mut memory_mib = 0.0_f64;
    let mut text = String::new();
    loop {
        // The most so far, which is looked at until it is gone.
        memory_mib = memory_mib.max(check.memory_mib().1);
        match tokio::time::timeout(Duration::from_millis(20), check.next_line()).await {
            Ok(Some(line)) => text.push_str(&line),
            Ok(None) => break,
            Err(_) => {}
        }
    }
    let took = Duration::from_micros(u64::try_from(now_us() - begin)?);
    let verdict: serde_json::Value = serde_json::from_str(&text).context("sichen verify")?;
    if verdict["outcome"] != "ok" {
        bail!("the checker does not accept the history of {store}: {verdict:#}");
    }
    let events = verdict["seen"]["Event"].as_u64().unwrap_or_default();
    Ok(Judged {
        events,
        took,
        memory_mib,
    })
}
