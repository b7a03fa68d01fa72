//! Answers a server that asks what attempts wrote.
//!
//! # Invariants
//! - Nothing waits for this: questions wait in a short queue, answers go out only while the outbox
//!   has room, and never faster than [`PAUSE`] allows.
//!
//! # Not here
//! The files (`crate::output`).

use std::time::Duration;

use sichen_proto::v1;
use sichen_proto::v1::worker_message::Message;
use tokio::sync::mpsc;

use crate::output::{AttemptOutput, Stream};

/// The most bytes of one answer.
pub(super) const MAX_OUTPUT_BYTES: usize = 64 * 1024;
/// Questions that may wait; more are told to come again.
pub(super) const MAX_OUTPUT_QUESTIONS: usize = 8;
/// Between two answers: at most 1.3 MB/s, whoever asks.
const PAUSE: Duration = Duration::from_millis(50);

/// Answers the questions of one stream, one after the other, until it is dropped.
pub(super) async fn answer(
    output: AttemptOutput,
    mut questions: mpsc::Receiver<v1::ReadOutput>,
    outbox: mpsc::WeakSender<v1::WorkerMessage>,
) {
    while let Some(question) = questions.recv().await {
        let output = output.clone();
        // It reads files: not on the thread that beats.
        let read = tokio::task::spawn_blocking(move || look(&output, &question)).await;
        if let Ok(answer) = read {
            send(&outbox, answer);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Takes a question, or says that there are too many.
pub(super) fn take(
    question: v1::ReadOutput,
    questions: &mpsc::Sender<v1::ReadOutput>,
    outbox: &mpsc::WeakSender<v1::WorkerMessage>,
) {
    let request = question.request;
    if questions.try_send(question).is_err() {
        send(outbox, empty(request, v1::OutputFound::Busy));
    }
}

/// Unsent, if the outbox is full: whoever asked asks again.
fn send(outbox: &mpsc::WeakSender<v1::WorkerMessage>, answer: v1::Output) {
    if let Some(outbox) = outbox.upgrade()
        && outbox.capacity() > outbox.max_capacity() / 2
    {
        let message = Some(Message::Output(answer));
        // The room that was seen may be taken by now.
        let _ = outbox.try_send(v1::WorkerMessage { message });
    }
}

fn empty(request: u64, found: v1::OutputFound) -> v1::Output {
    v1::Output {
        request,
        found: found.into(),
        ..v1::Output::default()
    }
}

fn look(output: &AttemptOutput, question: &v1::ReadOutput) -> v1::Output {
    let request = question.request;
    let stream = match question.stream() {
        v1::OutputStream::Stdout => Stream::Stdout,
        v1::OutputStream::Stderr => Stream::Stderr,
        v1::OutputStream::Unspecified => return empty(request, v1::OutputFound::NotKept),
    };
    let Some(shard) = &question.shard else {
        return empty(request, v1::OutputFound::NotKept);
    };
    let (run, no, attempt) = (shard.run_id, shard.no, question.attempt);
    let limit = usize::try_from(question.limit).unwrap_or(MAX_OUTPUT_BYTES);
    let limit = limit.min(MAX_OUTPUT_BYTES);
    let read = output
        .read(run, no, attempt, stream, question.offset, limit)
        .and_then(|piece| Ok(piece.zip(output.end(run, no, attempt, stream)?)));
    match read {
        Ok(Some((piece, end))) => v1::Output {
            request,
            found: v1::OutputFound::Here.into(),
            offset: piece.offset,
            skipped: piece.skipped,
            ended: piece.ended,
            end: end.max(piece.next()),
            data: piece.bytes,
            detail: String::new(),
        },
        Ok(None) => empty(request, v1::OutputFound::NotKept),
        Err(error) => v1::Output {
            detail: error.to_string(),
            ..empty(request, v1::OutputFound::Unreadable)
        },
    }
}

#[cfg(test)]
mod tests;
