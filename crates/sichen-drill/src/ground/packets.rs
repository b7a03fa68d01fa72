//! Holds up each packet of a queue of this network namespace (`NFQUEUE`): a process of its own, since a
//! namespace is a process's.
//!
//! # Invariants
//! - Each packet is held up once and let go; when standard input ends, all of them are.
//!
//! # Not here
//! Which packets are queued ([`super::net`]).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use nfq::{Message, Queue, Verdict};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::clock::Stopwatch;
use crate::error::Error;

/// The queue's number: it is a namespace's own.
pub(crate) const QUEUE: u16 = 7;
/// Said when packets are held up from now on.
pub(crate) const READY: &str = "ready";
/// Packets held at most; more are let go by the kernel at once.
const MAX_HELD: u32 = 4_096;

/// Holds each packet up for `ms`, `jitter_ms` more or less, until standard input ends.
///
/// # Errors
/// If there is no such queue to be had here.
pub fn run(ms: u16, jitter_ms: u16) -> Result<(), Error> {
    hold(ms, jitter_ms).map_err(|e| Error::stage("holding up packets", e))
}

fn hold(ms: u16, jitter_ms: u16) -> std::io::Result<()> {
    let mut queue = Queue::open()?;
    queue.bind(QUEUE)?;
    // What a packet holds is of no interest.
    queue.set_copy_range(QUEUE, 0)?;
    queue.set_queue_max_len(QUEUE, MAX_HELD)?;
    queue.set_fail_open(QUEUE, true)?;
    queue.set_nonblocking(true);
    writeln!(std::io::stdout(), "{READY}")?;
    let (from, to) = (ms.saturating_sub(jitter_ms), ms.saturating_add(jitter_ms));
    // How long the nth packet is held is the same each time.
    let mut dice = StdRng::seed_from_u64(u64::from(ms));
    let (watch, mut held, mut n) = (Stopwatch::start(), BTreeMap::new(), 0_u64);
    loop {
        while let Ok(message) = queue.recv() {
            let due = watch.ms() + u64::from(dice.random_range(from..=to));
            held.insert((due, n), message);
            n += 1;
        }
        let later = held.split_off(&(watch.ms() + 1, 0));
        let due = std::mem::replace(&mut held, later);
        let_go(&mut queue, due)?;
        if input_ended()? {
            return let_go(&mut queue, held);
        }
    }
}

fn let_go(queue: &mut Queue, due: BTreeMap<(u64, u64), Message>) -> std::io::Result<()> {
    for mut message in due.into_values() {
        message.set_verdict(Verdict::Accept);
        queue.verdict(message)?;
    }
    Ok(())
}

/// Waits a millisecond at most: packets are timed no finer.
fn input_ended() -> std::io::Result<bool> {
    let input = std::io::stdin();
    let mut one = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    // Nobody writes to it: it can be read when it has ended.
    Ok(poll(&mut one, PollTimeout::from(1_u8))? > 0)
}
