//! A throwaway PostgreSQL: its files in memory where there is room, run as the user `postgres` when
//! the test is root, since the server refuses to be root.
//!
//! # Invariants
//! - The server is a direct child of the test, and reaped by it: a restart never meets a dead
//!   process's lock file.
//! - A server that ran on a port comes back on the same port.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::statvfs::statvfs;
use nix::unistd::{Pid, User, geteuid};

use crate::programs::postgres_programs;

/// The longest that a start may take; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a memory file system must have free to be used: a container's own may be tiny.
const ROOM_BYTES: u64 = 1 << 30;
/// Of the directories, followed by the pid of the test.
const PREFIX: &str = "sichen-pg-";

/// What kind of server a test wants.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether it keeps what it has committed when the machine dies; else it is quicker on a disk.
    pub durable: bool,
    /// Whether it listens on a port of 127.0.0.1 too, not only on its socket.
    pub port: bool,
    /// Connections at most.
    pub connections: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            durable: false,
            port: false,
            connections: 60,
        }
    }
}

/// A running server, or a stopped one that keeps its data; both are gone with this.
#[derive(Debug)]
pub struct Server {
    programs: PathBuf,
    options: Options,
    /// Its files, its socket and its log.
    dir: PathBuf,
    /// Taken away with it.
    _kept: tempfile::TempDir,
    port: Option<u16>,
    child: Option<Child>,
}

impl Server {
    /// A new, empty server; `None`, and said so, if PostgreSQL is left out by name.
    pub fn start(options: Options) -> Option<Self> {
        let base = base();
        sweep(&base);
        Self::start_with(options, &base, &[])
    }

    /// The same with its files below `base`, a small disk: its log comes in small pieces.
    pub fn start_in(options: Options, base: &Path) -> Option<Self> {
        Self::start_with(options, base, &["--wal-segsize=1"])
    }

    fn start_with(options: Options, base: &Path, more: &[&str]) -> Option<Self> {
        let mut server = Self::beside(postgres_programs()?, options, base);
        let made = server
            .command("initdb")
            .args(["--auth=trust", "--username=postgres"])
            // Without it a cut of the power would leave nothing of the new files.
            .args((!options.durable).then_some("--no-sync"))
            .args(more)
            .args(["--encoding=UTF8", "--locale=C", "--pgdata"])
            .arg(server.data())
            .output()
            .expect("initdb starts");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "initdb: {said}");
        server.start_first();
        Some(server)
    }

    /// An empty directory of its own below `base`, which the user that runs it may write in.
    fn beside(programs: PathBuf, options: Options, base: &Path) -> Self {
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let dir = tempfile::Builder::new().prefix(&prefix).tempdir_in(base);
        let dir = dir.unwrap_or_else(|e| panic!("a directory in {}: {e}", base.display()));
        if geteuid().is_root() {
            let user = User::from_name("postgres").expect("users are known");
            let user = user.expect("there is a user postgres, since root may not run the server");
            let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
            chown(dir.path(), Some(uid), Some(gid)).expect("root may");
        }
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).expect("it is this process's");
        Server {
            programs,
            options,
            dir: dir.path().to_owned(),
            _kept: dir,
            port: None,
            child: None,
        }
    }

    /// A copy of its files, taken while it runs (`pg_basebackup`): a server of its own, which was not started yet.
    /// `settings` are lines that it reads, `begins_as` the name of the file that says how it begins, such as
    /// `standby.signal`.
    ///
    /// # Panics
    /// If it is not running.
    pub fn copied(&self, settings: &str, begins_as: &str) -> Self {
        let base = self.dir.parent().expect("it is below another");
        let copy = Self::beside(self.programs.clone(), self.options, base);
        let made = self
            .command("pg_basebackup")
            .args(["--checkpoint=fast", "--username=postgres", "--pgdata"])
            .arg(copy.data())
            .arg("--host")
            .arg(&self.dir)
            .args(["--port", &self.socket_port().to_string()])
            .output()
            .expect("pg_basebackup starts");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "pg_basebackup: {said}");
        copy.tell(settings);
        std::fs::write(copy.data().join(begins_as), "").expect("a file");
        copy
    }

    /// Lines of settings that it reads at its next start.
    ///
    /// # Panics
    /// If they can't be written.
    pub fn tell(&self, settings: &str) {
        let file = std::fs::File::options()
            .append(true)
            .open(self.data().join("postgresql.auto.conf"));
        let written = file.and_then(|mut file| writeln!(file, "{settings}"));
        written.expect("it is this server's");
    }

    /// Starts a copy for the first time.
    ///
    /// # Panics
    /// If it is running, or does not start.
    pub fn start_copy(&mut self) {
        assert!(self.child.is_none(), "it is running");
        self.start_first();
    }

    /// Its processes: the first, and those that it has started.
    ///
    /// # Panics
    /// If it is not running.
    pub fn processes(&self) -> Vec<u32> {
        let first = self.child.as_ref().expect("it is running").id();
        std::iter::once(first).chain(children(first)).collect()
    }

    /// Finds a free port, if one is wanted. Another process may take it before the server does.
    fn start_first(&mut self) {
        for _ in 0..5 {
            if self.options.port {
                let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
                self.port = Some(free.expect("a free port").port());
            }
            if self.comes_up() {
                return;
            }
        }
        panic!("the server does not start:\n{}", self.log());
    }

    /// Starts it again where it was.
    ///
    /// # Panics
    /// If it is running, or does not start.
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "it is running");
        assert!(self.comes_up(), "it does not start:\n{}", self.log());
    }

    /// All of its processes are stopped where they are and `cut` cuts the power of their disk; what that has
    /// left, at the place that `cut` returns, is started again on the same port.
    ///
    /// # Panics
    /// If it is not running, or does not start again.
    pub fn lose_power(&mut self, cut: impl FnOnce(&Path) -> PathBuf) {
        let mut child = self.child.take().expect("it is running");
        let all = || {
            let mut pids = children(child.id());
            pids.push(child.id());
            pids
        };
        let all_of = |signal| {
            for pid in all() {
                // A backend may end by itself.
                let _ = kill(Pid::from_raw(i32::try_from(pid).expect("a pid")), signal);
            }
        };
        all_of(Signal::SIGSTOP);
        let place = cut(&self.dir);
        all_of(Signal::SIGKILL);
        child.wait().expect("it ends");
        self.dir = place;
        assert!(self.comes_up(), "it does not start again:\n{}", self.log());
    }

    /// Whether it has ended by itself; then it may be started again.
    pub fn has_died(&mut self) -> bool {
        let child = self.child.as_mut();
        let died = child.is_some_and(|child| child.try_wait().expect("it is a child").is_some());
        if died {
            self.child = None;
        }
        died
    }

    fn comes_up(&mut self) -> bool {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("log"));
        let on = |yes: bool| if yes { "on" } else { "off" };
        let durable = on(self.options.durable);
        let listen = if self.port.is_some() { "127.0.0.1" } else { "" };
        let settings = [
            format!("listen_addresses={listen}"),
            format!("port={}", self.socket_port()),
            format!("unix_socket_directories={}", self.dir.display()),
            format!("fsync={durable}"),
            format!("full_page_writes={durable}"),
            format!("max_connections={}", self.options.connections),
            "shared_buffers=64MB".to_owned(),
        ];
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        for setting in &settings {
            command.args(["-c", setting]);
        }
        let child = command
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        let mut child = child.expect("the server starts");
        let pid = child.id();
        let mut has_ended = || child.try_wait().expect("it is a child").is_some();
        let in_time = until(|| has_ended() || self.is_ready(pid));
        assert!(in_time, "no server in time:\n{}", self.log());
        let runs = !has_ended();
        self.child = runs.then_some(child);
        runs
    }

    /// Whether its lock file says that this very process takes connections, if only to read.
    fn is_ready(&self, pid: u32) -> bool {
        let text = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        let holder = lines.next().and_then(|line| line.parse().ok());
        let state = lines.nth(6);
        holder == Some(pid) && matches!(state, Some("ready" | "standby"))
    }

    /// A program of the server's, as a user who may run it and write in [`Server::socket_dir`]; it ends with this
    /// thread of the test.
    pub fn command(&self, program: &str) -> Command {
        self.command_of(&self.programs.join(program))
    }

    /// As [`Server::command`], of any program.
    pub(crate) fn command_of(&self, program: &Path) -> Command {
        let mut command = if cfg!(target_os = "linux") {
            let mut command = Command::new("setpriv");
            if geteuid().is_root() {
                command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
            }
            // The server's own word for "at once": it takes its shared memory with it.
            command.arg("--pdeathsig=QUIT").arg("--").arg(program);
            command
        } else {
            Command::new(program)
        };
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PG") {
                command.env_remove(name);
            }
        }
        command.env("LC_ALL", "C").stdin(Stdio::null());
        command.current_dir(&self.dir);
        command
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The directory of its socket.
    pub fn socket_dir(&self) -> &Path {
        &self.dir
    }

    /// The number in its socket's name.
    pub fn socket_port(&self) -> u16 {
        self.port.unwrap_or(5432)
    }

    /// The port on which it listens.
    ///
    /// # Panics
    /// If it was asked for none.
    pub fn port(&self) -> u16 {
        self.port.expect("it was started with a port")
    }

    /// What it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Stops it as a crash would (`immediate`), and waits for its end.
    pub fn stop_at_once(&mut self) {
        self.end(Signal::SIGQUIT);
    }

    /// Stops it in order (`fast`): sessions are ended, nothing needs to be recovered.
    pub fn stop_in_order(&mut self) {
        self.end(Signal::SIGINT);
    }

    fn end(&mut self, signal: Signal) {
        if let Some(mut child) = self.child.take() {
            kill(pid_of(&child), signal).expect("it is a child of this process");
            child.wait().expect("it ends");
        }
    }

    /// SIGKILL to one of its backends: the server ends all sessions and recovers, as after a crash.
    pub fn kill_backend(&self, pid: i32) {
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is a backend of this server");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_at_once();
    }
}

pub(crate) fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().try_into().expect("a pid is small"))
}

/// In memory where there is room.
fn base() -> PathBuf {
    let memory = Path::new("/dev/shm");
    #[allow(clippy::useless_conversion, reason = "of another width elsewhere")]
    let free = |stat: nix::sys::statvfs::Statvfs| {
        u64::from(stat.blocks_available()).saturating_mul(stat.fragment_size().into())
    };
    if statvfs(memory).is_ok_and(|stat| free(stat) >= ROOM_BYTES) {
        memory.to_owned()
    } else {
        // Not TMPDIR, which may be too long for a socket's path.
        PathBuf::from("/tmp")
    }
}

/// Removes what tests that were killed have left.
fn sweep(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| {
            let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
            pid.parse().ok()
        });
        if let Some(pid) = pid
            && kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH)
        {
            // Another test may be at it too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Waits until it is so; `false` if it is not in time.
#[expect(
    clippy::disallowed_methods,
    reason = "a real process is waited for in real time"
)]
pub(crate) fn until(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Pids of the processes whose parent is `parent`.
fn children(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok());
        let Some(pid) = pid else { continue };
        // The second field is a name in brackets, which may hold anything.
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        let of = after
            .split_whitespace()
            .nth(1)
            .and_then(|field| field.parse().ok());
        if of == Some(parent) {
            found.push(pid);
        }
    }
    found
}
