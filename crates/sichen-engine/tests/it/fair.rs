//! Who goes first, and what namespaces may have: the dispatcher over the memory store.

use std::collections::BTreeMap;

use futures::executor::block_on;
use jiff::SignedDuration;
use serde_json::json;
use sichen_core::ids::{JobUid, SessionId, ShardKey};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::NamespaceChange;
use sichen_core::name::Name;
use sichen_engine::control::Control;

use crate::fixture::{Cluster, Node, report};

fn many(cluster: &Cluster, job: JobUid, n: usize) {
    for i in 0..n {
        cluster.run(job, &format!("{n}-{i}"));
    }
}

fn job(cluster: &Cluster, name: &str) -> JobUid {
    cluster.apply(name, json!({ "run": { "handler": "h" } }))
}

fn set(node: &Node, namespace: &str, change: NamespaceChange) {
    let control = Control::new(node.engine.context.clone());
    let name = Name::new(namespace).unwrap();
    block_on(control.set_namespace("user test", &name, change)).unwrap();
}

fn limit(most: Option<u32>) -> NamespaceChange {
    NamespaceChange {
        max_running: Some(most),
        ..NamespaceChange::default()
    }
}

/// A second later all that runs has ended and the slots are given away anew; what was it, by job?
fn round(cluster: &Cluster, node: &Node, session: SessionId) -> BTreeMap<JobUid, usize> {
    let works = node.grants(session);
    cluster.pass(1);
    node.coordinate(cluster);
    let ttl = SignedDuration::from_secs(60);
    block_on(cluster.store.renew_sessions(vec![session], ttl)).unwrap();
    let mut ended = BTreeMap::new();
    let mut keys: Vec<ShardKey> = Vec::new();
    for work in works {
        *ended.entry(work.run.job).or_default() += 1;
        keys.push(work.shard.key);
        let done = report(work.shard.key, work.shard.token, Ending::Succeeded);
        node.report(cluster, done);
    }
    let dispatcher = &node.engine.dispatcher;
    dispatcher.freed(session, &keys);
    let pass = block_on(dispatcher.hand_out(cluster.now())).unwrap();
    if pass.next_ready.is_some() || dispatcher.something_comes_later() {
        node.dispatch(cluster);
    }
    ended
}

/// QUEUE-012.
#[test]
fn a_flood_keeps_no_other_namespaces_runs_waiting() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 4);
    let flood = job(&cluster, "red/flood");
    many(&cluster, flood, 3_000);
    assert_eq!(node.dispatch(&cluster), 4);
    for _ in 0..5 {
        assert_eq!(round(&cluster, &node, session)[&flood], 4);
    }
    let few = job(&cluster, "blue/few");
    many(&cluster, few, 4);
    node.dispatch(&cluster);
    // Both namespaces have what runs now, then two slots each.
    let mut done = 0;
    for _ in 0..4 {
        done += round(&cluster, &node, session)
            .get(&few)
            .copied()
            .unwrap_or(0);
    }
    assert_eq!(done, 4);
}

#[test]
fn a_job_with_many_runs_keeps_no_other_job_waiting() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 2);
    let flood = job(&cluster, "flood");
    many(&cluster, flood, 2_500);
    node.dispatch(&cluster);
    let other = job(&cluster, "other");
    many(&cluster, other, 3);
    node.dispatch(&cluster);
    let mut done = 0;
    for _ in 0..5 {
        done += round(&cluster, &node, session)
            .get(&other)
            .copied()
            .unwrap_or(0);
    }
    assert_eq!(done, 3);
}

#[test]
fn slots_are_shared_by_weight() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 8);
    let change = NamespaceChange {
        weight: Some(300),
        ..NamespaceChange::default()
    };
    set(&node, "red", change);
    let (red, blue) = (job(&cluster, "red/j"), job(&cluster, "blue/j"));
    many(&cluster, red, 400);
    many(&cluster, blue, 400);
    node.dispatch(&cluster);
    let mut done = [0, 0];
    for _ in 0..40 {
        let ended = round(&cluster, &node, session);
        done[0] += ended.get(&red).copied().unwrap_or(0);
        done[1] += ended.get(&blue).copied().unwrap_or(0);
    }
    assert_eq!(done[0] + done[1], 320);
    assert!((228..=252).contains(&done[0]), "{done:?}");
}

#[test]
fn a_namespace_at_its_limit_waits_for_its_own_shards_and_says_so() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 6);
    set(&node, "red", limit(Some(1)));
    let (red, blue) = (job(&cluster, "red/j"), job(&cluster, "blue/j"));
    many(&cluster, red, 20);
    many(&cluster, blue, 12);
    assert_eq!(node.dispatch(&cluster), 6);
    let control = Control::new(node.engine.context.clone());
    let waiting = cluster.run(red, "last");
    let (_, why) = block_on(control.explain(waiting)).unwrap();
    let [why] = &why[..] else {
        panic!("{why:?}");
    };
    assert_eq!(why.word, "namespace");
    assert!(
        why.text
            .contains("may have 1 shard running at once and has 1"),
        "{why:?}"
    );
    // One of it runs at a time, and the others' slots are not held up.
    for _ in 0..2 {
        let ended = round(&cluster, &node, session);
        assert_eq!((ended[&red], ended[&blue]), (1, 5));
    }
    // Nothing but the limit is in the way: without it the next pass starts the rest.
    set(&node, "red", limit(None));
    node.dispatch(&cluster);
    let works = node.grants(session);
    assert!(works.len() >= 5, "{}", works.len());
}

/// Of all runs of the job together, whichever lane or order they come in; the others go on.
#[test]
fn a_job_runs_no_more_shards_than_it_may_and_says_so() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 20);
    let spec =
        json!({ "run": { "handler": "h" }, "shards": { "count": 4 }, "maxRunningShards": 3 });
    let limited = cluster.apply("limited", spec);
    let runs: Vec<_> = (0..4)
        .map(|n| cluster.run(limited, &n.to_string()))
        .collect();
    let other = job(&cluster, "other");
    many(&cluster, other, 2);
    assert_eq!(node.dispatch(&cluster), 5);
    assert_eq!(node.dispatch(&cluster), 0);
    let control = Control::new(node.engine.context.clone());
    let (_, reasons) = block_on(control.explain(runs[3])).unwrap();
    assert!(
        reasons[0].word == "job" && reasons[0].text.contains("3 shards running at once"),
        "{reasons:?}"
    );
    let counts = block_on(node.engine.dispatcher.census(cluster.now())).unwrap();
    let counts: Vec<_> = counts
        .iter()
        .map(|(reason, n)| (reason.word(), *n))
        .collect();
    assert_eq!(counts, [("job", 13)]);
    // Each round as many as end.
    let mut ended = 0;
    for _ in 0..6 {
        ended += round(&cluster, &node, session)
            .get(&limited)
            .copied()
            .unwrap_or(0);
    }
    assert_eq!(ended, 16);
}
