//! How many runs of a namespace may be queued: who asks is refused, what was planned waits and is not lost.

use futures::executor::block_on;
use jiff::SignedDuration;
use serde_json::{Map, json};
use sichen_check::{Options, check_dump};
use sichen_core::ids::{JobUid, RunId, SessionId};
use sichen_core::lifecycle::RunState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::NamespaceChange;
use sichen_core::name::{JobName, Name};
use sichen_core::port::{Page, RunFilter};
use sichen_engine::control::{Error, StartRun, Which};

use crate::fixture::{Cluster, Node, report, start};

fn queue(node: &Node, namespace: &str, most: Option<u32>) {
    let change = NamespaceChange {
        max_queued: Some(most),
        ..NamespaceChange::default()
    };
    let (control, name) = (&node.engine.control, Name::new(namespace).unwrap());
    block_on(control.set_namespace("user test", &name, change)).unwrap();
}

fn ask(node: &Node, key: &str) -> Result<RunId, Error> {
    let wanted = StartRun {
        job: JobName::new("red", "asked").unwrap(),
        which: Which::Manual(key.to_owned()),
        parameters: Map::new(),
        period: None,
        overlap: None,
        not_before: None,
        digest: String::new(),
    };
    block_on(node.engine.control.start_run("user test", wanted)).map(|started| started.run)
}

fn runs_of(cluster: &Cluster, job: JobUid) -> Vec<(RunId, i64, RunState)> {
    let filter = RunFilter {
        job: Some(job),
        ..RunFilter::default()
    };
    let page = Page {
        after: None,
        limit: 100,
    };
    let runs = block_on(cluster.store.list_runs(filter, page)).unwrap();
    let rows = runs.into_iter().rev().map(|run| {
        let at = run.occasion.planned_at().unwrap();
        (run.id, at.duration_since(start()).as_secs(), run.state)
    });
    rows.collect()
}

fn work_off(cluster: &Cluster, node: &Node, session: SessionId) {
    for _ in 0..10 {
        node.dispatch(cluster);
        for work in node.grants(session) {
            let key = work.shard.key;
            node.report(cluster, report(key, work.shard.token, Ending::Succeeded));
        }
    }
}

fn assert_sound(cluster: &Cluster) {
    let dump = block_on(cluster.store.dump()).unwrap();
    let options = Options {
        seq_is_commit_order: true,
        ..Options::default()
    };
    let verdict = check_dump(&dump, options, &[]);
    assert_eq!(verdict.violations, []);
}

#[test]
fn who_asks_for_a_run_is_refused_while_the_queue_is_full_and_may_ask_again() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    cluster.apply("red/asked", json!({ "run": { "handler": "h" } }));
    queue(&node, "red", Some(2));
    let first = ask(&node, "a").unwrap();
    ask(&node, "b").unwrap();
    let refused = ask(&node, "c").unwrap_err();
    let text = refused.to_string();
    assert!(
        matches!(
            refused,
            Error::Full {
                most: 2,
                queued: 2,
                ..
            }
        ),
        "{text}"
    );
    assert!(
        text.starts_with("SC5053: 2 runs of namespace red are queued, and 2 may be"),
        "{text}"
    );
    assert_eq!(ask(&node, "a").unwrap(), first, "what is there is found");
    let session = node.worker(&cluster, "w1", 10);
    work_off(&cluster, &node, session);
    ask(&node, "c").expect("the same key, once there is room");
    assert_sound(&cluster);
}

/// An hour without a worker: no instant is decided that has no room, and none is lost.
#[test]
fn planned_times_wait_for_room_and_each_gets_its_run() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let spec = json!({
        "run": { "handler": "h" }, "schedules": [{ "every": "1m" }],
        "overlap": "allow", "catchUp": { "policy": { "all": 100 } },
    });
    let job = cluster.apply("red/planned", spec.clone());
    let other = cluster.apply("blue/planned", spec);
    queue(&node, "red", Some(3));
    let pass = |seconds: i64| {
        cluster.pass(seconds);
        node.coordinate(&cluster);
        node.trigger(&cluster);
    };
    for _ in 0..72 {
        pass(5);
    }
    let red = runs_of(&cluster, job);
    assert_eq!(
        red.iter().map(|run| run.1).collect::<Vec<_>>(),
        [60, 120, 180]
    );
    assert_eq!(
        runs_of(&cluster, other).len(),
        6,
        "another namespace's are written in time"
    );
    let mark = block_on(cluster.store.get_job_by_uid(job))
        .unwrap()
        .unwrap()
        .high_water;
    assert_eq!(
        mark,
        start() + SignedDuration::from_secs(180),
        "nothing is passed over"
    );
    assert_sound(&cluster);
    // Three leave, and as many are written at once, in order.
    let session = node.worker(&cluster, "w1", 10);
    work_off(&cluster, &node, session);
    for _ in 0..2 {
        pass(5);
    }
    let planned: Vec<i64> = runs_of(&cluster, job).iter().map(|run| run.1).collect();
    assert_eq!(planned, [60, 120, 180, 240, 300, 360]);
    let decided = block_on(cluster.store.list_decisions(job, start(), 100)).unwrap();
    assert_eq!(decided, []);
    assert_sound(&cluster);
}
