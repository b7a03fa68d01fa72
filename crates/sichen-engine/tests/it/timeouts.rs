//! Claims about limits on time: who judges them, when, and what follows.

use futures::executor::block_on;
use jiff::SignedDuration;
use serde_json::json;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState, StopCause};
use sichen_core::model::Progress;
use sichen_core::port::{CheckpointVerdict, MAX_BATCH, SaveCheckpoint};
use sichen_engine::courier::{StopReason, ToWorker};
use sichen_engine::sessions::{BeatAnswer, ReportVerdict};
use sichen_engine::work::Work;

use crate::fixture::{Cluster, Node, report, start};

fn secs(s: i64) -> SignedDuration {
    SignedDuration::from_secs(s)
}

/// A beat of the holder that says how long its attempt has been idle.
fn progress(node: &Node, work: &Work, done: u64, idle: i64) {
    let item = SaveCheckpoint {
        key: work.shard.key,
        token: work.shard.token,
        session: work.shard.session.unwrap(),
        checkpoint: None,
        progress: Progress {
            done,
            ..Progress::default()
        },
        idle: secs(idle),
    };
    block_on(node.engine.sessions.checkpoint("worker w1", vec![item])).unwrap();
}

/// A worker may hold more attempts than a store takes in one batch, and tells of all in one beat.
#[test]
fn a_beat_may_tell_of_more_attempts_than_one_batch_holds() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let worker = node.worker(&cluster, "w1", 1);
    let job = cluster.apply("j", json!({ "run": { "handler": "h" } }));
    cluster.run(job, "k");
    node.dispatch(&cluster);
    let work = node.grants(worker).pop().unwrap();
    let item = SaveCheckpoint {
        key: work.shard.key,
        token: work.shard.token,
        session: worker,
        checkpoint: None,
        progress: Progress::default(),
        idle: secs(0),
    };
    let many = vec![item; MAX_BATCH + 1];
    let saved = block_on(node.engine.sessions.checkpoint("worker w1", many)).unwrap();
    assert_eq!(saved, vec![CheckpointVerdict::Saved; MAX_BATCH + 1]);
}

#[test]
fn an_attempt_that_gives_no_sign_is_ended_from_outside() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    let spec = json!({
        "run": { "handler": "h" },
        "timeouts": { "stall": "10s", "attempt": "10m" },
        "retry": { "rules": [{ "errors": ["stalled"], "action": "failShard" }] },
    });
    let run = cluster.run(cluster.apply("j", spec), "k");
    node.dispatch(&cluster);
    let work = node.grants(session).pop().unwrap();
    assert_eq!(work.shard.stall, Some(secs(10)));
    let held = [(work.shard.key, work.shard.token)];
    // A minute of beats with progress; then beats go on, and the handler stands still.
    for second in 0..20 {
        cluster.pass(3);
        node.coordinate(&cluster);
        node.beat(session, &held, 1);
        progress(&node, &work, second, 0);
        assert_eq!(node.reap(&cluster), 0, "it goes on");
    }
    for step in 1..=8 {
        cluster.pass(3);
        node.coordinate(&cluster);
        node.beat(session, &held, 1);
        progress(&node, &work, 20, 3 * step);
        assert_eq!(node.reap(&cluster), 0, "its worker has the first word");
    }
    cluster.pass(3);
    node.coordinate(&cluster);
    node.beat(session, &held, 1);
    assert_eq!(node.reap(&cluster), 1);
    let shard = cluster.shards(run).remove(0);
    assert_eq!(shard.state, ShardState::Failed, "by the rule for its code");
    assert_eq!(shard.failure.unwrap().code, "stalled");
}

#[test]
fn the_trigger_waits_for_the_next_deadline_and_names_who_is_to_stop() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    let spec = json!({
        "run": { "handler": "h" }, "shards": { "count": 2 }, "timeouts": { "run": "7s" },
    });
    let run = cluster.run(cluster.apply("j", spec), "k");
    node.dispatch(&cluster);
    let work = node.grants(session).pop().unwrap();
    assert_eq!(work.run_timeout, Some(secs(7)), "the worker counts as well");
    let deadline = start() + secs(7);
    assert_eq!(node.trigger(&cluster).next, Some(deadline));
    cluster.pass(7);
    node.coordinate(&cluster);
    let pass = node.trigger(&cluster);
    assert_eq!((pass.next, pass.stopped), (Some(deadline), vec![]));
    cluster.clock.advance(SignedDuration::from_millis(1));
    let pass = node.trigger(&cluster);
    assert_eq!((pass.next, &pass.stopped[..]), (None, &[run][..]));
    block_on(node.engine.sessions.tell_stopped(run)).unwrap();
    let told = node.messages(session);
    let [ToWorker::Cancel { key, reason, .. }] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!((*key, *reason), (work.shard.key, StopReason::RunStopped));
    let ended = report(work.shard.key, work.shard.token, Ending::Cancelled);
    node.report(&cluster, ended);
    let row = cluster.get(run);
    assert_eq!(
        (row.state, row.reason.as_str()),
        (RunState::Failed, "deadline")
    );
}

/// The worker stops first and reports before the trigger comes: that report stops the run.
#[test]
fn a_report_past_the_deadline_stops_the_run_and_tells_the_others() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 2);
    let spec = json!({
        "run": { "handler": "h" }, "shards": { "count": 3 },
        "timeouts": { "activeDeadline": "10s" },
    });
    let run = cluster.run(cluster.apply("j", spec), "k");
    cluster.pass(60);
    node.coordinate(&cluster);
    let again = node.worker(&cluster, "w1", 2);
    assert_ne!(session, again, "the first session is over by now");
    assert_eq!(
        cluster.get(run).terms.deadline,
        None,
        "waiting counts for nothing"
    );
    node.dispatch(&cluster);
    let works = node.grants(again);
    let deadline = cluster.now() + secs(10);
    assert_eq!(cluster.get(run).terms.deadline, Some(deadline));
    assert_eq!(works[1].run_timeout, Some(secs(10)));
    cluster.pass(10);
    cluster.clock.advance(SignedDuration::from_millis(5));
    node.coordinate(&cluster);
    let first = report(works[0].shard.key, works[0].shard.token, Ending::Cancelled);
    assert_eq!(node.report(&cluster, first), ReportVerdict::Accepted);
    let stop = cluster.get(run).stop.map(|(cause, _)| cause);
    assert_eq!(stop, Some(StopCause::Deadline));
    assert_eq!(
        node.messages(again).len(),
        1,
        "the other one is told at once"
    );
    let held = (works[1].shard.key, works[1].shard.token);
    let BeatAnswer::Alive { stop, .. } = node.beat(again, &[held], 2) else {
        panic!("the session lives");
    };
    assert_eq!(stop.len(), 1, "and by its beat, should it have missed that");
    let second = report(held.0, held.1, Ending::Cancelled);
    node.report(&cluster, second);
    let row = cluster.get(run);
    assert_eq!(
        (row.state, row.reason.as_str()),
        (RunState::Failed, "deadline")
    );
    // An explicit retry has no limit of the first round.
    let reopened = cluster
        .store
        .reopen_run(cluster.op(), run, None, cluster.now());
    block_on(reopened).unwrap();
    assert_eq!(cluster.get(run).terms.deadline, None);
}

#[test]
fn a_plan_step_does_not_stall() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    let query = json!({ "dataSource": "ledger", "sql": "select min(id), max(id) from ledger" });
    let spec = json!({
        "run": { "handler": "h" },
        "shards": { "range": { "bounds": { "query": query }, "count": 2 } },
        "timeouts": { "stall": "5s", "attempt": "1h" },
    });
    cluster.run(cluster.apply("j", spec), "k");
    node.dispatch(&cluster);
    let plan = node.grants(session).pop().unwrap();
    assert!(plan.shard.key.no.is_plan());
    assert_eq!(plan.shard.stall, None);
    assert_eq!(plan.attempt_timeout, Some(secs(3600)));
}
