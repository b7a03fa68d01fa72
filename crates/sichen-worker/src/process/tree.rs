//! A process and all its descendants: find, signal, prove dead.
//!
//! # Invariants
//! - Dead means: its supervisor ended with the kernel's word that no descendant is left, and the
//!   cgroup, if there is one, is empty. If the supervisor was killed, the cgroup and the mark in the
//!   environment of what runs have to do.

use std::io::{self, PipeWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::net::unix::pipe;

use super::cgroup::Leaf;
use super::{proc, supervisor};

/// The tree of one attempt. Dropped before it is proved dead, it is killed.
#[derive(Debug)]
pub(super) struct Tree {
    supervisor: Child,
    leader: Pid,
    /// Its end means the death of the tree.
    orders: Option<PipeWriter>,
    reports: pipe::Receiver,
    status: Vec<u8>,
    /// The supervisor has let go of its end.
    ending: bool,
    said: bool,
    life: Life,
    leaves: Vec<Leaf>,
    mark: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// The supervisor watches.
    Watched,
    /// It has ended: nothing of the tree lives.
    Proved,
    /// It was killed.
    Unwatched,
}

/// What a start yields.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) supervisor: Child,
    pub(super) leader: Pid,
    pub(super) orders: PipeWriter,
    pub(super) reports: io::PipeReader,
}

impl Started {
    pub(super) fn outputs(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.supervisor.stdout.take(), self.supervisor.stderr.take())
    }
}

impl Tree {
    pub(super) fn new(started: Started, leaves: Vec<Leaf>, lease: &str) -> io::Result<Tree> {
        let reports = pipe::Receiver::from_owned_fd(started.reports.into())?;
        Ok(Tree {
            supervisor: started.supervisor,
            leader: started.leader,
            orders: Some(started.orders),
            reports,
            status: Vec::new(),
            ending: false,
            said: false,
            life: Life::Watched,
            leaves,
            mark: format!("SICHEN_LEASE={lease}"),
        })
    }

    /// Returns when the main process, or the supervisor, has ended.
    pub(super) async fn leader_exit(&mut self) {
        while self.status.len() < 4 && self.read().await {}
    }

    /// Returns when the supervisor has ended, once.
    pub(super) async fn supervisor_exit(&mut self) {
        while self.read().await {}
        if std::mem::replace(&mut self.said, true) {
            // Said once; what is still missing then is not the supervisor's.
            std::future::pending().await
        }
    }

    /// Takes what the supervisor reports; false when it has ended.
    async fn read(&mut self) -> bool {
        let mut buffer = [0; 8];
        loop {
            if self.reports.readable().await.is_err() {
                return false;
            }
            match self.reports.try_read(&mut buffer) {
                Ok(0) => {
                    self.ending = true;
                    return false;
                }
                Ok(n) => {
                    self.status.extend_from_slice(&buffer[..n]);
                    return true;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
    }

    /// How the main process ended; `None` if the supervisor was killed before it knew.
    pub(super) fn status(&self) -> Option<ExitStatus> {
        let raw = self.status.first_chunk()?;
        Some(ExitStatus::from_raw(i32::from_ne_bytes(*raw)))
    }

    /// Asks everything of the tree to end.
    pub(super) fn terminate(&mut self) {
        if let Some(orders) = &mut self.orders {
            let _ = orders.write_all(&[supervisor::TERMINATE]);
        }
        for pid in self.members() {
            // The group has its signal from the supervisor; a second one may mean more to a program.
            if proc::group_of(pid) != Some(self.leader) {
                let _ = kill(pid, Signal::SIGTERM);
            }
        }
    }

    /// All that is known to belong to it and lives.
    fn members(&self) -> Vec<Pid> {
        let mut members = match self.life {
            Life::Watched => proc::descendants(self.supervisor_pid()),
            Life::Proved => Vec::new(),
            Life::Unwatched => proc::marked(&self.mark),
        };
        members.extend(self.leaves.iter().flat_map(Leaf::pids));
        members.sort_unstable();
        members.dedup();
        members
    }

    /// To be called until [`Tree::is_dead`].
    pub(super) fn kill(&mut self) {
        let first = self.orders.take().is_some();
        self.leaves.iter().for_each(Leaf::kill);
        match self.life {
            // It kills by itself, unless somebody has stopped it.
            Life::Watched if !first => drop(kill(self.supervisor_pid(), Signal::SIGCONT)),
            Life::Unwatched => {
                for pid in self.members() {
                    let _ = kill(pid, Signal::SIGKILL);
                }
            }
            Life::Watched | Life::Proved => {}
        }
    }

    /// Nothing of it runs.
    pub(super) fn is_dead(&mut self) -> bool {
        if self.life == Life::Watched {
            let ended = match self.ending {
                // It can't be long.
                true => self.supervisor.wait().map(Some),
                false => self.supervisor.try_wait(),
            };
            self.life = match ended {
                Ok(None) => return false,
                Ok(Some(status)) if status.success() => Life::Proved,
                Ok(Some(_)) | Err(_) => {
                    tracing::warn!(mark = self.mark, "the supervisor of a process was killed");
                    Life::Unwatched
                }
            };
        }
        self.leaves.iter().all(Leaf::is_empty)
            && (self.life == Life::Proved || proc::marked(&self.mark).is_empty())
    }

    /// It is dead; how many of it the kernel killed since they had used up their memory.
    pub(super) fn gone(&mut self) -> u64 {
        let killed = self.leaves.iter().map(Leaf::memory_kills).sum();
        self.leaves.iter().for_each(Leaf::remove);
        killed
    }

    pub(super) fn supervisor_pid(&self) -> Pid {
        Pid::from_raw(self.supervisor.id().cast_signed())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // The supervisor kills it; without one, this is all that can be done.
        if !self.is_dead() {
            self.kill();
        }
    }
}
