//! How many files a worker may have open, and how many attempts that is enough for.
//!
//! Most systems let a process have 1,024 at first and many more if it asks. A worker asks, and says so
//! neither to the programs that it starts (some expect small numbers) nor offers slots that it has no files
//! for: an attempt that can't start is lost to its job.

use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

/// What an attempt has open in the worker: mark, pipes of orders, reports and outputs, kept pieces, report
/// pipe and socket, callers of that socket.
const FILES_PER_ATTEMPT: rlim_t = 16;
/// What the worker has open besides.
const FILES_OF_ITS_OWN: rlim_t = 128;

/// The limits that this process was started with.
static BEFORE: OnceLock<(rlim_t, rlim_t)> = OnceLock::new();

/// Asks for as many files as may be had; of `slots` as many as there are files for, at least one.
pub(crate) fn ask_for(slots: u32) -> u32 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return slots;
    };
    let (before, most) = *BEFORE.get_or_init(|| (soft, hard));
    let wanted = FILES_OF_ITS_OWN + rlim_t::from(slots) * FILES_PER_ATTEMPT;
    let given = wanted.clamp(before, most.max(before));
    let has = match setrlimit(Resource::RLIMIT_NOFILE, given, hard) {
        Ok(()) => given,
        Err(_) => soft,
    };
    let fit = slots_within(has, slots);
    if fit < slots {
        tracing::warn!(
            slots,
            offered = fit,
            files = has,
            "there are not files enough for so many slots; raise the hard limit of open files (ulimit -Hn, \
             LimitNOFILE= of a unit)"
        );
    }
    fit
}

/// Of `slots` as many as `files` are enough for.
fn slots_within(files: rlim_t, slots: u32) -> u32 {
    let fit = files.saturating_sub(FILES_OF_ITS_OWN) / FILES_PER_ATTEMPT;
    u32::try_from(fit)
        .unwrap_or(u32::MAX)
        .clamp(1, slots.max(1))
}

/// The limits that a program is to have, if this process asked for others.
pub(super) fn of_programs() -> Option<(rlim_t, rlim_t)> {
    BEFORE.get().copied()
}

#[cfg(test)]
mod tests;
