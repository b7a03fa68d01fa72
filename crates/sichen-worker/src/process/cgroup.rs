//! A cgroup of its own for each attempt, of version 2 or of version 1's freezer.
//!
//! # Not here
//! Limits on memory and CPU.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A frozen state is asked for so often before its processes are killed as they are.
const FREEZE_LOOKS: usize = 50;

/// Which of the two interfaces of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// `cgroup.kill`, `cgroup.events`.
    Two,
    /// The controller `freezer`: stops the tree while it is killed, so that none of it escapes by
    /// forking.
    Freezer,
}

/// The worker's own directory, below the cgroup that the worker itself is in.
#[derive(Debug, Clone)]
pub(super) struct Root {
    version: Version,
    path: PathBuf,
}

impl Root {
    /// Made if it is not there; `None` if this machine, or who we are, does not allow it.
    pub(super) fn make(version: Version, worker_uid: &str) -> Option<Root> {
        let own = own_cgroup(version)?;
        remove_empty_roots(&own);
        let path = own.join(format!("sichen-{worker_uid}"));
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return None,
            _ => {}
        }
        let usable = path.join(match version {
            Version::Two => "cgroup.kill",
            Version::Freezer => "freezer.state",
        });
        OpenOptions::new().write(true).open(usable).ok()?;
        Some(Root { version, path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A new, empty leaf.
    pub(super) fn leaf(&self, lease: &str) -> io::Result<Leaf> {
        let path = self.path.join(lease);
        // The root may have gone while it was empty, see `remove_empty_roots`; twice is bad luck.
        fs::create_dir_all(&path).or_else(|_| fs::create_dir_all(&path))?;
        let version = self.version;
        Ok(Leaf { version, path })
    }

    /// What is there already.
    pub(super) fn leaves(&self) -> Vec<Leaf> {
        let version = self.version;
        let dirs = directories(&self.path);
        dirs.map(|path| Leaf { version, path }).collect()
    }

    /// Leaves nothing behind if nothing runs. Another worker's start makes it again.
    pub(super) fn remove_if_empty(&self) {
        let _ = fs::remove_dir(&self.path);
    }
}

/// Workers that were killed leave their roots. One that holds anything can't be removed, and an
/// idle living worker makes its own again when it needs it.
fn remove_empty_roots(own: &Path) {
    for path in directories(own) {
        let name = path.file_name().unwrap_or_default();
        if name.to_string_lossy().starts_with("sichen-") {
            let _ = fs::remove_dir(path);
        }
    }
}

fn directories(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
}

/// Where the hierarchy is mounted and we are in it.
fn own_cgroup(version: Version) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let memberships = fs::read_to_string("/proc/self/cgroup").ok()?;
    find_own(version, &mounts, &memberships)
}

fn find_own(version: Version, mounts: &str, memberships: &str) -> Option<PathBuf> {
    let (root, mount) = mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut about = right.split(' ');
        let (kind, options) = (about.next()?, about.nth(1)?);
        let wanted = match version {
            Version::Two => kind == "cgroup2",
            Version::Freezer => kind == "cgroup" && options.split(',').any(|o| o == "freezer"),
        };
        let mut place = left.split(' ').skip(3);
        wanted.then(|| Some((place.next()?, place.next()?)))?
    })?;
    let own = memberships.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let wanted = match version {
            Version::Two => line.starts_with("0::"),
            Version::Freezer => controllers.split(',').any(|c| c == "freezer"),
        };
        wanted.then_some(path)
    })?;
    // In a container the mount may show only what lies below our own cgroup.
    let below = Path::new(own).strip_prefix(root).unwrap_or(Path::new(own));
    Some(Path::new(mount).join(below.strip_prefix("/").unwrap_or(below)))
}

/// One attempt's cgroup.
#[derive(Debug)]
pub(super) struct Leaf {
    version: Version,
    path: PathBuf,
}

impl Leaf {
    /// Whoever writes `0` to it is in.
    pub(super) fn open_procs(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .open(self.path.join("cgroup.procs"))
    }

    /// Its path as the system takes it.
    pub(super) fn c_path(&self) -> Option<CString> {
        CString::new(self.path.as_os_str().as_bytes()).ok()
    }

    /// All processes in it and in what they made below it.
    pub(super) fn pids(&self) -> Vec<Pid> {
        let (mut pids, mut dirs) = (Vec::<i32>::new(), vec![self.path.clone()]);
        while let Some(dir) = dirs.pop() {
            let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
            dirs.extend(directories(&dir));
        }
        pids.into_iter().map(Pid::from_raw).collect()
    }

    pub(super) fn kill(&self) {
        match self.version {
            Version::Two => drop(fs::write(self.path.join("cgroup.kill"), "1")),
            Version::Freezer => {
                let state = self.path.join("freezer.state");
                let _ = fs::write(&state, "FROZEN");
                for _ in 0..FREEZE_LOOKS {
                    if fs::read_to_string(&state).is_ok_and(|text| text.trim() == "FROZEN") {
                        break;
                    }
                }
                for pid in self.pids() {
                    let _ = kill(pid, Signal::SIGKILL);
                }
                // The dying have to run to die.
                let _ = fs::write(&state, "THAWED");
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self.version {
            Version::Two => match fs::read_to_string(self.path.join("cgroup.events")) {
                Ok(text) => text.lines().any(|line| line == "populated 0"),
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            },
            Version::Freezer => self.pids().is_empty(),
        }
    }

    pub(super) fn remove(&self) {
        // What the process made below goes first.
        for path in directories(&self.path) {
            let version = self.version;
            Leaf { version, path }.remove();
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

#[cfg(test)]
mod tests;
