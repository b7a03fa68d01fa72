//! Claims about what a job's retry rules do to its runs.

use futures::executor::block_on;
use jiff::SignedDuration;
use serde_json::json;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState, StopCause};
use sichen_core::model::Failure;
use sichen_engine::sessions::{BeatAnswer, Report, ReportVerdict};
use sichen_engine::work::Work;

use crate::fixture::{Cluster, report};

/// A report that says `code`.
fn said(work: &Work, ending: Ending, code: &str) -> Report {
    Report {
        failure: Some(Failure {
            code: code.to_owned(),
            message: "as told".to_owned(),
        }),
        ..report(work.shard.key, work.shard.token, ending)
    }
}

#[test]
fn a_rule_that_fails_the_run_stops_the_rest_of_it() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 2);
    let spec = json!({
        "run": { "handler": "h" },
        "shards": { "count": 4 },
        "retry": { "rules": [{ "exitCodes": ["70-79"], "action": "failRun" }] },
    });
    let run = cluster.run(cluster.apply("j", spec), "k");
    node.dispatch(&cluster);
    let works = node.grants(session);
    let verdict = node.report(&cluster, said(&works[0], Ending::Failed, "exit-75"));
    assert_eq!(verdict, ReportVerdict::Accepted);
    let stop = cluster.get(run).stop.map(|(cause, _)| cause);
    assert_eq!(stop, Some(StopCause::Fatal));
    assert_eq!(node.dispatch(&cluster), 0, "nothing more is granted");
    let held = (works[1].shard.key, works[1].shard.token);
    let BeatAnswer::Alive { stop, .. } = node.beat(session, &[held], 2) else {
        panic!("the session lives");
    };
    assert_eq!(stop.len(), 1, "the worker is told to stop the other one");
    node.report(&cluster, said(&works[1], Ending::Cancelled, "stopped"));
    let run_now = cluster.get(run);
    assert_eq!(
        (run_now.state, run_now.reason.as_str()),
        (RunState::Failed, "fatal")
    );
    let states: Vec<ShardState> = cluster.shards(run).iter().map(|s| s.state).collect();
    use ShardState::{Cancelled, Failed};
    assert_eq!(states, [Failed, Cancelled, Cancelled, Cancelled]);
    let failure = cluster.shards(run)[0].failure.clone().unwrap();
    assert_eq!(failure.code, "exit-75");
    assert_eq!(failure.message, "as told (retry.rules[0] fails the run)");
}

#[test]
fn an_ignored_error_leaves_a_success_with_a_remark() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 2);
    let spec = json!({
        "run": { "handler": "h" },
        "shards": { "count": 2 },
        "retry": { "rules": [{ "errors": ["nothing-new"], "action": "ignore" }] },
    });
    let run = cluster.run(cluster.apply("j", spec), "k");
    node.dispatch(&cluster);
    let works = node.grants(session);
    let ignored = said(&works[0], Ending::FailedForGood, "nothing-new");
    assert_eq!(
        node.report(&cluster, ignored.clone()),
        ReportVerdict::Accepted
    );
    assert_eq!(node.report(&cluster, ignored), ReportVerdict::Duplicate);
    let done = report(works[1].shard.key, works[1].shard.token, Ending::Succeeded);
    node.report(&cluster, done);
    assert_eq!(cluster.get(run).state, RunState::Succeeded);
    let shards = cluster.shards(run);
    let remark = shards[0].failure.clone().unwrap();
    assert_eq!(remark.code, "nothing-new");
    assert_eq!(remark.message, "as told (retry.rules[0] ignores it)");
    assert_eq!(shards[1].failure, None);
}

#[test]
fn a_rule_for_lost_attempts_decides_when_the_worker_is_gone() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    let spec = json!({
        "run": { "handler": "h" },
        "retry": { "rules": [
            { "errors": ["session-over", "*"], "action": "ignore" },
            { "ends": ["lost"], "action": "failShard" },
        ]},
    });
    let run = cluster.run(cluster.apply("j", spec), "k");
    node.dispatch(&cluster);
    assert_eq!(node.grants(session).len(), 1);
    for _ in 0..20 {
        cluster.pass(1);
        node.coordinate(&cluster);
        node.reap(&cluster);
    }
    let shard = cluster.shards(run).remove(0);
    assert_eq!(
        shard.state,
        ShardState::Failed,
        "no code ignores a lost attempt"
    );
    assert_eq!(cluster.get(run).state, RunState::Failed);
    let failure = shard.failure.unwrap();
    assert_eq!(failure.code, "session-over");
    assert!(
        failure
            .message
            .ends_with("(retry.rules[1] fails the shard)")
    );
}

/// A node counts the store's time on between two readings, and may be a little ahead of it.
#[test]
fn a_retry_that_becomes_ready_between_the_store_s_time_and_the_node_s_is_looked_for_at_once() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 2);
    let spec = json!({
        "run": { "handler": "h" },
        "retry": { "maxAttempts": 3, "backoff": { "fixed": "10s" } },
    });
    cluster.run(cluster.apply("j", spec), "k");
    node.dispatch(&cluster);
    let works = node.grants(session);
    node.report(&cluster, said(&works[0], Ending::Failed, "exit-1"));
    cluster.pass(9);
    node.coordinate(&cluster);
    let ahead = cluster.now() + SignedDuration::from_millis(1_500);
    let pass = block_on(node.engine.dispatcher.run_once(ahead)).unwrap();
    assert_eq!(pass.granted, 0, "the store says that it is not ready");
    assert!(node.engine.dispatcher.look_is_due(ahead), "{pass:?}");
    cluster.pass(1);
    assert_eq!(node.dispatch(&cluster), 1);
}

/// A look that finds no free slot reads nothing of what waits, so it must not believe what the look
/// before it knew.
#[test]
fn a_retry_that_became_ready_while_no_slot_was_free_is_looked_for_when_one_is() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    let spec = json!({
        "run": { "handler": "h" },
        "retry": { "maxAttempts": 3, "backoff": { "fixed": "2s" } },
    });
    let job = cluster.apply("j", spec);
    cluster.run(job, "first");
    node.dispatch(&cluster);
    let works = node.grants(session);
    node.report(&cluster, said(&works[0], Ending::Failed, "exit-1"));
    assert_eq!(node.dispatch(&cluster), 0, "it waits for its retry");
    cluster.run(job, "second");
    assert_eq!(node.dispatch(&cluster), 1);
    let works = node.grants(session);
    cluster.pass(3);
    node.coordinate(&cluster);
    assert_eq!(node.dispatch(&cluster), 0, "no slot is free");
    let done = report(works[0].shard.key, works[0].shard.token, Ending::Succeeded);
    assert_eq!(node.report(&cluster, done), ReportVerdict::Accepted);
    let now = cluster.now();
    let pass = block_on(node.engine.dispatcher.hand_out(now)).unwrap();
    assert_eq!(pass.next_ready, Some(now), "what waits is to be read");
}
