//! Who knows all about a worker, and has the token of another: taken for it where tokens name nobody, and for
//! nobody else where they do.

use sichen_proto::v1;
use sichen_proto::v1::server_message::Message as FromServer;
use sichen_proto::v1::worker_message::Message as ToServer;

use crate::worker_tokens::{Wire, World, finish, hello};

/// What somebody says who has the token of w1, and has learnt all about w2 that the API shows: its uid, its
/// start, its session, and what it holds.
fn impostor(world: &World, name: &str) -> v1::Hello {
    let victim = &world.workers[1];
    let done = finish(
        victim.grant.shard.unwrap().run_id,
        victim.grant.token,
        v1::Outcome::Succeeded,
        "forged",
    );
    v1::Hello {
        worker_name: name.to_owned(),
        start: 2,
        old_trees_dead: true,
        journal: vec![v1::JournaledAttempt {
            shard: done.shard,
            token: done.token,
            state: Some(v1::journaled_attempt::State::Finished(done)),
        }],
        ..hello("w2", "uid-w2", "default")
    }
}

async fn answer_to(world: &World, hello: v1::Hello) -> (Wire, Option<FromServer>) {
    let bearer = format!("Bearer {}", world.secrets[0]);
    let mut wire = Wire::open(&world.node, Some(&bearer)).await;
    wire.say(ToServer::Hello(hello)).await;
    let answer = wire.next().await;
    (wire, answer)
}

/// Tokens without names are for a whole pool: its workers trust each other, and one can take another's place.
#[tokio::test]
async fn workers_whose_tokens_name_nobody_can_be_taken_for_each_other() {
    let world = World::with(false).await;
    let before = world.shards().await;
    let (_wire, answer) = answer_to(&world, impostor(&world, "w1")).await;
    let Some(FromServer::Welcome(_)) = answer else {
        panic!("{answer:?}");
    };
    assert_ne!(world.shards().await, before, "what w2 held was ended by w1");
    world.node.stop().await;
}

/// SEC-010: a token that names its worker opens nothing of another's, who knows whatever of it: no name, no
/// session, no end of what it holds.
#[tokio::test]
async fn a_stolen_token_of_one_worker_takes_no_other_worker_s_place() {
    let mut world = World::with(true).await;
    world.beat().await;
    let before = world.shards().await;

    let (_, answer) = answer_to(&world, impostor(&world, "w2")).await;
    let Some(FromServer::Refused(refused)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(refused.code, "outside-join-token");
    assert!(refused.message.contains("SC4008"), "{}", refused.message);

    // By the uid that the server knows it by.
    let mut said = impostor(&world, "w1");
    said.worker_uid = "w2/uid-w2".to_owned();
    let (_, answer) = answer_to(&world, said).await;
    let Some(FromServer::Refused(refused)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(refused.code, "bad-hello");

    // By its own name with the uid of the other: it is somebody new, whose journal ends nothing.
    let (mut thief, answer) = answer_to(&world, impostor(&world, "w1")).await;
    let Some(FromServer::Welcome(welcome)) = answer else {
        panic!("{answer:?}");
    };
    let verdicts: Vec<v1::Verdict> = welcome
        .journal_verdicts
        .iter()
        .map(|ack| ack.verdict())
        .collect();
    assert_eq!(verdicts, [v1::Verdict::Stale]);
    assert_ne!(welcome.session_id, world.workers[1].session);
    let victim = world.workers[1].grant.clone();
    let run = victim.shard.unwrap().run_id;
    let forged = finish(run, victim.token, v1::Outcome::Succeeded, "forged");
    thief.say(ToServer::Finish(forged)).await;
    let Some(FromServer::FinishAck(ack)) = thief.next_beating().await else {
        panic!("an answer to its report");
    };
    assert_eq!(ack.verdict(), v1::Verdict::Stale);

    // By the number of the other's session.
    let mut said = impostor(&world, "w1");
    said.resume_session = Some(world.workers[1].session);
    let (_, answer) = answer_to(&world, said).await;
    assert!(
        matches!(answer, Some(FromServer::SessionLost(_))),
        "{answer:?}"
    );

    // The other's session goes on, and its work ends as it says.
    world.beat().await;
    assert_eq!(world.shards().await, before);
    let done = finish(run, victim.token, v1::Outcome::Succeeded, "done");
    let theirs = &mut world.workers[1].wire;
    theirs.say(ToServer::Finish(done)).await;
    let Some(FromServer::FinishAck(ack)) = theirs.next_beating().await else {
        panic!("an answer to its report");
    };
    assert_eq!(ack.verdict(), v1::Verdict::Accepted);
    world.node.stop().await;
}
