//! A server on a store of either kind, its workers, and a place for evidence.
//!
//! What a shard did is counted outside the scheduler: each attempt appends a line to a file.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::database::Database;
use crate::program::{Client, PATIENCE, Process, command_by, spawned, started, until};

/// What a server keeps its truth in.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Sqlite,
    Postgres,
}

/// Makes each claim two tests, on SQLite and on PostgreSQL, each with the scene that is named first.
macro_rules! on_both_stores {
    ($($make:ident => $($claim:ident),+);+ $(;)?) => {
        mod on_sqlite {
            use crate::scene::{Kind, Scene};
            $($(#[test]
            fn $claim() {
                super::$claim(Scene::$make(Kind::Sqlite).unwrap());
            })+)+
        }
        mod on_postgres {
            use crate::scene::{Kind, Scene};
            $($(#[test]
            fn $claim() {
                // Without PostgreSQL, which the scene has said.
                if let Some(scene) = Scene::$make(Kind::Postgres) {
                    super::$claim(scene);
                }
            })+)+
        }
    };
}
pub(crate) use on_both_stores;

/// An HTTP answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// In small letters.
    pub head: String,
    pub body: String,
    pub took: Duration,
}

/// A server with its data; the database goes last.
pub struct Scene {
    pub server: Process,
    pub client: Client,
    options: Vec<String>,
    /// Variables of its processes.
    variables: Vec<(String, String)>,
    /// If it is on PostgreSQL of its own.
    pub database: Option<Database>,
    /// Where its store is, if that is PostgreSQL.
    store: Option<String>,
    dir: tempfile::TempDir,
}

/// What every worker may run.
const CONFIG: &str = "allow_programs: [/bin/sh]\nbuiltin: true\n";

impl Scene {
    /// With the usual rhythm; `None` if it has no database.
    pub fn new(kind: Kind) -> Option<Self> {
        Self::with(kind, &[])
    }

    /// With workers that are given up after three seconds of silence.
    pub fn impatient(kind: Kind) -> Option<Self> {
        Self::with(kind, &["--beat", "1s", "--session-ttl", "3s"])
    }

    fn with(kind: Kind, more: &[&str]) -> Option<Self> {
        let database = match kind {
            Kind::Sqlite => None,
            Kind::Postgres => Some(Database::start()?),
        };
        let store = database.as_ref().map(Database::url);
        let dir = tempfile::tempdir().unwrap();
        Some(Self {
            database,
            ..Self::on(dir, store, more, Vec::new())
        })
    }

    /// On SQLite, with its data below `base`; the server is started by another program, if one is given.
    pub fn in_dir(base: &Path, by: Option<&[String]>) -> Self {
        let dir = tempfile::tempdir_in(base).unwrap();
        Self::by(by.unwrap_or_default(), dir, None, &[], Vec::new())
    }

    /// On this database.
    pub fn on_database(database: Database) -> Self {
        let store = Some(database.url());
        Self {
            database: Some(database),
            ..Self::on(tempfile::tempdir().unwrap(), store, &[], Vec::new())
        }
    }

    /// With its data below `dir`, on this store.
    pub fn on(
        dir: tempfile::TempDir,
        store: Option<String>,
        more: &[&str],
        variables: Vec<(String, String)>,
    ) -> Self {
        Self::by(&[], dir, store, more, variables)
    }

    fn by(
        by: &[String],
        dir: tempfile::TempDir,
        store: Option<String>,
        more: &[&str],
        variables: Vec<(String, String)>,
    ) -> Self {
        let data = dir.path().join("server");
        let mut options = vec!["--data".to_owned(), text(&data).to_owned()];
        options.extend(more.iter().map(|&word| word.to_owned()));
        if let Some(store) = &store {
            options.extend(["--store".to_owned(), store.clone()]);
        }
        let server = serve(by, &options, &variables, "127.0.0.1:0");
        let client = Client::new(&server.url, &data);
        Self {
            server,
            client,
            options,
            variables,
            database: None,
            store,
            dir,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The database of a scene that is on PostgreSQL.
    pub fn database(&mut self) -> &mut Database {
        self.database.as_mut().unwrap()
    }

    /// SIGKILL, and the same server again on the same port.
    pub fn kill_and_restart_server(&mut self) {
        self.server.signal(Signal::SIGKILL);
        self.server.ended();
        self.start_server_again();
    }

    /// The server, which has ended, again on the same port.
    pub fn start_server_again(&mut self) {
        let address = self.server.url.strip_prefix("http://").unwrap().to_owned();
        self.server = serve(&[], &self.options, &self.variables, &address);
    }

    /// What `/readyz` answers: its status, and why.
    pub fn ready(&self) -> (u16, String) {
        let answer = self.ask("GET", "/readyz", "");
        (answer.status, answer.body)
    }

    /// What the server answers to a request, and how long it took to.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let token = std::fs::read_to_string(self.path("server/token")).unwrap();
        let address = self.server.url.strip_prefix("http://").unwrap();
        let asked = Instant::now();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            token.trim(),
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        Answer {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
            took: asked.elapsed(),
        }
    }

    /// A worker that may start `/bin/sh`.
    pub fn worker(&self, name: &str, server: &str, slots: u32) -> Process {
        self.worker_of(name, server, &self.path(name), slots, &[])
    }

    /// A worker of this server whose configuration says `more` beside what every worker's does.
    pub fn worker_with(&self, name: &str, slots: u32, more: &str) -> Process {
        let config = self.path(&format!("{name}.yaml"));
        std::fs::write(&config, format!("{CONFIG}{more}")).unwrap();
        let (server, data) = (self.server.url.clone(), self.path(name));
        self.worker_from(&config, name, &server, &data, slots, &[])
    }

    /// The worker `w1` with its data in `data`, started by another program if one is given.
    pub fn worker_at(&self, data: &Path, slots: u32, by: Option<&[String]>) -> Process {
        self.worker_of("w1", &self.server.url, data, slots, by.unwrap_or_default())
    }

    fn worker_of(
        &self,
        name: &str,
        server: &str,
        data: &Path,
        slots: u32,
        by: &[String],
    ) -> Process {
        let config = self.path("worker.yaml");
        std::fs::write(&config, CONFIG).unwrap();
        self.worker_from(&config, name, server, data, slots, by)
    }

    fn worker_from(
        &self,
        config: &Path,
        name: &str,
        server: &str,
        data: &Path,
        slots: u32,
        by: &[String],
    ) -> Process {
        let join = self.path("server/join-token");
        let words = [
            "worker",
            "--config",
            text(config),
            "--name",
            name,
            "--server",
            server,
            "--data",
            text(data),
            "--join-token-file",
            text(&join),
            "--slots",
            &slots.to_string(),
        ];
        let mut command = command_by(by, &words);
        command.envs(self.variables.iter().cloned());
        spawned(command)
    }

    /// What `sichen doctor` finds with this server's clock.
    pub fn doctor(&self) -> String {
        let mut command = self.client.command("doctor");
        command.envs(self.variables.iter().cloned());
        crate::program::out(&command.output().unwrap())
    }

    /// Applies a job that runs `run` over `shards` shards.
    pub fn apply(&self, name: &str, run: &Value, parameters: &Value, shards: u32) {
        self.apply_spec(
            name,
            &serde_json::json!({
                "run": run, "parameters": parameters, "shards": { "count": shards },
            }),
        );
    }

    /// Applies a job.
    pub fn apply_spec(&self, name: &str, spec: &Value) {
        let document = serde_json::json!({
            "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": name }, "spec": spec,
        });
        let file = self.path(&format!("{name}.json"));
        std::fs::write(&file, document.to_string()).unwrap();
        self.client.ok(&format!("apply -f {}", text(&file)));
    }

    /// A job whose every attempt waits for the file `go`, then appends its shard to `done`.
    pub fn apply_script(&self, name: &str, shards: u32) {
        let go = self.path("go");
        let wait = format!("while [ ! -e {} ]; do sleep 0.02; done", text(&go));
        self.apply_steps(name, &wait, shards);
    }

    /// A job whose every attempt takes `first`, then appends its shard to `done`.
    pub fn apply_steps(&self, name: &str, first: &str, shards: u32) {
        let done = self.path("done");
        let script = format!("{first}; echo $SICHEN_SHARD_INDEX >> {}", text(&done));
        let argv = ["/bin/sh", "-c", &script];
        let run = serde_json::json!({ "process": { "argv": argv } });
        self.apply(name, &run, &serde_json::json!({}), shards);
    }

    pub fn go(&self) {
        std::fs::write(self.path("go"), "").unwrap();
    }

    /// Which shards were done, in order of their ends.
    pub fn done(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("done")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub fn run(&self, key: &str) -> Value {
        self.client.json(&format!("describe run {key}"))["run"].clone()
    }

    /// How many shards of a run have succeeded.
    pub fn succeeded(&self, key: &str) -> u64 {
        self.run(key)["shards"]["succeeded"].as_u64().unwrap()
    }

    pub fn settles(&self, key: &str, state: &str) {
        until(&format!("{key} is {state}"), || {
            self.run(key)["state"] == state
        });
    }

    /// The shards of a run, all of them, page by page.
    pub fn shards(&self, key: &str) -> Vec<Value> {
        self.client.json(&format!("shards {key}"))["items"]
            .as_array()
            .unwrap()
            .clone()
    }

    /// One attempt each, and a history that the checker accepts.
    pub fn each_shard_took_one_attempt(&self, key: &str) {
        for shard in self.shards(key) {
            assert_eq!(
                (&shard["state"], &shard["attempt"]),
                (&"succeeded".into(), &1.into())
            );
        }
        self.history_is_accepted();
    }

    /// The checker accepts what the server shows, and the database itself where it can be asked
    /// beside the server.
    pub fn history_is_accepted(&self) {
        self.client.ok("verify");
        if let Some(store) = &self.store {
            self.client
                .ok(&format!("verify --quiescent --store {store}"));
        }
    }

    /// Results in a worker's journal that no verdict has come for.
    pub fn unacknowledged(&self, worker: &str) -> i64 {
        let journal = self.path(worker).join("journal.db");
        let Ok(journal) = rusqlite::Connection::open(journal) else {
            return -1;
        };
        let count = "select count(*) from attempt where finish is not null";
        journal.query_row(count, [], |row| row.get(0)).unwrap_or(-1)
    }
}

fn serve(
    by: &[String],
    options: &[String],
    variables: &[(String, String)],
    address: &str,
) -> Process {
    let mut words = vec!["server", "--listen", address];
    words.extend(options.iter().map(String::as_str));
    let mut command = command_by(by, &words);
    command.envs(variables.iter().cloned());
    started(command)
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
