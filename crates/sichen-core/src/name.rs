//! Names of namespaces, jobs and pools: what is allowed, and why a name is refused.
//!
//! The set is small on purpose: a name goes into addresses, file names, cgroup names, metric labels
//! and environment variables, and must survive all of them unchanged.
//!
//! # Not here
//! Display names with any text: a job's `metadata.title` is free.

mod nearest;

use std::fmt;

pub use nearest::nearest;

/// The longest name, in bytes.
pub const MAX_BYTES: usize = 63;

/// A checked name: 1 to 63 bytes of `a-z`, `0-9`, `-`, `.` or `_`, beginning and ending with a
/// letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing, or only blanks.
    #[error("is empty; use 1 to {MAX_BYTES} characters of a-z, 0-9, '-', '.', '_'")]
    Empty,
    /// Longer than [`MAX_BYTES`].
    #[error("has {bytes} bytes, the limit is {MAX_BYTES}")]
    TooLong {
        /// Length of the refused name in bytes.
        bytes: usize,
    },
    /// A character outside the allowed set.
    #[error("has {found:?} at byte {at}; allowed are a-z, 0-9, '-', '.', '_'")]
    Character {
        /// The first character that is not allowed.
        found: char,
        /// Its byte offset.
        at: usize,
    },
    /// Begins or ends with a sign.
    #[error("must begin and end with a letter or digit")]
    Edge,
}

impl Name {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`Error`] names the first rule that does not hold.
    pub fn new(text: &str) -> Result<Self, Error> {
        if text.trim().is_empty() {
            return Err(Error::Empty);
        }
        if text.len() > MAX_BYTES {
            return Err(Error::TooLong { bytes: text.len() });
        }
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
        if let Some((at, found)) = text.char_indices().find(|(_, c)| !allowed(*c)) {
            return Err(Error::Character { found, at });
        }
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        if !edge(text.chars().next()) || !edge(text.chars().next_back()) {
            return Err(Error::Edge);
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A job's or a calendar's name within its namespace, shown as `namespace/name`, or `name` in
/// `default`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName {
    /// The tenant.
    pub namespace: Name,
    /// The job, or the calendar.
    pub name: Name,
}

impl JobName {
    /// Checks both parts.
    ///
    /// # Errors
    /// As [`Name::new`].
    pub fn new(namespace: &str, name: &str) -> Result<Self, Error> {
        Ok(Self {
            namespace: Name::new(namespace)?,
            name: Name::new(name)?,
        })
    }

    /// What comes before all names of `namespace`, for pages: nothing has this name.
    #[must_use]
    pub fn before(namespace: Name) -> Self {
        let name = Name(String::new());
        Self { namespace, name }
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.as_str() != "default" {
            write!(f, "{}/", self.namespace)?;
        }
        self.name.fmt(f)
    }
}

#[cfg(test)]
mod tests;
