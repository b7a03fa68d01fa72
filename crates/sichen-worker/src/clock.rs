//! The runner's one clock: milliseconds on `CLOCK_BOOTTIME`, for graces and waits.

use nix::time::{ClockId, clock_gettime};

pub(crate) fn boot_ms() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has CLOCK_BOOTTIME");
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    seconds * 1_000 + u64::try_from(time.tv_nsec() / 1_000_000).unwrap_or(0)
}
