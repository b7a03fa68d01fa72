//! A throwaway server: a direct child of the test, its files in memory, gone with the test.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown, geteuid};
use sichen_store::clock::Clock;
use sichen_store::postgres::{Options, PostgresStore};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

const MISSING: &str = "no PostgreSQL server found: install one (Debian, Ubuntu: apt-get install \
                       postgresql; Fedora: dnf install postgresql-server), version 14 or newer, or \
                       name the directory of its programs in SICHEN_TEST_PG_BIN";

/// The runtime of all calls; tests themselves have none.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime starts")
    })
}

/// The directory of the newest server's programs.
fn programs() -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os("SICHEN_TEST_PG_BIN") {
        return Some(PathBuf::from(dir));
    }
    let version = |dir: &Path| -> Option<u32> { dir.file_name()?.to_str()?.parse().ok() };
    let debian = std::fs::read_dir("/usr/lib/postgresql").ok();
    let mut found: Vec<PathBuf> = debian
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|dir| version(dir).is_some_and(|v| v >= 14))
        .filter(|dir| dir.join("bin/postgres").exists())
        .collect();
    found.sort_by_key(|dir| version(dir));
    let in_path = || {
        std::env::split_paths(&std::env::var_os("PATH")?)
            .find(|dir| dir.join("postgres").exists() && dir.join("initdb").exists())
    };
    found.pop().map(|dir| dir.join("bin")).or_else(in_path)
}

pub struct Server {
    programs: PathBuf,
    dir: tempfile::TempDir,
    child: Option<Child>,
    schemas: AtomicU32,
}

impl Server {
    /// A new, empty server; `None`, and said so, if none is installed (an error where `CI` is set).
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            assert!(std::env::var_os("CI").is_none(), "{MISSING}");
            eprintln!("NOT TESTED: {MISSING}");
            return None;
        };
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        let dir = dir.expect("a directory");
        if geteuid().is_root() {
            let user = User::from_name("postgres")
                .expect("users are known")
                .expect("there is a user postgres, since root may not run the server");
            chown(dir.path(), Some(user.uid), Some(user.gid)).expect("root may");
            let open = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(dir.path(), open).expect("root may");
        }
        let mut server = Self {
            programs,
            dir,
            child: None,
            schemas: AtomicU32::new(0),
        };
        let made = server
            .command("initdb")
            .args(["--no-sync", "--auth=trust", "--username=postgres"])
            .args(["--encoding=UTF8", "--locale=C", "--pgdata"])
            .arg(server.dir.path().join("data"))
            .stdout(Stdio::null())
            .status()
            .expect("initdb starts");
        assert!(made.success(), "initdb: {made}");
        server.run();
        Some(server)
    }

    /// A program of the server's, as a user who may run it; it ends with this process.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        if geteuid().is_root() {
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        }
        command
            .arg("--pdeathsig=KILL")
            .arg("--")
            .arg(self.programs.join(program))
            .current_dir("/");
        command
    }

    /// Starts the server and waits until it answers.
    pub fn run(&mut self) {
        let log = std::fs::File::create(self.dir.path().join("log")).expect("a log");
        let dir = self.dir.path().display();
        let child = self
            .command("postgres")
            .arg("-D")
            .arg(self.dir.path().join("data"))
            .arg("-k")
            .arg(self.dir.path())
            .args([
                "-c",
                "listen_addresses=",
                "-c",
                "fsync=off",
                "-c",
                "shared_buffers=64MB",
            ])
            .args(["-c", "full_page_writes=off", "-c", "max_connections=60"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        self.child = Some(child);
        let url = self.url("public");
        let answers = runtime().block_on(async {
            let answers = async {
                while tokio_postgres::connect(&url, NoTls).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(60), answers).await
        });
        assert!(answers.is_ok(), "no answer within 60 s; see {dir}/log");
    }

    /// Stops the server at once, as a crash would, and waits for its end.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let pid = Pid::from_raw(child.id().try_into().expect("a pid is small"));
            kill(pid, Signal::SIGQUIT).expect("it is a child of this process");
            child.wait().expect("it ends");
        }
    }

    pub fn url(&self, schema: &str) -> String {
        format!(
            "host={} user=postgres dbname=postgres options='-c search_path={schema}'",
            self.dir.path().display()
        )
    }

    /// The name of a new, empty schema.
    pub fn new_schema(&self) -> String {
        let n = self.schemas.fetch_add(1, Ordering::SeqCst);
        let name = format!("s{n}");
        self.execute("public", &format!("create schema {name}"));
        name
    }

    /// A store in `schema`.
    pub fn open(&self, schema: &str, clock: Option<Arc<dyn Clock>>) -> PostgresStore {
        let options = Options {
            clock,
            unsafe_durability: true,
            connections: 4,
            ..Options::default()
        };
        let opened = runtime().block_on(PostgresStore::open(&self.url(schema), options));
        opened.expect("it opens")
    }

    /// A connection of one's own.
    pub fn connect(&self, schema: &str) -> Client {
        runtime().block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.url(schema), NoTls)
                .await
                .expect("it connects");
            runtime().spawn(connection);
            client
        })
    }

    pub fn execute(&self, schema: &str, statement: &str) {
        let client = self.connect(schema);
        let done = runtime().block_on(client.batch_execute(statement));
        done.unwrap_or_else(|e| panic!("{statement}\n{e:?}"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
