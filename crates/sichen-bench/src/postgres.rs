//! A throwaway PostgreSQL: a direct child, with default durability, gone with its directory.
//!
//! # Invariants
//! - `fsync` and `synchronous_commit` are as PostgreSQL comes.
//! - As root it runs as the system user `postgres`, because it refuses to run as root.
//!
//! # Not here
//! Whose database is measured ([`crate::measure`]).

use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

/// What is set besides PostgreSQL's defaults; said in every report.
pub const SETTINGS: &[&str] = &[
    "shared_buffers=1GB",
    "max_wal_size=4GB",
    "max_connections=200",
    "shared_preload_libraries=pg_stat_statements",
];

/// A running server.
#[derive(Debug)]
pub struct Postgres {
    child: Child,
    home: TempDir,
    port: u16,
    /// Connections, ended with this.
    driven: Mutex<JoinSet<()>>,
}

impl Postgres {
    /// Starts one with its files under `place`.
    ///
    /// # Errors
    /// If PostgreSQL is not installed or does not start.
    pub async fn start(place: &Path) -> Result<Self> {
        let bin = binaries()
            .context("no PostgreSQL found: apt-get install postgresql, or name its programs' directory in SICHEN_PG_BIN")?;
        let home = tempfile::Builder::new()
            .prefix("sichen-bench-pg-")
            .tempdir_in(place)?;
        let owner = if Uid::effective().is_root() {
            User::from_name("postgres")?
        } else {
            None
        };
        if let Some(user) = &owner {
            chown(
                home.path(),
                Some(user.uid.as_raw()),
                Some(user.gid.as_raw()),
            )?;
        }
        let command = |name: &str| {
            let mut command = Command::new(bin.join(name));
            command
                .current_dir(home.path())
                .env("LC_ALL", "C")
                .stdin(Stdio::null());
            if let Some(user) = &owner {
                command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
            }
            command
        };
        let data = home.path().join("data");
        let made = command("initdb")
            .args([
                "--auth=trust",
                "--username=postgres",
                "--encoding=UTF8",
                "-D",
            ])
            .arg(&data)
            .output()?;
        if !made.status.success() {
            bail!("initdb: {}", String::from_utf8_lossy(&made.stderr));
        }
        // Free a moment ago; a second server on this port would not start, and say so.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = std::fs::File::create(home.path().join("log"))?;
        let mut server = command("postgres");
        server.arg("-D").arg(&data).arg("-k").arg(home.path());
        server.args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        for setting in SETTINGS {
            server.args(["-c", setting]);
        }
        let child = server.stdout(Stdio::null()).stderr(log).spawn()?;
        let driven = Mutex::default();
        let started = Self {
            child,
            home,
            port,
            driven,
        };
        let client = started.connect("postgres").await?;
        client
            .batch_execute("create extension pg_stat_statements")
            .await?;
        Ok(started)
    }

    /// The address of one of its databases.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// A new, empty database.
    ///
    /// # Errors
    /// What the server says.
    pub async fn create(&self, database: &str) -> Result<()> {
        let client = self.connect("postgres").await?;
        let text = format!("create database {database}");
        client.batch_execute(&text).await?;
        client.batch_execute("checkpoint").await?;
        Ok(())
    }

    /// The statements that took most of a database's time, for people.
    ///
    /// # Errors
    /// What the database says.
    pub async fn costs(&self, database: &str) -> Result<Vec<String>> {
        let text = "select calls, rows, total_exec_time, left(replace(query, e'\n', ' '), 70)
            from pg_stat_statements s join pg_database d on d.oid = s.dbid
            where d.datname = $1 and s.toplevel order by total_exec_time desc limit 25";
        let client = self.connect("postgres").await?;
        let rows = client.query(text, &[&database]).await?;
        let line = |row: &tokio_postgres::Row| {
            let (calls, found, ms): (i64, i64, f64) = (row.get(0), row.get(1), row.get(2));
            let text: String = row.get(3);
            format!("{ms:>9.1} ms {calls:>8} calls {found:>8} rows  {text}")
        };
        Ok(rows.iter().map(line).collect())
    }

    /// Removes a database.
    ///
    /// # Errors
    /// What the server says.
    pub async fn drop_database(&self, database: &str) -> Result<()> {
        let client = self.connect("postgres").await?;
        let text = format!("drop database {database} with (force)");
        Ok(client.batch_execute(&text).await?)
    }

    /// A connection, driven in the background until the client is dropped.
    ///
    /// # Errors
    /// If the server does not answer within half a minute.
    pub async fn connect(&self, database: &str) -> Result<Client> {
        let url = self.url(database);
        for _ in 0..600 {
            if let Ok((client, connection)) = tokio_postgres::connect(&url, NoTls).await {
                let mut driven = self.driven.lock().unwrap_or_else(PoisonError::into_inner);
                driven.spawn(async move {
                    // It ends with its client; what broke is told to whoever asks next.
                    let _ = connection.await;
                });
                return Ok(client);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let log = std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default();
        bail!("PostgreSQL did not start:\n{log}")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGQUIT ends it at once; its files are thrown away anyway.
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGQUIT);
        }
        let _ = self.child.wait();
    }
}

fn binaries() -> Option<PathBuf> {
    let from_env = std::env::var_os("SICHEN_PG_BIN").map(PathBuf::from);
    let debian = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).collect::<Vec<_>>();
    from_env
        .into_iter()
        .chain(debian)
        .chain(on_path)
        .find(|bin| bin.join("initdb").is_file() && bin.join("postgres").is_file())
}
