//! Slots that are asked for: over the memory store, by a clock that is moved by hand.

use futures::executor::block_on;
use jiff::SignedDuration;
use serde_json::json;
use sichen_core::dispatch::preempt::Recalled;
use sichen_core::ids::{RunId, SessionId, ShardKey};
use sichen_core::lifecycle::ShardState;
use sichen_core::lifecycle::shard::Ending;
use sichen_engine::control::Control;
use sichen_engine::courier::{StopReason, ToWorker};

use crate::fixture::{Cluster, Node, report};

fn low(cluster: &Cluster) -> RunId {
    let spec = json!({
        "run": { "handler": "h" }, "shards": { "count": 2 }, "timeouts": { "grace": "7s" },
        "preemption": { "yields": { "after": "5s", "times": 2 } },
    });
    cluster.run(cluster.apply("low", spec), "k")
}

fn high(cluster: &Cluster, shards: u32) -> RunId {
    let spec = json!({
        "run": { "handler": "h" }, "shards": { "count": shards }, "priority": 9,
        "preemption": { "preempts": true },
    });
    cluster.run(cluster.apply("high", spec), "k")
}

/// A worker whose session outlasts the test.
fn worker(cluster: &Cluster, node: &Node, slots: u32) -> SessionId {
    let session = node.worker(cluster, "w1", slots);
    keep(cluster, session);
    session
}

fn keep(cluster: &Cluster, session: SessionId) {
    let ttl = SignedDuration::from_secs(600);
    block_on(cluster.store.renew_sessions(vec![session], ttl)).unwrap();
}

/// A pass of the dispatcher, by a node whose lease has not run out meanwhile.
fn dispatch(cluster: &Cluster, node: &Node) -> usize {
    node.coordinate(cluster);
    node.dispatch(cluster)
}

fn preempt(cluster: &Cluster, node: &Node) {
    node.coordinate(cluster);
    block_on(node.engine.preempter.run_once(cluster.now())).unwrap();
}

/// The shards of which `session` was told that their slots are wanted.
fn asked(node: &Node, session: SessionId) -> Vec<ShardKey> {
    let messages = node.messages(session).into_iter();
    let asked = messages.map(|message| match message {
        ToWorker::Cancel {
            key,
            reason: StopReason::Preempted,
            ..
        } => key,
        other => panic!("{other:?}"),
    });
    asked.collect()
}

fn recalls(cluster: &Cluster, run: RunId) -> Vec<Recalled> {
    block_on(cluster.store.list_recalls(vec![run])).unwrap()
}

/// It gives its slot up, and what is free is given away.
fn release(cluster: &Cluster, node: &Node, session: SessionId, key: ShardKey) {
    let token = cluster.shard(key).token;
    node.report(cluster, report(key, token, Ending::Released));
    node.engine.dispatcher.freed(session, &[key]);
    block_on(node.engine.dispatcher.hand_out(cluster.now())).unwrap();
    dispatch(cluster, node);
}

#[test]
fn a_better_run_is_given_a_slot_and_the_other_goes_on_later() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = worker(&cluster, &node, 2);
    let low = low(&cluster);
    assert_eq!(dispatch(&cluster, &node), 2);
    node.grants(session);
    cluster.pass(4);
    let high = high(&cluster, 1);
    assert_eq!(dispatch(&cluster, &node), 0);
    preempt(&cluster, &node);
    assert!(asked(&node, session).is_empty(), "not before its time");
    cluster.pass(1);
    preempt(&cluster, &node);
    let messages = node.messages(session);
    let [
        ToWorker::Cancel {
            key,
            token,
            reason,
            grace,
        },
    ] = messages[..]
    else {
        panic!("{messages:?}");
    };
    assert_eq!(
        (reason, grace, key.run),
        (StopReason::Preempted, SignedDuration::from_secs(7), low)
    );
    assert_eq!(token, cluster.shard(key).token);
    assert_eq!(cluster.shard(key).state, ShardState::Running);
    let [recalled] = recalls(&cluster, low)[..] else {
        panic!("one is asked");
    };
    assert_eq!(
        (recalled.key, recalled.by, recalled.priority),
        (key, high, 9)
    );
    let control = Control::new(node.engine.context.clone());
    let (_, why) = block_on(control.explain(high)).unwrap();
    let why = why.last().unwrap();
    assert_eq!(why.word, "preempting");
    assert!(why.text.ends_with(&format!("shard {key}")), "{why:?}");
    // A message may be lost: it is told again, and nobody else is asked.
    cluster.pass(1);
    preempt(&cluster, &node);
    assert_eq!(asked(&node, session), [key]);
    assert_eq!(recalls(&cluster, low).len(), 1);

    release(&cluster, &node, session, key);
    let works = node.grants(session);
    let [work] = &works[..] else {
        panic!("{works:?}");
    };
    assert_eq!(work.shard.key.run, high);
    preempt(&cluster, &node);
    assert!(asked(&node, session).is_empty(), "nobody waits for more");
    let (_, why) = block_on(control.explain(low)).unwrap();
    let why = why.last().unwrap();
    assert_eq!(why.word, "preempted");
    assert!(
        why.text.ends_with(&format!("to run {high} of priority 9")),
        "{why:?}"
    );

    let done = report(work.shard.key, work.shard.token, Ending::Succeeded);
    node.report(&cluster, done);
    node.engine.dispatcher.freed(session, &[work.shard.key]);
    dispatch(&cluster, &node);
    let works = node.grants(session);
    assert_eq!(works.len(), 1);
    let shard = &works[0].shard;
    assert_eq!((shard.key, shard.attempt, shard.used), (key, 2, 1));
    assert_eq!(cluster.get(low).failures, 0);
}

#[test]
fn shards_of_a_run_are_asked_as_often_as_its_job_says_and_no_more() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = worker(&cluster, &node, 2);
    let low = low(&cluster);
    dispatch(&cluster, &node);
    cluster.pass(6);
    let high = high(&cluster, 2);
    dispatch(&cluster, &node);
    node.messages(session);
    preempt(&cluster, &node);
    assert_eq!(asked(&node, session).len(), 2, "one for each that waits");
    for no in 0..2 {
        release(&cluster, &node, session, ShardKey::new(low, no));
    }
    let works = node.grants(session);
    assert_eq!(works.len(), 2);
    for work in works {
        let key = work.shard.key;
        assert_eq!(key.run, high);
        node.report(&cluster, report(key, work.shard.token, Ending::Succeeded));
        node.engine.dispatcher.freed(session, &[key]);
    }
    dispatch(&cluster, &node);
    assert_eq!(
        node.grants(session).len(),
        2,
        "the low run has its slots again"
    );
    cluster.pass(6);
    cluster.run(cluster.get(high).job, "again");
    dispatch(&cluster, &node);
    preempt(&cluster, &node);
    assert_eq!(asked(&node, session), []);
    assert_eq!(recalls(&cluster, low).len(), 2);
}

#[test]
fn a_new_owner_asks_whoever_was_asked_and_nobody_else() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = worker(&cluster, &node, 2);
    let low = low(&cluster);
    dispatch(&cluster, &node);
    cluster.pass(6);
    high(&cluster, 1);
    dispatch(&cluster, &node);
    node.messages(session);
    preempt(&cluster, &node);
    let first = asked(&node, session);
    assert_eq!(first.len(), 1);
    // It is not heard of again.
    let second = cluster.node("n2");
    cluster.pass(120);
    keep(&cluster, session);
    second.coordinate(&cluster);
    assert_eq!(dispatch(&cluster, &second), 0);
    block_on(second.engine.preempter.run_once(cluster.now())).unwrap();
    assert_eq!(asked(&second, session), first);
    assert_eq!(recalls(&cluster, low).len(), 1);
}

#[test]
fn who_does_not_yield_is_not_asked_and_costs_nothing() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = worker(&cluster, &node, 1);
    let plain = cluster.run(
        cluster.apply("plain", json!({ "run": { "handler": "h" } })),
        "k",
    );
    dispatch(&cluster, &node);
    node.messages(session);
    cluster.pass(5);
    high(&cluster, 1);
    dispatch(&cluster, &node);
    node.coordinate(&cluster);
    let next = block_on(node.engine.preempter.run_once(cluster.now())).unwrap();
    assert_eq!(next, None);
    assert!(asked(&node, session).is_empty());
    assert!(recalls(&cluster, plain).is_empty());
}
