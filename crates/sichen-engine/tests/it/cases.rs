//! Cases from other schedulers' bug reports, shown on the memory store with stepped nodes.
//!
//! What needs real processes or several machines is in the binary's tests.

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, json};
use sichen_core::ids::{JobUid, RunId, SessionId, ShardKey, Token};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState};
use sichen_core::name::JobName;
use sichen_core::port::{Page, RunFilter};
use sichen_engine::control::{Control, Error, StartRun, Which};
use sichen_engine::courier::ToWorker;
use sichen_engine::janitor::Janitor;
use sichen_engine::sessions::{BeatAnswer, Hello, ReportVerdict};

use crate::fixture::{Cluster, Node, document, hello, report, start};
use crate::players::{BEAT_S, Player, Stage, sharded};

/// SHARD-002: whenever a worker dies, only its unfinished shards are run again.
#[test]
fn a_fail_over_runs_unfinished_shards_only() {
    for kill_at_ms in [5_000, 19_900, 20_000, 20_100, 25_000] {
        let cluster = Cluster::new();
        let mut stage = Stage::new(&cluster, &[("a", 1), ("b", 1), ("c", 1)], 20);
        let job = cluster.apply("j", sharded(6));
        let run = cluster.run(job, "minute-0");
        stage.pass_ms(kill_at_ms);
        let lost = stage.players[2].kill();
        assert_eq!(stage.until_closed(run, 300), RunState::Succeeded);
        stage.accepted_once(run, 6);
        let attempts: u32 = cluster.shards(run).iter().map(|s| s.attempt).sum();
        assert_eq!(attempts as usize, 6 + lost, "killed at {kill_at_ms} ms");
        let next = cluster.run(job, "minute-1");
        assert_eq!(stage.until_closed(next, 300), RunState::Succeeded);
        stage.accepted_once(next, 6);
    }
}

/// SHARD-003: after many moves to and fro, nothing is left behind that would stop the job.
#[test]
fn moving_shards_to_and_fro_leaves_nothing_behind() {
    let cluster = Cluster::new();
    let mut stage = Stage::new(&cluster, &[("a", 2), ("b", 2)], 180);
    let job = cluster.apply("j", sharded(2));
    for round in 0..20 {
        let run = cluster.run(job, &format!("round-{round}"));
        stage.pass_ms(5_000);
        stage.players[1].kill();
        stage.pass_ms(25_000);
        stage.players[1].restart(&cluster, &stage.node);
        stage.players[0].kill();
        stage.pass_ms(1_000);
        stage.players[0].restart(&cluster, &stage.node);
        assert_eq!(stage.until_closed(run, 900), RunState::Succeeded);
        stage.accepted_once(run, 2);
    }
    for clean in 0..3 {
        let run = cluster.run(job, &format!("clean-{clean}"));
        assert_eq!(stage.until_closed(run, 200), RunState::Succeeded);
        let shards = cluster.shards(run);
        assert!(shards.iter().all(|s| s.attempt == 1), "{shards:?}");
        assert!(shards.iter().all(|s| s.state == ShardState::Succeeded));
    }
}

/// RETRY-005: shards that share a budget of ten failures stop at the tenth, over a node's restart
/// too: what was in flight then is all that still ends.
#[test]
fn a_budget_that_shards_share_counts_over_a_restart() {
    let cluster = Cluster::new();
    let mut node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 10);
    let spec = json!({
        "run": { "handler": "h" },
        "shards": { "count": 10 },
        "retry": { "maxAttempts": 1000, "maxFailures": 10, "backoff": { "fixed": "1s" } },
    });
    let run = cluster.run(cluster.apply("j", spec), "k");
    node.dispatch(&cluster);
    let mut held = node.grants(session);
    for work in held.drain(..6) {
        let failed = report(work.shard.key, work.shard.token, Ending::Failed);
        node.report(&cluster, failed);
    }
    assert_eq!(cluster.get(run).failures, 6);
    // The node is replaced by a new process; its duties fall to it when the lease ends.
    node = cluster.node("n1-again");
    let running: Vec<_> = held.iter().map(|w| (w.shard.key, w.shard.token)).collect();
    for _ in 0..8 {
        cluster.pass(1);
        node.coordinate(&cluster);
        node.beat(session, &running, 1_000);
    }
    let resumed = Hello {
        resume: Some(session),
        running: running.clone(),
        ..hello("w1", "first", 10)
    };
    assert_eq!(node.register(&cluster, resumed), session);
    node.dispatch(&cluster);
    held.extend(node.grants(session));
    assert_eq!(held.len(), 10, "six were tried again");
    for work in &held {
        let failed = report(work.shard.key, work.shard.token, Ending::Failed);
        node.report(&cluster, failed);
    }
    cluster.pass(5);
    assert_eq!(node.dispatch(&cluster), 0, "nothing more is granted");
    let now = cluster.get(run);
    assert_eq!((now.state, now.failures), (RunState::Failed, 10));
    assert_eq!(now.reason, "max_failures");
    let attempts: u32 = cluster.shards(run).iter().map(|s| s.attempt).sum();
    assert_eq!(attempts, 16, "at most 19");
}

/// RETRY-006: two failures are borne, the third fails the run, whatever succeeds in between.
#[test]
fn successes_refill_no_budget() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 4);
    let spec = json!({
        "run": { "handler": "h" },
        "shards": { "count": 4 },
        "parallelism": 1,
        "retry": { "maxAttempts": 10, "maxFailures": 3, "backoff": { "fixed": "1s" } },
    });
    let run = cluster.run(cluster.apply("j", spec), "k");
    let script = [Ending::Failed, Ending::Succeeded];
    let mut attempts = 0;
    for ending in script.into_iter().cycle().take(8) {
        node.dispatch(&cluster);
        for work in node.grants(session) {
            attempts += 1;
            node.report(&cluster, report(work.shard.key, work.shard.token, ending));
        }
        cluster.pass(2);
        node.coordinate(&cluster);
        node.beat(session, &[], 1_000);
    }
    assert_eq!((attempts, cluster.get(run).state), (5, RunState::Failed));
    assert_eq!(cluster.get(run).counters.succeeded, 2);
}

/// RETRY-005: a limit for each shard gives exactly that many attempts, over a node's restart too.
#[test]
fn a_retry_limit_counts_over_a_restart() {
    let cluster = Cluster::new();
    let mut node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 10);
    let spec = json!({
        "run": { "handler": "h" },
        "shards": { "count": 10 },
        "retry": { "maxAttempts": 3, "backoff": { "fixed": "1s" } },
    });
    let run = cluster.run(cluster.apply("j", spec), "k");
    let mut attempts = 0;
    for round in 0..20 {
        if round == 2 {
            // The node is replaced by a new process; its duties fall to it when the lease ends.
            node = cluster.node("n1-again");
            for _ in 0..8 {
                cluster.pass(1);
                node.coordinate(&cluster);
                node.beat(session, &[], 1_000);
            }
            // The worker's stream broke with the old process; it goes on with the new one.
            let resumed = Hello {
                resume: Some(session),
                ..hello("w1", "first", 10)
            };
            assert_eq!(node.register(&cluster, resumed), session);
        }
        node.dispatch(&cluster);
        for work in node.grants(session) {
            attempts += 1;
            let failed = report(work.shard.key, work.shard.token, Ending::Failed);
            node.report(&cluster, failed);
        }
        cluster.pass(2);
        node.coordinate(&cluster);
        node.beat(session, &[], 1_000);
    }
    assert_eq!(attempts, 30);
    assert_eq!(cluster.get(run).state, RunState::Failed);
}

/// DUP-008: a run much longer than its session is renewed by beats and has one attempt.
#[test]
fn a_run_longer_than_the_session_has_one_attempt() {
    let cluster = Cluster::new();
    let mut stage = Stage::new(&cluster, &[("a", 10), ("b", 10)], 600);
    let job = cluster.apply("j", sharded(1));
    let runs: Vec<RunId> = (0..20)
        .map(|n| cluster.run(job, &format!("k{n}")))
        .collect();
    for run in &runs {
        assert_eq!(stage.until_closed(*run, 620), RunState::Succeeded);
        assert_eq!(cluster.shards(*run)[0].attempt, 1);
    }
    assert!(stage.players.iter().all(|p| p.beats >= 190), "beats renew");
    assert_eq!(stage.accepted.len(), 20);
}

/// DUP-009: runs planned far ahead are held by nobody, and restarts do not multiply them.
#[test]
fn what_waits_for_its_time_is_leased_by_nobody() {
    let cluster = Cluster::new();
    let mut stage = Stage::new(&cluster, &[("a", 100)], 1);
    for n in 0..100 {
        let at = json!([{ "at": "2026-03-01T02:00:00Z" }]);
        let spec = json!({ "run": { "handler": "h" }, "schedules": at });
        cluster.apply(&format!("j{n}"), spec);
    }
    for _ in 0..10 {
        // Twelve minutes less the last second of the last round.
        for _ in 0..239 {
            cluster.pass(3);
            stage.node.coordinate(&cluster);
            stage.node.trigger(&cluster);
            assert_eq!(stage.node.dispatch(&cluster), 0, "too early");
            stage.players[0].beat(&stage.node);
        }
        stage.players[0].kill();
        stage.players[0].restart(&cluster, &stage.node);
    }
    let due: Timestamp = "2026-03-01T02:00:00Z".parse().unwrap();
    for _ in 0..60 {
        cluster.pass(1);
        stage.node.coordinate(&cluster);
        stage.node.trigger(&cluster);
        stage.node.dispatch(&cluster);
        let now = cluster.now();
        stage.players[0].take(&stage.node, now, |_| SignedDuration::from_secs(1));
        stage.players[0].finish(&cluster, &stage.node, &mut stage.accepted);
        stage.players[0].beat(&stage.node);
    }
    assert_eq!(stage.accepted.len(), 100);
    assert!(stage.accepted.values().all(|count| *count == 1));
    let page = Page {
        after: None,
        limit: 1_000,
    };
    let runs = block_on(cluster.store.list_runs(RunFilter::default(), page)).unwrap();
    assert_eq!(runs.len(), 100);
    let first_grant = runs.iter().filter_map(|run| run.started_at).min().unwrap();
    assert!(due <= first_grant && first_grant <= due + SignedDuration::from_secs(2));
}

/// SHARD-010: equal workers get equal shares of many short runs.
#[test]
fn short_runs_spread_evenly_over_equal_workers() {
    let cluster = Cluster::new();
    let names = ["a", "b", "c", "d", "e"];
    let mut stage = Stage::new(&cluster, &names.map(|name| (name, 8)), 1);
    let jobs: Vec<JobUid> = (0..50)
        .map(|n| cluster.apply(&format!("j{n}"), sharded(1)))
        .collect();
    let mut runs = Vec::new();
    for (n, job) in jobs.iter().cycle().take(1_000).enumerate() {
        runs.push(cluster.run(*job, &format!("k{n}")));
    }
    for run in &runs {
        assert_eq!(stage.until_closed(*run, 100), RunState::Succeeded);
    }
    assert_eq!(stage.accepted.len(), 1_000);
    for Player { name, taken, .. } in &stage.players {
        assert!((150..=250).contains(taken), "{name} got {taken} of 1,000");
    }
}

fn wanted(key: &str, digest: &str) -> StartRun {
    StartRun {
        overlap: None,
        job: JobName::new("default", "j").unwrap(),
        which: Which::Manual(key.to_owned()),
        parameters: Map::new(),
        period: None,
        digest: digest.to_owned(),
        not_before: None,
    }
}

/// DUP-006: one idempotency key, one run; the key with another request is refused.
#[test]
fn one_key_starts_one_run_on_any_node() {
    let cluster = Cluster::new();
    cluster.apply("j", sharded(1));
    let nodes: Vec<Control> = ["n1", "n2", "n3"]
        .iter()
        .map(|name| Control::new(cluster.node(name).engine.context.clone()))
        .collect();
    let mut answers = Vec::new();
    for n in 0..20 {
        let started = block_on(nodes[n % 3].start_run("user test", wanted("K1", "same"))).unwrap();
        answers.push(started);
    }
    cluster.pass(60);
    answers.push(block_on(nodes[0].start_run("user test", wanted("K1", "same"))).unwrap());
    assert!(answers.iter().all(|a| a.run == answers[0].run));
    assert_eq!(answers.iter().filter(|a| a.created).count(), 1);
    let other = block_on(nodes[1].start_run("user test", wanted("K1", "other")));
    assert!(matches!(other, Err(Error::Refused(_))), "{other:?}");
}

/// SHARD-001, API-005: an active run keeps the revision and the shards that it began with.
#[test]
fn an_active_run_keeps_what_it_began_with() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 8);
    let control = Control::new(node.engine.context.clone());
    let job = cluster.apply("j", sharded(2));
    let run = cluster.run(job, "before");
    node.dispatch(&cluster);
    let old = node.grants(session);
    assert_eq!(old.len(), 2);
    block_on(control.apply("user test", &document("j", sharded(5)))).unwrap();
    for refused in [0, 200_000] {
        let answer = block_on(control.apply("user test", &document("j", sharded(refused))));
        assert!(matches!(answer, Err(Error::Invalid(_))), "{answer:?}");
    }
    // One shard fails; its retry is of the old revision too.
    node.report(
        &cluster,
        report(old[0].shard.key, old[0].shard.token, Ending::Failed),
    );
    cluster.pass(2);
    node.coordinate(&cluster);
    node.beat(session, &[(old[1].shard.key, old[1].shard.token)], 2);
    assert_eq!(node.dispatch(&cluster), 1);
    let retried = node.grants(session).pop().unwrap();
    assert_eq!(retried.run.revision, old[0].run.revision);
    assert_eq!(retried.document, old[0].document);
    assert_eq!(cluster.shards(run).len(), 2);
    for work in [&retried, &old[1]] {
        let done = report(work.shard.key, work.shard.token, Ending::Succeeded);
        assert_eq!(node.report(&cluster, done), ReportVerdict::Accepted);
    }
    assert_eq!(cluster.get(run).state, RunState::Succeeded);
    let next = cluster.run(job, "after");
    let numbers: Vec<i32> = cluster.shards(next).iter().map(|s| s.key.no.0).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert!(cluster.get(next).revision > old[0].run.revision);
}

/// QUEUE-008: a run that forbids overlap and ends by its timeout does not block the next.
#[test]
fn a_run_ended_by_its_timeout_blocks_nothing() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let session = node.worker(&cluster, "w1", 1);
    let spec = json!({
        "run": { "handler": "h" },
        "schedules": [{ "every": "1m" }],
        "timeouts": { "attempt": "30s" },
        "retry": { "maxAttempts": 1 },
    });
    cluster.apply("j", spec);
    let mut started = 0;
    let mut held = Vec::new();
    for second in 1..=200 {
        cluster.pass(1);
        node.coordinate(&cluster);
        started += node.trigger(&cluster).runs;
        node.dispatch(&cluster);
        for message in node.messages(session) {
            match message {
                // It hangs: it neither reports nor listens.
                ToWorker::Grant(work) => held = vec![(work.shard.key, work.shard.token)],
                ToWorker::Cancel { .. } | ToWorker::Moved { .. } | ToWorker::Superseded => {}
            }
        }
        if second % BEAT_S == 0
            && let BeatAnswer::Alive { stop, .. } = node.beat(session, &held, 1_000)
            && !stop.is_empty()
        {
            held.clear();
        }
        node.reap(&cluster);
    }
    assert_eq!(started, 3, "each minute has its run");
}

/// A minute, second by second, of a worker that runs `held`: the runs that began in it.
fn a_minute(
    cluster: &Cluster,
    node: &Node,
    session: SessionId,
    held: &[(ShardKey, Token)],
) -> Vec<(ShardKey, Token)> {
    let mut granted = Vec::new();
    for second in 1..=60 {
        cluster.pass(1);
        node.coordinate(cluster);
        node.trigger(cluster);
        node.dispatch(cluster);
        for message in node.messages(session) {
            if let ToWorker::Grant(work) = message {
                granted.push((work.shard.key, work.shard.token));
            }
        }
        if second % BEAT_S == 0 {
            let running: Vec<_> = held.iter().chain(&granted).copied().collect();
            node.beat(session, &running, 1_000);
        }
        node.reap(cluster);
    }
    granted
}

/// QUEUE-008: what is active is what runs. Whatever becomes of the active run of a job that forbids overlap, or of
/// the job itself, the next planned time has its run. (A run can't be deleted: API-004.)
#[test]
fn nothing_that_becomes_of_an_active_run_blocks_the_next() {
    for what in [
        "cancelled",
        "its job deleted",
        "its job edited",
        "cleaned up",
    ] {
        let cluster = Cluster::new();
        let node = cluster.node("n1");
        node.coordinate(&cluster);
        let session = node.worker(&cluster, "w1", 4);
        let control = Control::new(node.engine.context.clone());
        let apply = |n: u32| {
            let spec = json!({
                "run": { "handler": "h" }, "schedules": [{ "every": "1m" }], "parameters": { "n": n },
            });
            block_on(control.apply("user test", &document("j", spec))).unwrap();
        };
        let engine = &node.engine;
        let cleans = || {
            let keeps_nothing = SignedDuration::ZERO;
            let janitor = Janitor::new(
                engine.context.clone(),
                engine.coordinator.clone(),
                keeps_nothing,
            );
            block_on(janitor.run_once(cluster.now())).unwrap();
        };
        apply(1);
        let held = a_minute(&cluster, &node, session, &[]);
        assert_eq!(held.len(), 1, "{what}");
        let (key, token) = held[0];
        assert_eq!(
            a_minute(&cluster, &node, session, &held),
            [],
            "it is active"
        );
        let ends = |ending| {
            let verdict = node.report(&cluster, report(key, token, ending));
            assert_eq!(verdict, ReportVerdict::Accepted, "{what}");
        };
        match what {
            "cancelled" => {
                block_on(control.cancel("user test", key.run)).unwrap();
                ends(Ending::Cancelled);
            }
            "its job deleted" => {
                let name = JobName::new("default", "j").unwrap();
                block_on(control.delete("user test", &name)).unwrap();
                apply(2);
            }
            "its job edited" => {
                apply(2);
                assert_eq!(
                    a_minute(&cluster, &node, session, &held),
                    [],
                    "still active"
                );
                ends(Ending::Succeeded);
            }
            _ => {
                cleans();
                assert_eq!(cluster.get(key.run).state, RunState::Running);
                assert_eq!(
                    a_minute(&cluster, &node, session, &held),
                    [],
                    "still active"
                );
                ends(Ending::Succeeded);
                cluster.pass(1);
                cleans();
                assert_eq!(block_on(cluster.store.get_run(key.run)).unwrap(), None);
            }
        }
        let held: &[(ShardKey, Token)] = match what {
            "its job deleted" => &held,
            _ => &[],
        };
        let next = a_minute(&cluster, &node, session, held);
        assert_eq!(next.len(), 1, "{what}");
        if what == "its job deleted" {
            assert_eq!(cluster.get(key.run).state, RunState::Running, "it goes on");
            ends(Ending::Succeeded);
        }
    }
}

/// What the runs of a job are: those that wait for their turn, and those that are open.
fn open_runs(cluster: &Cluster, job: JobUid) -> (usize, usize) {
    let filter = RunFilter {
        job: Some(job),
        open: true,
        ..RunFilter::default()
    };
    let page = Page {
        after: None,
        limit: 1_000,
    };
    let runs = block_on(cluster.store.list_runs(filter, page)).unwrap();
    let waiting = runs.iter().filter(|run| run.waits.is_some()).count();
    (waiting, runs.len())
}

/// SCALE-004: while there is no worker a job's runs stay as few as its queue allows, and the first
/// worker finds the schedule within moments.
#[test]
fn without_a_worker_queues_stay_short_and_are_worked_off_at_once() {
    const HOURS: i64 = 2;
    let cluster = Cluster::new();
    let mut stage = Stage::new(&cluster, &[], 1);
    let apply = |name: &str, every: &str, limit: u32| {
        let spec = json!({
            "run": { "handler": "h" },
            "schedules": [{ "every": every }],
            "overlap": { "queue": { "limit": limit } },
        });
        cluster.apply(name, spec)
    };
    let minutely: Vec<JobUid> = (0..10)
        .map(|n| apply(&format!("minutely-{n}"), "1m", 1))
        .collect();
    let secondly = apply("secondly", "1s", 10);
    for _ in 0..HOURS * 3_600 {
        cluster.pass(1);
        stage.node.coordinate(&cluster);
        stage.node.trigger(&cluster);
        assert_eq!(stage.node.dispatch(&cluster), 0);
    }
    // One that could start, and those behind it.
    for job in &minutely {
        assert_eq!(open_runs(&cluster, *job), (1, 2));
    }
    assert_eq!(open_runs(&cluster, secondly), (10, 11));
    // All that found the queue full is one record, not 7,189.
    let records = block_on(cluster.store.list_decisions(secondly, start(), 10)).unwrap();
    let told: Vec<_> = records.iter().map(|d| (d.count, &*d.reason)).collect();
    assert_eq!(told, [(HOURS as u64 * 3_600 - 11, "overlap")]);

    // A slot for each job: one that ran all the time would be the last of those that come due together.
    let worker = Player::start(&cluster, &stage.node, "a", 11);
    stage.players.push(worker);
    let mut skipped = 0;
    for second in 0..180 {
        stage.pass_ms(1_000);
        let pass = stage.node.trigger(&cluster);
        if second >= 120 {
            skipped += pass.skipped;
        }
    }
    for job in &minutely {
        assert!(open_runs(&cluster, *job).1 <= 1);
        let row = block_on(cluster.store.get_job_by_uid(*job)).unwrap();
        assert_eq!(row.unwrap().high_water, cluster.now());
    }
    assert_eq!(skipped, 0, "every instant runs again");
}
