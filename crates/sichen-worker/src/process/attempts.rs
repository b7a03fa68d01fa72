//! The directories of attempts, and the room that they take together.
//!
//! # Invariants
//! - Only ended attempts are removed, the oldest first.
//! - What streams have written counts from before it is written, so that the total is never
//!   passed by more than what the processes themselves leave in their directories.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sichen_sdk::output::RUNNING;

/// Files looked at in one directory when its size is taken; more count as nothing.
const MAX_FILES_SIZED: usize = 10_000;

#[derive(Debug)]
pub(super) struct Attempts {
    root: PathBuf,
    keep: usize,
    total_bytes: u64,
    room: Mutex<Room>,
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
        };
        attempts.make_room(&mut attempts.room(), 0);
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
        let mut room = self.room();
        room.used = room.used.saturating_sub(written) + size;
        room.ended.push_back((dir, size));
        self.make_room(&mut room, 0);
    }

    /// Takes so many bytes for a stream, if need be from old attempts.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let mut room = self.room();
        self.make_room(&mut room, bytes);
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

    fn make_room(&self, room: &mut Room, bytes: u64) {
        while room.ended.len() > self.keep || room.used + bytes > self.total_bytes {
            let Some((dir, size)) = room.ended.pop_front() else {
                return;
            };
            match fs::remove_dir_all(&dir) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(dir = %dir.display(), %error, "an old attempt's directory stays");
                }
                _ => room.used = room.used.saturating_sub(size),
            }
        }
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
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
