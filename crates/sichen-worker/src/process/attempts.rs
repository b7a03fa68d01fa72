//! The directories of attempts, and the room that they take together.
//!
//! # Invariants
//! - Only ended attempts are removed, the oldest first.
//! - What attempts wait for on the runtime of handlers is not the disk: ended ones are sized and removed
//!   on a thread of their own, and no lock that a stream takes is held meanwhile, unless that stream
//!   itself needs the room.
//! - What streams have written counts from before it is written, so that the total is never
//!   passed by more than what the processes themselves leave in their directories.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sichen_sdk::output::RUNNING;

/// Files looked at in one directory when its size is taken; more count as nothing.
const MAX_FILES_SIZED: usize = 10_000;

/// Ended attempts that wait to be sized. One more is sized where it ends, which is slow enough for the
/// others to be caught up with.
const MAX_ENDED_WAITING: usize = 1_024;

#[derive(Debug)]
pub(super) struct Attempts {
    root: PathBuf,
    keep: usize,
    total_bytes: u64,
    room: Mutex<Room>,
    /// Held by whoever removes.
    removing: Mutex<()>,
}

/// The thread on which attempts are brought to their end; it goes when nobody can add to it any more.
#[derive(Clone, Debug)]
pub(super) struct Endings {
    attempts: Arc<Attempts>,
    waiting: SyncSender<(PathBuf, u64)>,
}

impl Endings {
    pub(super) fn start(attempts: Arc<Attempts>) -> Endings {
        let (waiting, ended) = sync_channel::<(PathBuf, u64)>(MAX_ENDED_WAITING);
        let theirs = Arc::clone(&attempts);
        // Without the thread each is ended where it is added.
        drop(super::thread::run("sichen-endings", move || {
            for (dir, written) in ended {
                theirs.end(dir, written);
            }
        }));
        Endings { attempts, waiting }
    }

    /// Nothing is written to `dir` any more, which readers may know at once.
    pub(super) fn add(&self, dir: PathBuf, written: u64) {
        let _ = fs::remove_file(dir.join(RUNNING));
        if let Err(back) = self.waiting.try_send((dir, written)) {
            let (TrySendError::Full((dir, written)) | TrySendError::Disconnected((dir, written))) =
                back;
            self.attempts.end(dir, written);
        }
    }
}

#[derive(Debug, Default)]
struct Room {
    used: u64,
    /// With what each takes, oldest first.
    ended: VecDeque<(PathBuf, u64)>,
}

impl Attempts {
    /// Takes over what an earlier incarnation left. Nothing of it runs any more.
    pub(super) fn open(root: PathBuf, keep: usize, total_bytes: u64) -> Attempts {
        let mut found = Vec::new();
        for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
            let dir = entry.path();
            let _ = fs::remove_file(dir.join(RUNNING));
            let changed = entry.metadata().and_then(|about| about.modified());
            if let Ok(changed) = changed {
                found.push((changed, size_of(&dir), dir));
            }
        }
        found.sort();
        let room = Room {
            used: found.iter().map(|(_, size, _)| size).sum(),
            ended: found
                .into_iter()
                .map(|(_, size, dir)| (dir, size))
                .collect(),
        };
        let attempts = Attempts {
            root,
            keep,
            total_bytes,
            room: Mutex::new(room),
            removing: Mutex::default(),
        };
        attempts.keep_within();
        attempts
    }

    /// Makes an attempt's directory, for this user alone, and the mark that it runs.
    pub(super) fn begin(&self, name: &str) -> io::Result<(PathBuf, File)> {
        let dir = self.root.join(name);
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        let mark = File::create(dir.join(RUNNING))?;
        Ok((dir, mark))
    }

    /// Nothing is written to it any more. `written` was taken by its streams.
    pub(super) fn end(&self, dir: PathBuf, written: u64) {
        let _ = fs::remove_file(dir.join(RUNNING));
        let size = size_of(&dir);
        {
            let mut room = self.room();
            room.used = room.used.saturating_sub(written) + size;
            room.ended.push_back((dir, size));
        }
        self.keep_within();
    }

    /// Takes so many bytes for a stream, if need be from old attempts.
    pub(super) fn take(&self, bytes: u64) -> bool {
        if self.take_if_free(bytes) {
            return true;
        }
        let _alone = self.removing();
        while !self.take_if_free(bytes) {
            if !self.remove_oldest() {
                return false;
            }
        }
        true
    }

    fn take_if_free(&self, bytes: u64) -> bool {
        let mut room = self.room();
        let fits = room.used + bytes <= self.total_bytes;
        if fits {
            room.used += bytes;
        }
        fits
    }

    pub(super) fn give_back(&self, bytes: u64) {
        let mut room = self.room();
        room.used = room.used.saturating_sub(bytes);
    }

    /// Removes what is more than is to be kept.
    fn keep_within(&self) {
        let _alone = self.removing();
        while self.is_over() && self.remove_oldest() {}
    }

    fn is_over(&self) -> bool {
        let room = self.room();
        room.ended.len() > self.keep || room.used > self.total_bytes
    }

    /// To be called while `removing` is held. False if there is none to remove.
    fn remove_oldest(&self) -> bool {
        let Some((dir, size)) = self.room().ended.pop_front() else {
            return false;
        };
        if let Err(error) = remove_all(&dir) {
            tracing::warn!(dir = %dir.display(), %error, "an old attempt's directory stays");
        }
        // What stays is not counted: it would take the room of attempts that can be kept.
        self.give_back(size);
        true
    }

    fn removing(&self) -> MutexGuard<'_, ()> {
        self.removing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a directory and all in it, also what a program has made unwritable for its own user.
fn remove_all(dir: &Path) -> io::Result<()> {
    let removed = match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(dir);
            fs::remove_dir_all(dir)
        }
        removed => removed,
    };
    removed.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

/// Lets this user change every directory in `dir`, links not followed.
fn open_up(dir: &Path) {
    let mut dirs = vec![dir.to_owned()];
    let mut looked = 0;
    while let Some(dir) = dirs.pop() {
        // Whose it is not can't be helped: the removal says so.
        let _ = fs::set_permissions(&dir, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            looked += 1;
            if looked > MAX_FILES_SIZED {
                return;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            }
        }
    }
}

/// What lies in a directory, links not followed.
fn size_of(dir: &Path) -> u64 {
    let (mut sum, mut looked) = (0, 0);
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            looked += 1;
            if looked > MAX_FILES_SIZED {
                return sum;
            }
            match entry.metadata() {
                Ok(about) if about.is_dir() => dirs.push(entry.path()),
                Ok(about) => sum += about.len(),
                Err(_) => {}
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests;
