//! When a drill is stopped while it runs: harm that would only grow.
//!
//! # Not here
//! Looking ([`crate::stage`]), and what a stop leaves behind.

/// From the moment that a condition holds to the end of the drill.
pub const WITHIN_MS: u64 = 5_000;
/// How often is looked.
pub const LOOK_MS: u64 = 500;
/// What must stay free where the drill works.
pub const FREE_BYTES: u64 = 200 << 20;
/// Without a fault, some task must begin within this.
pub const SILENCE_MS: u64 = 30_000;

/// The conditions, for people.
pub const CONDITIONS: [&str; 4] = [
    "a posting stands twice in the business data: work is being done twice",
    "a server or worker ended although nobody ended it",
    "less than 200 MiB are free where the drill works",
    "no fault is on and no task has begun for 30 s",
];

/// What was looked at.
#[derive(Clone, Debug)]
pub struct Look {
    /// Postings that stand twice.
    pub doubled: Vec<String>,
    /// Processes that have ended by themselves.
    pub deaths: Vec<String>,
    /// Free where the drill works.
    pub free_bytes: u64,
    /// How long no task has begun, while no fault is on.
    pub silence_ms: u64,
}

impl Look {
    /// One in which nothing is found.
    #[must_use]
    pub fn harmless() -> Self {
        Self {
            doubled: Vec::new(),
            deaths: Vec::new(),
            free_bytes: u64::MAX,
            silence_ms: 0,
        }
    }
}

/// The condition that holds, if one does, and what shows it.
#[must_use]
pub fn reason(look: &Look) -> Option<String> {
    let held = |place: usize, what: &str| Some(format!("{}: {what}", CONDITIONS[place]));
    if let Some(first) = look.doubled.first() {
        return held(0, first);
    }
    if let Some(first) = look.deaths.first() {
        return held(1, first);
    }
    if look.free_bytes < FREE_BYTES {
        return held(2, &format!("{} MiB", look.free_bytes >> 20));
    }
    if look.silence_ms > SILENCE_MS {
        return held(3, &format!("{} s", look.silence_ms / 1_000));
    }
    None
}

#[cfg(test)]
mod tests;
