//! What is said with the end of an attempt that leaves work to another.

use sichen_proto::v1;
use v1::server_message::Message as FromServer;
use v1::worker_message::Message as ToServer;

use crate::worker_tokens::{World, finish};

/// Checkpoints travel once a second: the last one may come with the end alone.
#[tokio::test]
async fn whoever_goes_on_begins_where_the_last_one_gave_back() {
    begins_where_it_ended(v1::Outcome::Released).await;
}

#[tokio::test]
async fn whoever_goes_on_begins_where_the_last_one_failed() {
    begins_where_it_ended(v1::Outcome::Failed).await;
}

async fn begins_where_it_ended(outcome: v1::Outcome) {
    let mut world = World::new().await;
    let grant = world.workers[0].grant.clone();
    let run = grant.shard.unwrap().run_id;
    let end = v1::Finish {
        checkpoint: Some(v1::Checkpoint {
            seq: 3,
            position: b"row 3".to_vec(),
            counters: None,
        }),
        ..finish(run, grant.token, outcome, "its end")
    };
    let mine = &mut world.workers[0].wire;
    mine.say(ToServer::Finish(end)).await;
    let again = loop {
        match mine.next_beating().await {
            Some(FromServer::Grant(grant)) => break grant,
            Some(FromServer::FinishAck(_) | FromServer::CheckpointAck(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(again.token > grant.token);
    let checkpoint = again.checkpoint.unwrap();
    assert_eq!(
        (checkpoint.seq, &checkpoint.position[..]),
        (3, &b"row 3"[..])
    );
    world.node.stop().await;
}
