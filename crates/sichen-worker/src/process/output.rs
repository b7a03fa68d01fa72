//! What a process writes to stdout and stderr, kept in files of limited size.
//!
//! # Invariants
//! - A pipe is read to its end whatever happens to the file: a process never blocks on us.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tokio::task::JoinHandle;

/// Of the end of stderr, for the error message.
const TAIL_BYTES: usize = 2_048;
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
) -> JoinHandle<String> {
    tokio::task::spawn_blocking(move || {
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

/// A file that takes so many bytes and counts the rest.
struct Kept {
    file: Option<File>,
    left: u64,
    dropped: u64,
}

impl Kept {
    fn new(path: &Path, limit: u64) -> Kept {
        let file = File::create(path)
            .inspect_err(
                |error| tracing::warn!(path = %path.display(), %error, "output is not kept"),
            )
            .ok();
        Kept {
            file,
            left: limit,
            dropped: 0,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let fits = usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
        self.dropped += (bytes.len() - fits) as u64;
        self.left -= fits as u64;
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(&bytes[..fits])
        {
            tracing::warn!(%error, "output is kept no further");
            self.file = None;
        }
    }

    fn end(&mut self) {
        if self.dropped > 0
            && let Some(file) = &mut self.file
        {
            let _ = writeln!(file, "\n[{} more bytes were not kept]", self.dropped);
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
