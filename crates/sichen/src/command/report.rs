//! `sichen report`: a process that a worker runs says how far it is, and is told whether it counts.
//!
//! # Invariants
//! - It ends with 0 only if what it said was taken; a checkpoint, only if the server has it.
//! - TERM, which reaches the whole tree of a process that is to stop, does not keep it from saying
//!   why.
//!
//! # Not here
//! What becomes of it (the process runner of `sichen-worker`), and the named pipe `$SICHEN_REPORT`,
//! which needs no program.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};

use super::waiting::length;
use crate::failure::{Exit, Failure};

/// The longest address of a socket; one byte less than the system's field for it.
const MAX_ADDRESS_BYTES: usize = 107;
/// After TERM the answer is only a moment away.
const LAST_WORD_WITHIN: Duration = Duration::from_secs(2);

/// Inside a process that a worker runs: say how far it is.
///
/// Exit code 0: it counts; after `checkpoint`, the server has acknowledged it. 8: fenced, the shard
/// has a newer token and nothing that this process does counts; stop at once. 9: told to stop by a
/// cancel, a timeout or a drain. 5: the worker can't be reached. 7: not acknowledged in time.
#[derive(Debug, Args)]
pub struct Report {
    #[command(subcommand)]
    what: What,
    /// How long to wait for the acknowledgement.
    #[arg(long, global = true, value_name = "LENGTH", default_value = "1m", value_parser = length)]
    timeout: Duration,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Everything up to this position is reliably done; waits for the server's acknowledgement.
    ///
    /// Report after your own commit: where the position lives with your data, that copy is the
    /// truth, and this one is shown to people.
    Checkpoint {
        /// Your own words, such as `id:4711`; at most 64 KiB.
        position: String,
        #[command(flatten)]
        counters: Counters,
    },
    /// How much is done, without a checkpoint.
    Progress {
        /// Items done.
        #[arg(value_name = "DONE")]
        done: u64,
        /// Items to do in all.
        #[arg(long, value_name = "N")]
        expected: Option<u64>,
        /// Items per second.
        #[arg(long, value_name = "N")]
        rate: Option<f64>,
    },
    /// One counter alone.
    Counter {
        /// Which.
        name: Counter,
        /// Its value.
        value: f64,
    },
    /// The shard's result, JSON, at most 256 KiB; the last one before the end counts.
    Result {
        /// The JSON text; `-` reads the standard input.
        json: String,
    },
    /// What the process waits on just now, for people.
    Waiting {
        /// Such as `mysql-main`.
        #[arg(required_unless_present = "over")]
        on: Option<String>,
        /// It goes on.
        #[arg(long, conflicts_with = "on")]
        over: bool,
    },
}

#[derive(Debug, Args)]
struct Counters {
    /// Items done.
    #[arg(long, value_name = "N")]
    done: Option<u64>,
    /// Items to do in all.
    #[arg(long, value_name = "N")]
    expected: Option<u64>,
    /// Items per second.
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Counter {
    Done,
    Expected,
    Rate,
}

/// Carries out `sichen report`.
pub async fn say(args: Report) -> Result<ExitCode, Failure> {
    let mut line = line(args.what)?;
    let (socket, secret) = (variable("SOCKET")?, variable("SECRET")?);
    line.insert("secret".to_owned(), secret.into());
    // Before anything is said: from here on TERM does not end us without a word.
    let mut term = signal(SignalKind::terminate())?;
    let answer = tokio::time::timeout(args.timeout, ask(Path::new(&socket), line));
    let answer = tokio::select! {
        answer = answer => answer.map_err(|_| late(args.timeout))??,
        () = told_to_stop(&mut term) => return Err(stopped("TERM")),
    };
    let word = |name| answer.get(name).and_then(Value::as_str).unwrap_or_default();
    match (word("answer"), word("detail")) {
        ("acknowledged" | "taken", _) => Ok(ExitCode::SUCCESS),
        ("fenced", _) => Err(Failure::new(
            Exit::Fenced,
            "SC7021: the shard has a newer token: nothing that this process does counts any more; stop at once",
        )),
        ("stopped", why) => Err(stopped(why)),
        (_, why) => Err(Failure::usage(format!(
            "SC7022: the worker refuses it: {why}"
        ))),
    }
}

async fn told_to_stop(term: &mut tokio::signal::unix::Signal) {
    term.recv().await;
    tokio::time::sleep(LAST_WORD_WITHIN).await;
}

fn line(what: What) -> Result<Map<String, Value>, Failure> {
    let said = match what {
        What::Checkpoint { position, counters } => json!({
            "checkpoint": position,
            "done": counters.done,
            "expected": counters.expected,
            "rate": counters.rate,
        }),
        What::Progress {
            done,
            expected,
            rate,
        } => json!({ "done": done, "expected": expected, "rate": rate }),
        What::Counter { name, value } => counter(name, value)?,
        What::Result { json } => json!({ "result": result(&json)? }),
        What::Waiting { on, .. } => json!({ "waiting_on": on.unwrap_or_default() }),
    };
    match said {
        Value::Object(line) => Ok(line),
        _ => Ok(Map::new()),
    }
}

fn counter(name: Counter, value: f64) -> Result<Value, Failure> {
    let whole = || {
        let fits = value.fract() == 0.0 && (0.0..=9e15).contains(&value);
        fits.then_some(value as u64)
            .ok_or_else(|| Failure::usage(format!("SC7022: {value} is no number of items")))
    };
    Ok(match name {
        Counter::Done => json!({ "done": whole()? }),
        Counter::Expected => json!({ "expected": whole()? }),
        Counter::Rate => json!({ "rate": value }),
    })
}

fn result(text: &str) -> Result<Value, Failure> {
    let mut read = String::new();
    let text = if text == "-" {
        std::io::stdin().read_to_string(&mut read)?;
        &read
    } else {
        text
    };
    serde_json::from_str(text).map_err(|error| {
        Failure::usage(format!(
            "SC7022: the result is no JSON: {error}; write a text as '\"text\"'"
        ))
    })
}

fn variable(name: &str) -> Result<String, Failure> {
    let name = format!("SICHEN_REPORT_{name}");
    std::env::var(&name).map_err(|_| {
        Failure::usage(format!(
            "SC7023: {name} is not set: `sichen report` works inside a process that a worker runs"
        ))
    })
}

/// Says one line and takes the answer to it.
async fn ask(socket: &Path, line: Map<String, Value>) -> Result<Value, Failure> {
    let lost = |error: std::io::Error| {
        Failure::new(
            Exit::Unavailable,
            format!(
                "SC7024: the worker can't be reached at {}: {error}",
                socket.display()
            ),
        )
    };
    let mut stream = connect(socket).await.map_err(lost)?;
    let mut text = Value::Object(line).to_string();
    text.push('\n');
    stream.write_all(text.as_bytes()).await.map_err(lost)?;
    let mut answer = String::new();
    let mut stream = BufReader::new(stream);
    stream.read_line(&mut answer).await.map_err(lost)?;
    serde_json::from_str(&answer)
        .map_err(|_| lost(std::io::Error::other("it closed the connection")))
}

async fn connect(socket: &Path) -> std::io::Result<UnixStream> {
    if socket.as_os_str().len() <= MAX_ADDRESS_BYTES {
        return UnixStream::connect(socket).await;
    }
    let name = socket.file_name().unwrap_or_default();
    let dir = File::open(socket.parent().unwrap_or(Path::new(".")))?;
    let short: PathBuf = format!("/proc/self/fd/{}", dir.as_raw_fd()).into();
    UnixStream::connect(short.join(name)).await
}

fn late(timeout: Duration) -> Failure {
    let text = format!(
        "SC7025: no acknowledgement within {timeout:?}; the worker goes on trying, and the next checkpoint covers this one"
    );
    Failure::new(Exit::TimedOut, text)
}

fn stopped(why: &str) -> Failure {
    let text = format!("SC7026: the attempt was told to stop ({why}): leave within the grace");
    Failure::new(Exit::Stopped, text)
}
