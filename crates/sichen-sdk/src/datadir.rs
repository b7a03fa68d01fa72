//! The worker's data directory: its identity, its starts, and the proof that only one process uses it.
//!
//! # Invariants
//! - While a [`DataDir`] lives, no other process holds one for the same directory.
//! - `worker-uid` is written once, with its own fsync, and never changes.
//! - Each opening has a greater number than all before it in this directory. The wall clock, where it is
//!   ahead of the count, keeps that true of a directory that was put back from an older copy.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::edge;

/// How often a taken lock is tried, over two seconds: it may outlive the process that took it, in a
/// child that was forked and has not become its program yet.
const TRIES: u32 = 100;
const TRY_EACH: Duration = Duration::from_millis(20);

/// An opened and locked data directory.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    uid: String,
    start: u64,
    _lock: Flock<File>,
}

/// Why a data directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has it open.
    #[error("{0} is in use by another worker process; give each worker its own data directory")]
    InUse(PathBuf),
    /// It can't be read or written.
    #[error("data directory {path}: {source}")]
    Io {
        /// What was touched.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
}

impl DataDir {
    /// Creates the directory if it is missing, locks it, and reads or makes the worker's uid.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process still has it open after two seconds.
    pub fn open(path: impl Into<PathBuf>) -> Result<DataDir, Error> {
        let path = path.into();
        let io = |at: &Path| {
            let at = at.to_owned();
            move |source| Error::Io { path: at, source }
        };
        fs::create_dir_all(&path).map_err(io(&path))?;
        let lock_path = path.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(io(&lock_path))?;
        let lock = match lock(file) {
            Ok(lock) => lock,
            Err(Errno::EWOULDBLOCK) => return Err(Error::InUse(path)),
            Err(errno) => {
                return Err(Error::Io {
                    path: lock_path,
                    source: errno.into(),
                });
            }
        };
        let uid_path = path.join("worker-uid");
        let uid = read_or_make_uid(&path, &uid_path).map_err(io(&uid_path))?;
        let starts_path = path.join("worker-start");
        let start = next_start(&path, &starts_path).map_err(io(&starts_path))?;
        Ok(DataDir {
            path,
            uid,
            start,
            _lock: lock,
        })
    }

    /// The worker's identity.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The number of this opening.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn lock(mut file: File) -> Result<Flock<File>, Errno> {
    let mut tries = 1;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((given_back, Errno::EWOULDBLOCK)) if tries < TRIES => file = given_back,
            Err((_, errno)) => return Err(errno),
        }
        tries += 1;
        thread::park_timeout(TRY_EACH);
    }
}

fn read_or_make_uid(dir: &Path, path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let uid = edge::new_id();
    replace(dir, path, &uid)?;
    Ok(uid)
}

fn next_start(dir: &Path, path: &Path) -> io::Result<u64> {
    let last: u64 = match fs::read_to_string(path) {
        // What can't be read was never written whole: the clock alone decides.
        Ok(text) => text.trim().parse().unwrap_or(0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    let start = edge::wall_ms().max(last.saturating_add(1));
    replace(dir, path, &start.to_string())?;
    Ok(start)
}

/// Writes a file so that after a crash it has the old text or the new one.
fn replace(dir: &Path, path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    File::open(dir)?.sync_all()
}
