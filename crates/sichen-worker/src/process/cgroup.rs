//! A cgroup of its own for each attempt, of version 2 or of version 1's freezer; and, where its memory is
//! limited, one of version 1's `memory`, unless version 2 does both.
//!
//! # Not here
//! Limits on CPU.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A frozen state is asked for so often before its processes are killed as they are.
const FREEZE_LOOKS: usize = 50;

/// Which of the interfaces of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// `cgroup.kill`, `cgroup.events`.
    Two,
    /// The controller `freezer`: stops the tree while it is killed, so that none of it escapes by
    /// forking.
    Freezer,
    /// The controller `memory` of version 1.
    Memory,
}

impl Version {
    const ALL: [Version; 3] = [Version::Two, Version::Freezer, Version::Memory];

    pub(super) fn all() -> impl Iterator<Item = Version> {
        Self::ALL.into_iter()
    }

    /// The controller that a hierarchy of version 1 has.
    fn controller(self) -> Option<&'static str> {
        match self {
            Version::Two => None,
            Version::Freezer => Some("freezer"),
            Version::Memory => Some("memory"),
        }
    }
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
            Version::Memory => "memory.limit_in_bytes",
        });
        OpenOptions::new().write(true).open(usable).ok()?;
        Some(Root { version, path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its leaves can limit memory. Version 2 has to be told so, above them; it refuses where
    /// the worker itself is in the cgroup above and that is not the machine's own.
    pub(super) fn limits_memory(&self) -> bool {
        if self.version != Version::Two {
            return self.version == Version::Memory;
        }
        let above = self.path.parent().unwrap_or(&self.path);
        [above, &self.path]
            .iter()
            .all(|path| fs::write(path.join("cgroup.subtree_control"), "+memory").is_ok())
    }

    /// A new, empty leaf.
    pub(super) fn leaf(&self, lease: &str) -> io::Result<Leaf> {
        let path = self.path.join(lease);
        // The root may have gone while it was empty, see `remove_empty_roots`; twice is bad luck.
        fs::create_dir_all(&path).or_else(|_| fs::create_dir_all(&path))?;
        let (version, limited) = (self.version, false);
        Ok(Leaf {
            version,
            path,
            limited,
        })
    }

    /// What is there already.
    pub(super) fn leaves(&self) -> Vec<Leaf> {
        let (version, limited) = (self.version, false);
        let leaf = |path| Leaf {
            version,
            path,
            limited,
        };
        directories(&self.path).map(leaf).collect()
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
    let has = |controllers: &str| {
        let wanted = version.controller();
        wanted.is_some_and(|wanted| controllers.split(',').any(|c| c == wanted))
    };
    let (root, mount) = mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut about = right.split(' ');
        let (kind, options) = (about.next()?, about.nth(1)?);
        let wanted = match version {
            Version::Two => kind == "cgroup2",
            Version::Freezer | Version::Memory => kind == "cgroup" && has(options),
        };
        let mut place = left.split(' ').skip(3);
        wanted.then(|| Some((place.next()?, place.next()?)))?
    })?;
    let own = memberships.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let wanted = match version {
            Version::Two => line.starts_with("0::"),
            Version::Freezer | Version::Memory => has(controllers),
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
    /// It limits memory, and counts who was killed for it until it is removed.
    limited: bool,
}

impl Leaf {
    /// Whoever writes `0` to it is in.
    pub(super) fn open_procs(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .open(self.path.join("cgroup.procs"))
    }

    /// Its path as the system takes it, if whoever finds it empty may remove it.
    pub(super) fn removable(&self) -> Option<CString> {
        let path = CString::new(self.path.as_os_str().as_bytes()).ok();
        path.filter(|_| !self.limited)
    }

    /// Lets all that is in it use so much memory together, and no more by swapping.
    pub(super) fn limit_memory(&mut self, bytes: u64) -> io::Result<()> {
        let (limit, swap, most) = match self.version {
            Version::Two => ("memory.max", "memory.swap.max", 0),
            _ => (
                "memory.limit_in_bytes",
                "memory.memsw.limit_in_bytes",
                bytes,
            ),
        };
        self.limited = true;
        fs::write(self.path.join(limit), bytes.to_string())?;
        match fs::write(self.path.join(swap), most.to_string()) {
            // A kernel that does not count what is swapped out.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// How many processes the kernel killed because the memory was used up.
    pub(super) fn memory_kills(&self) -> u64 {
        let file = match self.version {
            Version::Two => "memory.events",
            _ => "memory.oom_control",
        };
        let text = fs::read_to_string(self.path.join(file)).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|n| n.parse().ok()).unwrap_or(0)
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
            Version::Memory => {
                for pid in self.pids() {
                    let _ = kill(pid, Signal::SIGKILL);
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self.version {
            Version::Two => match fs::read_to_string(self.path.join("cgroup.events")) {
                Ok(text) => text.lines().any(|line| line == "populated 0"),
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            },
            Version::Freezer | Version::Memory => self.pids().is_empty(),
        }
    }

    pub(super) fn remove(&self) {
        // What the process made below goes first.
        for path in directories(&self.path) {
            let (version, limited) = (self.version, self.limited);
            let below = Leaf {
                version,
                path,
                limited,
            };
            below.remove();
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
