//! What a worker's session does with messages that no server of ours sends.

use prost::Message as _;

use super::*;

fn framed(kind: u8, message: FromServer) -> Vec<u8> {
    let mut bytes = vec![kind];
    let message = v1::ServerMessage {
        message: Some(message),
    };
    message.encode_length_delimited(&mut bytes).unwrap();
    bytes
}

/// A life of a session, each step by its first byte.
fn lives(bytes: &[u8]) -> String {
    let (mut play, mut rest, mut open) = (Play::new(2, Vec::new()), bytes, false);
    let mut told = String::new();
    while let [kind, tail @ ..] = rest {
        rest = tail;
        let out = match kind % 8 {
            0 if !open => {
                open = true;
                play.feed(Input::Connected)
            }
            1 if open => {
                open = false;
                play.feed(Input::Disconnected { jitter: 500 })
            }
            2 => {
                let by = u64::from(rest.first().copied().unwrap_or(1)) * 100;
                play.now = play.now.plus(by);
                play.feed(Input::Tick)
            }
            3 => {
                let first = play.session.running().next();
                match first {
                    Some(lease) => play.feed(Input::HandlerFinished { lease, ended: ok() }),
                    None => Vec::new(),
                }
            }
            _ => {
                let mut buffer = rest;
                let message = v1::ServerMessage::decode_length_delimited(&mut buffer);
                match message.map(|message| message.message) {
                    Ok(Some(message)) if open => {
                        rest = buffer;
                        play.feed(Input::Server(message))
                    }
                    _ => Vec::new(),
                }
            }
        };
        open &= !out.iter().any(|out| matches!(out, Output::CloseStream));
        for out in &out {
            told.push_str(&format!("{out:?}").chars().take(24).collect::<String>());
        }
    }
    told
}

#[test]
fn worker_session() {
    let up = [vec![0], framed(7, welcome(1))].concat();
    let grant = FromServer::Grant(v1::Grant {
        shard: Some(v1::ShardRef { run_id: 1, no: 0 }),
        token: 1 << 32 | 1,
        handler: "h".to_owned(),
        ..v1::Grant::default()
    });
    let lease = Lease {
        run_id: 1,
        no: 0,
        token: 1 << 32 | 1,
    };
    let ended = framed(7, ack(lease, v1::Verdict::Accepted));
    let seeds = [
        up.clone(),
        [up.clone(), framed(7, grant.clone()), vec![3], ended].concat(),
        [up, framed(7, grant), vec![2, 50, 1, 0]].concat(),
    ];
    sichen_fuzz::fuzz("worker_session", &["h", "w"], &seeds, lives);
}
