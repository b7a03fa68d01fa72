//! The channel that answers: a socket in the attempt's directory, which `sichen report` speaks to.
//!
//! One JSON object a line, as on the named pipe, with the attempt's secret; each is answered by one
//! line `{"answer": …, "detail": …}`, a checkpoint when the server has decided on it:
//!
//! | answer | |
//! | --- | --- |
//! | `acknowledged` | the server has the checkpoint |
//! | `taken` | it travels with the next beat, or with the end |
//! | `fenced` | the token is not current any more: nothing that the process does counts |
//! | `stopped` | the attempt was told to stop: a cancel, a timeout, a drain |
//! | `refused` | the line can't be read, or the secret is another attempt's |
//!
//! # Invariants
//! - A process can speak for no attempt but its own by mistake. (On purpose it could: what runs as
//!   the same user can read this one's environment.)
//!
//! # Not here
//! What is done with a line (`report`).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use sichen_sdk::Context;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::report::{Line, MAX_LINE_BYTES, Said};

/// Connections of one attempt that are served at once; more wait.
const MAX_CONNECTIONS: usize = 64;
/// Bytes of a checkpoint's position, as everywhere.
const MAX_POSITION_BYTES: usize = sichen_sdk::session::MAX_POSITION_BYTES;
/// Bytes of a result, as everywhere.
const MAX_RESULT_BYTES: usize = sichen_sdk::session::MAX_RESULT_BYTES;

#[derive(Debug)]
pub(super) struct Channel {
    path: PathBuf,
    listener: UnixListener,
    secret: Arc<str>,
}

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    secret: String,
    #[serde(flatten)]
    line: Line,
}

#[derive(Debug, PartialEq, Eq)]
struct Answer(&'static str, String);

impl Channel {
    pub(super) fn open(dir: &Path) -> io::Result<Channel> {
        let name = "report.sock";
        let path = dir.join(name);
        let _ = std::fs::remove_file(&path);
        // The address of a socket has 108 bytes at most, which a directory's path may exceed.
        let dir = File::open(dir)?;
        let listener = UnixListener::bind(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))?;
        let secret = new_secret()?.into();
        Ok(Channel {
            path,
            listener,
            secret,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    /// Answers for ever.
    pub(super) async fn serve(&self, said: &Arc<Said>, context: &Context) {
        let mut served = JoinSet::new();
        loop {
            tokio::select! {
                Some(_) = served.join_next() => {}
                accepted = self.listener.accept(), if served.len() < MAX_CONNECTIONS => {
                    match accepted {
                        Ok((stream, _)) => {
                            let (said, context) = (Arc::clone(said), context.clone());
                            served.spawn(serve(stream, Arc::clone(&self.secret), said, context));
                        }
                        // No descriptor left, for one: the next try may find one.
                        Err(error) => {
                            tracing::warn!(%error, "a report can't be taken");
                            tokio::time::sleep(super::LOOK_EVERY).await;
                        }
                    }
                }
            }
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn serve(stream: UnixStream, secret: Arc<str>, said: Arc<Said>, context: Context) {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limited = (&mut from).take(MAX_LINE_BYTES as u64);
        let mut limited = std::pin::pin!(limited);
        match limited.read_until(b'\n', &mut line).await {
            Ok(n) if n > 0 => {}
            _ => return,
        }
        let whole = line.ends_with(b"\n") || line.len() < MAX_LINE_BYTES;
        let Answer(answer, detail) = match serde_json::from_slice(&line) {
            _ if !whole => Answer(
                "refused",
                format!("a line has {MAX_LINE_BYTES} bytes at most"),
            ),
            Err(error) => Answer("refused", error.to_string()),
            Ok(Request { secret: given, .. }) if given != *secret => {
                let why = "the secret is not this attempt's";
                Answer("refused", why.to_owned())
            }
            Ok(Request { line, .. }) => answer(line, &said, &context).await,
        };
        let mut text = serde_json::json!({ "answer": answer, "detail": detail }).to_string();
        text.push('\n');
        if to.write_all(text.as_bytes()).await.is_err() || !whole {
            return;
        }
    }
}

async fn answer(line: Line, said: &Said, context: &Context) -> Answer {
    let checkpoint = line.checkpoint.as_ref().map(String::len);
    if checkpoint.is_some_and(|bytes| bytes > MAX_POSITION_BYTES) {
        let why = format!("a position has {MAX_POSITION_BYTES} bytes at most");
        return Answer("refused", why);
    }
    if let Some(result) = &line.result
        && result.to_string().len() > MAX_RESULT_BYTES
    {
        let why = format!("a result has {MAX_RESULT_BYTES} bytes at most");
        return Answer("refused", why);
    }
    let position = line.checkpoint.as_deref();
    if position.is_some_and(|position| position.contains('\0')) {
        return Answer("refused", "a position has no NUL character".to_owned());
    }
    if said.take(line, context).is_err() {
        return stopped(context);
    }
    if checkpoint.is_none() {
        return Answer("taken", String::new());
    }
    match context.flush().await {
        Ok(()) => Answer("acknowledged", String::new()),
        Err(_) => stopped(context),
    }
}

/// Why nothing more is taken.
fn stopped(context: &Context) -> Answer {
    match context.stop_order() {
        Some(order) if order.is_fenced() => Answer("fenced", order.why()),
        Some(order) => Answer("stopped", order.why()),
        None => Answer("stopped", String::new()),
    }
}

/// Hard to guess, for this attempt alone.
fn new_secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
