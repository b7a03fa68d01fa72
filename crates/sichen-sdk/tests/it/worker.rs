//! Dialogues between a real worker and a scripted server.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sichen_proto::v1;
use sichen_sdk::worker::{Builder, Error};
use sichen_sdk::{Context, Counters, DataSource, Drained, HandlerError, Probed, Stopped, Worker};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use v1::server_message::Message as FromServer;
use v1::worker_message::Message as ToServer;

use crate::fake::{Conn, Fake, grant, patiently, verdict_on};

#[derive(Deserialize)]
struct Numbers {
    a: i64,
    b: i64,
}

#[derive(Serialize)]
struct Sum {
    sum: i64,
}

fn builder(fake: &Fake, dir: &Path) -> Builder {
    Worker::builder()
        .server(&fake.address)
        .data_dir(dir)
        .on_signals(false)
        .handler(
            "add",
            |_, n: Numbers| async move { Ok(Sum { sum: n.a + n.b }) },
        )
        .handler("wait", |ctx: Context, (): ()| async move {
            ctx.cancelled().await;
            ctx.check().map_err(HandlerError::from)
        })
        .handler("panic", |_, (): ()| async move {
            if true {
                panic!("as asked");
            }
            Ok(())
        })
}

/// A running worker and the way to drain it.
struct Run {
    handle: sichen_sdk::worker::Handle,
    done: JoinSet<Result<Drained, Error>>,
}

impl Run {
    fn start(builder: Builder) -> Run {
        let worker = builder.build().unwrap();
        let handle = worker.handle();
        let mut done = JoinSet::new();
        done.spawn(worker.run());
        Run { handle, done }
    }

    async fn end(&mut self) -> Result<Drained, Error> {
        patiently(self.done.join_next())
            .await
            .expect("one worker runs")
            .unwrap()
    }

    async fn drain(&mut self, grace_ms: u64) -> Drained {
        self.handle.drain(grace_ms).await;
        self.end().await.unwrap()
    }
}

#[tokio::test]
async fn a_handler_gets_its_parameters_and_its_result_is_reported() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let mut run = Run::start(
        builder(&fake, dir.path())
            .join_token("secret")
            .slots(3)
            .pool("p"),
    );
    let (mut conn, hello) = fake.welcomed(1).await;
    assert_eq!(conn.authorization.as_deref(), Some("Bearer secret"));
    assert_eq!(
        (
            hello.protocol_version,
            hello.slots,
            hello.pool.as_str(),
            hello.registration
        ),
        (1, 3, "p", 1)
    );
    assert_eq!(hello.handlers, ["add", "panic", "wait"]);
    conn.grant(grant("add", 5, r#"{"a": 40, "b": 2}"#)).await;
    let finish = conn.finish().await;
    assert_eq!(
        (finish.token, finish.outcome()),
        (5, v1::Outcome::Succeeded)
    );
    assert_eq!(finish.result, br#"{"sum":42}"#);
    conn.ack(&finish, v1::Verdict::Accepted).await;
    assert_eq!(run.drain(1_000).await, Drained { unreported: 0 });
}

#[tokio::test]
async fn a_panic_and_bad_parameters_are_failed_attempts() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let _run = Run::start(builder(&fake, dir.path()));
    let (mut conn, _) = fake.welcomed(1).await;
    for (handler, parameters, code, kind) in [
        ("panic", "{}", "panic", v1::ErrorKind::Retryable),
        (
            "add",
            r#"{"a": 1}"#,
            "bad-parameters",
            v1::ErrorKind::FatalRun,
        ),
    ] {
        conn.grant(v1::Grant {
            token: code.len() as u64,
            ..grant(handler, 1, parameters)
        })
        .await;
        let finish = conn.finish().await;
        let error = finish.error.clone().unwrap();
        assert_eq!(finish.outcome(), v1::Outcome::Failed);
        assert_eq!((error.code.as_str(), error.kind()), (code, kind));
        assert!(!error.message.is_empty());
        conn.ack(&finish, v1::Verdict::Accepted).await;
    }
}

#[tokio::test]
async fn a_finish_whose_answer_was_lost_is_sent_again_on_the_next_stream() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let mut run = Run::start(builder(&fake, dir.path()));
    let (mut conn, _) = fake.welcomed(1).await;
    conn.grant(grant("add", 5, r#"{"a": 1, "b": 1}"#)).await;
    let first = conn.finish().await;
    drop(conn);
    let (mut conn, hello) = fake.welcomed(1).await;
    assert_eq!(
        (hello.resume_session, hello.running.len()),
        (Some(1), 1),
        "still held until the verdict"
    );
    assert_eq!(conn.finish().await, first);
    conn.ack(&first, v1::Verdict::RetryLater).await;
    assert_eq!(conn.finish().await, first);
    conn.ack(&first, v1::Verdict::Duplicate).await;
    assert_eq!(run.drain(1_000).await, Drained { unreported: 0 });
    let _again = Run::start(builder(&fake, dir.path()));
    assert!(fake.welcomed(2).await.1.journal.is_empty());
}

#[tokio::test]
async fn a_lost_session_stops_the_work_before_a_new_one_is_asked_for() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let _run = Run::start(builder(&fake, dir.path()));
    let (mut conn, first) = fake.welcomed(1).await;
    conn.grant(grant("wait", 5, "{}")).await;
    conn.send(FromServer::SessionLost(v1::SessionLost {
        reason: "expired".into(),
    }))
    .await;
    conn.until_closed().await;
    let (mut conn, hello) = fake.welcomed(2).await;
    assert_eq!((hello.resume_session, hello.registration), (None, 2));
    assert_eq!(hello.incarnation, first.incarnation);
    assert!(matches!(
        hello.journal[0].state,
        Some(v1::journaled_attempt::State::RunningDead(_))
    ));
    // The new session works.
    conn.grant(grant("add", 6, r#"{"a": 1, "b": 1}"#)).await;
    assert_eq!(conn.finish().await.token, 6);
}

#[tokio::test]
async fn a_superseded_worker_ends() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let mut run = Run::start(builder(&fake, dir.path()));
    let (mut conn, _) = fake.welcomed(1).await;
    conn.grant(grant("wait", 5, "{}")).await;
    conn.send(FromServer::Superseded(v1::Superseded::default()))
        .await;
    assert!(matches!(run.end().await, Err(Error::Superseded)));
}

#[tokio::test]
async fn a_wrong_join_token_ends_the_worker_with_the_servers_words() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let mut run = Run::start(builder(&fake, dir.path()));
    let mut conn = fake.conn().await;
    conn.hello().await;
    let refused = v1::Refused {
        code: "bad-join-token".into(),
        message: "no".into(),
    };
    conn.send(FromServer::Refused(refused)).await;
    assert!(
        matches!(run.end().await, Err(Error::Refused { code, .. }) if code == "bad-join-token")
    );
}

#[tokio::test]
async fn a_restarted_worker_hands_in_the_results_of_its_journal() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let mut run = Run::start(builder(&fake, dir.path()).slots(2));
    let (mut conn, first) = fake.welcomed(1).await;
    let other = Some(v1::ShardRef { run_id: 7, no: 1 });
    conn.grant(v1::Grant {
        shard: other,
        ..grant("wait", 4, "{}")
    })
    .await;
    conn.grant(grant("add", 5, r#"{"a": 1, "b": 1}"#)).await;
    let report = conn.finish().await;
    // The process dies: its future is dropped, nothing is said to anybody.
    run.done.shutdown().await;
    let worker = patiently(async {
        loop {
            match builder(&fake, dir.path()).build() {
                Err(Error::DataDir(sichen_sdk::datadir::Error::InUse(_))) => {
                    tokio::task::yield_now().await
                }
                other => return other.unwrap(),
            }
        }
    });
    let worker = worker.await;
    let handle = worker.handle();
    let mut run = Run {
        handle,
        done: JoinSet::new(),
    };
    run.done.spawn(worker.run());
    let mut conn = fake.conn().await;
    let hello = conn.hello().await;
    assert_eq!(hello.worker_uid, first.worker_uid);
    assert_ne!(hello.incarnation, first.incarnation);
    let states: Vec<_> = hello
        .journal
        .iter()
        .map(|entry| (entry.token, entry.state.clone().unwrap()))
        .collect();
    assert_eq!(states.len(), 2);
    assert!(states.contains(&(5, v1::journaled_attempt::State::Finished(report.clone()))));
    assert!(states.contains(&(
        4,
        v1::journaled_attempt::State::RunningDead(v1::RunningDead {})
    )));
    conn.welcome(2, vec![verdict_on(&report, v1::Verdict::Accepted)])
        .await;
    assert_eq!(run.drain(1_000).await, Drained { unreported: 0 });
}

#[tokio::test]
async fn unanswered_beats_stop_the_work_before_the_session_can_expire() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let stopped = Arc::new(Notify::new());
    let seen = Arc::clone(&stopped);
    let _run = Run::start(builder(&fake, dir.path()).handler(
        "watched",
        move |ctx: Context, (): ()| {
            let seen = Arc::clone(&seen);
            async move {
                ctx.cancelled().await;
                seen.notify_one();
                Ok(())
            }
        },
    ));
    let mut conn = fake.conn().await;
    conn.answer_beats = false;
    conn.ttl_ms = 3_000;
    let started = std::time::Instant::now();
    conn.hello().await;
    conn.welcome(1, Vec::new()).await;
    conn.grant(grant("watched", 5, "{}")).await;
    patiently(stopped.notified()).await;
    assert!(
        started.elapsed().as_millis() < 3_000,
        "stopped before the server lets another have it"
    );
}

#[tokio::test]
async fn a_drain_releases_what_does_not_finish() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let mut run = Run::start(builder(&fake, dir.path()));
    let (mut conn, _) = fake.welcomed(1).await;
    conn.grant(grant("wait", 5, "{}")).await;
    run.handle.drain(400).await;
    assert!(matches!(conn.next().await, Some(ToServer::Draining(_))));
    let finish = conn.finish().await;
    assert_eq!(
        (finish.outcome(), finish.reason()),
        (v1::Outcome::Released, v1::Reason::Draining)
    );
    conn.ack(&finish, v1::Verdict::Accepted).await;
    assert_eq!(run.end().await.unwrap(), Drained { unreported: 0 });
}

#[tokio::test]
async fn a_cancelled_handler_that_does_not_listen_is_dropped_after_its_grace() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let deaf = |_: Context, (): ()| async move {
        std::future::pending::<Result<(), HandlerError>>().await
    };
    let _run = Run::start(builder(&fake, dir.path()).handler("deaf", deaf));
    let (mut conn, _) = fake.welcomed(1).await;
    conn.grant(grant("deaf", 5, "{}")).await;
    let cancel = v1::Cancel {
        shard: Some(v1::ShardRef { run_id: 7, no: 0 }),
        token: 5,
        reason: v1::Reason::CancelRequested.into(),
        grace_ms: 100,
    };
    conn.send(FromServer::Cancel(cancel)).await;
    assert_eq!(conn.finish().await.outcome(), v1::Outcome::Cancelled);
}

/// Their words are more than the channel between handlers and session holds.
#[tokio::test]
async fn thousands_that_flush_at_once_are_all_heard() {
    const SLOTS: u32 = 1_600;
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let (go, started) = tokio::sync::watch::channel(false);
    let all = move |ctx: Context, (): ()| {
        let mut started = started.clone();
        async move {
            let _ = started.wait_for(|started| *started).await;
            ctx.checkpoint_now("here", Counters::default())?;
            ctx.flush().await.map_err(HandlerError::from)
        }
    };
    let worker = builder(&fake, dir.path()).slots(SLOTS).handler("all", all);
    let _run = Run::start(worker);
    let (mut conn, _) = fake.welcomed(1).await;
    for no in 0..SLOTS.cast_signed() {
        let shard = Some(v1::ShardRef { run_id: 7, no });
        conn.grant(v1::Grant {
            shard,
            ..grant("all", 5, "{}")
        })
        .await;
    }
    go.send(true).unwrap();
    let mut ended = 0;
    while ended < SLOTS {
        match conn.next().await.expect("the stream is open") {
            ToServer::Checkpoint(report) => {
                let ack = v1::CheckpointAck {
                    shard: report.shard,
                    token: report.token,
                    seq: 1,
                    verdict: v1::Verdict::Accepted.into(),
                };
                conn.send(FromServer::CheckpointAck(ack)).await;
            }
            ToServer::Finish(finish) => {
                assert_eq!(finish.outcome(), v1::Outcome::Succeeded);
                conn.ack(&finish, v1::Verdict::Accepted).await;
                ended += 1;
            }
            _ => {}
        }
    }
}

async fn next_checkpoint(conn: &mut Conn) -> v1::CheckpointReport {
    loop {
        match conn.next().await.expect("the stream is open") {
            ToServer::Checkpoint(report) => return report,
            ToServer::Finish(_) => panic!("finished before the checkpoint was accepted"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn flush_waits_for_the_acceptance_of_the_newest_checkpoint() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let work = |ctx: Context, (): ()| async move {
        for n in 1..=5u64 {
            ctx.checkpoint(n.to_string(), Counters::done(n).of(5))
                .await?;
        }
        ctx.flush().await?;
        Ok(())
    };
    let _run = Run::start(builder(&fake, dir.path()).handler("steps", work));
    let (mut conn, _) = fake.welcomed(1).await;
    conn.grant(grant("steps", 5, "{}")).await;
    loop {
        let report = next_checkpoint(&mut conn).await;
        let checkpoint = report.checkpoint.unwrap();
        let ack = v1::CheckpointAck {
            shard: report.shard,
            token: report.token,
            seq: checkpoint.seq,
            verdict: v1::Verdict::Accepted.into(),
        };
        conn.send(FromServer::CheckpointAck(ack)).await;
        if checkpoint.seq == 5 {
            assert_eq!(checkpoint.position, b"5");
            assert_eq!(checkpoint.counters.unwrap().expected, Some(5));
            break;
        }
    }
    let finish = conn.finish().await;
    assert_eq!(finish.checkpoint.unwrap().seq, 5);
}

#[tokio::test]
async fn a_blocking_handler_reports_and_is_cancelled_like_others() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let (tick, ticks) = std::sync::mpsc::sync_channel::<()>(1);
    let ticks = std::sync::Mutex::new(ticks);
    let work = move |ctx: Context, (): ()| -> Result<(), HandlerError> {
        let ticks = ticks.lock().unwrap();
        for n in 0u64.. {
            ctx.checkpoint_now(n.to_string(), Counters::done(n))?;
            let _ = ticks.recv_timeout(std::time::Duration::from_millis(5));
        }
        Ok(())
    };
    let _run = Run::start(builder(&fake, dir.path()).blocking_handler("loop", work));
    let (mut conn, _) = fake.welcomed(1).await;
    conn.grant(grant("loop", 5, "{}")).await;
    let report = next_checkpoint(&mut conn).await;
    let cancel = v1::Cancel {
        shard: report.shard,
        token: 5,
        reason: v1::Reason::Preempted.into(),
        grace_ms: 1_000,
    };
    conn.send(FromServer::Cancel(cancel)).await;
    assert_eq!(conn.finish().await.outcome(), v1::Outcome::Released);
    drop(tick);
}

#[tokio::test]
async fn who_is_asked_for_its_slot_saves_how_far_it_has_come() {
    for (reason, outcome, position) in [
        (v1::Reason::Preempted, v1::Outcome::Released, "last"),
        (v1::Reason::CancelRequested, v1::Outcome::Cancelled, "first"),
    ] {
        let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
        let work = |ctx: Context, (): ()| async move {
            ctx.checkpoint("first", Counters::default()).await?;
            ctx.cancelled().await;
            let kept = ctx.stop_order().is_some_and(|order| order.gives_slot_up());
            let stopped = ctx.checkpoint("last", Counters::default()).await;
            assert!(stopped.is_err(), "it is to stop, whether it is {kept}");
            Err::<(), HandlerError>(Stopped.into())
        };
        let _run = Run::start(builder(&fake, dir.path()).handler("loop", work));
        let (mut conn, _) = fake.welcomed(1).await;
        conn.grant(grant("loop", 5, "{}")).await;
        let report = next_checkpoint(&mut conn).await;
        let cancel = v1::Cancel {
            shard: report.shard,
            token: 5,
            reason: reason.into(),
            grace_ms: 5_000,
        };
        conn.send(FromServer::Cancel(cancel)).await;
        let finish = conn.finish().await;
        assert_eq!(finish.outcome(), outcome);
        let checkpoint = finish.checkpoint.unwrap();
        assert_eq!(checkpoint.position, position.as_bytes());
    }
}

#[tokio::test]
async fn a_probe_decides_about_an_effect_of_unknown_outcome() {
    for (answer, outcome, result) in [
        (
            Probed::TookPlace(serde_json::json!("there")),
            v1::Outcome::Succeeded,
            &b"\"there\""[..],
        ),
        (Probed::DidNot, v1::Outcome::Succeeded, b"{\"sum\":2}"),
        (Probed::Unknown, v1::Outcome::Failed, b""),
    ] {
        let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
        let said = answer.clone();
        let _run = Run::start(builder(&fake, dir.path()).probe("add", move |_, earlier| {
            let said = said.clone();
            async move {
                assert_eq!((earlier.attempt, earlier.token), (1, 3));
                Ok(said)
            }
        }));
        let (mut conn, _) = fake.welcomed(1).await;
        let unknown_outcomes = vec![v1::UnknownOutcome {
            attempt: 1,
            token: 3,
        }];
        conn.grant(v1::Grant {
            unknown_outcomes,
            attempt: 2,
            ..grant("add", 5, r#"{"a": 1, "b": 1}"#)
        })
        .await;
        let finish = conn.finish().await;
        assert_eq!(
            (finish.outcome(), finish.result.as_slice()),
            (outcome, result),
            "{answer:?}"
        );
    }
}

/// The table that plan steps ask.
const LEDGER: &str = "create table e (id integer, city text); \
                      insert into e values (3, 'b'), (9, 'a'), (5, 'b')";

#[tokio::test]
async fn a_plan_step_reads_its_bounds_from_the_named_data_source() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = dir.path().join("ledger.db");
    let db = rusqlite::Connection::open(&ledger).unwrap();
    db.execute_batch(LEDGER).unwrap();
    plan_steps_are_answered(DataSource::sqlite(&ledger), "sqlite").await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_plan_step_reads_its_bounds_from_postgres() {
    let Some(server) = crate::pg::start() else {
        return;
    };
    let server = Arc::new(server);
    let client = server.connect().await;
    client.batch_execute(LEDGER).await.unwrap();
    let asked = server.clone();
    let source = DataSource::postgres(move || {
        let server = asked.clone();
        async move { Ok::<_, String>(server.connect().await) }
    });
    plan_steps_are_answered(source, "postgres").await;
    let left = client.query_one("select count(*) from e", &[]).await;
    assert_eq!(left.unwrap().get::<_, i64>(0), 3, "it only reads");
}

async fn plan_steps_are_answered(source: DataSource, kind: &str) {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let _run = Run::start(builder(&fake, &dir.path().join("w")).data_source("ledger", source));
    let (mut conn, hello) = fake.welcomed(1).await;
    assert_eq!(
        hello.labels.get("data-source/ledger").map(String::as_str),
        Some(kind)
    );
    use v1::plan_result::Plan;
    for (token, query, wanted, expected) in [
        (
            1,
            "select min(id), max(id) from e",
            v1::PlanWanted::IntBounds,
            Some(Plan::IntBounds(v1::IntBounds { min: 3, max: 9 })),
        ),
        (
            2,
            "select min(id), max(id) from e where id > 9",
            v1::PlanWanted::IntBounds,
            Some(Plan::Nothing(v1::Nothing {})),
        ),
        (
            3,
            "select distinct city from e order by 1",
            v1::PlanWanted::Items,
            Some(Plan::Items(v1::Items {
                items: vec!["a".into(), "b".into()],
            })),
        ),
        (4, "select id from e", v1::PlanWanted::IntBounds, None),
        (
            5,
            "delete from e returning id, id",
            v1::PlanWanted::IntBounds,
            None,
        ),
    ] {
        let step = v1::PlanStep {
            data_source: "ledger".into(),
            query: query.into(),
            wanted: wanted.into(),
        };
        let descriptor = v1::Descriptor {
            descriptor: Some(v1::descriptor::Descriptor::Plan(step)),
        };
        let shard = Some(v1::ShardRef { run_id: 7, no: -1 });
        conn.grant(v1::Grant {
            shard,
            descriptor: Some(descriptor),
            ..grant("", token, "")
        })
        .await;
        let finish = conn.finish().await;
        assert_eq!(
            finish.plan.clone().and_then(|plan| plan.plan),
            expected,
            "{query}: {:?}",
            finish.error
        );
        conn.ack(&finish, v1::Verdict::Accepted).await;
    }
}

#[tokio::test]
async fn a_beat_lists_what_runs_and_what_it_waits_on() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let work = |ctx: Context, (): ()| async move {
        let _waiting = ctx.waiting_on("mysql-main");
        ctx.count(Counters::done(3));
        ctx.cancelled().await;
        Ok(())
    };
    let _run = Run::start(builder(&fake, dir.path()).handler("waits", work));
    let mut conn = fake.conn().await;
    conn.ttl_ms = 1_000;
    conn.hello().await;
    conn.welcome(1, Vec::new()).await;
    conn.grant(grant("waits", 5, "{}")).await;
    let beat = patiently(async {
        loop {
            let beat = conn.beat().await;
            conn.answer(&beat).await;
            if beat.running.iter().any(|held| held.counters.is_some()) {
                return beat;
            }
        }
    });
    let beat = beat.await;
    let counters = beat.running[0].counters.clone().unwrap();
    assert_eq!(
        (counters.waiting_on.as_str(), counters.done),
        ("mysql-main", Some(3))
    );
    assert_eq!(beat.highest_grant_seen, 1);
}

#[tokio::test]
async fn a_handler_that_blocks_its_runtime_delays_no_beat() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let (release, released) = std::sync::mpsc::sync_channel::<()>(1);
    let released = Arc::new(std::sync::Mutex::new(released));
    let worker = builder(&fake, dir.path())
        .handler("rude", move |_, (): ()| {
            let released = Arc::clone(&released);
            async move {
                let _ = released.lock().unwrap().recv();
                Ok(())
            }
        })
        .build()
        .unwrap();
    let handle = worker.handle();
    // A runtime of one thread, which the handler takes for itself.
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(worker.run())
    });
    let mut conn = fake.conn().await;
    conn.ttl_ms = 1_000;
    conn.hello().await;
    conn.welcome(1, Vec::new()).await;
    conn.grant(grant("rude", 5, "{}")).await;
    // Twice as long as the session would last without them.
    for _ in 0..10 {
        let beat = conn.beat().await;
        assert_eq!(beat.running.len(), 1);
        conn.answer(&beat).await;
    }
    release.send(()).unwrap();
    let finish = conn.finish().await;
    assert_eq!(finish.outcome(), v1::Outcome::Succeeded);
    conn.ack(&finish, v1::Verdict::Accepted).await;
    handle.drain(1_000).await;
    patiently(tokio::task::spawn_blocking(move || thread.join().unwrap()))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
#[ignore = "a measurement: cargo test -p sichen-sdk --test it -- --ignored --nocapture throughput"]
async fn throughput_of_one_worker() {
    const ATTEMPTS: u64 = 5_000;
    const SLOTS: u64 = 64;
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    let _run = Run::start(
        builder(&fake, dir.path())
            .slots(64)
            .handler("noop", |_, (): ()| async { Ok(()) }),
    );
    let (mut conn, _) = fake.welcomed(1).await;
    let started = std::time::Instant::now();
    let (mut granted, mut done) = (0, 0);
    while done < ATTEMPTS {
        while granted < ATTEMPTS && granted - done < SLOTS {
            granted += 1;
            let shard = Some(v1::ShardRef {
                run_id: granted,
                no: 0,
            });
            let grant_seq = granted;
            conn.send(FromServer::Grant(v1::Grant {
                shard,
                grant_seq,
                ..grant("noop", granted, "{}")
            }))
            .await;
        }
        let finish = conn.finish().await;
        done += 1;
        conn.ack(&finish, v1::Verdict::Accepted).await;
    }
    let rate = ATTEMPTS as f64 / started.elapsed().as_secs_f64();
    eprintln!("{rate:.0} attempts a second");
}

#[tokio::test]
async fn a_worker_follows_its_pool_to_another_server_and_keeps_its_work() {
    let (mut first, mut second) = (Fake::start().await, Fake::start().await);
    let dir = tempfile::tempdir().unwrap();
    let _run = Run::start(builder(&first, dir.path()));
    let (mut conn, _) = first.welcomed(1).await;
    conn.grant(grant("wait", 5, "{}")).await;
    let address = second.address.clone();
    conn.send(FromServer::Moved(v1::Moved { address })).await;
    conn.until_closed().await;
    let (conn, hello) = second.welcomed(1).await;
    assert_eq!((hello.resume_session, hello.running.len()), (Some(1), 1));
    drop(conn);
    // That one is gone: back to the servers that the worker was given.
    drop(second);
    let (_, hello) = first.welcomed(1).await;
    assert_eq!((hello.resume_session, hello.running.len()), (Some(1), 1));
}

#[tokio::test]
async fn a_dead_server_is_left_for_the_next_of_the_list() {
    let mut fake = Fake::start().await;
    let dir = tempfile::tempdir().unwrap();
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", dead.local_addr().unwrap());
    drop(dead);
    let worker = Worker::builder()
        .server(address)
        .server(&fake.address)
        .data_dir(dir.path())
        .on_signals(false)
        .handler("noop", |_, (): ()| async { Ok(()) });
    let _run = Run::start(worker);
    let (_, hello) = fake.welcomed(1).await;
    assert_eq!(hello.registration, 1, "nothing was registered elsewhere");
}

#[tokio::test]
async fn a_handler_that_does_not_stop_after_its_session_ends_the_worker() {
    let (mut fake, dir) = (Fake::start().await, tempfile::tempdir().unwrap());
    // Held here: the handler waits for a word that never comes.
    let (word, words) = std::sync::mpsc::sync_channel::<()>(1);
    let words = std::sync::Mutex::new(words);
    let deaf = move |_: Context, (): ()| -> Result<(), HandlerError> {
        let _ = words.lock().unwrap().recv();
        Ok(())
    };
    let mut run = Run::start(builder(&fake, dir.path()).blocking_handler("deaf", deaf));
    let (mut conn, _) = fake.welcomed(1).await;
    conn.grant(grant("deaf", 5, "{}")).await;
    conn.send(FromServer::SessionLost(v1::SessionLost::default()))
        .await;
    assert!(matches!(run.end().await, Err(Error::Stuck(lease)) if lease.token == 5));
    // While its thread lives nobody may take its directory, and say that it is dead.
    let again = builder(&fake, dir.path()).build();
    assert!(matches!(again, Err(Error::DataDir(_))), "{again:?}");
    drop(word);
    let path = dir.path();
    patiently(async {
        while builder(&fake, path).build().is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    // Started again it hands the attempt in as dead.
    let _again = Run::start(builder(&fake, dir.path()));
    let hello = loop {
        // The first one's last stream said nothing: the handler was still alive.
        if let Some(ToServer::Hello(hello)) = fake.conn().await.next().await {
            break hello;
        }
    };
    assert!(matches!(
        hello.journal[0].state,
        Some(v1::journaled_attempt::State::RunningDead(_))
    ));
}
