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

/// How busy this machine is: its load of the last minute by its processors, in thousandths; 0 if it does
/// not say.
pub(crate) fn load_milli() -> u32 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next().and_then(|word| word.split_once('.'));
    let load = first.and_then(|(whole, part)| {
        // Hundredths, as the kernel writes them.
        let hundredths = whole.parse::<u32>().ok()?.checked_mul(100)?;
        hundredths.checked_add(part.parse().ok()?)
    });
    let processors =
        std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
    load.unwrap_or(0).saturating_mul(10) / processors
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
