//! The files of a drill that is going on.
//!
//! # Not here
//! What stays of them ([`crate::folder`]).

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::evidence::{self, Line};

/// A directory of the drill's own, gone with it.
#[derive(Debug)]
pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn make() -> Result<Self, Error> {
        let made = tempfile::Builder::new().prefix("sichen-drill-").tempdir();
        let home = Self(made.map_err(|e| Error::stage("a directory for the drill", e))?);
        std::fs::create_dir(home.logs()).map_err(|e| Error::stage("a directory for logs", e))?;
        Ok(home)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.at("logs")
    }

    pub(crate) fn server(&self) -> PathBuf {
        self.at("server")
    }

    pub(crate) fn worker(&self, name: &str) -> PathBuf {
        self.at(name)
    }

    pub(crate) fn business(&self) -> PathBuf {
        self.at("business.db")
    }

    pub(crate) fn tasks(&self) -> PathBuf {
        self.at("tasks.jsonl")
    }

    pub(crate) fn setting(&self) -> PathBuf {
        self.at("setting.json")
    }

    pub(crate) fn slow(&self) -> PathBuf {
        self.at("downstream-is-slow")
    }

    /// What libfaketime adds to the server's clock.
    pub(crate) fn clock(&self) -> PathBuf {
        self.at("clock")
    }

    pub(crate) fn history(&self) -> PathBuf {
        self.at("history.jsonl")
    }

    pub(crate) fn document(&self, job: &str) -> PathBuf {
        self.at(&format!("{job}.json"))
    }

    /// The last lines of a process's log, for an error.
    pub(crate) fn tail(&self, name: &str) -> String {
        let path = self.logs().join(format!("{name}.log"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.reverse();
        lines.join("\n")
    }
}

/// The tasks' evidence as it grows.
#[derive(Debug)]
pub(crate) struct Growing {
    path: PathBuf,
    offset: u64,
    pub(crate) lines: Vec<Line>,
}

impl Growing {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            offset: 0,
            lines: Vec::new(),
        }
    }

    /// Takes what is new and whole.
    pub(crate) fn look(&mut self) {
        let Ok(mut file) = std::fs::File::open(&self.path) else {
            return;
        };
        let mut bytes = Vec::new();
        if file.seek(SeekFrom::Start(self.offset)).is_err() || file.read_to_end(&mut bytes).is_err()
        {
            return;
        }
        let Some(end) = bytes.iter().rposition(|b| *b == b'\n') else {
            return;
        };
        self.lines
            .extend(evidence::read(&String::from_utf8_lossy(&bytes[..=end])));
        self.offset += u64::try_from(end + 1).unwrap_or(0);
    }
}
