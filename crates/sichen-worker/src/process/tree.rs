//! A process and all its descendants: find, signal, prove dead.
//!
//! With cgroup v2 the kernel knows the tree, also what daemonised. Without it the tree is the
//! process group and whatever carries the attempt's mark in its environment; a program that
//! clears its environment *and* leaves its group escapes, which the worker says at its start.
//!
//! # Invariants
//! - The main process is not reaped before the tree is dead, so its number, which is also the
//!   group's, can't name anybody else.

use std::fs::{self, File, OpenOptions};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::{LOOK_EVERY, thread};
use crate::Error;
use crate::clock::boot_ms;

/// How long strangers of an earlier incarnation may take to die.
const SWEEP_WITHIN_MS: u64 = 10_000;

/// How trees are held together on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Containment {
    /// The worker's own directory of cgroup v2, below that of the worker itself.
    root: Option<PathBuf>,
}

impl Containment {
    /// cgroup v2 if it can be written here, else process groups and marks.
    pub(crate) fn detect(worker_uid: &str) -> Containment {
        let own = own_cgroup();
        own.as_deref().into_iter().for_each(remove_empty_roots);
        let root = own.map(|own| own.join(format!("sichen-{worker_uid}")));
        let root = root.filter(|root| match fs::create_dir(root) {
            Ok(()) => root.join("cgroup.kill").exists(),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                root.join("cgroup.kill").exists()
            }
            Err(_) => false,
        });
        match &root {
            Some(root) => {
                tracing::info!(root = %root.display(), "processes are contained by cgroup v2")
            }
            None => tracing::warn!(
                "cgroup v2 is not writable: processes are contained by process group and environment mark; \
                 a program that escapes both outlives its attempt"
            ),
        }
        Containment { root }
    }

    /// A new, empty leaf.
    pub(super) fn leaf(&self, lease: &str) -> io::Result<Option<Leaf>> {
        let Some(root) = &self.root else {
            return Ok(None);
        };
        let path = root.join(lease);
        // The root may have gone while it was empty, see `remove_empty_roots`; twice is bad luck.
        fs::create_dir_all(&path).or_else(|_| fs::create_dir_all(&path))?;
        Ok(Some(Leaf { path }))
    }

    /// Leaves nothing behind if nothing runs. Another worker's start makes it again.
    pub(super) fn remove_if_empty(&self) {
        if let Some(root) = &self.root {
            let _ = fs::remove_dir(root);
        }
    }

    #[cfg(test)]
    pub(crate) fn without_cgroup() -> Containment {
        Containment { root: None }
    }
}

/// Workers that were killed leave their roots. One that holds anything can't be removed, and an
/// idle living worker makes its own again when it needs it.
fn remove_empty_roots(own: &Path) {
    for entry in fs::read_dir(own).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("sichen-") {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Where cgroup v2 is mounted and we are in it.
fn own_cgroup() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        right
            .starts_with("cgroup2 ")
            .then(|| left.split(' ').nth(4))?
            .map(str::to_owned)
    })?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = own
        .lines()
        .find_map(|line| line.strip_prefix("0::"))?
        .to_owned();
    Some(Path::new(&mount).join(path.trim_start_matches('/')))
}

/// One attempt's cgroup.
#[derive(Debug)]
pub(super) struct Leaf {
    path: PathBuf,
}

impl Leaf {
    pub(super) fn open_procs(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .open(self.path.join("cgroup.procs"))
    }

    fn pids(&self) -> Vec<Pid> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.parse().ok())
            .map(Pid::from_raw)
            .collect()
    }

    fn kill(&self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    fn is_empty(&self) -> bool {
        match fs::read_to_string(self.path.join("cgroup.events")) {
            Ok(text) => text.lines().any(|line| line == "populated 0"),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    fn remove(&self) {
        // What the process made below goes first.
        for child in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if child.file_type().is_ok_and(|kind| kind.is_dir()) {
                Leaf { path: child.path() }.remove();
            }
        }
        if let Err(error) = fs::remove_dir(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "an attempt's cgroup could not be removed");
        }
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        // Nothing was started in it, or it is gone already; one with processes stays.
        let _ = fs::remove_dir(&self.path);
    }
}

/// The tree of one attempt. Dropped before it is proved dead, it is killed.
#[derive(Debug)]
pub(super) struct Tree {
    leader: Pid,
    leaf: Option<Leaf>,
    mark: String,
    gone: std::sync::atomic::AtomicBool,
}

impl Tree {
    pub(super) fn new(leader: u32, leaf: Option<Leaf>, lease: &str) -> Tree {
        let leader = Pid::from_raw(i32::try_from(leader).expect("process ids are below 2^22"));
        Tree {
            leader,
            leaf,
            mark: format!("SICHEN_LEASE={lease}"),
            gone: false.into(),
        }
    }

    /// Returns when the main process has ended, and leaves it to be reaped later.
    pub(super) fn leader_exit(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let leader = self.leader;
        let ended = thread::run("sichen-wait", move || {
            while waitid(Id::Pid(leader), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
                == Err(nix::errno::Errno::EINTR)
            {}
        });
        Box::pin(async move {
            if ended.await.is_err() {
                // No thread to wait on: look instead.
                while stat(leader).is_some_and(|(state, _)| lives(state)) {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
        })
    }

    /// Asks everything of the tree to end.
    pub(super) fn terminate(&self) {
        let _ = killpg(self.leader, Signal::SIGTERM);
        let others = match &self.leaf {
            Some(leaf) => leaf.pids(),
            None => marked(&self.mark),
        };
        for pid in others {
            // The group has its signal already; a second one may mean more to a program.
            if group_of(pid) != Some(self.leader) {
                let _ = kill(pid, Signal::SIGTERM);
            }
        }
    }

    pub(super) fn kill(&self) {
        let _ = killpg(self.leader, Signal::SIGKILL);
        match &self.leaf {
            Some(leaf) => leaf.kill(),
            None => {
                for pid in marked(&self.mark) {
                    let _ = kill(pid, Signal::SIGKILL);
                }
            }
        }
    }

    /// Nothing of it runs; the main process may still wait to be reaped.
    pub(super) fn is_dead(&self) -> bool {
        match &self.leaf {
            Some(leaf) => leaf.is_empty(),
            None => !group_lives(self.leader) && marked(&self.mark).is_empty(),
        }
    }

    /// It is dead and reaped.
    pub(super) fn gone(&self) {
        self.gone.store(true, std::sync::atomic::Ordering::Relaxed);
        if let Some(leaf) = &self.leaf {
            leaf.remove();
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if !self.gone.load(std::sync::atomic::Ordering::Relaxed) {
            self.kill();
        }
    }
}

/// State and group of a process.
fn stat(pid: Pid) -> Option<(char, Pid)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; what follows the last one is regular.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some((state, Pid::from_raw(group)))
}

fn group_of(pid: Pid) -> Option<Pid> {
    stat(pid).map(|(_, group)| group)
}

fn lives(state: char) -> bool {
    !matches!(state, 'Z' | 'X' | 'x')
}

fn all_pids() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .map(Pid::from_raw)
}

fn group_lives(group: Pid) -> bool {
    all_pids()
        .filter_map(stat)
        .any(|(state, of)| of == group && lives(state))
}

/// Living processes, other than ourselves, whose first environment has this entry.
fn marked(mark: &str) -> Vec<Pid> {
    let own = nix::unistd::getpid();
    all_pids()
        .filter(|pid| *pid != own)
        .filter(|pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == mark.as_bytes())
        })
        .filter(|pid| stat(*pid).is_some_and(|(state, _)| lives(state)))
        .collect()
}

/// Kills what earlier incarnations of this worker left running, and waits for its death. Only the
/// holder of the data directory's lock may call it.
///
/// # Errors
/// Something does not die.
pub(crate) fn sweep(containment: &Containment, worker_uid: &str) -> Result<(), Error> {
    let mark = format!("SICHEN_WORKER_UID={worker_uid}");
    let give_up = boot_ms() + SWEEP_WITHIN_MS;
    loop {
        let leaves: Vec<Leaf> = containment
            .root
            .iter()
            .flat_map(|root| fs::read_dir(root).into_iter().flatten().flatten())
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| Leaf { path: entry.path() })
            .collect();
        let strangers = marked(&mark);
        for leaf in &leaves {
            leaf.kill();
        }
        for pid in &strangers {
            tracing::warn!(%pid, "killing a process that an earlier incarnation left");
            let _ = kill(*pid, Signal::SIGKILL);
        }
        if strangers.is_empty() && leaves.iter().all(Leaf::is_empty) {
            leaves.iter().for_each(Leaf::remove);
            return Ok(());
        }
        if boot_ms() >= give_up {
            let what = format!("kill what an earlier incarnation left ({strangers:?})");
            return Err(Error::Io {
                what,
                source: io::ErrorKind::TimedOut.into(),
            });
        }
        wait_a_little();
    }
}

/// The worker is only starting: there is nothing else that this thread could do.
#[expect(
    clippy::disallowed_methods,
    reason = "waits for the kernel at the start, with a deadline"
)]
fn wait_a_little() {
    std::thread::sleep(Duration::from_millis(10));
}
