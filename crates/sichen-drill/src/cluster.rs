//! The processes of a drill: a server and workers, started from the program under drill.
//!
//! # Invariants
//! - Every process is a direct child, signalled by its pid while it is not yet waited for. What it
//!   started is found by descent, never by name.
//! - Whoever is to end is struck off the [`Living`] first: one of those that has ended did so by itself.
//! - Nothing outlives the [`Cluster`]: what is frozen is killed, workers' supervisors end what they
//!   hold when their worker is gone, and a process whose drill is killed ends with its standard input.
//!
//! # Not here
//! When to do what ([`crate::stage`]).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin};

use crate::error::Error;
use crate::program::command;

/// The longest that a process may take to answer, or to end when it is told to.
const LIMIT: Duration = Duration::from_secs(60);

/// Processes that nobody has told to end, by pid; whoever looks for deaths shares it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Living(Arc<Mutex<BTreeMap<i32, String>>>);

impl Living {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begins(&self, pid: Option<Pid>, name: &str) {
        if let Some(pid) = pid {
            self.lock().insert(pid.as_raw(), name.to_owned());
        }
    }

    fn is_to_end(&self, pid: Option<Pid>) {
        if let Some(pid) = pid {
            self.lock().remove(&pid.as_raw());
        }
    }

    /// Those that have ended by themselves, and how. It looks and reaps nobody, so that no pid is
    /// another's meanwhile.
    pub(crate) fn deaths(&self) -> Vec<String> {
        let looks = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let ended = |(pid, name): (&i32, &String)| match waitid(Id::Pid(Pid::from_raw(*pid)), looks)
        {
            Ok(WaitStatus::Exited(_, code)) => {
                Some(format!("{name} ended by itself: exit code {code}"))
            }
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                Some(format!("{name} ended by itself: {signal}"))
            }
            // It lives; or it is not there any more, and whoever reaped it knows why.
            _ => None,
        };
        self.lock().iter().filter_map(ended).collect()
    }
}

/// A process of a cluster.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    exe: PathBuf,
    words: Vec<OsString>,
    variables: Vec<(String, String)>,
    log: PathBuf,
    child: Option<Child>,
    living: Living,
    /// Held: it ends when this does.
    _stdin: Option<ChildStdin>,
    frozen: Vec<Pid>,
    /// Where a server is to listen, the first time.
    pub(crate) listen: String,
    /// Where a server answers.
    pub(crate) address: String,
}

impl Member {
    pub(crate) fn new(exe: &Path, name: &str, logs: &Path, living: &Living) -> Self {
        Self {
            name: name.to_owned(),
            exe: exe.to_owned(),
            words: Vec::new(),
            variables: Vec::new(),
            log: logs.join(format!("{name}.log")),
            child: None,
            living: living.clone(),
            _stdin: None,
            frozen: Vec::new(),
            listen: "127.0.0.1:0".to_owned(),
            address: String::new(),
        }
    }

    /// What comes before all words so far.
    pub(crate) fn begin_with(&mut self, words: Vec<OsString>) {
        self.words.splice(0..0, words);
    }

    pub(crate) fn words<W: Into<OsString>>(&mut self, words: impl IntoIterator<Item = W>) {
        self.words.extend(words.into_iter().map(Into::into));
    }

    pub(crate) fn variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Runs in a network namespace.
    pub(crate) fn inside(&mut self, space: &str) {
        let exe = std::mem::replace(&mut self.exe, PathBuf::from("ip"));
        let before = [
            "netns".into(),
            "exec".into(),
            space.into(),
            exe.into_os_string(),
        ];
        self.words.splice(0..0, before);
    }

    fn spawn(&mut self, more: &[OsString]) -> Result<(), Error> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&self.log);
        let log = log.map_err(|e| Error::folder(&self.log, e))?;
        let mut command = command(&self.exe);
        command
            .args(&self.words)
            .args(more)
            .arg("--until-stdin-ends")
            .envs(self.variables.iter().map(|(n, v)| (n, v)))
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut child = command.spawn().map_err(|e| Error::stage(&self.name, e))?;
        self._stdin = child.stdin.take();
        self.child = Some(child);
        self.living.begins(self.pid(), &self.name);
        Ok(())
    }

    /// Starts a worker.
    pub(crate) fn start(&mut self) -> Result<(), Error> {
        self.spawn(&[])?;
        // It says nothing there; nobody needs to read it.
        drop(self.child.as_mut().and_then(|c| c.stdout.take()));
        Ok(())
    }

    /// Starts a server, where it was before if it was, and waits until it answers. `false` if it ended
    /// instead.
    pub(crate) async fn start_server(&mut self) -> Result<bool, Error> {
        let listen = match self.address.strip_prefix("http://") {
            Some(address) => address.to_owned(),
            None => self.listen.clone(),
        };
        self.spawn(&["--listen".into(), listen.into()])?;
        let Some(out) = self.child.as_mut().and_then(|c| c.stdout.take()) else {
            return Err(Error::stage(&self.name, "its standard output is no pipe"));
        };
        let mut lines = BufReader::new(out).lines();
        let first = tokio::time::timeout(LIMIT, lines.next_line()).await;
        let first = first.map_err(|_| Error::stage(&self.name, "it did not answer within 60 s"))?;
        let first = first.ok().flatten().unwrap_or_default();
        match first.strip_prefix("ready ") {
            Some(address) => self.address = address.to_owned(),
            None => return Ok(false),
        }
        Ok(true)
    }

    fn pid(&self) -> Option<Pid> {
        let pid = self.child.as_ref()?.id()?;
        i32::try_from(pid).ok().map(Pid::from_raw)
    }

    pub(crate) fn is_up(&self) -> bool {
        self.child.is_some()
    }

    pub(crate) fn is_frozen(&self) -> bool {
        !self.frozen.is_empty()
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // It may have ended: that is seen elsewhere.
            let _ = kill(pid, signal);
        }
    }

    /// SIGKILL, and waits for its end.
    pub(crate) async fn kill(&mut self) -> Result<(), Error> {
        self.living.is_to_end(self.pid());
        self.signal(Signal::SIGKILL);
        if let Some(mut child) = self.child.take() {
            child
                .wait()
                .await
                .map_err(|e| Error::stage(&self.name, e))?;
        }
        Ok(())
    }

    /// SIGTERM, and waits for its end; how long it took, in milliseconds, and whether it ended well.
    pub(crate) async fn end(&mut self) -> Result<(u64, bool), Error> {
        let watch = crate::clock::Stopwatch::start();
        self.living.is_to_end(self.pid());
        self.signal(Signal::SIGTERM);
        let Some(mut child) = self.child.take() else {
            return Ok((0, true));
        };
        let ended = tokio::time::timeout(LIMIT, child.wait()).await;
        let Ok(ended) = ended else {
            // Dropped, it is killed.
            return Err(Error::stage(
                &self.name,
                "it did not end within 60 s of SIGTERM",
            ));
        };
        let ended = ended.map_err(|e| Error::stage(&self.name, e))?;
        Ok((watch.ms(), ended.success()))
    }

    /// SIGSTOP to it and all that descends from it, as if its machine stood still.
    pub(crate) fn freeze(&mut self) {
        let Some(pid) = self.pid() else { return };
        // Twice: a process may have forked while the first were being stopped.
        for _ in 0..2 {
            for one in family(pid) {
                if kill(one, Signal::SIGSTOP).is_ok() && !self.frozen.contains(&one) {
                    self.frozen.push(one);
                }
            }
        }
    }

    /// SIGCONT to what was frozen.
    pub(crate) fn thaw(&mut self) {
        for pid in self.frozen.drain(..) {
            // A stopped process is not reaped, so the pid is still its own.
            let _ = kill(pid, Signal::SIGCONT);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.living.is_to_end(self.pid());
        for pid in &self.frozen {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        // The process itself: `kill_on_drop`.
    }
}

/// A process and all that descends from it, itself first.
pub(crate) fn family(root: Pid) -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<i32>().ok())
        else {
            continue;
        };
        // The second field is a name in brackets, which may hold anything.
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        if let Some(parent) = after.split_whitespace().nth(1).and_then(|p| p.parse().ok()) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut family = vec![root];
    let mut next = 0;
    while let Some(pid) = family.get(next).copied() {
        let born = children.remove(&pid.as_raw()).unwrap_or_default();
        family.extend(born.into_iter().map(Pid::from_raw));
        next += 1;
    }
    family
}

/// All processes of a drill.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Of several it is drawn when a fault comes which one it is done to.
    pub(crate) servers: Vec<Member>,
    pub(crate) workers: Vec<Member>,
    pub(crate) living: Living,
}

impl Cluster {
    pub(crate) fn members(&mut self) -> impl Iterator<Item = &mut Member> {
        self.servers.iter_mut().chain(&mut self.workers)
    }

    /// Ends all in order: workers drain, then the server hands its duties over.
    pub(crate) async fn dismiss(&mut self) -> Result<(), Error> {
        for member in self.workers.iter_mut() {
            self.living.is_to_end(member.pid());
            member.signal(Signal::SIGTERM);
        }
        for member in self.members() {
            member.end().await?;
        }
        Ok(())
    }

    /// Kills all at once.
    pub(crate) async fn kill(&mut self) {
        for member in self.members() {
            member.living.is_to_end(member.pid());
            member.signal(Signal::SIGKILL);
        }
        for member in self.members() {
            // Whatever is wrong with it, it is killed again when it is dropped.
            let _ = member.kill().await;
            for pid in std::mem::take(&mut member.frozen) {
                let _ = kill(pid, Signal::SIGKILL);
            }
        }
    }
}
