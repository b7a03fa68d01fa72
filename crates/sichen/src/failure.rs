//! What a command's end means: the exit codes, and failures that say what to do.
//!
//! # Invariants
//! - The codes are a promise to scripts (docs/cli.md): one is added, none changes its meaning.
//!
//! # Not here
//! Which HTTP status means what ([`crate::client`]).

use std::fmt;
use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It was done, or the run that was awaited did not succeed, a check did not pass, or something
    /// unforeseen happened.
    Failed = 1,
    /// The command line, a file or a document is wrong.
    Usage = 2,
    /// There is no such thing.
    NotFound = 3,
    /// Not in the present state, or others stand in the way.
    Refused = 4,
    /// The server can't be reached or can't answer now; try again.
    Unavailable = 5,
    /// No token, or a wrong one.
    Denied = 6,
    /// The time limit that was given has passed; what was awaited goes on.
    TimedOut = 7,
    /// The shard has a newer token: nothing that the process does counts.
    Fenced = 8,
    /// The attempt was told to stop.
    Stopped = 9,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command was not carried out: what happened, to what, what to do.
#[derive(Debug)]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    /// One line, then details.
    pub text: String,
}

impl Failure {
    /// A failure with its words.
    pub fn new(exit: Exit, text: impl Into<String>) -> Self {
        Self {
            exit,
            text: text.into(),
        }
    }

    /// The command line or a file is wrong.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Failed, format!("{error:#}"))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::Failed, error.to_string())
    }
}
