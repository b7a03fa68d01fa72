//! Rows that make no sense: one of them never stops a duty for the others.

use std::sync::Arc;

use futures::executor::block_on;
use serde_json::json;
use sichen_core::document::CapacityDocument;
use sichen_core::lifecycle::RunState;
use sichen_core::name::Name;
use sichen_store::clock::ManualClock;
use sichen_store::sqlite::SqliteStore;

use crate::fixture::{Cluster, Node, hello, start};

/// A node on SQLite, and a way to its rows behind its back.
fn stage() -> (Cluster, Node, impl Fn(&str), tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(start()));
    let store = Arc::new(SqliteStore::open(dir.path(), clock.clone()).unwrap());
    let cluster = Cluster {
        clock,
        store,
        ids: Arc::default(),
    };
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let conn = rusqlite::Connection::open(dir.path().join("sichen.db")).unwrap();
    let spoil = move |statement: &str| assert_eq!(conn.execute(statement, []).unwrap(), 1);
    (cluster, node, spoil, dir)
}

#[test]
fn a_job_of_a_newer_version_keeps_no_other_from_firing() {
    let (cluster, node, spoil, _dir) = stage();
    let spec = json!({
        "run": { "handler": "h" }, "schedules": [{ "cron": "* * * * *" }], "overlap": "allow",
    });
    for name in ["newer", "plain"] {
        cluster.apply(name, spec.clone());
    }
    spoil("update job set chain = '{\"newer\":1}' where name = 'newer'");
    cluster.pass(60);
    node.coordinate(&cluster);
    assert_eq!(node.trigger(&cluster).runs, 1);
    cluster.pass(60);
    node.coordinate(&cluster);
    assert_eq!(node.trigger(&cluster).runs, 1);
    // It was not lost: what can read it fires what is due.
    spoil("update job set chain = null where name = 'newer'");
    assert!(node.trigger(&cluster).runs > 0);
}

#[test]
fn a_pool_whose_rows_make_no_sense_stops_no_other_pool() {
    let (cluster, node, spoil, _dir) = stage();
    let document: CapacityDocument = serde_json::from_value(json!({
        "apiVersion": "sichen/v1", "kind": "Capacity",
        "metadata": { "name": "c" }, "spec": { "units": 1 },
    }))
    .unwrap();
    block_on(node.engine.control.apply_capacity("user test", &document)).unwrap();
    let job = |name: &str, more: serde_json::Value| {
        let mut spec = json!({ "run": { "handler": "h" }, "pool": name });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        cluster.apply(name, spec)
    };
    let (bad, good) = (job("a", json!({ "uses": { "c": 1 } })), job("b", json!({})));
    for pool in ["a", "b"] {
        let mut hello = hello(pool, "first", 1);
        hello.pool = Name::new(pool).unwrap();
        node.register(&cluster, hello);
    }
    node.coordinate(&cluster);
    let (stuck, run) = (cluster.run(bad, "k"), cluster.run(good, "k"));
    spoil("update capacity set units = 5000000000 where name = 'c'");
    let looked = block_on(node.engine.dispatcher.run_once(cluster.now()));
    assert!(looked.is_err(), "{looked:?}");
    assert_eq!(cluster.get(run).state, RunState::Running);
    assert_eq!(cluster.get(stuck).state, RunState::Scheduled);
    // Nor does one hide the sessions that ended in the other.
    cluster.pass(60);
    node.coordinate(&cluster);
    assert_eq!(node.reap(&cluster), 1);
}

#[test]
fn a_run_without_sense_keeps_no_other_of_its_pool_from_being_granted() {
    let (cluster, node, spoil, _dir) = stage();
    let session = node.worker(&cluster, "w1", 2);
    let job = cluster.apply("j", json!({ "run": { "handler": "h" } }));
    let (bad, good) = (cluster.run(job, "bad"), cluster.run(job, "good"));
    spoil(&format!("update run set nominal = '?' where id = {bad}"));
    assert_eq!(node.dispatch(&cluster), 1);
    assert_eq!(node.grants(session)[0].shard.key.run, good);
}
