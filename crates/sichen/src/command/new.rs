//! `sichen new job`: a commented document from a few answers, or from options alone.
//!
//! # Invariants
//! - What is written passes `sichen validate`; an answer that would not is refused and nothing is written.
//! - A file that is there already is never written over.
//! - Nothing is asked where nobody can answer: without a terminal the options must say everything.
//!
//! # Not here
//! The document's rules (`sichen_core::document`); applying it (`sichen apply`).

use std::io::{BufRead, IsTerminal as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use sichen_server::document;

use crate::failure::{Exit, Failure};
use crate::output;

/// Answers of one question that are refused before the command gives up.
const TRIES: usize = 5;
/// Bytes of one answer.
const ANSWER_BYTES: u64 = 4_096;

/// Write the first document of something new.
#[derive(Debug, Subcommand)]
pub enum New {
    /// Write a job's document, with comments, from a few answers. What the options say is not asked.
    Job(Box<Job>),
}

/// The options of `sichen new job`.
#[derive(Debug, Default, Args)]
pub struct Job {
    /// Its name, or `namespace/name`: small letters, digits, `-`, `.` and `_`.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// When it runs: a cron expression.
    #[arg(long, value_name = "EXPR", group = "when")]
    cron: Option<String>,
    /// When it runs: each time that so long has passed, such as `15m`.
    #[arg(long, value_name = "LENGTH", group = "when")]
    every: Option<String>,
    /// When it runs: once, at this instant.
    #[arg(long, value_name = "TIME", group = "when")]
    at: Option<String>,
    /// When it runs: so long after the end of its last run.
    #[arg(long, value_name = "LENGTH", group = "when")]
    after: Option<String>,
    /// When it runs: only if somebody asks for it.
    #[arg(long, group = "when")]
    manual: bool,
    /// The time zone of its schedule [default: UTC].
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
    /// What it runs: a handler that workers offer.
    #[arg(long, value_name = "HANDLER", group = "what")]
    handler: Option<String>,
    /// What it runs: a command, read by /bin/sh.
    #[arg(long, value_name = "COMMAND", group = "what")]
    sh: Option<String>,
    /// Into how many parts a run is cut [default: 1].
    #[arg(long, value_name = "N")]
    shards: Option<u32>,
    /// How often a part is tried [default: 3].
    #[arg(long, value_name = "N")]
    attempts: Option<u32>,
    /// Where it is written; a file that is there is left alone [default: the standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Carries out `sichen new`.
pub fn run(new: New) -> Result<ExitCode, Failure> {
    let New::Job(mut job) = new;
    if !job.is_whole() {
        if !std::io::stdin().is_terminal() {
            return Err(Failure::usage(
                "SC7040: nobody is there to ask: say NAME, one of --cron, --every, --at, --after and --manual, \
                 and one of --handler and --sh",
            ));
        }
        job.ask(&mut std::io::stdin().lock(), &mut std::io::stderr())?;
    }
    let text = job.document()?;
    match &job.out {
        None => output::print(&text)?,
        Some(path) => {
            let shown = path.display();
            let file = std::fs::File::create_new(path);
            let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
            written.map_err(|error| {
                Failure::new(
                    Exit::Failed,
                    format!("SC7041: {shown} is not written: {error}"),
                )
            })?;
            output::print(&format!(
                "{shown} is written\n  check it after a change: sichen validate {shown}\n  make it a job: sichen apply -f {shown}\n"
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Job {
    fn has_when(&self) -> bool {
        let said = [&self.cron, &self.every, &self.at, &self.after];
        self.manual || said.iter().any(|one| one.is_some())
    }

    fn has_what(&self) -> bool {
        self.handler.is_some() || self.sh.is_some()
    }

    /// Whether the options say all that has no default.
    fn is_whole(&self) -> bool {
        self.name.is_some() && self.has_when() && self.has_what()
    }

    /// Asks for what the options left open, and again where an answer makes no right document.
    fn ask(&mut self, answers: &mut dyn BufRead, screen: &mut dyn Write) -> Result<(), Failure> {
        let mut ask = Asking { answers, screen };
        if self.name.is_none() {
            let right = |said: &str| trial(|job| job.name = Some(said.to_owned()));
            self.name = Some(ask.until("Its name, such as nightly-report", "", right)?);
        }
        if !self.has_when() {
            let right = |said: &str| trial(|job| job.when(said));
            let question = "When it runs: a cron expression such as 30 2 * * *, a length such as 15m, or nothing \
                            for a job that is only asked for";
            let said = ask.until(question, "", right)?;
            self.when(&said);
        }
        if self.tz.is_none() && (self.cron.is_some() || self.every.is_some()) {
            let right = |said: &str| trial(|job| job.tz = Some(said.to_owned()));
            self.tz = Some(ask.until("Its time zone", "UTC", right)?);
        }
        if !self.has_what() {
            let right = |said: &str| match said {
                "" => Err("say what it runs".to_owned()),
                said => trial(|job| job.what(said)),
            };
            let question =
                "What it runs: the name of a handler that workers offer, or a command for /bin/sh";
            let said = ask.until(question, "", right)?;
            self.what(&said);
        }
        if self.shards.is_none() {
            let right = |said: &str| trial_number(said, |job, n| job.shards = Some(n));
            let question =
                "Into how many parts a run is cut, which may run on several workers at once";
            self.shards = ask.until(question, "1", right)?.parse().ok();
        }
        Ok(())
    }

    /// What an answer says of when: nothing, a length, or an expression.
    fn when(&mut self, said: &str) {
        let words = said.split_whitespace().count();
        (self.cron, self.every, self.manual) = match words {
            0 => (None, None, true),
            1 if !said.starts_with('@') => (None, Some(said.to_owned()), false),
            _ => (Some(said.to_owned()), None, false),
        };
    }

    /// What an answer says of what: a handler's name, or a command.
    fn what(&mut self, said: &str) {
        let is_name = said
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._".contains(&b));
        (self.handler, self.sh) = match is_name {
            true => (Some(said.to_owned()), None),
            false => (None, Some(said.to_owned())),
        };
    }

    /// The document, checked.
    fn document(&self) -> Result<String, Failure> {
        let text = self.written();
        match document::read_all(&text) {
            Ok(_) => Ok(text),
            Err(problems) => {
                let lines: Vec<String> = problems
                    .iter()
                    .map(|p| format!("{}: {}", p.path, p.message))
                    .collect();
                Err(Failure::usage(format!(
                    "SC7042: this makes no right document\n  {}",
                    lines.join("\n  ")
                )))
            }
        }
    }

    fn written(&self) -> String {
        let name = self.name.as_deref().unwrap_or("job");
        let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
        let mut text = String::from(
            "# A job. Lines that begin with a # say what else there is: take it away where it is wanted.\n\
             # `sichen validate FILE` checks the document, `sichen apply -f FILE` makes it a job, and the\n\
             # same again its next revision. Every field: `sichen schema`.\n\
             apiVersion: sichen/v1\n\
             kind: Job\n\
             metadata:\n",
        );
        text += &format!(
            "  name: {}          # its runs and their history go by it\n",
            quoted(name)
        );
        if namespace == "default" {
            text += "  # namespace: default\n";
        } else {
            text += &format!("  namespace: {}\n", quoted(namespace));
        }
        text += "  # title: What people read in lists\nspec:\n";
        text += &self.schedule();
        text += &self.runs();
        text += &self.care();
        text
    }

    fn schedule(&self) -> String {
        let zone = self.tz.as_deref().unwrap_or("UTC");
        let mut text = String::from("\n  # When it runs.\n");
        if self.manual {
            text += "  # Only when it is asked for: `sichen run NAME`, or POST /api/v1/jobs/NAMESPACE/NAME/runs.\n\
                     \x20 # With a schedule it runs by itself, too:\n\
                     \x20 # timeZone: UTC\n\
                     \x20 # schedules:\n\
                     \x20 #   - cron: \"30 2 * * *\"\n";
            return text;
        }
        text += &format!("  timeZone: {}\n  schedules:\n", quoted(zone));
        if let Some(expr) = &self.cron {
            text += &format!(
                "    - cron: {}          # its next times: sichen next NAME, or sichen next --cron EXPR\n\
                 \x20     # gap: skip          # a local time that a clock change leaves out; first-valid if left out\n\
                 \x20     # fold: both         # one that comes twice; first if left out\n",
                quoted(expr)
            );
        } else if let Some(length) = &self.every {
            text += &format!(
                "    - every: {}          # on a grid that begins in 1970, whatever a run takes\n\
                 \x20     # phase: 1m          # moves the grid\n",
                quoted(length)
            );
        } else if let Some(at) = &self.at {
            text += &format!("    - at: {}          # once\n", quoted(at));
        } else if let Some(length) = &self.after {
            text += &format!(
                "    - after: {}          # the end of its last run\n",
                quoted(length)
            );
        }
        text += "  catchUp:\n\
                 \x20   policy: latest         # of times that were missed: none, latest, { all: 10 }, coalesce\n\
                 \x20   # startingDeadline: 10m  # later than that it does not start any more\n\
                 \x20 overlap: forbid          # while it still runs: allow, forbid, replace, { queue: { limit: 5 } }\n";
        text
    }

    fn runs(&self) -> String {
        let mut text = String::from("\n  # What it runs.\n  run:\n");
        match (&self.handler, &self.sh) {
            (_, Some(command)) => {
                text += &format!(
                    "    process:\n\
                     \x20     # The worker's configuration must allow the shell: allow_programs: [/bin/sh]. A name of\n\
                     \x20     # its own under `processes` there, and `handler: NAME` here, allows less and is safer.\n\
                     \x20     argv: [/bin/sh, -c, {}]\n",
                    quoted(command)
                );
            }
            (handler, None) => {
                let handler = handler.as_deref().unwrap_or("noop");
                text += &format!(
                    "    handler: {}          # `sichen get workers` shows which worker offers what\n",
                    quoted(handler)
                );
            }
        }
        let shards = self.shards.unwrap_or(1);
        text += &format!(
            "  shards:\n\
             \x20   count: {shards}               # parts of a run, each with a worker, an index and a checkpoint of its own\n"
        );
        text
    }

    fn care(&self) -> String {
        let attempts = self.attempts.unwrap_or(3);
        format!(
            "\n  # What happens when it fails.\n\
             \x20 retry:\n\
             \x20   maxAttempts: {attempts}         # of each part; a worker that is lost counts too\n\
             \x20   backoff:\n\
             \x20     exponential:\n\
             \x20       base: 10s\n\
             \x20       factor: 2.0\n\
             \x20       max: 10m\n\
             \x20 timeouts:\n\
             \x20   attempt: 1h            # one attempt; after that it is stopped and tried again\n\
             \x20   # run: 6h              # the whole run, from its creation on\n"
        )
    }
}

/// Whether a job with this answer, and everything else as usual, is right; what is wrong if not.
fn trial(answer: impl FnOnce(&mut Job)) -> Result<(), String> {
    let mut job = Job {
        name: Some("trial".to_owned()),
        handler: Some("noop".to_owned()),
        ..Job::default()
    };
    answer(&mut job);
    if job.tz.is_some() && !job.has_when() {
        job.cron = Some("0 0 * * *".to_owned());
    }
    job.manual = !job.has_when() || job.manual;
    match document::read_all(&job.written()) {
        Ok(_) => Ok(()),
        Err(problems) => Err(problems
            .first()
            .map_or_else(String::new, |problem| problem.message.clone())),
    }
}

fn trial_number(said: &str, answer: impl FnOnce(&mut Job, u32)) -> Result<(), String> {
    match said.parse() {
        Ok(n) => trial(|job| answer(job, n)),
        Err(_) => Err(format!("{said:?} is no number")),
    }
}

/// A text as YAML reads it back, whatever is in it: JSON's form is one of YAML's. Plain where that is
/// plainly the same.
fn quoted(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._/".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_ascii_lowercase().as_str());
    if plain {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}

/// Questions on one side, answers from the other.
struct Asking<'a> {
    answers: &'a mut dyn BufRead,
    screen: &'a mut dyn Write,
}

impl Asking<'_> {
    /// The first answer that is right; an empty one stands for `default`.
    fn until(
        &mut self,
        question: &str,
        default: &str,
        right: impl Fn(&str) -> Result<(), String>,
    ) -> Result<String, Failure> {
        for _ in 0..TRIES {
            let hint = match default {
                "" => String::new(),
                default => format!(" [{default}]"),
            };
            write!(self.screen, "{question}{hint}: ")?;
            self.screen.flush()?;
            let mut line = String::new();
            let mut answers = std::io::Read::take(&mut self.answers, ANSWER_BYTES);
            let read = answers.read_line(&mut line)?;
            if read == 0 {
                break;
            }
            let said = match line.trim() {
                "" => default,
                said => said,
            };
            match right(said) {
                Ok(()) => return Ok(said.to_owned()),
                Err(why) => writeln!(self.screen, "  {why}")?,
            }
        }
        Err(Failure::usage(format!(
            "SC7043: no answer that can be used to {question:?}; nothing is written"
        )))
    }
}

#[cfg(test)]
#[path = "new_tests.rs"]
mod tests;
