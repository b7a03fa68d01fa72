//! The processes that are measured: a server, and a worker beside it.
//!
//! # Invariants
//! - Each is a direct child and is gone with its handle.
//! - Every wait has an end, and says what it waited for.
//!
//! # Not here
//! PostgreSQL ([`crate::postgres`]), what the worker does ([`crate::worker`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::api::Api;
use crate::fleet;

/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(300);

/// A child whose lines are read.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts `program` with `words`.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start(program: &Path, words: &[&str]) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("SICHEN_") && name != "SICHEN_LOG" {
                command.env_remove(&*name);
            }
        }
        if std::env::var_os("SICHEN_LOG").is_none() {
            command.env("SICHEN_LOG", "warn");
        }
        let child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn();
        let mut child = child.with_context(|| format!("starting {}", program.display()))?;
        let out = child.stdout.take().context("its output was taken")?;
        let lines = BufReader::new(out).lines();
        Ok(Self { child, lines })
    }

    /// Its next line.
    ///
    /// # Errors
    /// If it ends, or says nothing for five minutes.
    pub async fn line(&mut self) -> Result<String> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.context("a process said nothing for five minutes")??;
        line.context("a process ended before it said what was expected")
    }

    /// Its next line, or nothing at its end.
    pub async fn next_line(&mut self) -> Option<String> {
        self.lines.next_line().await.ok().flatten()
    }

    /// Its resident memory in MiB: now, and at most so far.
    #[must_use]
    pub fn memory_mib(&self) -> (f64, f64) {
        let pid = self.child.id().unwrap_or_default();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
            kib.unwrap_or_default() / 1024.0
        };
        (of("VmRSS:"), of("VmHWM:"))
    }

    /// Seconds of processor time that it has used so far.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        let pid = self.child.id().unwrap_or_default();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks = |i: usize| after.split_whitespace().nth(i)?.parse::<f64>().ok();
        (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
    }

    /// Kills it, as the end of its machine would.
    ///
    /// # Errors
    /// If it can't be killed.
    pub async fn kill(&mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Asks it to end, which `last` is awaited from, and waits for that.
    ///
    /// # Errors
    /// If it does not end in time.
    pub async fn stop(&mut self) -> Result<()> {
        if let Some(pid) = self.child.id() {
            kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
        }
        let ended = tokio::time::timeout(Duration::from_secs(60), self.child.wait()).await;
        let status = ended.context("a process does not end within a minute of SIGTERM")??;
        if !status.success() {
            bail!("a process ended with {status}");
        }
        Ok(())
    }
}

/// `sichen server` on a database of its own.
#[derive(Debug)]
pub struct Server {
    /// The process.
    pub process: Process,
    /// Where it answers.
    pub url: String,
    data: PathBuf,
}

impl Server {
    /// Starts the program `sichen` on the store at `store`, with its tokens in `data`.
    ///
    /// # Errors
    /// If it does not say that it is ready.
    pub async fn start(sichen: &Path, store: &str, data: PathBuf) -> Result<Self> {
        let at = data.display().to_string();
        let words = [
            "server",
            "--listen",
            "127.0.0.1:0",
            "--store",
            store,
            "--data",
            &at,
        ];
        let mut process = Process::start(sichen, &words)?;
        let line = process.line().await?;
        let url = line.strip_prefix("ready ").context("the server's line")?;
        Ok(Self {
            url: url.to_owned(),
            process,
            data,
        })
    }

    /// Its API.
    ///
    /// # Errors
    /// If its token can't be read.
    pub fn api(&self) -> Result<Api> {
        let token = std::fs::read_to_string(self.data.join("token"))?;
        Ok(Api::new(&self.url, token.trim()))
    }

    /// What a worker joins with.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn join_token(&self) -> Result<String> {
        let token = std::fs::read_to_string(self.data.join("join-token"))?;
        Ok(token.trim().to_owned())
    }
}

/// A worker process of this program.
#[derive(Debug)]
pub struct WorkerProcess {
    /// The process.
    pub process: Process,
    seen: BTreeMap<String, Value>,
}

impl WorkerProcess {
    /// Starts one that says `handled` at its `wanted`-th start.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start(server: &Server, data: &Path, slots: u32, wanted: u64) -> Result<Self> {
        // Of the benchmark's own program, whoever starts it: the adapter has no such words.
        let program = crate::measure::beside("sichen-bench")?;
        let (join, data) = (server.join_token()?, data.display().to_string());
        let (slots, wanted) = (slots.to_string(), wanted.to_string());
        let words = [
            "worker",
            "--server",
            &server.url,
            "--join-token",
            &join,
            "--data",
            &data,
            "--slots",
            &slots,
            "--wanted",
            &wanted,
        ];
        Ok(Self {
            process: Process::start(&program, &words)?,
            seen: BTreeMap::new(),
        })
    }

    /// Waits until it has said `event`.
    ///
    /// # Errors
    /// If it ends before, or is silent for five minutes.
    pub async fn said(&mut self, event: &str) -> Result<Value> {
        loop {
            if let Some(found) = self.seen.get(event) {
                return Ok(found.clone());
            }
            let line = self.process.line().await;
            let line = line.with_context(|| format!("waiting for the worker's `{event}`"))?;
            let value: Value = serde_json::from_str(&line)?;
            let name = value["ev"].as_str().unwrap_or_default().to_owned();
            self.seen.insert(name, value);
        }
    }

    /// Drains it; the lateness of each of its starts, in microseconds.
    ///
    /// # Errors
    /// If it does not end.
    pub async fn drain(&mut self) -> Result<Vec<i64>> {
        if let Some(pid) = self.process.child.id() {
            kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
        }
        let last = self.said("lat").await?;
        self.process.child.wait().await?;
        let late = last["lat"].as_array().map_or(&[][..], Vec::as_slice);
        Ok(late.iter().filter_map(Value::as_i64).collect())
    }
}

/// Many workers in one process of this program.
#[derive(Debug)]
pub struct FleetProcess {
    /// The process.
    pub process: Process,
}

impl FleetProcess {
    /// Starts it; its first line says that all are there.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start(options: &fleet::Options) -> Result<Self> {
        let program = crate::measure::beside("sichen-bench")?;
        let hold = options.hold.as_millis().to_string();
        let (data, sessions) = (
            options.data.display().to_string(),
            options.sessions.to_string(),
        );
        let slots = options.slots.to_string();
        let mut words = vec!["fleet", "--join-token", &options.join_token];
        words.extend(["--data", &data, "--sessions", &sessions]);
        words.extend(["--slots", &slots, "--hold-ms", &hold]);
        for server in &options.servers {
            words.extend(["--server", server]);
        }
        let process = Process::start(&program, &words)?;
        Ok(Self { process })
    }

    /// Drains it; how long its slots stood empty each time, in microseconds.
    ///
    /// # Errors
    /// If it does not end.
    pub async fn turns(&mut self) -> Result<Vec<i64>> {
        if let Some(pid) = self.process.child.id() {
            kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
        }
        let line = self.process.line().await.context("the workers' turns")?;
        let value: Value = serde_json::from_str(&line)?;
        self.process.child.wait().await?;
        let turns = value["turns"].as_array().map_or(&[][..], Vec::as_slice);
        Ok(turns.iter().filter_map(Value::as_i64).collect())
    }
}
