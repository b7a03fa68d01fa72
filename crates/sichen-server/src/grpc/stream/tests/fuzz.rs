//! Messages that no worker of ours sends.

use prost::Message as _;

use super::*;

fn framed(message: FromWorker) -> Vec<u8> {
    let mut bytes = Vec::new();
    let message = WorkerMessage {
        message: Some(message),
    };
    message.encode_length_delimited(&mut bytes).unwrap();
    bytes
}

/// A stream's life; what is sent back.
async fn lives(bytes: &[u8]) -> String {
    let world = World::new().await;
    let (mut stream, mut answers) = world.stream();
    let mut rest = bytes;
    let mut told = String::new();
    while !rest.is_empty() {
        let message = match WorkerMessage::decode_length_delimited(&mut rest) {
            Ok(message) => message.message,
            Err(error) => {
                told.push_str(&error.to_string());
                break;
            }
        };
        // As its first message must be.
        let goes_on = match (message, stream.session) {
            (Some(FromWorker::Hello(hello)), None) => stream.hello(hello).await,
            (Some(_), None) => break,
            (Some(message), Some(_)) => stream.handle(vec![message]).await,
            (None, _) => Ok(()),
        };
        while let Ok(Ok(answer)) = answers.try_recv() {
            told.push_str(convert::word(&answer));
            if let Some(v1::server_message::Message::Refused(refused)) = answer.message {
                told.push_str(&refused.message);
            }
        }
        if goes_on.is_err() {
            told.push_str("cut");
            break;
        }
    }
    stream.end().await;
    told
}

#[test]
fn server_session() {
    let shard = Some(v1::ShardRef { run_id: 1, no: 0 });
    let token = 1 << 32 | 1;
    let hello = framed(FromWorker::Hello(hello(1, None)));
    let beat = framed(FromWorker::Beat(v1::Beat {
        seq: 1,
        ..v1::Beat::default()
    }));
    let finish = framed(FromWorker::Finish(v1::Finish {
        shard,
        token,
        result: b"42".to_vec(),
        ..v1::Finish::default()
    }));
    let checkpoint = framed(FromWorker::Checkpoint(v1::CheckpointReport {
        shard,
        token,
        checkpoint: Some(v1::Checkpoint::default()),
    }));
    let draining = framed(FromWorker::Draining(v1::Draining::default()));
    let seeds = [
        hello.clone(),
        [hello.clone(), beat, checkpoint, finish].concat(),
        [hello.clone(), draining, hello].concat(),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    sichen_fuzz::fuzz(
        "server_session",
        &["h", "default", "uid"],
        &seeds,
        |bytes| runtime.block_on(lives(bytes)),
    );
}
