//! From a run to its outcome.

use futures::executor::block_on;
use serde_json::json;
use sichen_core::ids::ShardKey;
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState, StopCause};
use sichen_core::name::Name;
use sichen_engine::sessions::{Hello, HelloAnswer, Plan, ReportVerdict};

use crate::fixture::{Cluster, hello, report};

#[test]
fn a_run_goes_from_ready_to_settled() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 2);
    let job = cluster.apply(
        "j",
        json!({ "run": { "handler": "h" }, "shards": { "count": 3 } }),
    );
    let run = cluster.run(job, "k");
    assert_eq!(node.dispatch(&cluster), 2, "two slots");
    let first = node.grants(session);
    assert_eq!(
        first.iter().map(|w| w.grant_seq).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(cluster.get(run).state, RunState::Running);
    for work in first {
        assert_eq!(work.shard.descriptor, Descriptor::Index);
        let done = report(work.shard.key, work.shard.token, Ending::Succeeded);
        assert_eq!(node.report(&cluster, done.clone()), ReportVerdict::Accepted);
        assert_eq!(node.report(&cluster, done), ReportVerdict::Duplicate);
    }
    assert_eq!(node.dispatch(&cluster), 1);
    let last = node.grants(session).pop().unwrap();
    let done = report(last.shard.key, last.shard.token, Ending::Succeeded);
    assert_eq!(node.report(&cluster, done), ReportVerdict::Accepted);
    assert_eq!(cluster.get(run).state, RunState::Succeeded);
}

/// After one look at two large runs, slots are filled from memory, in turns; when what was read of
/// one is gone, the tables are read again before the other goes on.
#[test]
fn what_a_look_has_read_of_large_runs_is_given_out_in_turns_without_another() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 500);
    let spec = json!({ "run": { "handler": "h" }, "shards": { "count": 6_000 } });
    let job = cluster.apply("j", spec);
    let runs = [cluster.run(job, "a"), cluster.run(job, "b")];
    assert_eq!(node.dispatch(&cluster), 500);
    let mut given = [0_u32, 0];
    let mut looks = 0;
    loop {
        let grants = node.grants(session);
        if grants.is_empty() {
            break;
        }
        let mut done = Vec::new();
        for work in grants {
            given[usize::from(work.shard.key.run == runs[1])] += 1;
            let key = work.shard.key;
            done.push(report(key, work.shard.token, Ending::Succeeded));
        }
        assert!(given[0].abs_diff(given[1]) <= 1, "{given:?}");
        let freed: Vec<ShardKey> = done.iter().map(|r| r.key).collect();
        let told = block_on(node.engine.sessions.report("worker w1", done));
        assert!(told.iter().all(|v| *v == ReportVerdict::Accepted));
        node.engine.dispatcher.freed(session, &freed);
        let pass = block_on(node.engine.dispatcher.hand_out(cluster.now())).unwrap();
        if pass.next_ready.is_some() {
            looks += 1;
            node.dispatch(&cluster);
        }
    }
    assert_eq!(given, [6_000, 6_000]);
    assert!(looks <= 3, "{looks} looks");
    for run in runs {
        assert_eq!(cluster.get(run).state, RunState::Succeeded);
    }
}

/// The number of a session is no secret.
#[test]
fn a_session_is_resumed_by_its_own_worker_alone() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let own = hello("w1", "first", 2);
    let session = node.register(&cluster, own.clone());
    let resume = |hello: Hello| {
        let hello = Hello {
            resume: Some(session),
            ..hello
        };
        block_on(node.engine.sessions.hello(hello, cluster.now())).unwrap()
    };
    let mut elsewhere = own.clone();
    elsewhere.pool = Name::new("other").unwrap();
    let mut more = own.clone();
    more.handlers.push("payments".to_owned());
    let strangers = [
        hello("w2", "first", 2),
        hello("w1", "second", 2),
        elsewhere,
        more,
    ];
    for stranger in strangers {
        let told = resume(stranger.clone());
        assert!(
            matches!(told, HelloAnswer::SessionLost | HelloAnswer::Moved { .. }),
            "{stranger:?}: {told:?}"
        );
    }
    assert!(matches!(resume(own), HelloAnswer::Welcome { .. }));
}

/// What is granted in the moment in which a worker leaves is another's at once, and costs no attempt.
#[test]
fn what_was_granted_to_a_worker_that_leaves_is_given_to_another_at_once() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let leaving = node.worker(&cluster, "w1", 2);
    let spec = json!({ "run": { "handler": "h" }, "shards": { "count": 3 } });
    let run = cluster.run(cluster.apply("j", spec), "k");
    assert_eq!(node.dispatch(&cluster), 2);
    let rejected = block_on(node.engine.sessions.leaves(leaving)).unwrap();
    assert_eq!(rejected.len(), 2);
    for report in rejected {
        assert_eq!(node.report(&cluster, report), ReportVerdict::Accepted);
    }
    block_on(node.engine.sessions.goodbye("worker w1", leaving)).unwrap();
    assert_eq!(node.dispatch(&cluster), 0, "it takes nothing more");
    let other = node.worker(&cluster, "w2", 3);
    assert_eq!(node.dispatch(&cluster), 3);
    for work in node.grants(other) {
        assert_eq!(work.shard.used, 1, "the first that counts");
        let done = report(work.shard.key, work.shard.token, Ending::Succeeded);
        node.report(&cluster, done);
    }
    assert_eq!(cluster.get(run).state, RunState::Succeeded);
}

#[test]
fn the_plan_step_finds_the_shards() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 9);
    let query = json!({ "dataSource": "ledger", "sql": "select min(id), max(id) from ledger" });
    let range = json!({ "bounds": { "query": query }, "count": 4 });
    let spec = json!({ "run": { "handler": "h" }, "shards": { "range": range } });
    let job = cluster.apply("j", spec);
    let run = cluster.run(job, "k");
    node.dispatch(&cluster);
    let plan = node.grants(session).pop().unwrap();
    assert!(plan.shard.key.no.is_plan());
    let mut found = report(plan.shard.key, plan.shard.token, Ending::Succeeded);
    found.plan = Some(Plan::Extremes(Some((1, 100))));
    assert_eq!(node.report(&cluster, found), ReportVerdict::Accepted);
    assert_eq!(cluster.get(run).counters.total, 4);
    assert_eq!(node.dispatch(&cluster), 4);
    for work in node.grants(session) {
        assert_eq!(
            work.run.counters.total, 4,
            "workers are told the true total"
        );
        let done = report(work.shard.key, work.shard.token, Ending::Succeeded);
        node.report(&cluster, done);
    }
    assert_eq!(cluster.get(run).state, RunState::Succeeded);

    let empty = cluster.run(job, "nothing to do");
    node.dispatch(&cluster);
    let plan = node.grants(session).pop().unwrap();
    let mut found = report(plan.shard.key, plan.shard.token, Ending::Succeeded);
    found.plan = Some(Plan::Extremes(None));
    node.report(&cluster, found);
    assert_eq!(
        cluster.get(empty).state,
        RunState::Succeeded,
        "SHARD-009: no input succeeds at once"
    );

    let listed = cluster.run(job, "a list");
    node.dispatch(&cluster);
    let plan = node.grants(session).pop().unwrap();
    let mut found = report(plan.shard.key, plan.shard.token, Ending::Succeeded);
    found.plan = Some(Plan::Items(vec!["beijing".to_owned()]));
    node.report(&cluster, found);
    assert_eq!(cluster.get(listed).state, RunState::Failed);
    let told = cluster.shard(plan.shard.key).failure.unwrap().message;
    assert!(told.contains("a list of items, which is not supported"));
}

/// SHARD-005: only the failed shard is tried again, and then retried on request.
#[test]
fn only_failed_shards_run_again() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 8);
    let retry = json!({ "maxAttempts": 3, "backoff": { "fixed": "1s" } });
    let spec = json!({ "run": { "handler": "h" }, "shards": { "count": 8 }, "retry": retry });
    let job = cluster.apply("j", spec);
    let work = |bad: &dyn Fn(i32, u32) -> bool| {
        let mut attempts = 0;
        while node.dispatch(&cluster) > 0 {
            for work in node.grants(session) {
                attempts += 1;
                let fails = bad(work.shard.key.no.0, work.shard.attempt);
                let ending = if fails {
                    Ending::Failed
                } else {
                    Ending::Succeeded
                };
                node.report(&cluster, report(work.shard.key, work.shard.token, ending));
            }
            cluster.pass(2);
            node.coordinate(&cluster);
            node.beat(session, &[], 1000);
        }
        attempts
    };
    let run = cluster.run(job, "first");
    assert_eq!(work(&|no, attempt| no == 3 && attempt == 1), 9);
    assert_eq!(cluster.get(run).state, RunState::Succeeded);

    let run = cluster.run(job, "second");
    assert_eq!(work(&|no, _| no == 3 || no == 5), 12);
    assert_eq!(cluster.get(run).state, RunState::Partial);
    let reopened = cluster
        .store
        .reopen_run(cluster.op(), run, None, cluster.now());
    block_on(reopened).unwrap();
    assert_eq!(work(&|_, _| false), 2, "exactly 3 and 5 run again");
    let settled = cluster.get(run);
    assert_eq!((settled.state, settled.round), (RunState::Succeeded, 2));
}

/// RETRY-012 and RETRY-013: a stopped run starts nothing more, wherever its shards are.
#[test]
fn a_cancelled_run_starts_nothing_more() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 2);
    let backoff = json!({ "maxAttempts": 5, "backoff": { "fixed": "1h" } });
    let spec = json!({ "run": { "handler": "h" }, "shards": { "count": 3 }, "retry": backoff });
    let job = cluster.apply("j", spec);
    let run = cluster.run(job, "k");
    node.dispatch(&cluster);
    let grants = node.grants(session);
    let (failing, running) = (&grants[0], &grants[1]);
    node.report(
        &cluster,
        report(failing.shard.key, failing.shard.token, Ending::Failed),
    );
    let stop = cluster
        .store
        .request_stop(cluster.op(), None, run, StopCause::Cancel);
    block_on(stop).unwrap();
    let states: Vec<ShardState> = cluster.shards(run).iter().map(|s| s.state).collect();
    assert_eq!(
        states,
        [
            ShardState::Cancelled,
            ShardState::Running,
            ShardState::Cancelled
        ]
    );
    assert_eq!(node.dispatch(&cluster), 0);
    let answer = node.beat(session, &[(running.shard.key, running.shard.token)], 2);
    let sichen_engine::sessions::BeatAnswer::Alive { stop, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(stop.len(), 1, "the worker is told to stop the running one");
    node.report(
        &cluster,
        report(running.shard.key, running.shard.token, Ending::Failed),
    );
    assert_eq!(cluster.get(run).state, RunState::Cancelled);
}

#[test]
fn a_run_past_its_deadline_fails() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let spec = json!({ "run": { "handler": "h" }, "timeouts": { "run": "10s" } });
    let job = cluster.apply("j", spec);
    let run = cluster.run(job, "k");
    cluster.pass(10);
    node.coordinate(&cluster);
    node.trigger(&cluster);
    assert_eq!(
        cluster.get(run).state,
        RunState::Scheduled,
        "the very deadline is in time"
    );
    cluster.pass(1);
    node.coordinate(&cluster);
    node.trigger(&cluster);
    let late = cluster.get(run);
    assert_eq!(
        (late.state, late.reason.as_str()),
        (RunState::Failed, "deadline")
    );
}

#[test]
fn a_count_that_must_match_fails_the_run() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 2);
    let spec = json!({ "run": { "handler": "h" }, "countsMustMatch": true });
    let job = cluster.apply("j", spec);
    let run = cluster.run(job, "k");
    node.dispatch(&cluster);
    let work = node.grants(session).pop().unwrap();
    let mut done = report(work.shard.key, work.shard.token, Ending::Succeeded);
    let progress = sichen_core::model::Progress {
        done: 9,
        expected: Some(10),
        ..sichen_core::model::Progress::default()
    };
    done.progress = Some(progress);
    node.report(&cluster, done);
    let run = cluster.get(run);
    assert_eq!(
        (run.state, run.reason.as_str()),
        (RunState::Failed, "done 9 of 10 expected")
    );
}

/// A plan step goes to a worker that has its data source, and to no other.
#[test]
fn a_plan_step_waits_for_a_worker_with_its_data_source() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let mut without = crate::fixture::hello("w1", "first", 9);
    without.handlers = vec!["h".to_owned()];
    let without = node.register(&cluster, without);
    let query = json!({ "dataSource": "ledger", "sql": "select 1, 2" });
    let range = json!({ "bounds": { "query": query }, "count": 4 });
    let spec = json!({ "run": { "handler": "h" }, "shards": { "range": range } });
    let job = cluster.apply("j", spec);
    cluster.run(job, "k");
    assert_eq!(node.dispatch(&cluster), 0);
    let with = node.worker(&cluster, "w2", 1);
    assert_eq!(node.dispatch(&cluster), 1);
    assert_eq!(
        (node.grants(without).len(), node.grants(with).len()),
        (0, 1)
    );
}

/// A worker that says it can't take work is passed over until it can.
#[test]
fn a_worker_that_can_take_nothing_is_offered_nothing() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    let job = cluster.apply("j", json!({ "run": { "handler": "h" } }));
    cluster.run(job, "k");
    node.engine.dispatcher.set_able(session, false);
    assert_eq!(node.dispatch(&cluster), 0);
    node.engine.dispatcher.set_able(session, true);
    assert_eq!(node.dispatch(&cluster), 1);
}
