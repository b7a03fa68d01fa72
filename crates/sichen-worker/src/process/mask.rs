//! Hides secrets that the worker knows in what a process writes.
//!
//! Each byte of one becomes `*`, so that every other byte stays at its place in the stream.
//!
//! # Invariants
//! - A secret is found however it is cut into writes: what may be the beginning of one is held back until
//!   more comes, or the end.
//! - Nothing else is changed, and nothing is lost.
//!
//! # Not here
//! What a process makes of a secret: encoded or turned round it is another text.

use std::io::BufRead as _;
use std::ops::Range;

/// In place of each byte of a secret.
const HIDDEN: u8 = b'*';
/// What is shorter is found by chance too often to be hidden.
pub(super) const MIN_SECRET_BYTES: usize = 4;
/// Longest text of a file that a process is given as a secret, in bytes.
pub(super) const MAX_SECRET_BYTES: usize = 4_096;

/// The secrets of one attempt, before one of its streams.
#[derive(Debug, Clone, Default)]
pub(super) struct Mask {
    secrets: Vec<Vec<u8>>,
    /// What has come: first what was passed on, then what is held back.
    buffer: Vec<u8>,
    passed: usize,
    /// So much of what is held back belongs to a secret that has been found.
    covered: usize,
}

impl Mask {
    pub(super) fn of<'s>(secrets: impl IntoIterator<Item = &'s str>) -> Mask {
        let secrets = secrets.into_iter().map(|text| text.as_bytes().to_vec());
        Mask {
            secrets: secrets.filter(|s| s.len() >= MIN_SECRET_BYTES).collect(),
            ..Mask::default()
        }
    }

    /// Takes what has been read; what of it and of what came before can be passed on.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> &[u8] {
        self.take(bytes);
        let found = self.found();
        let held = self.beginning_at_the_end();
        self.show(&found, self.buffer.len() - held)
    }

    /// The stream is over: the rest.
    pub(super) fn end(&mut self) -> &[u8] {
        self.take(&[]);
        let found = self.found();
        self.show(&found, self.buffer.len())
    }

    fn take(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.passed);
        self.passed = 0;
        self.buffer.extend_from_slice(bytes);
    }

    fn show(&mut self, found: &[Range<usize>], end: usize) -> &[u8] {
        let covered = std::mem::take(&mut self.covered);
        for range in found.iter().cloned().chain(std::iter::once(0..covered)) {
            self.covered = self.covered.max(range.end.saturating_sub(end));
            self.buffer[range.start..range.end.min(end)].fill(HIDDEN);
        }
        self.passed = end;
        &self.buffer[..end]
    }

    fn found(&self) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for secret in &self.secrets {
            let mut at = 0;
            while let Some(next) = next(&self.buffer[at..], secret[0]) {
                at += next;
                if self.buffer[at..].starts_with(secret) {
                    found.push(at..at + secret.len());
                }
                at += 1;
            }
        }
        found
    }

    /// Bytes at the end with which a secret begins that is not whole yet.
    fn beginning_at_the_end(&self) -> usize {
        let of_one = self.secrets.iter().map(|secret| {
            let most = self.buffer.len().min(secret.len() - 1);
            let begins = |n: &usize| self.buffer.ends_with(&secret[..*n]);
            (1..=most).rev().find(begins).unwrap_or(0)
        });
        of_one.max().unwrap_or(0)
    }
}

/// Where `byte` is first. By the system's search: a flood goes through here.
fn next(text: &[u8], byte: u8) -> Option<usize> {
    let mut rest = text;
    let read = rest.skip_until(byte).unwrap_or(0);
    let last = read.checked_sub(1)?;
    (text[last] == byte).then_some(last)
}

#[cfg(test)]
mod tests;
