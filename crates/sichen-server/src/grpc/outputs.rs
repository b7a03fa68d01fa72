//! Asks workers what attempts wrote, over the streams that they have opened.
//!
//! # Invariants
//! - A question has one answer, from the session that was asked; it waits at most
//!   [`ANSWER_WITHIN`], and at most [`MAX_QUESTIONS`] wait at once.
//! - A question is a message like any other: if the way to the worker is full it is not asked.
//!
//! # Not here
//! Which session has an attempt's output (`crate::rest`), reading it (the worker).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sichen_core::ids::{SessionId, ShardKey};
use sichen_proto::v1;
use sichen_proto::v1::server_message::Message;
use tokio::sync::oneshot;

use super::{Streams, convert};

/// How long a worker may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Questions that may wait for their answers.
pub const MAX_QUESTIONS: usize = 64;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// The shard.
    pub shard: ShardKey,
    /// The attempt's number.
    pub attempt: u32,
    /// Standard error instead of standard output.
    pub stderr: bool,
    /// From this byte on.
    pub offset: u64,
    /// At most so many bytes; 0 asks only where the stream ends.
    pub limit: u32,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The session has no stream on this node.
    NotConnected,
    /// Too many questions are open, here or at the worker.
    Busy,
    /// The worker has not answered in time.
    Silent,
}

/// Questions that wait for their answers.
#[derive(Debug, Default)]
pub(super) struct Questions {
    last: AtomicU64,
    open: Mutex<BTreeMap<(SessionId, u64), oneshot::Sender<v1::Output>>>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(SessionId, u64), oneshot::Sender<v1::Output>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands an answer to whoever asked.
    pub fn answered(&self, session: SessionId, output: v1::Output) {
        if let Some(asked) = self.lock().remove(&(session, output.request)) {
            // Who asked may have gone.
            let _ = asked.send(output);
        }
    }
}

/// Forgets the question when its answer is no longer waited for.
struct Open<'q>(&'q Questions, (SessionId, u64));

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

impl Streams {
    /// Asks the worker of `session` what an attempt wrote.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub async fn read_output(
        &self,
        session: SessionId,
        question: Question,
    ) -> Result<v1::Output, NoAnswer> {
        let out = self.way_to(session).ok_or(NoAnswer::NotConnected)?;
        let request = self.questions.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (asked, answer) = oneshot::channel();
        {
            let mut open = self.questions.lock();
            if open.len() >= MAX_QUESTIONS {
                return Err(NoAnswer::Busy);
            }
            open.insert((session, request), asked);
        }
        let _open = Open(&self.questions, (session, request));
        let stream = if question.stderr {
            v1::OutputStream::Stderr
        } else {
            v1::OutputStream::Stdout
        };
        let message = Message::ReadOutput(v1::ReadOutput {
            request,
            shard: convert::shard_ref(question.shard),
            attempt: question.attempt,
            stream: stream.into(),
            offset: question.offset,
            limit: question.limit,
        });
        if out.try_send(Ok(convert::message(message))).is_err() {
            return Err(NoAnswer::Busy);
        }
        match tokio::time::timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(output)) if output.found() == v1::OutputFound::Busy => Err(NoAnswer::Busy),
            Ok(Ok(output)) => Ok(output),
            Ok(Err(_)) | Err(_) => Err(NoAnswer::Silent),
        }
    }
}
