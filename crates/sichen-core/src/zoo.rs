//! Known-bad variants: one rule left out on purpose, to show that simulation and checker notice.
//!
//! # Invariants
//! - Without the feature `zoo` every question is answered `false` by a constant, so that a normal
//!   build contains no variant; with it, nothing differs until one is chosen.
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

/// Whether the variant `name` was chosen.
#[cfg(feature = "zoo")]
#[must_use]
pub fn is(name: &str) -> bool {
    CHOSEN.get().is_some_and(|chosen| chosen == name)
}

/// Never.
#[cfg(not(feature = "zoo"))]
#[must_use]
pub const fn is(_: &str) -> bool {
    false
}
