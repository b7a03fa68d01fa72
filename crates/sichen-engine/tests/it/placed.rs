//! Where shards run: labels, resources, failures, and what is said of those that can't.

use std::collections::BTreeSet;

use futures::executor::block_on;
use serde_json::json;
use sichen_core::ids::{RunId, SessionId, ShardNo};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::place::{Offer, Resources};
use sichen_engine::control::Control;
use sichen_engine::work::Work;

use crate::fixture::{Cluster, Node, hello, report};

fn worker(cluster: &Cluster, node: &Node, name: &str, zone: &str, cpu: u64) -> SessionId {
    let mut hello = hello(name, "first", 4);
    let labels = [("zone".to_owned(), zone.to_owned())];
    let resources = Resources::new([("cpu".to_owned(), cpu * 1_000)]);
    hello.offer = Offer::new(labels.into(), resources);
    node.register(cluster, hello)
}

fn run(cluster: &Cluster, name: &str, shards: u32, placement: serde_json::Value) -> RunId {
    let spec =
        json!({ "run": { "handler": "h" }, "shards": { "count": shards }, "placement": placement });
    let job = cluster.apply(name, spec);
    cluster.run(job, "k")
}

/// The last of the reasons, which is that of what waits.
fn check(node: &Node, run: RunId, word: &str, part: &str) {
    let control = Control::new(node.engine.context.clone());
    let (_, reasons) = block_on(control.explain(run)).unwrap();
    let why = reasons.last().unwrap();
    assert!(why.word == word && why.text.contains(part), "{reasons:?}");
}

/// What is counted of ready shards that wait.
fn counted(cluster: &Cluster, node: &Node) -> Vec<(&'static str, u64)> {
    let counts = block_on(node.engine.dispatcher.census(cluster.now())).unwrap();
    counts
        .into_iter()
        .map(|(reason, n)| (reason.word(), n))
        .collect()
}

fn end(cluster: &Cluster, node: &Node, session: SessionId, work: &Work, ending: Ending) {
    node.report(cluster, report(work.shard.key, work.shard.token, ending));
    node.engine.dispatcher.freed(session, &[work.shard.key]);
}

/// No time passes in this test: what is removed lets the shard start at the next pass.
#[test]
fn a_label_that_no_worker_has_is_named_and_a_worker_with_it_lets_the_shard_start() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    worker(&cluster, &node, "w1", "a", 8);
    node.coordinate(&cluster);
    let first = run(
        &cluster,
        "j",
        1,
        json!({ "labels": { "require": { "zone": "b" } } }),
    );
    let second = run(
        &cluster,
        "typo",
        1,
        json!({ "labels": { "require": { "zoen": "a" } } }),
    );
    assert_eq!(node.dispatch(&cluster), 0);
    check(
        &node,
        first,
        "no_label",
        "has the label zone=b; there is zone: a",
    );
    check(&node, second, "no_label", "did you mean `zone`?");
    assert_eq!(counted(&cluster, &node), [("no_label", 2)]);
    // Another worker that does not have it changes nothing.
    worker(&cluster, &node, "w2", "c", 8);
    assert_eq!(node.dispatch(&cluster), 0);
    check(&node, first, "no_label", "there is zone: a, c");
    let right = worker(&cluster, &node, "w3", "b", 8);
    assert_eq!(node.dispatch(&cluster), 1);
    assert_eq!(node.grants(right)[0].run.id, first);
    check(&node, first, "running", "1 on w3");
}

#[test]
fn resources_are_given_away_once_and_the_largest_rest_is_named() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = worker(&cluster, &node, "w1", "a", 2);
    node.coordinate(&cluster);
    let too_large = run(&cluster, "large", 1, json!({ "resources": { "cpu": 3 } }));
    let takes = run(&cluster, "j", 3, json!({ "resources": { "cpu": 1.5 } }));
    assert_eq!(node.dispatch(&cluster), 1);
    check(
        &node,
        too_large,
        "too_large",
        "takes cpu 3; the most that a worker has is 2",
    );
    check(
        &node,
        takes,
        "resources",
        "takes cpu 1.5; the most that is free on one is 0.5",
    );
    assert_eq!(
        counted(&cluster, &node),
        [("too_large", 1), ("resources", 2)]
    );
    // Nothing else is kept waiting by them, and no look changes anything.
    let plain = cluster.apply("plain", json!({ "run": { "handler": "h" } }));
    cluster.run(plain, "k");
    assert_eq!(node.dispatch(&cluster), 1);
    assert_eq!(node.dispatch(&cluster), 0);
    let first = node
        .grants(session)
        .into_iter()
        .find(|w| w.run.id == takes)
        .unwrap();
    end(&cluster, &node, session, &first, Ending::Succeeded);
    let pass = block_on(node.engine.dispatcher.hand_out(cluster.now())).unwrap();
    let granted = pass.granted
        + if pass.next_ready.is_some() {
            node.dispatch(&cluster)
        } else {
            0
        };
    assert_eq!(granted, 1);
    let next = node.grants(session);
    assert_eq!((next.len(), next[0].run.id), (1, takes));
    // A larger worker is what the other one waits for.
    let larger = worker(&cluster, &node, "w2", "a", 8);
    assert_eq!(node.dispatch(&cluster), 2);
    let runs: BTreeSet<RunId> = node.grants(larger).iter().map(|w| w.run.id).collect();
    assert!(runs.contains(&too_large), "{runs:?}");
}

/// Whoever takes the pool over reads what its workers hold before it gives away what is left.
#[test]
fn a_new_owner_gives_no_resource_away_twice() {
    let cluster = Cluster::new();
    let first = cluster.node("n1");
    first.coordinate(&cluster);
    let session = worker(&cluster, &first, "w1", "a", 2);
    first.coordinate(&cluster);
    let takes = run(&cluster, "j", 5, json!({ "resources": { "cpu": 1 } }));
    assert_eq!(first.dispatch(&cluster), 2);
    let works = first.grants(session);
    // Its server is gone; the worker lives.
    cluster.pass(6);
    let second = cluster.node("n2");
    second.coordinate(&cluster);
    cluster.pass(6);
    second.coordinate(&cluster);
    second.coordinate(&cluster);
    for _ in 0..4 {
        assert_eq!(second.dispatch(&cluster), 0);
    }
    check(
        &second,
        takes,
        "resources",
        "the most that is free on one is none",
    );
    end(&cluster, &second, session, &works[0], Ending::Succeeded);
    assert_eq!(second.dispatch(&cluster), 1);
    assert_eq!(second.dispatch(&cluster), 0);
}

#[test]
fn a_worker_on_which_a_job_fails_again_and_again_gets_it_last() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let bad = worker(&cluster, &node, "w1", "a", 8);
    let good = worker(&cluster, &node, "w2", "a", 8);
    let retry = json!({ "maxAttempts": 9, "backoff": { "fixed": "1ms" } });
    let job = cluster.apply("j", json!({ "run": { "handler": "h" }, "retry": retry }));
    cluster.run(job, "k");
    let mut failed = 0;
    for _ in 0..9 {
        node.dispatch(&cluster);
        let Some(work) = node.grants(bad).pop() else {
            break;
        };
        failed += 1;
        end(&cluster, &node, bad, &work, Ending::Failed);
        cluster.pass(1);
        node.coordinate(&cluster);
    }
    assert_eq!(failed, 2);
    assert_eq!(node.grants(good).len(), 1);
    // Another job sees no difference.
    let other = cluster.apply("other", json!({ "run": { "handler": "h" } }));
    cluster.run(other, "k");
    node.dispatch(&cluster);
    assert_eq!(node.grants(bad).len(), 1);
}

/// Each open shard of a run has a reason of its own.
#[test]
fn one_shard_is_explained_by_itself() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = worker(&cluster, &node, "w1", "a", 8);
    let retry = json!({ "maxAttempts": 3, "backoff": { "fixed": "1h" } });
    let spec = json!({
        "run": { "handler": "h" }, "shards": { "count": 4 }, "parallelism": 2, "retry": retry,
    });
    let job = cluster.apply("j", spec);
    let run = cluster.run(job, "k");
    node.dispatch(&cluster);
    let works = node.grants(session);
    end(&cluster, &node, session, &works[0], Ending::Failed);
    node.dispatch(&cluster);
    let control = Control::new(node.engine.context.clone());
    let mut words = Vec::new();
    for no in 0..4 {
        let (_, _, reasons) = block_on(control.explain_shard(run, ShardNo(no))).unwrap();
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        words.push(reasons[0].word);
    }
    assert_eq!(words, ["backoff", "running", "running", "parallelism"]);
    assert!(block_on(control.explain_shard(run, ShardNo(9))).is_err());
    assert_eq!(counted(&cluster, &node), [("parallelism", 1)]);
}
