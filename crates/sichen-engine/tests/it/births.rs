//! Slots that are taken for runs while they are written.

use futures::executor::block_on;
use serde_json::json;
use sichen_core::ids::JobUid;
use sichen_core::model::NamespaceChange;
use sichen_core::name::{JobName, Name};
use sichen_engine::control::{Control, Error, StartRun, Started, Which};

use crate::fixture::{Cluster, Node};

fn job(cluster: &Cluster, name: &str) -> JobUid {
    cluster.apply(name, json!({ "run": { "handler": "h" } }))
}

fn wanted(namespace: &str, key: &str, digest: &str) -> StartRun {
    let name = |text: &str| Name::new(text).unwrap();
    StartRun {
        job: JobName {
            namespace: name(namespace),
            name: name("j"),
        },
        which: Which::Manual(key.to_owned()),
        parameters: serde_json::Map::new(),
        period: None,
        overlap: None,
        not_before: None,
        digest: digest.to_owned(),
    }
}

fn start(node: &Node, namespace: &str, key: &str, digest: &str) -> Result<Started, Error> {
    let wanted = wanted(namespace, key, digest);
    block_on(node.engine.control.start_run("user test", wanted))
}

#[test]
fn a_request_that_finds_its_run_takes_no_slot() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 4);
    job(&cluster, "red/j");
    node.dispatch(&cluster);
    assert!(start(&node, "red", "first", "").unwrap().created);
    assert_eq!(node.grants(session).len(), 1);
    for _ in 0..4 {
        assert!(!start(&node, "red", "first", "").unwrap().created);
        start(&node, "red", "first", "another request").unwrap_err();
    }
    for key in ["second", "third", "fourth"] {
        assert!(start(&node, "red", key, "").unwrap().created);
        // Given away in the transaction that wrote it: nobody had to look.
        assert_eq!(node.grants(session).len(), 1, "{key}");
    }
}

#[test]
fn a_run_that_is_not_leased_at_its_birth_leaves_the_slot_to_others() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 2);
    job(&cluster, "red/j");
    job(&cluster, "blue/j");
    node.dispatch(&cluster);
    // The dispatcher has not heard of this limit when the runs are written.
    let change = NamespaceChange {
        max_running: Some(Some(1)),
        ..NamespaceChange::default()
    };
    let red = Name::new("red").unwrap();
    let elsewhere = Control::new(node.engine.context.clone());
    block_on(elsewhere.set_namespace("user test", &red, change)).unwrap();
    start(&node, "red", "first", "").unwrap();
    assert_eq!(node.grants(session).len(), 1);
    start(&node, "red", "second", "").unwrap();
    assert_eq!(node.grants(session).len(), 0);
    start(&node, "blue", "first", "").unwrap();
    block_on(node.engine.dispatcher.hand_out(cluster.now())).unwrap();
    let works = node.grants(session);
    assert_eq!(works.len(), 1);
    assert_eq!(works[0].run.job_name.namespace.as_str(), "blue");
}

#[test]
fn a_run_of_a_namespace_with_a_limit_is_given_away_without_a_look() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    job(&cluster, "red/j");
    let change = NamespaceChange {
        max_running: Some(Some(5)),
        ..NamespaceChange::default()
    };
    let red = Name::new("red").unwrap();
    let control = &node.engine.control;
    block_on(control.set_namespace("user test", &red, change)).unwrap();
    node.dispatch(&cluster);
    // Seen by a look, which there is only where something waits.
    cluster.run(job(&cluster, "other/j"), "one");
    node.dispatch(&cluster);
    let work = node.grants(session).remove(0);
    let done = crate::fixture::report(
        work.shard.key,
        work.shard.token,
        sichen_core::lifecycle::shard::Ending::Succeeded,
    );
    node.report(&cluster, done);
    node.engine.dispatcher.freed(session, &[work.shard.key]);
    node.dispatch(&cluster);
    start(&node, "red", "first", "").unwrap();
    block_on(node.engine.dispatcher.hand_out(cluster.now())).unwrap();
    assert_eq!(node.grants(session).len(), 1);
}
