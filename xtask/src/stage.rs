//! One stage of a check: a command whose output passes through, timed, with its closing lines
//! kept so that they can be said again at the end.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Closing lines kept per stage; a failing run names its first tests, the log holds the rest.
const MAX_CLOSING_LINES: usize = 60;

/// What became of a stage.
#[derive(Debug)]
pub struct Outcome {
    pub name: &'static str,
    pub ok: bool,
    pub took: Duration,
    /// Lines in which the tool sums up: totals and the names of what failed.
    pub closing: Vec<String>,
}

/// Runs `command` to its end. Its output goes to ours line by line; its input is empty.
///
/// # Errors
/// When the command can't be started. A command that fails is an [`Outcome`], not an error.
pub fn run(name: &'static str, mut command: Command) -> Result<Outcome> {
    println!("\n== {name}: {}", shown(&command));
    let began = now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{name}: could not start {}", shown(&command)))?;
    let closing = Mutex::new(Vec::new());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        if let Some(out) = out {
            scope.spawn(|| pass(out, std::io::stdout(), &closing));
        }
        if let Some(err) = err {
            scope.spawn(|| pass(err, std::io::stderr(), &closing));
        }
    });
    let status = child
        .wait()
        .with_context(|| format!("{name}: lost the command"))?;
    let closing = closing.into_inner().unwrap_or_default();
    Ok(Outcome {
        name,
        ok: status.success(),
        took: began.elapsed(),
        closing,
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "stages are timed for people; nothing decides by it"
)]
fn now() -> Instant {
    Instant::now()
}

fn pass(from: impl Read, mut to: impl Write, closing: &Mutex<Vec<String>>) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        // A closed terminal is no reason to stop the tests.
        let _ = to.write_all(&line);
        let text = String::from_utf8_lossy(&line);
        if closes(&text)
            && let Ok(mut kept) = closing.lock()
            && kept.len() < MAX_CLOSING_LINES
            && !kept.iter().any(|line| line == text.trim_end())
        {
            kept.push(text.trim_end().to_owned());
        }
        line.clear();
    }
}

/// Whether a runner's line is one of those that sum up. A line that is indented by four is what
/// one test printed, repeated by the runner.
pub fn closes(line: &str) -> bool {
    let inner = line.starts_with("    test ");
    let line = line.trim();
    if inner {
        return false;
    }
    [
        "Summary [",
        "console: ",
        "first page: ",
        "simulated: ",
        "zoo: ",
        "ESCAPED ",
        "chaos: ",
        "test result:",
        "error: test run failed",
        "error: could not compile",
    ]
    .iter()
    .any(|start| line.starts_with(start))
        || ["FAIL [", "TIMEOUT [", "SIGABRT [", "SIGSEGV ["]
            .iter()
            .any(|s| line.starts_with(s))
        || (line.starts_with("test ") && line.ends_with("FAILED"))
}

fn shown(command: &Command) -> String {
    // The cargo that runs us is a long path.
    let program = Path::new(command.get_program()).file_name();
    let mut text = program.unwrap_or_default().to_string_lossy().into_owned();
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    text
}
