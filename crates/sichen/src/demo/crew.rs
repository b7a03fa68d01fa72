//! The demo's processes: one server and three workers, started from this very binary.
//!
//! # Invariants
//! - Every process is a direct child, signalled by its pid while it is not yet waited for, and
//!   gone when the [`Crew`] is dropped, or by themselves when this process is killed.
//!
//! # Not here
//! When to kill or freeze one (`director`).

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::database::At;
use super::protocol::{Line, MAX_LINE_BYTES};
use super::settle::Zoo;
use super::worker::LEDGER_VARIABLE;

/// Workers of the demo.
pub const WORKERS: usize = 3;
/// Notices that may wait for the director; a worker that is ahead of it waits.
const NOTICES: usize = 256;
/// Workers' rhythm: shorter than the defaults (3 s, 15 s), so that a takeover can be watched.
const BEAT: &str = "1s";
const SESSION: &str = "4s";
/// The longest that a server may take to answer.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A worker process.
#[derive(Debug)]
pub struct Crewman {
    pub name: String,
    pub pid: u32,
    pub alive: bool,
    process: Child,
    orders: ChildStdin,
}

/// All processes of the demo.
#[derive(Debug)]
pub struct Crew {
    pub workers: Vec<Crewman>,
    server: Child,
    /// Where the server answers, API and workers alike.
    pub address: String,
    dir: PathBuf,
    readers: JoinSet<()>,
}

/// What starts a worker.
#[derive(Clone, Debug)]
pub struct Hire {
    pub ledger: At,
    pub zoo: Option<Zoo>,
}

impl Crew {
    /// Starts the server on `dir`, over the database `store` if one is named, and waits until it
    /// answers.
    pub async fn start_server(dir: &Path, store: Option<&str>) -> anyhow::Result<Crew> {
        let data = dir.join("server");
        let log = std::fs::File::create(dir.join("server.log"))?;
        let mut command = program()?;
        // Not among its arguments, which everybody on the machine can read.
        match store {
            Some(url) => command.env("SICHEN_STORE", url),
            None => command.env_remove("SICHEN_STORE"),
        };
        let mut server = command
            .arg("server")
            .arg("--data")
            .arg(&data)
            .args(["--listen", "127.0.0.1:0"])
            .args(["--beat", BEAT, "--session-ttl", SESSION])
            // Its stdin ends with this process, however that ends; so do the workers'.
            .arg("--until-stdin-ends")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("the server can't be started")?;
        let stdout = server.stdout.take().context("stdout is a pipe")?;
        let mut lines = BufReader::new(stdout.take(MAX_LINE_BYTES as u64)).lines();
        let ready = tokio::time::timeout(START_LIMIT, lines.next_line()).await;
        let ready = ready
            .ok()
            .and_then(Result::ok)
            .flatten()
            .unwrap_or_default();
        let Some(address) = ready.strip_prefix("ready ").map(str::to_owned) else {
            anyhow::bail!(
                "the server did not start: {}",
                tail(&dir.join("server.log"))
            );
        };
        Ok(Crew {
            workers: Vec::new(),
            server,
            address,
            dir: dir.to_owned(),
            readers: JoinSet::new(),
        })
    }

    /// Where the server keeps its data.
    pub fn server_data(&self) -> PathBuf {
        self.dir.join("server")
    }

    /// Starts the workers; what they tell comes over the channel.
    pub fn start_workers(&mut self, hire: &Hire) -> anyhow::Result<mpsc::Receiver<Line>> {
        let (notices, told) = mpsc::channel(NOTICES);
        let ledger = match &hire.ledger {
            At::File(path) => path.as_os_str(),
            At::Postgres(url) => url.as_ref(),
        };
        for n in 1..=WORKERS {
            let name = format!("worker-{n}");
            let log = std::fs::File::create(self.dir.join(format!("{name}.log")))?;
            let mut command = program()?;
            command
                .arg("demo-worker")
                .args(["--server", &self.address, "--name", &name])
                .env(LEDGER_VARIABLE, ledger)
                .arg("--data-dir")
                .arg(self.dir.join(&name))
                .arg("--join-token-file")
                .arg(
                    self.server_data()
                        .join(sichen_server::auth::JOIN_TOKEN_FILE),
                )
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(log);
            if let Some(zoo) = hire.zoo {
                let value = clap::ValueEnum::to_possible_value(&zoo);
                command
                    .arg("--zoo")
                    .args(value.map(|value| value.get_name().to_owned()));
            }
            let mut process = command
                .spawn()
                .with_context(|| format!("{name} can't be started"))?;
            let pid = process
                .id()
                .context("a process that has just begun has a pid")?;
            let orders = process.stdin.take().context("stdin is a pipe")?;
            let stdout = process.stdout.take().context("stdout is a pipe")?;
            let evidence = self.dir.join(format!("{name}.jsonl"));
            self.readers
                .spawn(read_notices(stdout, evidence, notices.clone()));
            self.workers.push(Crewman {
                name,
                pid,
                alive: true,
                process,
                orders,
            });
        }
        Ok(told)
    }

    /// Whether the server still runs; workers may die, the server must not.
    pub fn server_runs(&mut self) -> anyhow::Result<()> {
        match self.server.try_wait()? {
            None => Ok(()),
            Some(status) => {
                anyhow::bail!(
                    "the server ended ({status}): {}",
                    tail(&self.dir.join("server.log"))
                )
            }
        }
    }

    /// The worker with this pid.
    pub fn by_pid(&mut self, pid: u32) -> Option<&mut Crewman> {
        self.workers.iter_mut().find(|worker| worker.pid == pid)
    }

    /// Whether this is a worker that has not ended.
    pub fn is_alive(&self, pid: u32) -> bool {
        self.workers
            .iter()
            .any(|worker| worker.pid == pid && worker.alive)
    }

    /// Gives an order to every living worker but one.
    pub async fn order_others(&mut self, pid: u32, order: &[u8]) -> anyhow::Result<()> {
        let others = self
            .workers
            .iter_mut()
            .filter(|one| one.alive && one.pid != pid);
        for worker in others {
            worker.order(order).await?;
        }
        Ok(())
    }

    /// Ends all in order: workers drain, then the server hands its duties over.
    pub async fn dismiss(mut self) -> anyhow::Result<PathBuf> {
        for worker in self.workers.iter_mut().filter(|worker| worker.alive) {
            worker.signal(Signal::SIGTERM)?;
        }
        for worker in &mut self.workers {
            end(&mut worker.process).await?;
        }
        if let Some(pid) = self.server.id() {
            kill(as_pid(pid)?, Signal::SIGTERM)?;
        }
        end(&mut self.server).await?;
        self.readers.shutdown().await;
        Ok(self.server_data())
    }
}

impl Crewman {
    /// Sends a signal. The pid can't belong to another: the child has not been waited for.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill(as_pid(self.pid)?, signal).with_context(|| format!("{signal} to {}", self.name))
    }

    /// Kills it and waits for its end.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::SIGKILL)?;
        self.alive = false;
        self.process.wait().await?;
        Ok(())
    }

    /// Whether it has ended by itself since the last look.
    pub fn has_ended(&mut self) -> anyhow::Result<bool> {
        let ended = self.alive && self.process.try_wait()?.is_some();
        self.alive &= !ended;
        Ok(ended)
    }

    /// Gives an order over its stdin.
    pub async fn order(&mut self, order: &[u8]) -> anyhow::Result<()> {
        self.orders.write_all(order).await?;
        self.orders.flush().await?;
        Ok(())
    }
}

/// This very program, to be started again.
fn program() -> anyhow::Result<Command> {
    let exe = std::env::current_exe().context("this program's own file is not known")?;
    let mut command = Command::new(exe);
    command.kill_on_drop(true);
    // The terminal's Ctrl-C is for the director, which then ends the others in order.
    command.process_group(0);
    Ok(command)
}

fn as_pid(pid: u32) -> anyhow::Result<Pid> {
    Ok(Pid::from_raw(
        i32::try_from(pid).context("pids are below 2^31")?,
    ))
}

/// Waits 10 s for a process that was told to end, then kills it.
async fn end(process: &mut Child) -> anyhow::Result<()> {
    if tokio::time::timeout(Duration::from_secs(10), process.wait())
        .await
        .is_err()
    {
        process.kill().await?;
    }
    Ok(())
}

/// Reads a worker's notices until its stdout ends, keeping a copy as evidence.
async fn read_notices(
    stdout: tokio::process::ChildStdout,
    evidence: PathBuf,
    notices: mpsc::Sender<Line>,
) {
    let mut input = BufReader::new(stdout);
    let Ok(mut copy) = tokio::fs::File::create(&evidence).await else {
        return;
    };
    let mut text = Vec::new();
    loop {
        text.clear();
        let mut line = (&mut input).take(MAX_LINE_BYTES as u64);
        match line.read_until(b'\n', &mut text).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let _ = copy.write_all(&text).await;
        // A killed worker may leave half a line; what is no notice is no news.
        if let Ok(line) = serde_json::from_slice(&text)
            && notices.send(line).await.is_err()
        {
            return;
        }
    }
}

/// The last lines of a log, for an error.
fn tail(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().rev().take(5).collect::<Vec<_>>();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
