//! What a command's end means: the exit codes, and failures that say what to do.
//!
//! # Invariants
//! - The codes are a promise to scripts (docs/cli.md): one is added, none changes its meaning.
//! - Who asked for JSON or YAML gets a failure in that form too, on the error output.
//! - Whoever says nothing of what to do is helped out by the page of the codes, docs/errors.md.
//!
//! # Not here
//! Which HTTP status means what ([`crate::client`]).

use std::fmt;
use std::process::ExitCode;

use serde::Serialize;

use crate::output::Form;

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
    /// Ctrl-C ended the waiting; what was awaited goes on. As shells count a signal.
    Interrupted = 130,
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

    /// Its first line.
    pub fn line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// The command line or a file is wrong.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }
}

/// A failure as programs read it.
#[derive(Debug, Serialize)]
struct Told<'f> {
    error: Parts<'f>,
}

#[derive(Debug, Serialize)]
struct Parts<'f> {
    /// `SCnnnn`; null where there is none.
    code: Option<&'f str>,
    /// What happened, to what.
    message: &'f str,
    /// What else is said of it, line by line.
    details: Vec<&'f str>,
    /// What to do, as docs/errors.md has it.
    what_to_do: Option<String>,
    /// The exit code.
    exit: u8,
}

/// The page that has a section for each code.
const ERRORS: &str = include_str!("../../../docs/errors.md");

/// What the page of the codes says is to be done about `code`.
fn what_to_do(code: &str) -> Option<String> {
    let (_, section) = ERRORS.split_once(&format!("\n## {code}:"))?;
    let section = section.split("\n## ").next()?;
    let (_, advice) = section.split_once("*What to do:*")?;
    let advice = advice.split("\n\n").next()?;
    Some(advice.split_whitespace().collect::<Vec<_>>().join(" "))
}

impl Failure {
    /// The code, and the text without it where it stands in front.
    fn parts(&self) -> (Option<&str>, &str) {
        match self.text.split_once(": ") {
            Some((code, rest)) if is_code(code) => (Some(code), rest),
            // What it is about may stand before the code.
            _ => {
                // Or a line that counts what is wrong, and then each with its own.
                let mut parts = self.text.lines().flat_map(|line| line.split(": "));
                (parts.find(|part| is_code(part)), &self.text)
            }
        }
    }

    /// The whole of it in a form.
    #[must_use]
    pub fn told(&self, form: Form) -> String {
        let (code, rest) = self.parts();
        let advice = code.and_then(what_to_do);
        let mut lines = rest.lines();
        let message = lines.next().unwrap_or_default();
        let details: Vec<&str> = lines.map(str::trim).filter(|l| !l.is_empty()).collect();
        if form == Form::Table {
            let mut text = format!("error: {}\n", self.text);
            // What has commands or lines of its own says what to do itself.
            if let Some(advice) = advice.filter(|_| details.is_empty() && !message.contains('`')) {
                text.push_str(&format!("  what to do: {advice}\n"));
            }
            return text;
        }
        let told = Told {
            error: Parts {
                code,
                message,
                details,
                what_to_do: advice,
                exit: self.exit as u8,
            },
        };
        let text = match form {
            Form::Yaml => serde_saphyr::to_string(&told).ok(),
            Form::Table | Form::Json => serde_json::to_string(&told).ok().map(|t| t + "\n"),
        };
        text.unwrap_or_else(|| format!("error: {}\n", self.text))
    }
}

fn is_code(text: &str) -> bool {
    let number = text.strip_prefix("SC");
    number.is_some_and(|n| n.len() == 4 && n.bytes().all(|b| b.is_ascii_digit()))
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

#[cfg(test)]
mod tests;
