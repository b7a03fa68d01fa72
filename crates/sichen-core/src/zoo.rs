//! Known-bad variants: one rule left out on purpose, to show that simulation and checker notice.
//!
//! # Invariants
//! - Without the feature `zoo` every question is answered `false` by a constant, so that a normal
//!   build contains no variant; with it, nothing differs until one is chosen. This crate's own tests
//!   plant one in their thread.
//!
//! # Not here
//! The list of variants with their budgets (`cargo xtask zoo`); the variants themselves stand where
//! the rule they leave out stands.

#[cfg(feature = "zoo")]
static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Chooses the variant of this process; only the first choice counts.
#[cfg(feature = "zoo")]
pub fn choose(name: &str) {
    let _ = CHOSEN.set(name.to_owned());
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<&'static str> = const { std::cell::Cell::new("") };
}

/// Chooses the variant of this thread, within this crate's own tests.
#[cfg(test)]
pub(crate) fn plant(name: &'static str) {
    PLANTED.set(name);
}

/// Whether the variant `name` was planted by the test at hand.
#[cfg(all(test, not(feature = "zoo")))]
#[must_use]
pub fn is(name: &str) -> bool {
    PLANTED.get() == name
}

/// Whether the variant `name` was chosen.
#[cfg(feature = "zoo")]
#[must_use]
pub fn is(name: &str) -> bool {
    #[cfg(test)]
    if PLANTED.get() == name {
        return true;
    }
    CHOSEN.get().is_some_and(|chosen| chosen == name)
}

/// Never.
#[cfg(not(any(test, feature = "zoo")))]
#[must_use]
pub const fn is(_: &str) -> bool {
    false
}
