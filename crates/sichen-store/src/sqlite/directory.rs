//! The data directory: one process at a time, on a disk of this machine.
//!
//! # Not here
//! The database in it ([`super::engine`]).

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{FsType, statfs};
use sichen_core::port::Error;

/// File systems whose locks and flushes are another machine's business, by their magic number.
const NETWORK: &[(i64, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9P"),
    (0x5346_414f, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
];
const FUSE: i64 = 0x6573_5546;

/// The database's file.
pub(super) const DATABASE: &str = "sichen.db";

/// The right to a data directory, kept until it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct DataDirectory {
    path: PathBuf,
    /// Locked with `flock`: the system drops it with the process, so none is ever left behind.
    _lock: File,
}

impl DataDirectory {
    /// Makes `path` if there is none (for this user alone) and takes it.
    pub fn take(path: &Path) -> Result<Self, Error> {
        let failed = |what: &str, e: std::io::Error| {
            Error::Unavailable(format!(
                "can't {what} in data directory {}: {e}",
                path.display()
            ))
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|e| failed("make it or look", e))?;
        check_file_system(path)?;
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("lock"))
            .map_err(|e| failed("open the lock file", e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Unavailable(format!(
                    "data directory {} is in use by another server; each needs one of its own",
                    path.display()
                )));
            }
            Err(TryLockError::Error(e)) => return Err(failed("lock the lock file", e)),
        }
        // For people who wonder who has it; the lock itself does not depend on the text.
        let _ = lock.set_len(0);
        let _ = writeln!(lock, "{}", std::process::id());
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    pub fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }
}

/// Keeps servers away from `path` while its value lives, without writing there. Where no server
/// ever was there is nothing to hold.
pub(super) fn hold(path: &Path) -> Result<Option<File>, Error> {
    let failed = |e: std::io::Error| {
        Error::Unavailable(format!(
            "the lock of data directory {} can't be looked at: {e}",
            path.display()
        ))
    };
    let lock = match File::open(path.join("lock")) {
        Ok(lock) => lock,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Err(Error::Unavailable(format!(
            "a server is running on data directory {}; ask that server instead, or stop it",
            path.display()
        ))),
        Err(TryLockError::Error(e)) => Err(failed(e)),
    }
}

fn check_file_system(path: &Path) -> Result<(), Error> {
    let kind = match statfs(path) {
        Ok(stat) => stat.filesystem_type(),
        Err(e) => {
            return Err(Error::Unavailable(format!(
                "can't tell the file system of {}: {e}",
                path.display()
            )));
        }
    };
    let FsType(magic) = kind;
    match judge(magic) {
        Judged::Network(name) => Err(Error::Unavailable(format!(
            "data directory {} is on {name}, whose locks and flushes can't be relied on; \
             use a disk of this machine, or PostgreSQL",
            path.display()
        ))),
        Judged::Unsure => {
            tracing::warn!(
                path = %path.display(),
                "the data directory is on FUSE; make sure that it is a disk of this machine"
            );
            Ok(())
        }
        Judged::Local => Ok(()),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Judged {
    Local,
    Unsure,
    Network(&'static str),
}

fn judge(magic: i64) -> Judged {
    // Magic numbers have 32 bits; some systems widen them with their sign.
    let magic = magic & 0xffff_ffff;
    if magic == FUSE {
        return Judged::Unsure;
    }
    NETWORK
        .iter()
        .find(|(number, _)| *number == magic)
        .map_or(Judged::Local, |(_, name)| Judged::Network(name))
}

#[cfg(test)]
mod tests;
