//! Why a run is not further, and what its attempts were.

use futures::executor::block_on;
use serde_json::json;
use sichen_core::ids::{RunId, ShardKey};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::Failure;
use sichen_engine::control::Control;

use crate::fixture::{Cluster, Node, hello, report};

fn why(node: &Node, run: RunId) -> Vec<(&'static str, String)> {
    let control = Control::new(node.engine.context.clone());
    let (_, reasons) = block_on(control.explain(run)).unwrap();
    reasons.into_iter().map(|w| (w.word, w.text)).collect()
}

/// The run's only reason, whose text has `part`.
fn check(node: &Node, run: RunId, word: &str, part: &str) {
    let reasons = why(node, run);
    let [(found, text)] = &reasons[..] else {
        panic!("{reasons:?}");
    };
    assert!(*found == word && text.contains(part), "{reasons:?}");
}

#[test]
fn what_keeps_ready_shards_waiting_is_named_by_the_first_filter() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    let job = cluster.apply(
        "j",
        json!({ "run": { "handler": "h" }, "shards": { "count": 3 }, "parallelism": 2 }),
    );
    let run = cluster.run(job, "k");
    check(&node, run, "no_worker", "no worker serves the pool default");

    let mut other = hello("other", "first", 5);
    other.handlers = vec!["x".to_owned()];
    node.coordinate(&cluster);
    let other = node.register(&cluster, other);
    node.coordinate(&cluster);
    check(
        &node,
        run,
        "no_handler",
        "does not offer the handler h; on offer: x",
    );
    // The server is gone for longer than its lease; the worker's session lives on.
    cluster.pass(6);
    check(
        &node,
        run,
        "no_owner",
        "no live server has the pool default",
    );
    node.coordinate(&cluster);
    node.coordinate(&cluster);
    block_on(
        cluster
            .store
            .end_session(cluster.op(), None, other, "drained".to_owned()),
    )
    .unwrap();

    let session = node.worker(&cluster, "w1", 1);
    check(&node, run, "dispatching", "a worker is free");
    node.dispatch(&cluster);
    let reasons = why(&node, run);
    assert_eq!(reasons[0], ("running", "1 shard runs: 1 on w1".to_owned()));
    assert_eq!(reasons[1].0, "no_slot");
    node.worker(&cluster, "w2", 5);
    node.dispatch(&cluster);
    let reasons = why(&node, run);
    assert_eq!((reasons[0].0, reasons[1].0), ("running", "parallelism"));
    block_on(cluster.store.drain_session(session)).unwrap();
    assert_eq!(
        why(&node, run)[1].0,
        "parallelism",
        "the nearer cause stays"
    );
}

#[test]
fn the_plan_step_waits_for_a_worker_with_its_data_source() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let query = json!({ "dataSource": "billing", "sql": "select min(id), max(id) from t" });
    let range = json!({ "bounds": { "query": query }, "count": 4 });
    let job = cluster.apply(
        "j",
        json!({ "run": { "handler": "h" }, "shards": { "range": range } }),
    );
    let run = cluster.run(job, "k");
    node.worker(&cluster, "w1", 1);
    check(&node, run, "no_handler", "data-source/billing");
}

#[test]
fn backoff_stop_and_end_are_named() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    let retry = json!({ "maxAttempts": 2, "backoff": { "fixed": "10s" } });
    let job = cluster.apply("j", json!({ "run": { "handler": "h" }, "retry": retry }));
    let run = cluster.run(job, "k");
    let fail = || {
        node.dispatch(&cluster);
        let work = node.grants(session).pop().unwrap();
        let mut failed = report(work.shard.key, work.shard.token, Ending::Failed);
        failed.failure = Some(Failure {
            code: "exit-1".to_owned(),
            message: "no".to_owned(),
        });
        node.report(&cluster, failed);
    };
    fail();
    check(
        &node,
        run,
        "backoff",
        "1 of them after a failed attempt); the first until 2026-03-01T00:00:10Z",
    );
    cluster.pass(11);
    node.coordinate(&cluster);
    block_on(
        cluster
            .store
            .renew_sessions(vec![session], jiff::SignedDuration::from_secs(60)),
    )
    .unwrap();
    fail();
    let told = why(&node, run);
    let [("closed", ended), ("failed", failed)] = &told[..] else {
        panic!("{told:?}");
    };
    assert!(ended.contains("it has ended: failed"), "{told:?}");
    assert_eq!(failed, "shard 0 failed: exit-1: no");

    let second = cluster.run(job, "k2");
    node.dispatch(&cluster);
    let control = Control::new(node.engine.context.clone());
    block_on(control.cancel("user test", second)).unwrap();
    check(&node, second, "stopping", "1 shard runs still");
}

#[test]
fn attempts_are_folded_with_who_held_them_and_how_they_ended() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    node.worker(&cluster, "w1", 1);
    let retry = json!({ "maxAttempts": 5, "backoff": { "fixed": "1ms" } });
    let job = cluster.apply("j", json!({ "run": { "handler": "h" }, "retry": retry }));
    let run = cluster.run(job, "k");
    node.dispatch(&cluster);
    let key = ShardKey::new(run, 0);
    let stale = cluster.shard(key).token;
    // The first worker is lost; the second takes over, and the first reports after all.
    cluster.pass(60);
    node.coordinate(&cluster);
    node.reap(&cluster);
    cluster.pass(1);
    let second = node.worker(&cluster, "w2", 1);
    node.dispatch(&cluster);
    let work = node.grants(second).pop().unwrap();
    node.report(&cluster, report(key, stale, Ending::Succeeded));
    node.report(&cluster, report(key, work.shard.token, Ending::Succeeded));

    let control = Control::new(node.engine.context.clone());
    let attempts = block_on(control.attempts(key)).unwrap();
    let seen: Vec<_> = attempts
        .iter()
        .map(|a| (a.number, a.worker.as_str(), a.end.as_str(), a.refused))
        .collect();
    assert_eq!(seen, [(1, "w1", "lost", 1), (2, "w2", "succeeded", 0)]);
    assert!(attempts[0].token < attempts[1].token);
    let missing = block_on(control.attempts(ShardKey::new(run, 7)));
    assert!(missing.unwrap_err().to_string().contains("SC5001"));
}
