//! The processes that are measured: servers over one PostgreSQL, each with its own way to it, and
//! workers.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use sichen_testdb::postgres;
use sichen_testdb::proxy::Proxy;

/// Servers in the cluster.
pub const SERVERS: usize = 3;
/// The longest that one step may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(5);

/// A cluster; what it started ends with it.
pub struct Cluster {
    program: PathBuf,
    dir: PathBuf,
    /// Options of every server.
    options: Vec<String>,
    pub servers: Vec<Server>,
    workers: BTreeMap<String, Child>,
    pub database: postgres::Server,
}

pub struct Server {
    child: Child,
    address: String,
    data: PathBuf,
    store: String,
    /// Its way to the database.
    pub link: Proxy,
}

impl Cluster {
    /// Servers with these options, at rest; no worker yet.
    pub fn start(program: &Path, dir: &Path, options: &[&str]) -> Result<Self> {
        let asked = postgres::Options {
            durable: true,
            port: true,
            ..postgres::Options::default()
        };
        let database = postgres::Server::start(asked).context("there is no PostgreSQL here")?;
        let mut cluster = Self {
            program: program.to_owned(),
            dir: dir.to_owned(),
            options: options.iter().map(|&word| word.to_owned()).collect(),
            servers: Vec::new(),
            workers: BTreeMap::new(),
            database,
        };
        for n in 0..SERVERS {
            let data = dir.join(format!("server-{n}"));
            std::fs::create_dir(&data)?;
            if let Some(first) = cluster.servers.first() {
                for token in ["token", "join-token"] {
                    std::fs::copy(first.data.join(token), data.join(token))?;
                }
            }
            let link = Proxy::to(&format!("127.0.0.1:{}", cluster.database.port()));
            let store = format!("postgres://postgres@{}/postgres", link.address);
            let (child, address) = cluster.serve(&data, &store, "127.0.0.1:0")?;
            cluster.servers.push(Server {
                child,
                address,
                data,
                store,
                link,
            });
        }
        Ok(cluster)
    }

    fn serve(&self, data: &Path, store: &str, listen: &str) -> Result<(Child, String)> {
        let mut child = Command::new(&self.program)
            .args(["server", "--listen", listen, "--store", store, "--data"])
            .arg(data)
            .args(&self.options)
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
        Ok((child, address))
    }

    /// A server that has ended, again.
    pub fn serve_again(&mut self, n: usize) -> Result<()> {
        self.servers[n].child.wait()?;
        let Server {
            data,
            store,
            address,
            ..
        } = &self.servers[n];
        let (child, _) = self.serve(data, store, address)?;
        self.servers[n].child = child;
        Ok(())
    }

    /// Starts a worker that knows all servers, and waits until one has it.
    pub fn work(&mut self, name: &str) -> Result<()> {
        let urls: Vec<String> = self.servers.iter().map(Server::url).collect();
        let child = Command::new(&self.program)
            .args(["worker", "--builtin", "--name", name, "--slots", "2"])
            .args(["--server", &urls.join(",")])
            .arg("--data")
            .arg(self.dir.join(name))
            .arg("--join-token-file")
            .arg(self.servers[0].data.join("join-token"))
            .env("SICHEN_LOG", "error")
            .spawn()?;
        self.workers.insert(name.to_owned(), child);
        until("the worker is there", || self.session_of(name).is_ok())
    }

    /// SIGKILL to a worker.
    pub fn kill_worker(&mut self, name: &str) -> Result<()> {
        let mut worker = self.workers.remove(name).context("it was started")?;
        worker.kill()?;
        worker.wait()?;
        Ok(())
    }

    fn workers_seen(&self) -> Result<Vec<Value>> {
        let workers = self.servers[0].get("/api/v1/workers")?;
        Ok(workers["items"].as_array().cloned().unwrap_or_default())
    }

    fn session_of(&self, name: &str) -> Result<u64> {
        let workers = self.workers_seen()?;
        let worker = workers.iter().find(|worker| worker["name"] == name);
        let session = worker.and_then(|worker| worker["session"].as_u64());
        session.context("it has no session")
    }

    /// The name of the worker of a session.
    pub fn name_of(&self, session: u64) -> Result<String> {
        let workers = self.workers_seen()?;
        let worker = workers.iter().find(|worker| worker["session"] == session);
        let name = worker.and_then(|worker| worker["name"].as_str());
        Ok(name.context("no worker has this session")?.to_owned())
    }

    /// Applies a job whose runs sleep for an hour.
    pub fn apply_sleep(&self, name: &str) -> Result<()> {
        let document = self.dir.join("job.json");
        let job = json!({
            "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": name },
            "spec": { "run": { "handler": "sleep" }, "parameters": { "ms": 3_600_000 } },
        });
        std::fs::write(&document, job.to_string())?;
        self.command(&["apply", "-f", &document.to_string_lossy()])
            .map(drop)
    }

    /// Applies jobs with an instant each second, all of which are decided and none is run: their one run waits for
    /// a worker that never comes, and they forbid a second.
    pub fn apply_ticking(&self, jobs: usize) -> Result<()> {
        let documents = (0..jobs).map(|n| {
            json!({
                "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": format!("ticks-{n}") },
                "spec": {
                    "run": { "handler": "noop" }, "pool": "nobody", "overlap": "forbid",
                    "schedules": [{ "every": "1s" }],
                },
            })
        });
        for document in documents {
            let path = self.dir.join("ticks.json");
            std::fs::write(&path, document.to_string())?;
            self.command(&["apply", "-f", &path.to_string_lossy()])?;
        }
        Ok(())
    }

    /// What a command answers that must succeed.
    pub fn command(&self, words: &[&str]) -> Result<String> {
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

    /// The one shard of a run.
    pub fn shard(&self, key: &str) -> Result<Value> {
        let shards: Value = serde_json::from_str(&self.command(&["shards", key, "-o", "json"])?)?;
        Ok(shards["items"][0].clone())
    }

    /// All servers are there, are ready, and share, the workers' pool too.
    pub fn rested(&self) -> Result<()> {
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

    /// The number of the server that has the workers' pool.
    pub fn owner(&self) -> Result<usize> {
        let members = self.servers[0].get("/api/v1/members")?;
        let owner = owner(&members, "pool/default").context("the pool has an owner")?;
        let n = self.servers.iter().position(|s| s.url() == owner);
        n.context("one of these servers")
    }

    pub fn all_ready(&self) -> Result<()> {
        until("all are ready", || {
            self.servers.iter().all(Server::is_ready)
        })
    }

    /// The checker accepts the history.
    pub fn verify(&self) -> Result<()> {
        self.command(&["verify", "--store", &self.servers[0].store])
            .map(drop)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let servers = self.servers.iter_mut().map(|s| &mut s.child);
        for child in servers.chain(self.workers.values_mut()) {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Server {
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.child.id().cast_signed()), signal)?)
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

    pub fn get(&self, path: &str) -> Result<Value> {
        let (ok, body) = self.ask(path)?;
        ensure!(ok, "{path}: {body}");
        Ok(body)
    }

    pub fn is_ready(&self) -> bool {
        self.ask("/readyz").is_ok_and(|(ok, _)| ok)
    }

    /// Up to when the instants of every job that ticks are decided.
    pub fn decided_until(&self) -> Result<jiff::Timestamp> {
        let jobs = self.get("/api/v1/jobs?limit=100")?;
        let jobs = jobs["items"].as_array().context("a list")?.iter();
        let ticking = jobs.filter(|job| {
            job["name"]
                .as_str()
                .is_some_and(|n| n.starts_with("ticks-"))
        });
        let until = ticking.map(|job| job["decided_until"].as_str().unwrap_or_default().parse());
        let until: Vec<jiff::Timestamp> = until.collect::<Result<_, _>>()?;
        until.into_iter().min().context("there are such jobs")
    }

    /// When this worker's session ends unless it beats.
    pub fn expires_at(&self, name: &str) -> Result<jiff::Timestamp> {
        let workers = self.get("/api/v1/workers")?;
        let workers = workers["items"].as_array().context("a list")?;
        let worker = workers.iter().find(|worker| worker["name"] == name);
        let at = worker.and_then(|worker| worker["expires_at"].as_str());
        Ok(at.context("there is such a worker")?.parse()?)
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
pub fn is_taken(members: &Value, gone: &str) -> bool {
    let duties = members["duties"].as_array();
    duties.is_some_and(|duties| {
        let keys = duties.iter().filter_map(|duty| duty["key"].as_str());
        keys.map(|key| owner(members, key))
            .all(|owner| owner.is_some_and(|owner| owner != gone))
    })
}

/// Waits until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        ensure!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(LOOK);
    }
    Ok(())
}
