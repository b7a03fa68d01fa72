//! A throwaway PostgreSQL under a real server, and what can befall it.
//!
//! # Invariants
//! - Harm is done from outside, as an operator or a foreign program would: nothing here knows the
//!   store's tables but those that it is told to lock.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sichen_testdb::pgbouncer::{self, Pgbouncer};
use sichen_testdb::postgres;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

/// One PostgreSQL for one scene.
#[derive(Debug)]
pub struct Database {
    server: postgres::Server,
}

impl Database {
    /// A new one, which keeps what it commits; `None`, and said so, if it is left out by name.
    pub fn start() -> Option<Self> {
        let options = postgres::Options {
            durable: true,
            port: true,
            ..postgres::Options::default()
        };
        let server = postgres::Server::start(options)?;
        Some(Self { server })
    }

    /// One whose files are below `base`, and that flushes them or not.
    pub fn start_in(base: &Path, durable: bool) -> Option<Self> {
        let options = postgres::Options {
            durable,
            port: true,
            ..postgres::Options::default()
        };
        let server = postgres::Server::start_in(options, base)?;
        Some(Self { server })
    }

    /// A copy of its files, taken while it runs, that begins as `begins_as` says ([`postgres::Server::copied`]); not
    /// started yet.
    pub fn copied(&self, settings: &str, begins_as: &str) -> Self {
        let server = self.server.copied(settings, begins_as);
        Self { server }
    }

    /// Starts a copy for the first time.
    pub fn start_copy(&mut self) {
        self.server.start_copy();
    }

    /// Settings that it has from its next start on ([`postgres::Server::tell`]).
    pub fn tell(&self, settings: &str) {
        self.server.tell(settings);
    }

    /// Where its files are, and where it may write.
    pub fn dir(&self) -> &Path {
        self.server.socket_dir()
    }

    /// Its processes.
    pub fn processes(&self) -> Vec<u32> {
        self.server.processes()
    }

    /// What it has said.
    pub fn log(&self) -> String {
        self.server.log()
    }

    /// In order: it ends its sessions and flushes.
    pub fn stop_in_order(&mut self) {
        self.server.stop_in_order();
    }

    /// A standby takes over: from now on it takes writes.
    pub fn promote(&self) {
        self.connect().execute("select pg_promote()");
    }

    /// Its disk loses its power ([`postgres::Server::lose_power`]).
    pub fn lose_power(&mut self, cut: impl FnOnce(&Path) -> PathBuf) {
        self.server.lose_power(cut);
    }

    /// Again, where it was, if it has ended by itself.
    pub fn start_if_dead(&mut self) {
        if self.server.has_died() {
            self.server.start_again();
        }
    }

    /// Where a program finds it.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Where a program finds another database of its server.
    pub fn url_of(&self, name: &str) -> String {
        format!(
            "postgres://postgres@127.0.0.1:{}/{name}",
            self.server.port()
        )
    }

    /// Where it listens, `HOST:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.server.port())
    }

    /// Where a program finds it by way of `address`.
    pub fn url_at(&self, address: &str) -> String {
        format!("postgres://postgres@{address}/postgres")
    }

    /// A pooler in transaction mode before it, and where a program finds the schema `s0` through that;
    /// `None`, and said so, if pgbouncer is left out by name.
    pub fn pooler(&self) -> Option<(Pgbouncer, String)> {
        let pooler = Pgbouncer::start(&self.server, 4, "")?;
        self.connect().execute("create schema s0");
        let (dir, port) = (self.server.socket_dir().display(), pgbouncer::PORT);
        let url = format!("postgres://postgres@/s0?host={dir}&port={port}");
        Some((pooler, url))
    }

    /// A pooler that was stopped, again.
    pub fn run_pooler(&self, pooler: &mut Pgbouncer) {
        pooler.run(&self.server);
    }

    /// A connection of one's own.
    pub fn connect(&self) -> Session {
        self.connect_to("postgres")
    }

    /// A connection of one's own to another database of the server.
    pub fn connect_to(&self, name: &str) -> Session {
        let url = self.url_of(name);
        let client = runtime().block_on(async {
            let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
            // Ends with the client.
            runtime().spawn(connection);
            client
        });
        Session { client }
    }

    /// Whether somebody waits for what a session holds.
    pub fn is_waited_for(&self, session: &Session) -> bool {
        let holder = session.number("pg_backend_pid()");
        let query = format!(
            "select count(*) from pg_stat_activity where {holder} = any(pg_blocking_pids(pid))"
        );
        self.connect().number(&query) > 0
    }

    /// Runs a program of PostgreSQL's own, such as `pg_dump`, with these words; files without a path are the
    /// server's.
    pub fn run(&self, program: &str, words: &[&str]) {
        let mut command = self.server.command(program);
        let output = command.args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {words:?}: {said}");
    }

    /// As a crash would end it.
    pub fn stop_at_once(&mut self) {
        self.server.stop_at_once();
    }

    /// Again, where it was.
    pub fn start_again(&mut self) {
        self.server.start_again();
    }

    /// SIGKILL to a backend that serves the scheduler: PostgreSQL throws all sessions out and
    /// recovers.
    pub fn kill_a_backend(&self) {
        let query = "select pid from pg_stat_activity \
                     where application_name = 'sichen' order by backend_start limit 1";
        let pid = self.connect().number(query);
        self.server.kill_backend(i32::try_from(pid).unwrap());
    }

    /// Ends every session of the scheduler; how many there were.
    pub fn terminate_all_sessions(&self) -> i64 {
        let query = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                     where application_name = 'sichen'";
        self.connect().number(query)
    }
}

/// A foreign program's session; what it holds it holds until it goes.
pub struct Session {
    client: Client,
}

impl Session {
    /// Carries out statements.
    pub fn execute(&self, statements: &str) {
        let done = runtime().block_on(self.client.batch_execute(statements));
        done.unwrap_or_else(|e| panic!("{statements}: {e:?}"));
    }

    /// The one number that a query answers with.
    pub fn number(&self, query: &str) -> i64 {
        let query = format!("select ({query})::bigint");
        let row = runtime().block_on(self.client.query_one(&query, &[]));
        row.unwrap_or_else(|e| panic!("{query}: {e:?}")).get(0)
    }
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    })
}
