//! A throwaway PostgreSQL server for one test: a direct child on a Unix socket, gone with it.
//!
//! No port is opened. As root the server runs as the system user `postgres`, because it refuses to
//! run as root.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User};

pub struct Server {
    child: Child,
    home: tempfile::TempDir,
}

/// Starts a server, or says on stderr what is not tested where PostgreSQL is not installed.
///
/// With `CI=true` a missing installation fails the test: there it must be present.
pub fn start(subject: &str) -> Option<Server> {
    let Some(bin) = binaries() else {
        let missing = format!("NOT TESTED: {subject} (no PostgreSQL server binaries found)");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{missing}");
        #[allow(clippy::print_stderr)]
        {
            eprintln!("{missing}");
        }
        return None;
    };
    let home = tempfile::Builder::new()
        .prefix("sichen-pg-")
        .tempdir_in("/tmp")
        .unwrap();
    let owner = Uid::effective().is_root().then(|| {
        User::from_name("postgres")
            .unwrap()
            .expect("root needs the user postgres")
    });
    if let Some(user) = &owner {
        chown(
            home.path(),
            Some(user.uid.as_raw()),
            Some(user.gid.as_raw()),
        )
        .unwrap();
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
            "--no-sync",
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "-D",
        ])
        .arg(&data)
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "initdb: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    let log = std::fs::File::create(home.path().join("log")).unwrap();
    let child = command("postgres")
        .arg("-D")
        .arg(&data)
        .arg("-k")
        .arg(home.path())
        .args([
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
            "-c",
            "shared_buffers=16MB",
        ])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    Some(Server { child, home })
}

impl Server {
    /// A new connection, driven in the background until the client is dropped.
    pub async fn connect(&self) -> tokio_postgres::Client {
        let mut config = tokio_postgres::Config::new();
        config
            .host_path(self.home.path())
            .user("postgres")
            .dbname("postgres");
        let give_up = Instant::now() + Duration::from_secs(30);
        loop {
            match config.connect(tokio_postgres::NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    return client;
                }
                Err(error) if Instant::now() > give_up => {
                    panic!(
                        "no server after 30 s: {error}\n{}",
                        log_of(self.home.path())
                    )
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGQUIT ends at once; the data are thrown away anyway.
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        kill(pid, Signal::SIGQUIT).ok();
        self.child.wait().ok();
    }
}

fn log_of(home: &Path) -> String {
    std::fs::read_to_string(home.join("log")).unwrap_or_default()
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
