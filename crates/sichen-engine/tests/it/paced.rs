//! Rates of jobs: how many of a job's shards start in a stretch of time.

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sichen_core::forecast::Window;
use sichen_core::ids::SessionId;
use sichen_core::lifecycle::RunState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::name::JobName;
use sichen_engine::control::Control;
use sichen_engine::control::forecast::Asked;

use crate::fixture::{Cluster, Node, document, pool, report, start};

/// A second of the cluster: what may start starts, and ends at once. The priorities of what did, in order.
fn second(cluster: &Cluster, node: &Node, session: SessionId) -> Vec<i32> {
    cluster.pass(1);
    node.coordinate(cluster);
    node.trigger(cluster);
    node.beat(session, &[], 1_000_000);
    node.dispatch(cluster);
    let works = node.grants(session);
    let mut started = Vec::new();
    for work in works {
        started.push(work.run.terms.priority);
        let key = work.shard.key;
        node.report(cluster, report(key, work.shard.token, Ending::Succeeded));
    }
    started
}

/// Applied as a person would, so that what stands for its rate is there.
fn apply(node: &Node, name: &str, spec: serde_json::Value) {
    let control = &node.engine.control;
    block_on(control.apply("user test", &document(name, spec))).unwrap();
}

#[test]
fn a_jobs_own_rate_lets_its_starts_through_evenly_and_says_when_the_next_one_is() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 50);
    node.coordinate(&cluster);
    let spec = json!({ "run": { "handler": "h" }, "shards": { "count": 10 }, "rate": "60/m" });
    apply(&node, "j", spec.clone());
    let name = JobName::new("default", "j").unwrap();
    let job = block_on(node.engine.control.job(&name)).unwrap().uid;
    let run = cluster.run(job, "k");
    // A run that is made by hand has what the document says, too.
    assert_eq!(cluster.get(run).terms.uses.iter().count(), 1);
    let mut started = Vec::new();
    for _ in 0..5 {
        started.push(second(&cluster, &node, session).len());
    }
    assert_eq!(started, [1, 1, 1, 1, 1]);
    let control = Control::new(node.engine.context.clone());
    let (_, reasons) = block_on(control.explain(run)).unwrap();
    let why = reasons.last().unwrap();
    assert_eq!(why.word, "capacity");
    assert!(
        why.text
            .contains("the job may start 60/m (`rate` in its document)"),
        "{}",
        why.text
    );
    // Another job is not slowed down, and a job without its rate no more.
    let mut free = spec;
    free.as_object_mut().unwrap().remove("rate");
    apply(&node, "j", free);
    for _ in 0..5 {
        second(&cluster, &node, session);
    }
    assert_eq!(cluster.get(run).state, RunState::Succeeded);
    let second_run = cluster.run(job, "l");
    assert!(cluster.get(second_run).terms.uses.is_empty());
}

#[test]
fn a_forecast_names_when_a_rate_is_overbooked_and_until_when() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let spec = |rate: &str| {
        json!({
            "run": { "handler": "h" }, "schedules": [{ "cron": "0 * * * *" }], "rate": rate,
            "shards": { "count": 120 },
        })
    };
    apply(&node, "slow", spec("60/m"));
    let session = node.worker(&cluster, "w1", 200);
    node.coordinate(&cluster);
    // One run has succeeded, so it is known of how many shards they are.
    let name = JobName::new("default", "slow").unwrap();
    let job = block_on(node.engine.control.job(&name)).unwrap().uid;
    let run = cluster.run(job, "k");
    while cluster.get(run).state != RunState::Succeeded {
        second(&cluster, &node, session);
    }
    let from: Timestamp = start() + SignedDuration::from_hours(24);
    let window = Window {
        from,
        to: from + SignedDuration::from_hours(2),
        part: SignedDuration::from_hours(1),
    };
    let asked = Asked {
        pool: pool(),
        window,
        slots: Some(500),
    };
    let told = block_on(node.engine.control.forecast(asked)).unwrap();
    let (_, rate, forecast) = &told.rates[0];
    assert_eq!(rate.text(), "60/m");
    let spans = &forecast.overbooked;
    assert_eq!(spans.len(), 2, "{spans:?}");
    for span in spans {
        assert_eq!(span.wanted, 120);
        let until = span.until.unwrap();
        assert_eq!(
            until.duration_since(span.from),
            SignedDuration::from_secs(120)
        );
    }
}
