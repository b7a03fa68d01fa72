//! The program under drill, by its own command line.
//!
//! # Invariants
//! - No variable of the user's own changes what it does.
//! - Every call has a limit of time.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::error::Error;

/// The longest that one call may take.
const LIMIT: Duration = Duration::from_secs(120);

/// The program, and how it reaches the drill's server.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) exe: PathBuf,
    pub(crate) server: String,
    pub(crate) token_file: PathBuf,
}

/// A command of `exe` that none of the user's variables reach.
pub(crate) fn command(exe: &Path) -> Command {
    let mut command = Command::new(exe);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SICHEN_") {
            command.env_remove(name);
        }
    }
    // The terminal's Ctrl-C is for the drill, which then ends the others.
    command
        .process_group(0)
        .kill_on_drop(true)
        .stdin(Stdio::null());
    command
}

impl Program {
    async fn output(
        &self,
        words: &[&OsStr],
        secret: Option<(&str, &str)>,
    ) -> Result<Output, Error> {
        let mut command = command(&self.exe);
        command
            .args(words)
            .env("SICHEN_SERVER", &self.server)
            .env("SICHEN_TOKEN_FILE", &self.token_file)
            .envs(secret);
        let named = || {
            words
                .iter()
                .map(|w| w.to_string_lossy())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let output = tokio::time::timeout(LIMIT, command.output()).await;
        let output = output.map_err(|_| Error::stage(&named(), "no end within 120 s"))?;
        output.map_err(|e| Error::stage(&named(), e))
    }

    /// Runs a command; what it wrote, if it ended well.
    pub(crate) async fn run(&self, words: &[&str]) -> Result<String, Error> {
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        let output = self.output(&words, None).await?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let named: Vec<_> = words.iter().map(|w| w.to_string_lossy()).collect();
        Err(Error::stage(
            &format!("sichen {}", named.join(" ")),
            said.trim(),
        ))
    }

    /// As [`Program::run`], read as JSON.
    pub(crate) async fn json(&self, words: &[&str]) -> Result<Value, Error> {
        let words: Vec<&str> = words.iter().copied().chain(["-o", "json"]).collect();
        let text = self.run(&words).await?;
        serde_json::from_str(&text).map_err(|e| Error::stage(&words.join(" "), e))
    }

    /// The checker's verdict as JSON, whatever it is. A store's address may hold a password, so it is
    /// no argument.
    pub(crate) async fn verdict(&self, history: &Path) -> Result<Value, Error> {
        let words = ["verify", "--quiescent", "-o", "json", "--file"].map(OsStr::new);
        let words: Vec<&OsStr> = words.into_iter().chain([history.as_os_str()]).collect();
        let output = self.output(&words, None).await?;
        serde_json::from_slice(&output.stdout).map_err(|e| {
            Error::stage(
                "sichen verify",
                format!("{e}: {}", String::from_utf8_lossy(&output.stderr).trim()),
            )
        })
    }

    /// Writes what a command says into a file.
    pub(crate) async fn write(&self, words: &[&str], to: &Path) -> Result<(), Error> {
        std::fs::write(to, self.run(words).await?).map_err(|e| Error::folder(to, e))
    }
}
