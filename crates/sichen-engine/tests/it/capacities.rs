//! Who waits for a capacity, and when the dispatcher looks again.

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sichen_core::document::CapacityDocument;
use sichen_core::ids::{JobUid, RunId, SessionId};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::NamespaceChange;
use sichen_core::name::Name;
use sichen_engine::work::Work;

use crate::fixture::{Cluster, Node, hello, report};

fn capacity(node: &Node, name: &str, spec: serde_json::Value) {
    let document: CapacityDocument = serde_json::from_value(json!({
        "apiVersion": "sichen/v1", "kind": "Capacity",
        "metadata": { "name": name }, "spec": spec,
    }))
    .unwrap();
    block_on(node.engine.control.apply_capacity("user test", &document)).unwrap();
}

/// A job of handler `handler`, each attempt of which uses one of `uses`.
fn job(cluster: &Cluster, name: &str, handler: &str, uses: Option<&str>) -> JobUid {
    let mut spec = json!({ "run": { "handler": handler } });
    if let Some(uses) = uses {
        spec["uses"] = json!({ uses: 1 });
    }
    cluster.apply(name, spec)
}

fn limit(node: &Node, namespace: &str, most: u32) {
    let change = NamespaceChange {
        max_running: Some(Some(most)),
        ..NamespaceChange::default()
    };
    let name = Name::new(namespace).unwrap();
    block_on(
        node.engine
            .control
            .set_namespace("user test", &name, change),
    )
    .unwrap();
}

fn ends(cluster: &Cluster, node: &Node, session: SessionId, work: &Work) {
    let done = report(work.shard.key, work.shard.token, Ending::Succeeded);
    node.report(cluster, done);
    let keys = [work.shard.key];
    node.engine.dispatcher.freed(session, &keys);
}

/// What the driver does when the dispatcher's time has come: the next time.
fn step(cluster: &Cluster, node: &Node) -> Timestamp {
    let dispatcher = &node.engine.dispatcher;
    let now = cluster.now();
    let quiet = !dispatcher.look_is_due(now) && {
        let pass = block_on(dispatcher.hand_out(now)).unwrap();
        pass.next_ready.is_none() && pass.refused == 0
    };
    if !quiet {
        block_on(dispatcher.run_once(now)).unwrap();
    }
    dispatcher.next_look().unwrap()
}

/// Time goes on by milliseconds, with beats.
fn later(cluster: &Cluster, node: &Node, sessions: &[SessionId], mut ms: i64) {
    while ms > 0 {
        let part = ms.min(2_000);
        ms -= part;
        cluster.clock.advance(SignedDuration::from_millis(part));
        node.coordinate(cluster);
        let ttl = SignedDuration::from_secs(60);
        block_on(cluster.store.renew_sessions(sessions.to_vec(), ttl)).unwrap();
    }
}

fn runs(works: &[Work]) -> Vec<RunId> {
    works.iter().map(|work| work.run.id).collect()
}

#[test]
fn a_namespace_at_its_limit_leaves_a_capacity_to_the_others() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 8);
    capacity(&node, "x", json!({ "units": 2 }));
    limit(&node, "red", 2);
    let long = job(&cluster, "red/long", "h", None);
    let (red, blue) = (
        job(&cluster, "red/j", "h", Some("x")),
        job(&cluster, "blue/j", "h", Some("x")),
    );
    let first = cluster.run(long, "long");
    node.dispatch(&cluster);
    assert_eq!(runs(&node.grants(session)), [first]);
    // One more of red may run. Of the two that are asked first one has to wait for its namespace.
    let red = [cluster.run(red, "1"), cluster.run(red, "2")];
    let blue = [cluster.run(blue, "1"), cluster.run(blue, "2")];
    node.dispatch(&cluster);
    let mut works = node.grants(session);
    works.sort_by_key(|work| work.run.id);
    assert_eq!(runs(&works), [red[0], blue[0]]);
    // Red is full by now: its second run is in nobody's way.
    let long = cluster.run(long, "another");
    ends(&cluster, &node, session, &works[1]);
    later(&cluster, &node, &[session], 1_000);
    step(&cluster, &node);
    assert_eq!(runs(&node.grants(session)), [blue[1]]);
    // It gets what it waited for when its namespace may have more.
    limit(&node, "red", 4);
    ends(&cluster, &node, session, &works[0]);
    node.dispatch(&cluster);
    let mut works = runs(&node.grants(session));
    works.sort();
    assert_eq!(works, [red[1], long]);
}

#[test]
fn a_full_pool_is_not_looked_at_again_and_again() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 2);
    capacity(&node, "x", json!({ "units": 1 }));
    let user = job(&cluster, "user", "h", Some("x"));
    let holds = cluster.run(user, "holds");
    let waits = cluster.run(user, "waits");
    node.dispatch(&cluster);
    let holder = node.grants(session).remove(0);
    assert_eq!(holder.run.id, holds);
    cluster.run(job(&cluster, "plain", "h", None), "fills the other slot");
    node.dispatch(&cluster);
    assert_eq!(node.grants(session).len(), 1);
    // Somebody has it looked at while it is full.
    node.dispatch(&cluster);
    for _ in 0..5 {
        later(&cluster, &node, &[session], 1_000);
        let next = step(&cluster, &node);
        let wait = next.duration_since(cluster.now());
        assert!(wait >= SignedDuration::from_millis(100), "{wait:?}");
    }
    ends(&cluster, &node, session, &holder);
    step(&cluster, &node);
    assert_eq!(runs(&node.grants(session)), [waits]);
}

#[test]
fn tokens_that_came_for_a_run_without_a_worker_ask_for_no_looks() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 2);
    let mut other = hello("w2", "first", 4);
    other.handlers = vec!["g".to_owned()];
    let other = node.register(&cluster, other);
    let sessions = [session, other];
    capacity(&node, "tokens", json!({ "rate": "6/m", "burst": 1 }));
    capacity(&node, "x", json!({ "units": 1 }));
    later(&cluster, &node, &sessions, 60_000);
    let paced = job(&cluster, "paced", "h", Some("tokens"));
    cluster.run(paced, "takes the token");
    cluster.run(paced, "waits for the next one");
    let user = job(&cluster, "user", "g", Some("x"));
    cluster.run(user, "holds");
    node.dispatch(&cluster);
    assert_eq!(node.grants(session).len(), 1);
    assert_eq!(node.grants(other).len(), 1);
    // Its worker is full when the token comes, and another run waits for units.
    cluster.run(job(&cluster, "plain", "h", None), "fills the slot");
    node.dispatch(&cluster);
    assert_eq!(node.grants(session).len(), 1);
    cluster.run(user, "waits");
    node.dispatch(&cluster);
    later(&cluster, &node, &sessions, 60_000);
    for _ in 0..5 {
        let next = step(&cluster, &node);
        let wait = next.duration_since(cluster.now());
        assert!(wait >= SignedDuration::from_millis(100), "{wait:?}");
        later(&cluster, &node, &sessions, 1_000);
    }
}

/// P7: the worker beats, and does not know yet that its attempt was given up.
#[test]
fn units_of_a_stalled_attempt_count_until_its_job_s_grace_has_passed() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 2);
    capacity(&node, "x", json!({ "units": 1 }));
    let user = cluster.apply(
        "user",
        json!({
            "run": { "handler": "h" }, "uses": { "x": 1 },
            "timeouts": { "stall": "10s", "grace": "10m" },
        }),
    );
    cluster.run(user, "stalls");
    node.dispatch(&cluster);
    assert_eq!(node.grants(session).len(), 1);
    // The reaper leaves it that grace as well, to end by itself.
    let reaped = (0..400).any(|_| {
        later(&cluster, &node, &[session], 2_000);
        node.reap(&cluster) > 0
    });
    assert!(reaped);
    let x = Name::new("x").unwrap();
    let held = block_on(cluster.store.list_holds(x, 10)).unwrap();
    let until = held[0].until.unwrap();
    // It is told to stop with its next beat, three seconds later, and has ten minutes then.
    let least = SignedDuration::from_secs(603);
    assert!(until.duration_since(cluster.now()) >= least, "{until}");
}

#[test]
fn short_attempts_are_started_at_the_rate_they_are_allowed() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 4);
    capacity(&node, "tokens", json!({ "rate": "10/s", "burst": 1 }));
    later(&cluster, &node, &[session], 1_000);
    let paced = job(&cluster, "paced", "h", Some("tokens"));
    for n in 0..12 {
        cluster.run(paced, &n.to_string());
    }
    let begun = cluster.now();
    let mut ended = 0;
    while cluster.now().duration_since(begun) < SignedDuration::from_secs(1) {
        let mut next = step(&cluster, &node);
        for work in node.grants(session) {
            // An attempt takes 30 ms, and its end is told at once.
            later(&cluster, &node, &[session], 30);
            ends(&cluster, &node, session, &work);
            ended += 1;
            next = step(&cluster, &node);
        }
        let wait = next.duration_since(cluster.now());
        let wait = i64::try_from(wait.as_millis()).unwrap();
        later(&cluster, &node, &[session], wait.max(1));
    }
    assert!((9..=11).contains(&ended), "{ended}");
}
