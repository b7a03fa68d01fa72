//! How trees are held together on this machine, and what becomes of those that an earlier
//! incarnation of the worker left.
//!
//! Every tree has its supervisor, which knows all that descends from it. A cgroup is the second
//! means: it outlives the supervisor, and the kernel kills it at one stroke.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sichen_sdk::output::RUNNING;

use super::cgroup::{Leaf, Root, Version};
use super::proc;
use crate::clock::boot_ms;
use crate::{Error, config};

/// How long strangers of an earlier incarnation may take to die.
const SWEEP_WITHIN_MS: u64 = 10_000;

#[derive(Debug, Clone)]
pub(crate) struct Containment {
    root: Option<Root>,
    memory: Option<Memory>,
}

/// Where an attempt's memory is limited.
#[derive(Debug, Clone)]
enum Memory {
    /// In its cgroup.
    Same,
    /// In one of version 1's `memory`, apart.
    Apart(Root),
}

impl Containment {
    /// What was asked for, or with `auto` the best that there is.
    ///
    /// # Errors
    /// A cgroup was asked for by name and can't be had, or memory is to be limited and can't be.
    pub(crate) fn find(
        wanted: config::Containment,
        uid: &str,
        limits_memory: bool,
    ) -> Result<Containment, Error> {
        let versions: &[Version] = match wanted {
            config::Containment::Auto => &[Version::Two, Version::Freezer],
            config::Containment::CgroupV2 => &[Version::Two],
            config::Containment::CgroupV1 => &[Version::Freezer],
            config::Containment::None => &[],
        };
        let root = versions
            .iter()
            .find_map(|version| Root::make(*version, uid));
        match (&root, wanted) {
            (Some(root), _) => {
                tracing::info!(root = %root.path().display(), "processes are contained by supervisor and cgroup");
            }
            (None, config::Containment::Auto) => tracing::warn!(
                "no cgroup can be made here: processes are contained by their supervisors alone, \
                 and after the death of one by the mark in their environment"
            ),
            (None, config::Containment::None) => {}
            (None, _) => {
                let message = format!(
                    "containment: no cgroup of that kind can be made below the worker's own; \
                     delegate one to it, or use {}",
                    "`containment: auto`"
                );
                return Err(Error::Config(message));
            }
        }
        let memory = match &root {
            _ if !limits_memory => None,
            Some(root) if root.limits_memory() => Some(Memory::Same),
            _ => Root::make(Version::Memory, uid).map(Memory::Apart),
        };
        if limits_memory && memory.is_none() {
            let message = "memory_limit: no cgroup that limits memory can be made below the worker's own; \
                           delegate the controller `memory` to it (under version 2 the worker must not be in \
                           that cgroup itself), or leave the limit out";
            return Err(Error::Config(message.to_owned()));
        }
        Ok(Containment { root, memory })
    }

    /// New, empty leaves; what is in them may use so many bytes of memory together.
    pub(super) fn leaves(&self, lease: &str, memory: Option<u64>) -> io::Result<Vec<Leaf>> {
        let leaf = self.root.as_ref().map(|root| root.leaf(lease));
        let mut leaves: Vec<Leaf> = leaf.transpose()?.into_iter().collect();
        let Some(bytes) = memory else {
            return Ok(leaves);
        };
        if let Some(Memory::Apart(root)) = &self.memory {
            leaves.push(root.leaf(lease)?);
        }
        match leaves.last_mut() {
            Some(leaf) if self.memory.is_some() => leaf.limit_memory(bytes)?,
            _ => return Err(io::Error::other("no cgroup limits memory here")),
        }
        Ok(leaves)
    }

    /// Leaves nothing behind if nothing runs.
    pub(super) fn remove_if_empty(&self) {
        self.roots().for_each(Root::remove_if_empty);
    }

    fn roots(&self) -> impl Iterator<Item = &Root> {
        let apart = match &self.memory {
            Some(Memory::Apart(root)) => Some(root),
            _ => None,
        };
        self.root.iter().chain(apart)
    }

    #[cfg(test)]
    pub(super) fn is_cgroup(&self) -> bool {
        self.root.is_some()
    }
}

/// Kills what earlier incarnations of this worker left running, and waits for its death. Only the
/// holder of the data directory's lock may call it.
///
/// # Errors
/// Something does not die.
pub(crate) fn sweep(
    containment: &Containment,
    worker_uid: &str,
    attempts: &Path,
) -> Result<(), Error> {
    let mark = format!("SICHEN_WORKER_UID={worker_uid}");
    let give_up = boot_ms() + SWEEP_WITHIN_MS;
    // Whatever this start uses, the one before may have used another.
    let roots: Vec<Root> = Version::all()
        .filter_map(|version| Root::make(version, worker_uid))
        .collect();
    loop {
        let leaves: Vec<Leaf> = roots.iter().flat_map(Root::leaves).collect();
        let strangers = proc::marked(&mark);
        let supervisors = supervisors(attempts);
        for leaf in leaves.iter().filter(|leaf| !leaf.is_empty()) {
            leaf.kill();
        }
        for pid in &strangers {
            tracing::warn!(%pid, "killing a process that an earlier incarnation left");
            let _ = kill(*pid, Signal::SIGKILL);
        }
        for pid in &supervisors {
            // It kills its tree since its worker is gone, unless somebody has stopped it.
            let _ = kill(*pid, Signal::SIGCONT);
        }
        if strangers.is_empty() && supervisors.is_empty() && leaves.iter().all(Leaf::is_empty) {
            leaves.iter().for_each(Leaf::remove);
            for root in roots {
                let in_use = containment.roots().any(|used| used.path() == root.path());
                if !in_use {
                    root.remove_if_empty();
                }
            }
            return Ok(());
        }
        if boot_ms() >= give_up {
            let what = format!(
                "kill what an earlier incarnation left (processes {strangers:?}, supervisors {supervisors:?})"
            );
            return Err(Error::Io {
                what,
                source: io::ErrorKind::TimedOut.into(),
            });
        }
        wait_a_little();
    }
}

/// Those of an earlier incarnation that still live: each holds the lock on its attempt's mark.
fn supervisors(attempts: &Path) -> Vec<Pid> {
    let entries = fs::read_dir(attempts).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let path = entry.path().join(RUNNING);
            let file = File::open(&path).ok()?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => {
                    let text = fs::read_to_string(&path).ok()?;
                    // Without a number it has only just begun; there is somebody all the same.
                    Some(Pid::from_raw(text.trim().parse().unwrap_or(i32::MAX)))
                }
                _ => None,
            }
        })
        .collect()
}

/// The worker is only starting: there is nothing else that this thread could do.
#[expect(
    clippy::disallowed_methods,
    reason = "waits for the kernel at the start, with a deadline"
)]
fn wait_a_little() {
    std::thread::sleep(Duration::from_millis(10));
}
