//! What attempts wrote to stdout and stderr, kept as files in a worker's data directory.
//!
//! `attempts/<run>.<shard>.<attempt>.<token>/` belongs to one attempt. A stream lies there in
//! pieces: `stdout.log` is its beginning, `stdout.<offset>.log` what was kept from that byte on.
//! So an offset always counts in what the process wrote, whatever was left out in between, and a
//! reader can follow an attempt that still runs.
//!
//! # Invariants
//! - Pieces never overlap, and a piece only grows or goes away as a whole.
//! - The mark [`RUNNING`] is there as long as a stream may still grow.
//!
//! # Not here
//! Writing them and making room (the process runner of the worker crate).

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

/// The most that one [`AttemptOutput::read`] returns; longer outputs are read in turns.
pub const MAX_READ_BYTES: usize = 1024 * 1024;
/// A file that an attempt's directory holds while its output may still grow.
pub const RUNNING: &str = "running";
/// Pieces may be rotated away between listing and opening; so often is listed anew.
const LOOKS: usize = 5;

/// One of the two streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// `stdout` or `stderr`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }

    /// The file that holds the stream from `offset` on.
    #[must_use]
    pub fn file_name(self, offset: u64) -> String {
        match offset {
            0 => format!("{}.log", self.name()),
            offset => format!("{}.{offset}.log", self.name()),
        }
    }

    fn offset_of(self, file_name: &str) -> Option<u64> {
        match file_name.strip_prefix(self.name())?.strip_suffix(".log")? {
            "" => Some(0),
            rest => rest.strip_prefix('.')?.parse().ok(),
        }
    }
}

/// One attempt whose output is kept here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptKey {
    /// The run.
    pub run_id: u64,
    /// The shard's number in it; -1 is the plan step, -2 the reduce step.
    pub shard: i32,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Its fencing token.
    pub token: u64,
}

impl AttemptKey {
    /// The name of its directory.
    #[must_use]
    pub fn dir_name(&self) -> String {
        let AttemptKey {
            run_id,
            shard,
            attempt,
            token,
        } = self;
        format!("{run_id}.{shard}.{attempt}.{token}")
    }

    fn from_dir_name(name: &str) -> Option<AttemptKey> {
        let mut parts = name.split('.');
        let key = AttemptKey {
            run_id: parts.next()?.parse().ok()?,
            shard: parts.next()?.parse().ok()?,
            attempt: parts.next()?.parse().ok()?,
            token: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(key)
    }
}

/// A part of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where `bytes` begin in what the process wrote.
    pub offset: u64,
    /// Bytes between the offset that was asked for and `offset` that were not kept.
    pub skipped: u64,
    /// The bytes as they came, no text promised. Empty: there is nothing (yet) from here on.
    pub bytes: Vec<u8>,
    /// Nothing is added any more; with empty `bytes` this is the end.
    pub ended: bool,
}

impl Piece {
    /// Where to read on.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// The line to show in place of what was left out before this piece.
    #[must_use]
    pub fn gap_line(&self) -> Option<String> {
        (self.skipped > 0).then(|| format!("\n[{} bytes were not kept]\n", self.skipped))
    }
}

/// The outputs that a worker keeps. Reads need no running worker and take no lock.
#[derive(Debug, Clone)]
pub struct AttemptOutput {
    attempts: PathBuf,
}

impl AttemptOutput {
    /// Of the worker with this data directory.
    #[must_use]
    pub fn of(data_dir: &Path) -> AttemptOutput {
        AttemptOutput {
            attempts: data_dir.join("attempts"),
        }
    }

    /// Where the attempts' directories are.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.attempts
    }

    /// Attempts of the shard whose output is still kept, oldest first.
    ///
    /// # Errors
    /// The directory can't be read. A worker that ran no process has none, which is no error.
    pub fn list(&self, run_id: u64, shard: i32) -> io::Result<Vec<AttemptKey>> {
        let entries = match fs::read_dir(&self.attempts) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut keys: Vec<AttemptKey> = entries
            .flatten()
            .filter_map(|entry| AttemptKey::from_dir_name(entry.file_name().to_str()?))
            .filter(|key| (key.run_id, key.shard) == (run_id, shard))
            .collect();
        keys.sort_unstable();
        Ok(keys)
    }

    /// Where the stream of one attempt ends at present; `None` if nothing of it is kept here.
    ///
    /// # Errors
    /// A file can't be looked at.
    pub fn end(
        &self,
        run_id: u64,
        shard: i32,
        attempt: u32,
        stream: Stream,
    ) -> io::Result<Option<u64>> {
        let keys = self.list(run_id, shard)?;
        let Some(key) = keys.iter().rev().find(|key| key.attempt == attempt) else {
            return Ok(None);
        };
        let mut end = 0;
        for entry in fs::read_dir(self.attempts.join(key.dir_name()))? {
            let entry = entry?;
            let name = entry.file_name();
            let start = name.to_str().and_then(|name| stream.offset_of(name));
            // A piece that is rotated away meanwhile is not the last one.
            if let (Some(start), Ok(meta)) = (start, entry.metadata()) {
                end = end.max(start.saturating_add(meta.len()));
            }
        }
        Ok(Some(end))
    }

    /// Reads the stream of one attempt from `offset` on, at most `limit` bytes and at most
    /// [`MAX_READ_BYTES`]; `None` if nothing of the attempt is kept here. To follow it, read on at
    /// [`Piece::next`] until a piece is empty and `ended`.
    ///
    /// # Errors
    /// A file can't be read.
    pub fn read(
        &self,
        run_id: u64,
        shard: i32,
        attempt: u32,
        stream: Stream,
        offset: u64,
        limit: usize,
    ) -> io::Result<Option<Piece>> {
        // After a restore of the store a number may come again; the newest token is the one meant.
        let keys = self.list(run_id, shard)?;
        let Some(key) = keys.iter().rev().find(|key| key.attempt == attempt) else {
            return Ok(None);
        };
        let dir = self.attempts.join(key.dir_name());
        for _ in 0..LOOKS {
            match read_in(&dir, stream, offset, limit.min(MAX_READ_BYTES)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                read => return read.map(Some),
            }
        }
        Ok(None)
    }
}

fn read_in(dir: &Path, stream: Stream, asked: u64, limit: usize) -> io::Result<Piece> {
    // Looked at first: what is written after it makes one more turn, never a lost one.
    let ended = !dir.join(RUNNING).exists();
    let mut pieces = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let Some(start) = entry
            .file_name()
            .to_str()
            .and_then(|name| stream.offset_of(name))
        {
            pieces.push((start, entry.path()));
        }
    }
    pieces.sort_unstable();
    // An empty piece at the end says only that nothing before it was kept.
    let mut at = asked;
    for (start, path) in pieces {
        at = at.max(start);
        // The directory is the job's own: it may hold a pipe of that name, or one that points elsewhere.
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW).bits())
            .open(path)?;
        let meta = file.metadata()?;
        let Some(end) = start.checked_add(meta.len()).filter(|_| meta.is_file()) else {
            continue;
        };
        if end <= asked {
            continue;
        }
        let offset = asked.max(start);
        file.seek(SeekFrom::Start(offset - start))?;
        let mut bytes = Vec::new();
        file.take(limit as u64).read_to_end(&mut bytes)?;
        return Ok(Piece {
            offset,
            skipped: offset - asked,
            bytes,
            ended,
        });
    }
    Ok(Piece {
        offset: at,
        skipped: at - asked,
        bytes: Vec::new(),
        ended,
    })
}

#[cfg(test)]
mod tests;
