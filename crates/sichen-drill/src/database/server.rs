//! A PostgreSQL server of the drill's own, to be killed and frozen.
//!
//! # Invariants
//! - Its processes are found by descent from the one that was started here, and reaped here, so that a
//!   start never meets a dead process's lock file.
//! - It comes back on the port that it had. It and its files are gone with the handle.
//!
//! # Not here
//! Anything in it ([`super`]).

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use tokio::process::{Child, Command};

use crate::clock::Stopwatch;
use crate::cluster::family;
use crate::error::Error;

/// Names the directory of the server's programs, where they are not found by themselves.
const PROGRAMS_VARIABLE: &str = "SICHEN_DRILL_PG_BIN";
/// The longest that a start may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    programs: PathBuf,
    dir: tempfile::TempDir,
    port: u16,
    child: Option<Child>,
    frozen: Vec<Pid>,
}

/// Where `postgres` and `initdb` are, where they may be run.
pub(crate) fn programs() -> Result<PathBuf, Error> {
    if geteuid().is_root() {
        postgres()?;
    }
    found().ok_or_else(|| {
        Error::Refused(format!(
            "this drill needs PostgreSQL: give `--store postgres://USER@HOST/DATABASE`, where it uses \
             a schema of its own, or install the programs of a server (Debian, Ubuntu: apt-get \
             install postgresql), which it starts for itself, or name their directory in \
             {PROGRAMS_VARIABLE}"
        ))
    })
}

/// Who runs it where root drills.
fn postgres() -> Result<User, Error> {
    let none = || {
        Error::Refused(
            "there is no user `postgres`, and root may not run a PostgreSQL server".into(),
        )
    };
    User::from_name("postgres").ok().flatten().ok_or_else(none)
}

fn found() -> Option<PathBuf> {
    let named = std::env::var_os(PROGRAMS_VARIABLE).map(PathBuf::from);
    let debian = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let mut debian: Vec<PathBuf> = debian.map(|e| e.path().join("bin")).collect();
    debian.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = named
        .into_iter()
        .chain(debian.into_iter().rev())
        .chain(std::env::split_paths(&path));
    all.into_iter()
        .find(|dir| dir.join("initdb").is_file() && dir.join("postgres").is_file())
}

impl Server {
    /// A new server on a free port.
    pub(crate) async fn start() -> Result<Self, Error> {
        let programs = programs()?;
        let failed = |e: std::io::Error| Error::stage("a PostgreSQL server", e);
        let dir = tempfile::Builder::new()
            .prefix("sichen-drill-pg-")
            .tempdir()
            .map_err(failed)?;
        if geteuid().is_root() {
            let user = postgres()?;
            chown(dir.path(), Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(failed)?;
        }
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755))
            .map_err(failed)?;
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let port = free.map_err(failed)?.port();
        let mut server = Self {
            programs,
            dir,
            port,
            child: None,
            frozen: Vec::new(),
        };
        let made = server
            .command("initdb")
            .args([
                "--no-sync",
                "--auth=trust",
                "--username=postgres",
                "--encoding=UTF8",
                "--locale=C",
            ])
            .arg("--pgdata")
            .arg(server.data())
            .output()
            .await
            .map_err(failed)?;
        if !made.status.success() {
            return Err(Error::stage(
                "initdb",
                String::from_utf8_lossy(&made.stderr).trim(),
            ));
        }
        server.start_again().await?;
        Ok(server)
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Its log.
    pub(crate) fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = if Path::new("/usr/bin/setpriv").exists() {
            let mut command = Command::new("setpriv");
            if geteuid().is_root() {
                command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
            }
            // The server's own word for "at once", if the drill is killed.
            command.arg("--pdeathsig=QUIT").arg("--").arg(program);
            command
        } else {
            Command::new(program)
        };
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("PG"))
        {
            command.env_remove(name);
        }
        command
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .current_dir(self.dir.path())
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// Starts it on its data.
    pub(crate) async fn start_again(&mut self) -> Result<(), Error> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.log());
        let log = log.map_err(|e| Error::stage("the database's log", e))?;
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        let settings = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", self.port),
            format!("unix_socket_directories={}", self.dir.path().display()),
            // What it commits outlives its processes; the machine is not made to fail.
            "fsync=on".to_owned(),
            "max_connections=60".to_owned(),
            "shared_buffers=64MB".to_owned(),
            "deadlock_timeout=200ms".to_owned(),
            // What takes long between two looks of the watch is in its log.
            "log_min_duration_statement=100".to_owned(),
            "log_line_prefix=%m [%p] %a ".to_owned(),
            "log_parameter_max_length=0".to_owned(),
        ];
        for setting in &settings {
            command.args(["-c", setting]);
        }
        let child = command.stdout(Stdio::null()).stderr(log).spawn();
        self.child = Some(child.map_err(|e| Error::stage("a PostgreSQL server", e))?);
        let watch = Stopwatch::start();
        while !self.is_ready() {
            if watch.is_past(LIMIT) {
                let log = std::fs::read_to_string(self.log()).unwrap_or_default();
                return Err(Error::stage("the database did not start", log));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    fn pid(&self) -> Option<Pid> {
        let pid = self.child.as_ref()?.id()?;
        i32::try_from(pid).ok().map(Pid::from_raw)
    }

    /// Whether its lock file says that this very process takes connections.
    fn is_ready(&self) -> bool {
        let text = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        let holder = lines
            .next()
            .and_then(|line| line.parse().ok())
            .map(Pid::from_raw);
        holder.is_some() && holder == self.pid() && lines.nth(6) == Some("ready")
    }

    /// SIGKILL to all its processes.
    pub(crate) async fn crash(&mut self) -> Result<(), Error> {
        self.signal(Signal::SIGKILL);
        if let Some(mut child) = self.child.take() {
            child
                .wait()
                .await
                .map_err(|e| Error::stage("a PostgreSQL server", e))?;
        }
        // Its backends have lost their parent; what is left of its shared memory goes with them.
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(())
    }

    /// SIGSTOP to all its processes.
    pub(crate) fn freeze(&mut self) {
        if let Some(pid) = self.pid() {
            self.frozen = family(pid);
            self.signal(Signal::SIGSTOP);
        }
    }

    /// SIGCONT.
    pub(crate) fn thaw(&mut self) {
        for pid in self.frozen.drain(..) {
            // Stopped, it is not reaped.
            let _ = kill(pid, Signal::SIGCONT);
        }
    }

    fn signal(&self, signal: Signal) {
        for pid in self.pid().map(family).unwrap_or_default() {
            // It may have ended meanwhile.
            let _ = kill(pid, signal);
        }
    }
}

impl Drop for Server {
    /// Its own word for "at once", so that it takes its shared memory with it.
    #[expect(
        clippy::disallowed_methods,
        reason = "the end of a process is waited for, a short while"
    )]
    fn drop(&mut self) {
        self.thaw();
        let Some(pid) = self.pid() else { return };
        let _ = kill(pid, Signal::SIGQUIT);
        for _ in 0..100 {
            match self.child.as_mut().map(Child::try_wait) {
                Some(Ok(None)) => std::thread::sleep(Duration::from_millis(20)),
                _ => return,
            }
        }
        self.signal(Signal::SIGKILL);
    }
}
