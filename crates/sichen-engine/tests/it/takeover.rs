//! Leases that are lost, and what their old holders may still do.

use futures::executor::block_on;
use serde_json::json;
use sichen_core::event::Kind;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState};
use sichen_core::model::{Appearance, Checkpoint, Progress};
use sichen_core::port::{CheckpointVerdict, EventFilter, MAX_BATCH, Page, SaveCheckpoint};
use sichen_engine::sessions::{BeatAnswer, Hello, HelloAnswer, ReportVerdict};
use sichen_engine::work::Work;

use crate::fixture::{Cluster, Node, hello, report};

/// STUCK-004: once lost, a worker that is heard again changes nothing.
#[test]
fn an_expired_session_is_lost_and_its_late_reports_are_refused() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let first = node.worker(&cluster, "w1", 1);
    let job = cluster.apply("j", json!({ "run": { "handler": "h" } }));
    let run = cluster.run(job, "k");
    node.dispatch(&cluster);
    let old = node.grants(first).pop().unwrap();
    let checkpoint = |seq| SaveCheckpoint {
        key: old.shard.key,
        token: old.shard.token,
        session: first,
        checkpoint: Some(Checkpoint {
            seq,
            position: format!("at {seq}"),
        }),
        progress: Progress::default(),
        idle: jiff::SignedDuration::ZERO,
    };
    let saved = block_on(
        node.engine
            .sessions
            .checkpoint("worker w1", vec![checkpoint(1)]),
    );
    assert_eq!(saved.unwrap(), [CheckpointVerdict::Saved]);
    for _ in 0..4 {
        cluster.pass(4);
        node.coordinate(&cluster);
    }
    // Past its session and not yet reaped: a checkpoint is refused, a finish would be accepted.
    let late = block_on(
        node.engine
            .sessions
            .checkpoint("worker w1", vec![checkpoint(2)]),
    );
    assert_eq!(late.unwrap(), [CheckpointVerdict::SessionOver]);
    assert_eq!(node.beat(first, &[], 1), BeatAnswer::Lost);
    assert_eq!(node.reap(&cluster), 1);
    let second = node.worker(&cluster, "w2", 1);
    assert_eq!(node.dispatch(&cluster), 1);
    let new = node.grants(second).pop().unwrap();
    assert!(new.shard.token > old.shard.token);
    assert_eq!(
        new.shard.checkpoint.position, "at 1",
        "the takeover resumes there"
    );
    assert_eq!((new.shard.attempt, new.shard.takeovers), (2, 1));
    assert_eq!(new.unknown_outcomes, [(1, old.shard.token)]);
    let stale = node.report(
        &cluster,
        report(old.shard.key, old.shard.token, Ending::Succeeded),
    );
    assert!(matches!(stale, ReportVerdict::Stale { .. }), "{stale:?}");
    let done = node.report(
        &cluster,
        report(new.shard.key, new.shard.token, Ending::Succeeded),
    );
    assert_eq!(done, ReportVerdict::Accepted);
    assert_eq!(cluster.get(run).state, RunState::Succeeded);
    let filter = EventFilter {
        run: Some(run),
        shard: None,
    };
    let events = block_on(cluster.store.list_events(
        filter,
        Page {
            after: None,
            limit: 99,
        },
    ));
    let refused: Vec<_> = events
        .unwrap()
        .into_iter()
        .filter(|e| e.kind == Kind::ReportRefused)
        .collect();
    assert_eq!(
        refused.len(),
        2,
        "the late checkpoint and the stale finish are on record"
    );
}

#[test]
fn a_finish_with_the_current_token_counts_even_after_the_session_ended() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    let job = cluster.apply("j", json!({ "run": { "handler": "h" } }));
    let run = cluster.run(job, "k");
    node.dispatch(&cluster);
    let work = node.grants(session).pop().unwrap();
    cluster.pass(60);
    let done = node.report(
        &cluster,
        report(work.shard.key, work.shard.token, Ending::Succeeded),
    );
    assert_eq!(done, ReportVerdict::Accepted);
    assert_eq!(cluster.get(run).state, RunState::Succeeded);
}

/// STUCK-013: ownership goes by incarnation, not by name.
#[test]
fn a_restarted_worker_gives_its_old_leases_up_at_once() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let old = node.worker(&cluster, "w1", 2);
    let spec = json!({ "run": { "handler": "h" }, "shards": { "count": 2 } });
    let job = cluster.apply("j", spec);
    let run = cluster.run(job, "k");
    node.dispatch(&cluster);
    let grants = node.grants(old);
    // One result was in its journal, the other shard died with the process.
    let mut again = hello("w1", "second", 2);
    again.journal = vec![report(
        grants[0].shard.key,
        grants[0].shard.token,
        Ending::Succeeded,
    )];
    let answer = block_on(node.engine.sessions.hello(again, cluster.now())).unwrap();
    let HelloAnswer::Welcome {
        session, journal, ..
    } = answer
    else {
        panic!("{answer:?}")
    };
    assert_eq!(journal, [ReportVerdict::Accepted]);
    assert_eq!(
        node.messages(old).len(),
        1,
        "the old process is told that it was superseded"
    );
    assert_eq!(node.reap(&cluster), 1, "no wait for the old session's end");
    assert_eq!(node.dispatch(&cluster), 1);
    let work = node.grants(session).pop().unwrap();
    assert_eq!(work.shard.key, grants[1].shard.key);
    assert_eq!(node.beat(old, &[], 2), BeatAnswer::Superseded);
    node.report(
        &cluster,
        report(work.shard.key, work.shard.token, Ending::Succeeded),
    );
    assert_eq!(cluster.get(run).state, RunState::Succeeded);
}

/// What it ran may go on without it: only the end of its session says when nobody writes any more.
#[test]
fn a_restarted_worker_that_can_not_say_its_old_trees_are_dead_waits_for_the_sessions_end() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let old = node.worker(&cluster, "w1", 1);
    let job = cluster.apply("j", json!({ "run": { "handler": "h" } }));
    cluster.run(job, "k");
    node.dispatch(&cluster);
    node.grants(old).pop().unwrap();
    let mut again = hello("w1", "second", 1);
    again.old_trees_dead = false;
    let session = node.register(&cluster, again);
    assert_eq!(node.reap(&cluster), 0, "the old attempt may still be at it");
    assert_eq!(node.dispatch(&cluster), 0);
    cluster.pass(60);
    let third = node.worker(&cluster, "w2", 1);
    assert_eq!(node.reap(&cluster), 1);
    assert_eq!(node.dispatch(&cluster), 1);
    let grants = [session, third].map(|session| node.grants(session).len());
    assert_eq!(grants, [0, 1]);
}

/// A server that stood still hands on what a worker said long ago; meanwhile the worker was heard
/// elsewhere and has work.
#[test]
fn a_hello_that_was_overtaken_ends_no_later_session() {
    let appearing = |start, registration| {
        let incarnation = format!("start {start}");
        let mut hello = hello("w1", &incarnation, 1);
        hello.appearance = Appearance {
            start,
            registration,
        };
        hello
    };
    let hear = |cluster: &Cluster, node: &Node, hello: Hello| {
        block_on(node.engine.sessions.hello(hello, cluster.now())).unwrap()
    };
    // Its own of before; one of a process that has died; the very same again.
    let late = [
        (5, 1, HelloAnswer::Outdated),
        (4, 9, HelloAnswer::Superseded),
        (5, 2, HelloAnswer::Outdated),
    ];
    for (start, registration, expected) in late {
        let cluster = Cluster::new();
        let node = cluster.node("n1");
        node.coordinate(&cluster);
        let live = node.register(&cluster, appearing(5, 2));
        let job = cluster.apply("j", json!({ "run": { "handler": "h" } }));
        cluster.run(job, "k");
        assert_eq!(node.dispatch(&cluster), 1);
        let work = node.grants(live).pop().unwrap();
        let answer = hear(&cluster, &node, appearing(start, registration));
        assert_eq!(answer, expected);
        assert!(node.messages(live).is_empty(), "it is told nothing");
        assert_eq!((node.reap(&cluster), node.dispatch(&cluster)), (0, 0));
        let held = [(work.shard.key, work.shard.token)];
        assert!(matches!(
            node.beat(live, &held, 1),
            BeatAnswer::Alive { .. }
        ));
    }
}

#[test]
fn a_worker_with_another_data_directory_takes_nothing_over() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let first = node.worker(&cluster, "w1", 1);
    let job = cluster.apply("j", json!({ "run": { "handler": "h" } }));
    cluster.run(job, "k");
    node.dispatch(&cluster);
    let work = node.grants(first).pop().unwrap();
    let mut twin = hello("w1", "other", 1);
    twin.worker.uid = "another directory".to_owned();
    node.register(&cluster, twin);
    assert_eq!(node.reap(&cluster), 0);
    let held = [(work.shard.key, work.shard.token)];
    assert!(matches!(
        node.beat(first, &held, 1),
        BeatAnswer::Alive { .. }
    ));
}

#[test]
fn a_grant_that_never_arrived_is_sent_again_and_one_not_run_is_given_back() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    let job = cluster.apply("j", json!({ "run": { "handler": "h" } }));
    let run = cluster.run(job, "k");
    node.dispatch(&cluster);
    let lost = node.grants(session).pop().unwrap();
    node.beat(session, &[], 0);
    assert!(
        node.grants(session).is_empty(),
        "it may still be on its way"
    );
    cluster.pass(7);
    node.beat(session, &[], 0);
    let again = node.grants(session).pop().unwrap();
    assert_eq!(
        (again.shard.token, again.grant_seq),
        (lost.shard.token, lost.grant_seq)
    );
    // Seen, and in two beats not run: given back, at no cost.
    node.beat(session, &[], 1);
    assert_eq!(
        cluster.shards(run)[0].state,
        ShardState::Running,
        "once may be a crossing"
    );
    node.beat(session, &[], 1);
    let shard = &cluster.shards(run)[0];
    assert_eq!((shard.state, shard.used), (ShardState::Scheduled, 0));
}

#[test]
fn a_stale_attempt_is_told_to_stop() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    let job = cluster.apply("j", json!({ "run": { "handler": "h" } }));
    let run = cluster.run(job, "k");
    let key = sichen_core::ids::ShardKey::new(run, 0);
    let answer = node.beat(session, &[(key, sichen_core::ids::Token(99))], 0);
    let BeatAnswer::Alive { stop, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(stop.len(), 1);
}

#[test]
fn an_attempt_past_its_timeout_is_ended_from_outside() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    let spec = json!({ "run": { "handler": "h" }, "timeouts": { "attempt": "5s" } });
    let job = cluster.apply("j", spec);
    let run = cluster.run(job, "k");
    node.dispatch(&cluster);
    let work = node.grants(session).pop().unwrap();
    let held = [(work.shard.key, work.shard.token)];
    for _ in 0..9 {
        cluster.pass(2);
        node.coordinate(&cluster);
        node.beat(session, &held, 1);
        assert_eq!(node.reap(&cluster), 0, "its worker has the first word");
    }
    cluster.pass(2);
    node.coordinate(&cluster);
    node.beat(session, &held, 1);
    assert_eq!(node.reap(&cluster), 1);
    let shard = &cluster.shards(run)[0];
    assert_eq!(shard.state, ShardState::Retry);
    assert!(shard.token > work.shard.token);
}

#[test]
fn nothing_expires_right_after_an_outage() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    let job = cluster.apply("j", json!({ "run": { "handler": "h" } }));
    cluster.run(job, "k");
    node.dispatch(&cluster);
    assert_eq!(node.grants(session).len(), 1);
    node.engine.reaper.store_is_lost();
    cluster.pass(20);
    node.coordinate(&cluster);
    // The duties are this node's anew: its very first pass knows of the outage, and the next ones.
    for _ in 0..3 {
        assert_eq!(node.reap(&cluster), 0);
        let session = block_on(cluster.store.get_session(session))
            .unwrap()
            .unwrap();
        assert_eq!(session.ended, None);
        cluster.pass(4);
        node.coordinate(&cluster);
    }
    cluster.pass(4);
    node.coordinate(&cluster);
    assert_eq!(node.reap(&cluster), 1);
}

/// What its job lets go on for a while is left alone, and does not hide what comes behind it.
#[test]
fn many_within_their_grace_hide_nobody() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let many = u32::try_from(MAX_BATCH).unwrap() + 20;
    let patient = node.worker(&cluster, "patient", many);
    let spec = json!({
        "run": { "handler": "h" }, "timeouts": { "attempt": "5s", "grace": "10m" },
        "shards": { "count": many },
    });
    let slow = cluster.apply("slow", spec);
    cluster.run(slow, "k");
    while node.dispatch(&cluster) > 0 {}
    let held = node.grants(patient);
    assert_eq!(held.len(), many as usize);
    let spec = json!({ "run": { "handler": "h" }, "timeouts": { "attempt": "6s" } });
    let quick = cluster.apply("quick", spec);
    let other = node.worker(&cluster, "other", 1);
    cluster.run(quick, "k");
    assert_eq!(node.dispatch(&cluster), 1);
    let late = node.grants(other).remove(0);
    let keys =
        |works: &[Work]| -> Vec<_> { works.iter().map(|w| (w.shard.key, w.shard.token)).collect() };
    for _ in 0..6 {
        cluster.pass(4);
        node.coordinate(&cluster);
        node.beat(patient, &keys(&held), u64::from(many));
        node.beat(other, &keys(std::slice::from_ref(&late)), 1);
    }
    assert_eq!(node.reap(&cluster), 1);
    assert_eq!(cluster.shard(late.shard.key).state, ShardState::Retry);
}

/// A grant sent again says what is left of its timeout, not the whole of it.
#[test]
fn a_grant_that_is_sent_again_has_less_time_left() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    let spec = json!({ "run": { "handler": "h" }, "timeouts": { "attempt": "30s" } });
    let job = cluster.apply("j", spec);
    cluster.run(job, "k");
    node.dispatch(&cluster);
    let first = node.grants(session).pop().unwrap();
    assert_eq!(first.attempt_timeout.unwrap().as_secs(), 30);
    cluster.pass(12);
    node.beat(session, &[], 0);
    let again = node.grants(session).pop().unwrap();
    assert_eq!(again.attempt_timeout.unwrap().as_secs(), 18);
}
