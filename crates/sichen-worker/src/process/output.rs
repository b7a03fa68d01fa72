//! Reads what a process writes to stdout and stderr.
//!
//! # Invariants
//! - A pipe is read to its end whatever happens to the files: a process never blocks on us.
//! - Nothing is kept or told that has not passed the mask.

use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::oneshot;

use super::kept::Kept;
use super::mask::Mask;
use super::thread;
use crate::clock::boot_ms;

/// Of the end of stderr, for the error message.
const TAIL_BYTES: usize = 2_048;
const CHUNK_BYTES: usize = 64 * 1024;
/// Read of a pipe after all processes of the attempt are dead: what they had written fits into it.
const MAX_AFTER_THE_END: usize = 2 * 1024 * 1024;
/// How long the newest bytes wait before a reader of the files may see them.
const FLUSH_EVERY_MS: u16 = 200;

/// What is known of a stream when it is over.
#[derive(Debug, Default)]
pub(super) struct Drained {
    /// The end of the text.
    pub(super) tail: String,
    /// Bytes on disk.
    pub(super) written: u64,
}

/// Reads `pipe` on a thread of its own to its end, or until the other end of `give_up` is dropped.
pub(super) fn drain(
    pipe: Option<impl Read + AsFd + Send + 'static>,
    mut kept: Kept,
    mut mask: Mask,
    give_up: Arc<PipeReader>,
) -> oneshot::Receiver<Drained> {
    thread::run("sichen-output", move || {
        let mut tail = Vec::new();
        if let Some(mut pipe) = pipe
            && let Err(error) = read_all(&mut pipe, &mut kept, &mut mask, &mut tail, &give_up)
        {
            tracing::warn!(%error, "output could not be read on");
        }
        keep(mask.end(), &mut kept, &mut tail);
        Drained {
            tail: String::from_utf8_lossy(&tail).trim_end().to_owned(),
            written: kept.end(),
        }
    })
}

fn keep(bytes: &[u8], kept: &mut Kept, tail: &mut Vec<u8>) {
    kept.add(bytes);
    tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
    let extra = tail.len().saturating_sub(TAIL_BYTES);
    tail.drain(..extra);
}

fn read_all(
    pipe: &mut (impl Read + AsFd),
    kept: &mut Kept,
    mask: &mut Mask,
    tail: &mut Vec<u8>,
    give_up: &PipeReader,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut flushed = boot_ms();
    let mut after_the_end = 0;
    loop {
        if kept.has_waiting() && boot_ms() >= flushed + u64::from(FLUSH_EVERY_MS) {
            kept.flush();
            flushed = boot_ms();
        }
        let timeout = match kept.has_waiting() {
            true => PollTimeout::from(FLUSH_EVERY_MS),
            false => PollTimeout::NONE,
        };
        let mut fds = [
            PollFd::new(pipe.as_fd(), PollFlags::POLLIN),
            PollFd::new(give_up.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = |fd: &PollFd| fd.any().unwrap_or(true);
        let over = ready(&fds[1]);
        // Whoever writes without a pause then is none of ours.
        if over && (!ready(&fds[0]) || after_the_end >= MAX_AFTER_THE_END) {
            return Ok(());
        }
        if !ready(&fds[0]) {
            continue;
        }
        match pipe.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                after_the_end += if over { n } else { 0 };
                keep(mask.pass(&chunk[..n]), kept, tail);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
