//! `cargo xtask failover`: how long it takes until somebody else does the work of a server that goes.
//!
//! Three servers of the built program over one throwaway PostgreSQL, a worker that holds an attempt;
//! round after round the owner of the worker's pool is stopped, killed or frozen. The distributions go
//! to the standard output as JSON, each with its bound (docs/guide/production-postgresql.md).
//!
//! # Not here
//! Claims about single cases: they are process tests (`crates/sichen/tests/it/peers.rs`).

#![expect(
    clippy::disallowed_methods,
    reason = "it measures real processes, in real time"
)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sichen_testdb::postgres;

/// Servers in the cluster.
const SERVERS: usize = 3;
/// The longest that one step may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(5);

#[derive(Debug, Args)]
pub struct Options {
    /// Rounds of each kind
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// The program to measure
    #[arg(long, default_value = "target/release/sichen")]
    program: PathBuf,
}

/// A way to go, and the milliseconds within which the duties must be in other hands, and the worker
/// with another server.
struct Kind {
    name: &'static str,
    signal: Signal,
    duties_ms: u128,
    worker_ms: u128,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "stopped",
        signal: Signal::SIGTERM,
        duties_ms: 1_000,
        worker_ms: 3_000,
    },
    Kind {
        name: "killed",
        signal: Signal::SIGKILL,
        duties_ms: 2_000,
        worker_ms: 3_000,
    },
    Kind {
        name: "frozen",
        signal: Signal::SIGSTOP,
        duties_ms: 7_000,
        worker_ms: 10_000,
    },
];

/// Measures and prints.
///
/// # Errors
/// When there is no PostgreSQL, a server does not start, or a distribution is out of its bound.
pub fn run(options: &Options) -> Result<()> {
    let asked = postgres::Options {
        durable: true,
        port: true,
        ..postgres::Options::default()
    };
    let database = postgres::Server::start(asked).context("there is no PostgreSQL here")?;
    let store = format!("postgres://postgres@127.0.0.1:{}/postgres", database.port());
    let dir = tempfile::tempdir()?;
    let mut cluster = Cluster::start(&options.program, &store, dir.path())?;
    let mut figures: BTreeMap<String, Vec<u128>> = BTreeMap::new();
    let mut bounds: BTreeMap<String, u128> = BTreeMap::new();
    for kind in KINDS {
        let (duties, worker) = (
            format!("{}: duties in other hands", kind.name),
            format!("{}: worker beats elsewhere", kind.name),
        );
        bounds.insert(duties.clone(), kind.duties_ms);
        bounds.insert(worker.clone(), kind.worker_ms);
        for round in 0..options.rounds {
            let (moved, beat, ready) = cluster.round(kind)?;
            eprintln!("{} {round}: {moved} {beat} {ready} ms", kind.name);
            figures.entry(duties.clone()).or_default().push(moved);
            figures.entry(worker.clone()).or_default().push(beat);
            let healed = format!("{}: all ready after the heal", kind.name);
            bounds.insert(healed.clone(), 10_000);
            figures.entry(healed).or_default().push(ready);
        }
    }
    let attempts = cluster.attempts()?;
    ensure!(
        attempts == 1,
        "the worker's attempt was given out {attempts} times"
    );
    cluster.verify(&store)?;
    report(figures, &bounds)
}

fn report(figures: BTreeMap<String, Vec<u128>>, bounds: &BTreeMap<String, u128>) -> Result<()> {
    let mut shown = serde_json::Map::new();
    let mut late = Vec::new();
    for (name, mut samples) in figures {
        samples.sort_unstable();
        let at = |percent: usize| samples[(samples.len() - 1) * percent / 100];
        let p99 = samples[(samples.len() * 99).div_ceil(100) - 1];
        if p99 > bounds[&name] {
            late.push(name.clone());
        }
        let distribution = json!({
            "samples": samples.len(), "p50_ms": at(50), "p90_ms": at(90), "p99_ms": p99,
            "max_ms": samples.last(), "bound_ms": bounds[&name],
        });
        shown.insert(name, distribution);
    }
    println!("{:#}", Value::Object(shown));
    if !late.is_empty() {
        bail!("out of bounds: {}", late.join("; "));
    }
    Ok(())
}

struct Cluster {
    program: PathBuf,
    store: String,
    dir: PathBuf,
    servers: Vec<Server>,
    worker: Option<Child>,
}

struct Server {
    child: Child,
    address: String,
    data: PathBuf,
}

impl Cluster {
    fn start(program: &Path, store: &str, dir: &Path) -> Result<Self> {
        let mut cluster = Self {
            program: program.to_owned(),
            store: store.to_owned(),
            dir: dir.to_owned(),
            servers: Vec::new(),
            worker: None,
        };
        for n in 0..SERVERS {
            let data = dir.join(format!("server-{n}"));
            std::fs::create_dir(&data)?;
            if let Some(first) = cluster.servers.first() {
                for token in ["token", "join-token"] {
                    std::fs::copy(first.data.join(token), data.join(token))?;
                }
            }
            let server = cluster.serve(data, "127.0.0.1:0")?;
            cluster.servers.push(server);
        }
        let urls: Vec<String> = cluster.servers.iter().map(Server::url).collect();
        let join = cluster.servers[0].data.join("join-token");
        let worker = Command::new(program)
            .args(["worker", "--builtin", "--name", "w1", "--slots", "2"])
            .args(["--server", &urls.join(",")])
            .arg("--data")
            .arg(dir.join("worker"))
            .arg("--join-token-file")
            .arg(join)
            .env("SICHEN_LOG", "error")
            .spawn()?;
        cluster.worker = Some(worker);
        let document = dir.join("job.json");
        let job = json!({
            "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": "held" },
            "spec": { "run": { "handler": "sleep" }, "parameters": { "ms": 3_600_000 } },
        });
        std::fs::write(&document, job.to_string())?;
        cluster.command(&["apply", "-f", &document.to_string_lossy()])?;
        cluster.command(&["run", "held", "--key", "k"])?;
        cluster.rested()?;
        Ok(cluster)
    }

    fn serve(&self, data: PathBuf, listen: &str) -> Result<Server> {
        let mut child = Command::new(&self.program)
            .args([
                "server",
                "--listen",
                listen,
                "--store",
                &self.store,
                "--data",
            ])
            .arg(&data)
            .env("SICHEN_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", self.program.display()))?;
        let out = child.stdout.take().context("it was piped")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let address = line.trim().strip_prefix("ready http://");
        let address = address.context("a server does not start")?.to_owned();
        Ok(Server {
            child,
            address,
            data,
        })
    }

    fn command(&self, words: &[&str]) -> Result<String> {
        let output = Command::new(&self.program)
            .args(words)
            .env("SICHEN_SERVER", self.servers[0].url())
            .env("SICHEN_TOKEN_FILE", self.servers[0].data.join("token"))
            .output()?;
        ensure!(
            output.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// All servers are there, are ready, and share; the attempt runs.
    fn rested(&self) -> Result<()> {
        until("the cluster is at rest", || {
            let ready = self.servers.iter().all(Server::is_ready);
            let Ok(members) = self.servers[0].get("/api/v1/members") else {
                return false;
            };
            let owners = members["duties"].as_array().map(|duties| {
                let mut owners: Vec<&Value> = duties.iter().map(|d| &d["node"]).collect();
                owners.sort_by_key(|v| v.as_u64());
                owners.dedup();
                owners.len()
            });
            ready && owners == Some(SERVERS) && owner(&members, "pool/default").is_some()
        })?;
        // Each has seen the others' signs, and the worker has found its server.
        std::thread::sleep(Duration::from_millis(3_500));
        Ok(())
    }

    /// One server goes and comes back: until its duties are in other hands, until the worker has
    /// beaten at another, until all are ready again; in milliseconds.
    fn round(&mut self, kind: &Kind) -> Result<(u128, u128, u128)> {
        let members = self.servers[0].get("/api/v1/members")?;
        let going = owner(&members, "pool/default").context("the pool has an owner")?;
        let n = self.servers.iter().position(|s| s.url() == going);
        let n = n.context("one of these servers")?;
        let other = &self.servers[(n + 1) % SERVERS];
        let started = Instant::now();
        kill(self.servers[n].pid(), kind.signal)?;
        let before = other.expires_at()?;
        let (mut moved, mut beat) = (None, None);
        until("others have taken over", || {
            let at = || Some(started.elapsed().as_millis());
            if moved.is_none()
                && other
                    .get("/api/v1/members")
                    .is_ok_and(|m| is_taken(&m, &going))
            {
                moved = at();
            }
            // A beat that was on its way counts for nothing: the next one is a whole beat later.
            if beat.is_none() && other.expires_at().is_ok_and(|now| now > before) {
                beat = at();
            }
            moved.is_some() && beat.is_some()
        })?;
        let healed = self.bring_back(n, kind)?;
        self.rested()?;
        Ok((moved.unwrap_or_default(), beat.unwrap_or_default(), healed))
    }

    fn bring_back(&mut self, n: usize, kind: &Kind) -> Result<u128> {
        let healed = if kind.signal == Signal::SIGSTOP {
            let at = Instant::now();
            kill(self.servers[n].pid(), Signal::SIGCONT)?;
            at
        } else {
            self.servers[n].child.wait()?;
            let (data, address) = (
                self.servers[n].data.clone(),
                self.servers[n].address.clone(),
            );
            let at = Instant::now();
            self.servers[n] = self.serve(data, &address)?;
            at
        };
        until("all are ready", || {
            self.servers.iter().all(Server::is_ready)
        })?;
        Ok(healed.elapsed().as_millis())
    }

    fn attempts(&self) -> Result<u64> {
        let shards = self.command(&["shards", "held:manual:k", "-o", "json"])?;
        let shards: Value = serde_json::from_str(&shards)?;
        shards["items"][0]["attempt"]
            .as_u64()
            .context("a shard has attempts")
    }

    fn verify(&self, store: &str) -> Result<()> {
        self.command(&["verify", "--store", store]).map(drop)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self
            .servers
            .iter_mut()
            .map(|s| &mut s.child)
            .chain(&mut self.worker)
        {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Server {
    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    fn ask(&self, path: &str) -> Result<(bool, Value)> {
        let token = std::fs::read_to_string(self.data.join("token"))?;
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
            token.trim()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .context("an answer has a body")?;
        let ok = head.split(' ').nth(1) == Some("200");
        Ok((ok, serde_json::from_str(body)?))
    }

    fn get(&self, path: &str) -> Result<Value> {
        let (ok, body) = self.ask(path)?;
        ensure!(ok, "{path}: {body}");
        Ok(body)
    }

    fn is_ready(&self) -> bool {
        self.ask("/readyz").is_ok_and(|(ok, _)| ok)
    }

    /// When the worker's session ends unless it beats.
    fn expires_at(&self) -> Result<String> {
        let workers = self.get("/api/v1/workers")?;
        let at = workers["items"][0]["expires_at"].as_str();
        Ok(at.context("there is a worker")?.to_owned())
    }
}

/// Where the owner of `key` is reached.
fn owner(members: &Value, key: &str) -> Option<String> {
    let duties = members["duties"].as_array()?;
    let duty = duties.iter().find(|duty| duty["key"] == key)?;
    let nodes = members["nodes"].as_array()?;
    let node = nodes.iter().find(|node| node["id"] == duty["node"])?;
    node["address"].as_str().map(str::to_owned)
}

/// Whether each duty is a live node's, and none that of `gone`.
fn is_taken(members: &Value, gone: &str) -> bool {
    let duties = members["duties"].as_array();
    duties.is_some_and(|duties| {
        let keys = duties.iter().filter_map(|duty| duty["key"].as_str());
        keys.map(|key| owner(members, key))
            .all(|owner| owner.is_some_and(|owner| owner != gone))
    })
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        ensure!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(LOOK);
    }
    Ok(())
}
