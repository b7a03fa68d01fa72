//! What a process writes to stdout and stderr, kept in files of limited size.
//!
//! # Invariants
//! - A pipe is read to its end whatever happens to the file: a process never blocks on us.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tokio::sync::oneshot;

use super::thread;

/// Of the end of stderr, for the error message.
const TAIL_BYTES: usize = 2_048;
/// Of the end of an output that is longer than its limit.
const MAX_LOG_TAIL_BYTES: usize = 1024 * 1024;
const CHUNK_BYTES: usize = 64 * 1024;

/// The attempt's directory, for this user alone.
pub(super) fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Reads `pipe` to its end on a thread of its own; yields the end of the text.
pub(super) fn drain(
    pipe: Option<impl Read + Send + 'static>,
    path: PathBuf,
    limit: u64,
) -> oneshot::Receiver<String> {
    thread::run("sichen-output", move || {
        let Some(mut pipe) = pipe else {
            return String::new();
        };
        let mut file = Kept::new(&path, limit);
        let mut tail: Vec<u8> = Vec::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match pipe.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => {
                    file.add(&chunk[..n]);
                    tail.extend_from_slice(&chunk[n.saturating_sub(TAIL_BYTES)..n]);
                    let extra = tail.len().saturating_sub(TAIL_BYTES);
                    tail.drain(..extra);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "output could not be read on");
                    break;
                }
            }
        }
        file.end();
        String::from_utf8_lossy(&tail).trim_end().to_owned()
    })
}

/// A file that takes the beginning of a text and its end, and counts what lies between.
///
/// The end waits in memory, at most [`MAX_LOG_TAIL_BYTES`] of it.
struct Kept {
    file: Option<File>,
    head_left: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    dropped: u64,
}

impl Kept {
    fn new(path: &Path, limit: u64) -> Kept {
        let file = File::create(path)
            .inspect_err(
                |error| tracing::warn!(path = %path.display(), %error, "output is not kept"),
            )
            .ok();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let tail_limit = (limit / 2).min(MAX_LOG_TAIL_BYTES);
        Kept {
            file,
            head_left: limit - tail_limit,
            tail: VecDeque::new(),
            tail_limit,
            dropped: 0,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(self.head_left.min(bytes.len()));
        self.head_left -= head.len();
        self.write(head);
        let fits = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let over = (self.tail.len() + fits.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..over);
        self.tail.extend(fits);
        self.dropped += (over + rest.len() - fits.len()) as u64;
    }

    fn end(mut self) {
        if self.dropped > 0 {
            let mark = format!("\n[{} bytes were not kept]\n", self.dropped);
            self.write(mark.as_bytes());
        }
        let tail = std::mem::take(&mut self.tail);
        let (first, second) = tail.as_slices();
        self.write(first);
        self.write(second);
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(bytes)
        {
            tracing::warn!(%error, "output is kept no further");
            self.file = None;
        }
    }
}

/// While an attempt runs its directory has this in it: the report channel.
pub(super) const RUNNING: &str = "report";

/// After a sweep nothing runs, whatever an earlier incarnation left lying about.
pub(crate) fn nothing_runs(attempts: &Path) {
    for entry in fs::read_dir(attempts).into_iter().flatten().flatten() {
        let _ = fs::remove_file(entry.path().join(RUNNING));
    }
}

/// Removes the oldest directories of ended attempts beyond `keep`.
pub(super) fn keep_newest(attempts: &Path, keep: usize) {
    let Ok(entries) = fs::read_dir(attempts) else {
        return;
    };
    let mut dirs: Vec<_> = entries
        .flatten()
        .filter(|entry| !entry.path().join(RUNNING).exists())
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    if dirs.len() <= keep {
        return;
    }
    dirs.sort();
    for (_, dir) in &dirs[..dirs.len() - keep] {
        if let Err(error) = fs::remove_dir_all(dir) {
            tracing::debug!(dir = %dir.display(), %error, "an old attempt's directory stays");
        }
    }
}
