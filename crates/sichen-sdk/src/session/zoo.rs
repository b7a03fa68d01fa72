//! Known-bad variants of the session, to show that simulation notices (feature `zoo`).
//!
//! # Not here
//! The list of variants (`cargo xtask zoo`). A normal build has none of this.

static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Chooses the variant of this process; only the first choice counts.
pub fn choose(name: &str) {
    let _ = CHOSEN.set(name.to_owned());
}

pub(super) fn is(name: &str) -> bool {
    CHOSEN.get().is_some_and(|chosen| chosen == name)
}
