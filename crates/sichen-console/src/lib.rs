//! The console's built pages: embedded by a release build, read from `console/dist` by any other.
//!
//! # Invariants
//! - Nothing outside `console/dist` is ever read.
//! - A release build that built no pages (`left_out`, by `build.rs`) has none, and says so: [`get`] of
//!   `index.html` finds nothing, whatever an older build left in `console/dist`.
//!
//! # Not here
//! Serving them, with which headers (`sichen-server`); their source (`console/`).

use std::borrow::Cow;

#[cfg(not(left_out))]
#[derive(rust_embed::RustEmbed)]
#[folder = "../../console/dist"]
#[allow_missing = true]
struct Dist;

/// One file of the console.
#[derive(Clone, Debug)]
pub struct File {
    /// Its bytes.
    pub bytes: Cow<'static, [u8]>,
    /// Its SHA-256, by which a client knows that it has it already.
    pub sha256: [u8; 32],
}

/// The file at `path`, such as `index.html`.
#[cfg(not(left_out))]
#[must_use]
pub fn get(path: &str) -> Option<File> {
    let found = Dist::get(path)?;
    Some(File {
        sha256: found.metadata.sha256_hash(),
        bytes: found.data,
    })
}

/// No file: this build has no console.
#[cfg(left_out)]
#[must_use]
pub fn get(_path: &str) -> Option<File> {
    None
}
