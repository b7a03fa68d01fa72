//! Claims about what a server is told of attempts' output.

use super::*;

fn question(request: u64, attempt: u32, offset: u64, limit: u32) -> v1::ReadOutput {
    v1::ReadOutput {
        request,
        shard: Some(v1::ShardRef { run_id: 7, no: 0 }),
        attempt,
        stream: v1::OutputStream::Stdout.into(),
        offset,
        limit,
    }
}

#[test]
fn an_answer_says_where_it_stands_in_the_stream() {
    let dir = tempfile::tempdir().unwrap();
    let attempt = dir.path().join("attempts/7.0.2.5");
    std::fs::create_dir_all(&attempt).unwrap();
    std::fs::write(attempt.join("stdout.log"), b"one\ntwo\n\xff").unwrap();
    std::fs::write(attempt.join("stdout.100.log"), b"late\n").unwrap();
    let output = AttemptOutput::of(dir.path());
    let of = |offset, limit| {
        let answer = look(&output, &question(1, 2, offset, limit));
        (
            answer.offset,
            answer.skipped,
            answer.data,
            answer.ended,
            answer.end,
        )
    };
    assert_eq!(of(0, 4), (0, 0, b"one\n".to_vec(), true, 105));
    assert_eq!(of(4, 100), (4, 0, b"two\n\xff".to_vec(), true, 105));
    assert_eq!(of(9, 100), (100, 91, b"late\n".to_vec(), true, 105));
    assert_eq!(of(105, 100), (105, 0, Vec::new(), true, 105));
    let other = look(&output, &question(1, 1, 0, 100));
    assert_eq!(other.found(), v1::OutputFound::NotKept);
}

#[tokio::test]
async fn questions_beyond_the_queue_are_told_to_come_again_and_nothing_waits() {
    let (outbox, mut sent) = mpsc::channel(16);
    let (asks, questions) = mpsc::channel(1);
    let way = outbox.downgrade();
    for request in [1, 2, 3] {
        take(question(request, 1, 0, 10), &asks, &way);
    }
    let mut busy = Vec::new();
    while let Ok(v1::WorkerMessage {
        message: Some(Message::Output(answer)),
    }) = sent.try_recv()
    {
        assert_eq!(answer.found(), v1::OutputFound::Busy);
        busy.push(answer.request);
    }
    assert_eq!(busy, [2, 3]);
    drop(asks);
    let dir = tempfile::tempdir().unwrap();
    answer(AttemptOutput::of(dir.path()), questions, way.clone()).await;
    let last = sent.recv().await.unwrap().message;
    assert!(matches!(last, Some(Message::Output(o)) if o.request == 1));
    // An outbox that is half full is left to beats and reports.
    for _ in 0..8 {
        outbox.try_send(v1::WorkerMessage::default()).unwrap();
    }
    send(&way, empty(9, v1::OutputFound::Here));
    assert_eq!(sent.len(), 8);
}
