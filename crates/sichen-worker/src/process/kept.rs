//! One stream of an attempt, kept in files of limited size: its beginning, and its end in pieces
//! that follow it while it runs (`sichen_sdk::output` reads them).
//!
//! The beginning is written as it comes. After it the newest bytes wait in memory and are written
//! now and then, so that a flood costs neither the disk's bandwidth nor its space.
//!
//! # Invariants
//! - On disk the end is contiguous: at most one gap lies between the beginning and it.
//! - Never more than the limit on disk, nor more than a piece in memory.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use sichen_sdk::output::Stream;

use super::attempts::Attempts;

/// A piece of the end of an output that is longer than its limit; one to two of them are kept.
const MAX_PIECE_BYTES: u64 = 256 * 1024;

pub(super) struct Kept {
    dir: PathBuf,
    stream: Stream,
    attempts: Arc<Attempts>,
    /// The beginning may still take so much.
    head_left: u64,
    piece_limit: u64,
    /// Bytes seen so far.
    seen: u64,
    /// The newest ones, not yet written.
    waiting: VecDeque<u8>,
    /// Of the beginning on disk.
    head_bytes: u64,
    /// Of the end on disk, oldest first.
    pieces: VecDeque<Written>,
    /// What is appended to: the newest piece, or the beginning. None after an error.
    file: Option<File>,
    complained: bool,
}

struct Written {
    start: u64,
    bytes: u64,
}

impl Kept {
    pub(super) fn new(dir: PathBuf, stream: Stream, limit: u64, attempts: Arc<Attempts>) -> Kept {
        let piece_limit = (limit / 4).min(MAX_PIECE_BYTES);
        let mut kept = Kept {
            dir,
            stream,
            attempts,
            head_left: limit - 2 * piece_limit,
            piece_limit,
            seen: 0,
            waiting: VecDeque::new(),
            head_bytes: 0,
            pieces: VecDeque::new(),
            file: None,
            complained: false,
        };
        // An empty output is told from one that is not kept.
        if let Err(error) = kept.open(0) {
            kept.complain(&error);
        }
        kept
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        let fits = usize::try_from(self.head_left).unwrap_or(usize::MAX);
        let (head, rest) = bytes.split_at(fits.min(bytes.len()));
        if !head.is_empty() {
            self.add_head(head);
        }
        self.add_waiting(rest);
    }

    fn add_head(&mut self, head: &[u8]) {
        let (done, result) = self.write(head);
        self.head_bytes += done as u64;
        self.seen += done as u64;
        self.head_left -= done as u64;
        if let Err(error) = result {
            // The beginning ends here; what follows may find the disk in a better state.
            self.complain(&error);
            self.head_left = 0;
            self.add_waiting(&head[done..]);
        }
    }

    fn add_waiting(&mut self, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        let limit = usize::try_from(self.piece_limit).unwrap_or(usize::MAX);
        let newest = &bytes[bytes.len().saturating_sub(limit)..];
        let over = (self.waiting.len() + newest.len()).saturating_sub(limit);
        self.waiting.drain(..over);
        self.waiting.extend(newest);
    }

    /// Whether [`Kept::flush`] has something to do.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Brings what waits to the disk.
    pub(super) fn flush(&mut self) {
        if let Err(error) = self.try_flush() {
            self.complain(&error);
        }
    }

    fn try_flush(&mut self) -> io::Result<()> {
        while self.has_waiting() {
            let start = self.seen - self.waiting.len() as u64;
            let follows = self.end_on_disk() == start;
            let room = match self.pieces.back() {
                Some(last) if follows && self.file.is_some() => self.piece_limit - last.bytes,
                _ => 0,
            };
            if room == 0 {
                self.drop_pieces(usize::from(follows));
                self.open(start)?;
                // A piece that nothing could be written to has the same file.
                if self.pieces.back().is_none_or(|last| last.start != start) {
                    self.pieces.push_back(Written { start, bytes: 0 });
                }
                continue;
            }
            let n = usize::try_from(room).unwrap_or(usize::MAX);
            let chunk: Vec<u8> = self.waiting.iter().take(n).copied().collect();
            let (done, result) = self.write(&chunk);
            self.waiting.drain(..done);
            if let Some(last) = self.pieces.back_mut() {
                last.bytes += done as u64;
            }
            result?;
        }
        Ok(())
    }

    /// Where what lies on disk ends in the stream.
    fn end_on_disk(&self) -> u64 {
        let last = self.pieces.back();
        last.map_or(self.head_bytes, |last| last.start + last.bytes)
    }

    /// Drops all pieces of the end but the newest `keep`.
    fn drop_pieces(&mut self, keep: usize) {
        while self.pieces.len() > keep {
            if let Some(old) = self.pieces.pop_front() {
                let _ = fs::remove_file(self.dir.join(self.stream.file_name(old.start)));
                self.attempts.give_back(old.bytes);
            }
        }
    }

    fn open(&mut self, start: u64) -> io::Result<()> {
        self.file = None;
        let path = self.dir.join(self.stream.file_name(start));
        // Made anew, whatever the program has put there: a link would lead elsewhere, and a pipe has no end.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.file = Some(File::create_new(path)?);
        Ok(())
    }

    /// Appends to the file: how much of it, and what stopped the rest. After an error the file
    /// takes no more.
    fn write(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        let mut done = 0;
        let result = loop {
            let rest = &bytes[done..];
            if rest.is_empty() {
                return (done, Ok(()));
            }
            let Some(file) = &mut self.file else {
                break Err(io::Error::other("its file could not be made"));
            };
            if !self.attempts.take(rest.len() as u64) {
                let why = "the running attempts use up output_total_bytes";
                break Err(io::Error::other(why));
            }
            let result = file.write(rest);
            let n = *result.as_ref().unwrap_or(&0);
            self.attempts.give_back((rest.len() - n) as u64);
            done += n;
            match result {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.file = None;
        (done, result)
    }

    fn complain(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.complained, true) {
            tracing::warn!(dir = %self.dir.display(), stream = self.stream.name(), %error, "output is not kept");
        }
    }

    /// Writes the rest; says how much lies on disk.
    pub(super) fn end(mut self) -> u64 {
        self.flush();
        if self.end_on_disk() < self.seen {
            // An empty piece tells a reader how much is missing at the end.
            let _ = self.open(self.seen);
        }
        let pieces = self.pieces.iter().map(|piece| piece.bytes);
        self.head_bytes + pieces.sum::<u64>()
    }
}

#[cfg(test)]
mod tests;
