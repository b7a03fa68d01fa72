//! A throwaway MariaDB server for one test: a direct child on a Unix socket, gone with it.
//!
//! No port is opened. As root the server runs as the system user `nobody`.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User};

pub struct Server {
    child: Child,
    home: tempfile::TempDir,
}

/// Starts a server; `None`, and said so, if MariaDB is left out by name.
pub fn start() -> Option<Server> {
    let sichen_testdb::MariadbPrograms { install, daemon } = sichen_testdb::mariadb()?;
    let home = tempfile::Builder::new()
        .prefix("sichen-my-")
        .tempdir_in("/tmp")
        .unwrap();
    let owner = Uid::effective().is_root().then(|| {
        User::from_name("nobody")
            .unwrap()
            .expect("root needs the user nobody")
    });
    if let Some(user) = &owner {
        chown(
            home.path(),
            Some(user.uid.as_raw()),
            Some(user.gid.as_raw()),
        )
        .unwrap();
    }
    let command = |program: &std::path::Path| {
        let mut command = Command::new(program);
        command
            .current_dir(home.path())
            .stdin(Stdio::null())
            .arg("--no-defaults");
        if let Some(user) = &owner {
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        command.arg(format!("--datadir={}", home.path().join("data").display()));
        command
    };
    let made = command(&install)
        .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "mariadb-install-db: {}{}",
        String::from_utf8_lossy(&made.stdout),
        String::from_utf8_lossy(&made.stderr)
    );
    let log = std::fs::File::create(home.path().join("log")).unwrap();
    let child = command(&daemon)
        .arg(format!("--socket={}", home.path().join("socket").display()))
        .arg(format!("--pid-file={}", home.path().join("pid").display()))
        .args(["--skip-networking", "--innodb-flush-log-at-trx-commit=0"])
        .args(["--innodb-buffer-pool-size=16M", "--skip-log-bin"])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    Some(Server { child, home })
}

impl Server {
    /// A new connection to the database `business`.
    pub async fn connect(&self) -> Conn {
        let options = OptsBuilder::default()
            .socket(Some(self.home.path().join("socket").display().to_string()))
            .user(Some("root"));
        let give_up = Instant::now() + Duration::from_secs(30);
        loop {
            match Conn::new(options.clone()).await {
                Ok(mut conn) => {
                    conn.query_drop("CREATE DATABASE IF NOT EXISTS business")
                        .await
                        .unwrap();
                    conn.query_drop("USE business").await.unwrap();
                    return conn;
                }
                Err(error) if Instant::now() > give_up => {
                    let log = std::fs::read_to_string(self.home.path().join("log"));
                    panic!("no server after 30 s: {error}\n{}", log.unwrap_or_default())
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The data are thrown away anyway.
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(pid, Signal::SIGKILL).ok();
        self.child.wait().ok();
    }
}
