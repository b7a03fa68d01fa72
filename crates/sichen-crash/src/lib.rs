//! Crash points: places where a process can be made to die, to show that nothing is lost there.
//!
//! A point has a place ([`Place`]) and says which of a kind it is: the commit of which use case, the
//! sending of which message. [`POINTS`] lists all of them; the sweep (`sichen`'s `tests/it/crash`)
//! kills the real process once at each, and fails for a point that is never passed and for one that
//! is passed and not listed.
//!
//! # Invariants
//! - Without the feature `points` nothing here does anything: [`at`] is an empty function and [`ON`]
//!   is `false`, so that a normal build contains no point. With it, nothing differs until a point is
//!   named.
//! - Death is `abort`: no destructor runs, nothing is flushed.
//!
//! # Not here
//! What is done at a point, and what is checked after it.

mod points;

pub use points::{POINTS, Points, UNSWEPT, Who, all};

/// The variable that names the point at which a process dies when it first passes it.
pub const DIE_AT: &str = "SICHEN_CRASH_AT";
/// The variable that names a file to which each point is written when it is first passed.
pub const SEEN: &str = "SICHEN_CRASH_SEEN";

/// Whether this build has points.
pub const ON: bool = cfg!(feature = "points");

/// Where a point stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Everything is written and not yet committed.
    BeforeCommit,
    /// It is committed, and nobody knows.
    AfterCommit,
    /// A message is about to be handed to its stream.
    BeforeSend,
    /// It has been handed over.
    AfterSend,
    /// A request's answer is ready and about to be given.
    BeforeAnswer,
    /// A program is about to be started.
    BeforeSpawn,
    /// It runs, and nobody has been told.
    AfterSpawn,
    /// The worker's journal is about to be written.
    BeforeJournal,
    /// It is written, and nobody has been told.
    AfterJournal,
}

impl Place {
    /// Its word in a point's name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Place::BeforeCommit => "before-commit",
            Place::AfterCommit => "after-commit",
            Place::BeforeSend => "before-send",
            Place::AfterSend => "after-send",
            Place::BeforeAnswer => "before-answer",
            Place::BeforeSpawn => "before-spawn",
            Place::AfterSpawn => "after-spawn",
            Place::BeforeJournal => "before-journal",
            Place::AfterJournal => "after-journal",
        }
    }
}

/// Passes a point.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub const fn at(_: Place, _: &str) {}

/// Passes a point: the process dies here if it was named.
#[cfg(feature = "points")]
pub fn at(place: Place, which: &str) {
    on::pass(&format!("{}:{which}", place.word()));
}

/// The name of the function in which a closure was written: of a use case, where its transaction is
/// a closure in the store's method.
#[must_use]
pub fn use_case<F>(_: &F) -> &'static str {
    let path = std::any::type_name::<F>();
    let outer = path.split("::{{closure}}").next().unwrap_or(path);
    outer.rsplit("::").next().unwrap_or(outer)
}

#[cfg(feature = "points")]
mod on {
    use std::collections::BTreeSet;
    use std::io::Write as _;
    use std::sync::{Mutex, OnceLock, PoisonError};

    static NAMED: OnceLock<Option<String>> = OnceLock::new();
    static PASSED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

    pub(super) fn pass(name: &str) {
        let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
        if passed.insert(name.to_owned()) {
            note(name);
        }
        let named = NAMED.get_or_init(|| std::env::var(super::DIE_AT).ok());
        if named.as_deref() == Some(name) {
            std::process::abort();
        }
    }

    fn note(name: &str) {
        let Some(path) = std::env::var_os(super::SEEN) else {
            return;
        };
        // A file that can't be written shows in the sweep as points that were never passed.
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(path);
        // In one write: several processes append to it.
        let line = format!("{name}\n");
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

#[cfg(test)]
mod tests;
