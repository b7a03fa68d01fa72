//! The few things that only the machine can give: boot time, boot id, random ids.
//!
//! # Not here
//! Anything that decides: the session takes all of this as arguments.

use std::io;

use nix::time::{ClockId, clock_gettime};

use crate::session::Boot;

/// Now, on `CLOCK_BOOTTIME`, which counts the time that the machine was suspended.
pub(crate) fn boot_now() -> Boot {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has CLOCK_BOOTTIME");
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let millis = u64::try_from(time.tv_nsec() / 1_000_000).unwrap_or(0);
    Boot(seconds * 1_000 + millis)
}

/// Milliseconds since 1970 by the wall clock, which may step: for numbers that only have to grow.
pub(crate) fn wall_ms() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_REALTIME).expect("Linux has CLOCK_REALTIME");
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let millis = u64::try_from(time.tv_nsec() / 1_000_000).unwrap_or(0);
    seconds * 1_000 + millis
}

/// The id that the kernel drew when it booted.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

/// A new random id.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of the SDK that draws ids"
)]
pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// 0..=1000, to spread reconnects.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of the SDK that draws ids"
)]
pub(crate) fn jitter() -> u16 {
    let [a, b, ..] = *uuid::Uuid::new_v4().as_bytes();
    u16::from_be_bytes([a, b]) % 1_001
}
