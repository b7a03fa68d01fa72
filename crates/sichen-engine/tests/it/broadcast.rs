//! Runs that are broadcast: a shard for each worker that was there, and for nobody else.

use std::collections::BTreeSet;

use futures::executor::block_on;
use serde_json::{Map, json};
use sichen_core::ids::{RunId, SessionId, ShardKey, Token};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::RunState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::name::JobName;
use sichen_core::port::{Page, RunFilter};
use sichen_engine::control::{Control, Error, StartRun, Which};

use crate::fixture::{Cluster, Node, report};

fn spec() -> serde_json::Value {
    json!({
        "run": { "handler": "h" }, "placement": { "strategy": "broadcast" },
        "timeouts": { "run": "10m" }, "retry": { "maxAttempts": 5, "backoff": { "fixed": "1s" } },
    })
}

fn ask(node: &Node, key: &str) -> Result<RunId, Error> {
    let wanted = StartRun {
        job: JobName::new("default", "j").unwrap(),
        which: Which::Manual(key.to_owned()),
        parameters: Map::new(),
        period: None,
        overlap: None,
        not_before: None,
        digest: String::new(),
    };
    block_on(node.engine.control.start_run("user test", wanted)).map(|started| started.run)
}

/// The workers that the shards of a run are for.
fn meant(cluster: &Cluster, run: RunId) -> Vec<String> {
    let shards = cluster.shards(run).into_iter();
    let named = shards.map(|shard| match shard.descriptor {
        Descriptor::Item(name) => name,
        other => panic!("{other:?}"),
    });
    named.collect()
}

fn explained(node: &Node, run: RunId) -> (&'static str, String) {
    let control = Control::new(node.engine.context.clone());
    let (_, reasons) = block_on(control.explain(run)).unwrap();
    let why = reasons.last().unwrap();
    (why.word, why.text.clone())
}

/// What the worker got: shard numbers with their tokens.
fn got(node: &Node, session: SessionId) -> Vec<(ShardKey, Token)> {
    let works = node.grants(session).into_iter();
    works
        .map(|work| (work.shard.key, work.shard.token))
        .collect()
}

#[test]
fn each_worker_gets_its_own_shard_and_who_comes_later_none() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    cluster.apply("j", spec());
    let nobody = ask(&node, "none").unwrap_err().to_string();
    assert!(
        nobody.starts_with("SC5054: a run of job j goes to each worker"),
        "{nobody}"
    );
    let sessions = ["w1", "w2", "w3"].map(|name| node.worker(&cluster, name, 4));
    node.coordinate(&cluster);
    let run = ask(&node, "k").unwrap();
    let late = node.worker(&cluster, "w4", 4);
    assert_eq!(meant(&cluster, run), ["w1", "w2", "w3"]);
    node.dispatch(&cluster);
    for (no, session) in sessions.into_iter().enumerate() {
        let held = got(&node, session);
        assert_eq!(held.len(), 1, "{held:?}");
        assert_eq!(held[0].0, ShardKey::new(run, i32::try_from(no).unwrap()));
        let (key, token) = held[0];
        node.report(&cluster, report(key, token, Ending::Succeeded));
    }
    assert_eq!(got(&node, late), []);
    assert_eq!(cluster.get(run).state, RunState::Succeeded);
}

#[test]
fn the_shard_of_a_lost_worker_waits_for_it_and_keeps_no_other_waiting() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    cluster.apply("j", spec());
    let [first, second] = ["w1", "w2"].map(|name| node.worker(&cluster, name, 4));
    node.coordinate(&cluster);
    let run = ask(&node, "k").unwrap();
    // The first is gone before it got its shard: no beat comes of it.
    let drop_first = cluster
        .store
        .end_session(cluster.op(), None, first, "drained".to_owned());
    block_on(drop_first).unwrap();
    node.coordinate(&cluster);
    node.dispatch(&cluster);
    let held = got(&node, second);
    assert_eq!(held.len(), 1);
    assert_eq!(held[0].0, ShardKey::new(run, 1));
    node.report(&cluster, report(held[0].0, held[0].1, Ending::Succeeded));
    let (word, text) = explained(&node, run);
    assert_eq!(word, "absent");
    assert!(text.contains("not connected: w1;"), "{text}");
    let counted = block_on(node.engine.dispatcher.census(cluster.now())).unwrap();
    let counted: Vec<_> = counted.into_iter().map(|(r, n)| (r.word(), n)).collect();
    assert_eq!(counted, [("absent", 1)]);
    // Another worker changes nothing, the same name does.
    let other = node.worker(&cluster, "w3", 4);
    node.dispatch(&cluster);
    assert_eq!(got(&node, other), []);
    let back = node.worker(&cluster, "w1", 4);
    node.dispatch(&cluster);
    let held = got(&node, back);
    assert_eq!(held.len(), 1);
    node.report(&cluster, report(held[0].0, held[0].1, Ending::Succeeded));
    assert_eq!(cluster.get(run).state, RunState::Succeeded);
}

#[test]
fn a_run_whose_worker_never_comes_back_fails_when_its_time_is_over() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    cluster.apply("j", spec());
    let only = node.worker(&cluster, "w1", 4);
    node.coordinate(&cluster);
    let run = ask(&node, "k").unwrap();
    let end = cluster
        .store
        .end_session(cluster.op(), None, only, "drained".to_owned());
    block_on(end).unwrap();
    for _ in 0..11 {
        cluster.pass(60);
        node.coordinate(&cluster);
        node.trigger(&cluster);
    }
    let run = cluster.get(run);
    assert_eq!(
        (run.state, run.reason.as_str()),
        (RunState::Failed, "deadline")
    );
}

#[test]
fn a_planned_time_waits_for_somebody_to_be_broadcast_to() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let mut planned = spec();
    planned["schedules"] = json!([{ "every": "1m" }]);
    planned["catchUp"] = json!({ "policy": { "all": 10 } });
    planned["overlap"] = json!("allow");
    let job = cluster.apply("j", planned);
    let pass = |seconds| {
        cluster.pass(seconds);
        node.coordinate(&cluster);
        node.trigger(&cluster);
    };
    for _ in 0..15 {
        pass(10);
    }
    let runs = || {
        let filter = RunFilter {
            job: Some(job),
            ..RunFilter::default()
        };
        let page = Page {
            after: None,
            limit: 10,
        };
        let runs = block_on(cluster.store.list_runs(filter, page)).unwrap();
        runs.into_iter().map(|run| run.id).collect::<BTreeSet<_>>()
    };
    assert_eq!(runs().len(), 0);
    assert_eq!(
        block_on(
            cluster
                .store
                .list_decisions(job, crate::fixture::start(), 10)
        )
        .unwrap(),
        []
    );
    node.worker(&cluster, "w1", 4);
    pass(10);
    let made = runs();
    assert_eq!(made.len(), 2, "the two that waited");
    assert!(made.into_iter().all(|run| meant(&cluster, run) == ["w1"]));
}
