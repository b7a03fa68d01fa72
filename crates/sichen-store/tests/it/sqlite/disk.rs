//! A store on disk: durable, alone in its directory, one commit for many.

use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use futures::future::join_all;
use sichen_core::ids::{OpId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState, StopCause};
use sichen_core::model::DutyKey;
use sichen_core::port::{CreateVerdict, Error, Op, Page, RequestVerdict};
use sichen_store::clock::ManualClock;
use sichen_store::sqlite::SqliteStore;
use uuid::Uuid;

use crate::bench::{Bench, at, wait};
use crate::fold;

fn open(dir: &Path) -> Bench {
    let clock = Arc::new(ManualClock::new(at(0)));
    let store = SqliteStore::open(dir, Arc::clone(&clock) as _).expect("it opens");
    Bench::new(Arc::new(store), clock)
}

#[test]
fn what_was_acknowledged_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let (run, before) = {
        let b = open(dir.path());
        let (pool, session) = (b.pool(), b.session(5));
        let run = b.run_of(3);
        b.attempt(&pool, ShardKey::new(run, 1), session, Ending::Succeeded);
        (run, b.dump())
    };
    let b = open(dir.path());
    assert_eq!(b.dump(), before);
    assert_eq!(b.shard(ShardKey::new(run, 1)).state, ShardState::Succeeded);
    fold::check(&b.dump());
}

/// Nobody else can have the directory, so the node that had it is dead, whatever its lease says.
#[test]
fn a_reopened_directory_s_duties_are_free_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let key = || vec![DutyKey::Janitor];
    let old = {
        let b = open(dir.path());
        let node = b.node();
        wait(b.store.claim_duties(b.op(), node, key()))
    };
    let b = open(dir.path());
    assert!(wait(b.store.list_members()).0.is_empty());
    // The bench counts its operations anew; these are not those of before.
    let op = |n| Op {
        id: OpId(Uuid::from_u128(n)),
        actor: "test".to_owned(),
        hold: None,
    };
    let ttl = jiff::SignedDuration::from_secs(5);
    let node = wait(b.store.register_node(op(71), "here".to_owned(), ttl));
    let new = wait(b.store.claim_duties(op(72), node, key()));
    assert_eq!(new[0].term.0, old[0].term.0 + 1);
    fold::check(&b.dump());
}

#[test]
fn time_ids_and_event_numbers_go_on_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let (now, dump) = {
        let b = open(dir.path());
        b.pass(1_000);
        b.run_of(1);
        (b.now(), b.dump())
    };
    // This process's clock stands 1,000 s behind.
    let b = open(dir.path());
    assert_eq!(b.now(), now);
    let op = Op {
        id: OpId(Uuid::from_u128(77)),
        actor: "test".to_owned(),
        hold: None,
    };
    let job = dump.jobs[0].uid;
    let new = b.new_run(job, "second", vec![Descriptor::Whole]);
    let made = wait(b.store.create_runs(op, vec![], vec![new])).remove(0);
    let CreateVerdict::Created(id, None) = made else {
        panic!("{made:?}")
    };
    assert!(id > dump.runs[0].id);
    let newest = b.dump().events.pop().expect("an event").seq;
    assert!(newest > dump.events.last().expect("an event").seq);
}

#[test]
fn a_second_opener_of_the_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    let clock = Arc::new(ManualClock::new(at(0)));
    let second = SqliteStore::open(dir.path(), Arc::clone(&clock) as _);
    assert!(matches!(second, Err(Error::Unavailable(_))), "{second:?}");
    first.run_of(1);
    drop(first);
    open(dir.path());
}

#[test]
fn calls_that_are_waiting_share_commits_and_all_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path());
    let job = b.job("many");
    let calls = (0..600).map(|n| {
        let run = b.new_run(job, &format!("key {n}"), vec![Descriptor::Whole]);
        b.store.create_runs(b.op(), vec![], vec![run])
    });
    let before = commits(dir.path());
    for answer in block_on(join_all(calls)) {
        let verdicts = answer.expect("written");
        assert!(
            matches!(verdicts[..], [CreateVerdict::Created(_, None)]),
            "{verdicts:?}"
        );
    }
    let made = commits(dir.path()) - before;
    assert!(made < 300, "600 calls took {made} commits");
    let runs = wait(b.store.list_runs(
        Default::default(),
        Page {
            after: None,
            limit: 1_000,
        },
    ));
    assert_eq!(runs.len(), 600);
    fold::check(&b.dump());
}

/// Commits in the write-ahead log: its frames that say how large the database is from then on.
fn commits(dir: &Path) -> usize {
    const HEADER: usize = 32;
    const FRAME: usize = 24 + 4_096;
    let log = std::fs::read(dir.join("sichen.db-wal")).unwrap();
    let frames = log[HEADER..].chunks_exact(FRAME);
    frames.filter(|frame| frame[4..8] != [0; 4]).count()
}

#[test]
fn a_use_case_that_fails_is_rolled_back_alone() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path());
    let job = b.job("many");
    let old = b.fence(DutyKey::Janitor);
    b.take_over(&old);
    let ops: Vec<Op> = (0..90).map(|_| b.op()).collect();
    let now = b.now();
    let calls = ops.iter().enumerate().map(|(n, op)| {
        let (store, old, op) = (&b.store, old.clone(), op.clone());
        let run = b.new_run(job, &format!("key {n}"), vec![Descriptor::Whole]);
        async move {
            if n % 3 == 1 {
                return store.remove_history(op, old, now, 10).await.map(|_| ());
            }
            store.create_runs(op, vec![], vec![run]).await.map(|_| ())
        }
    });
    for (n, answer) in block_on(join_all(calls)).into_iter().enumerate() {
        assert_eq!(answer.is_err(), n % 3 == 1, "{n}: {answer:?}");
        assert_eq!(wait(b.store.find_op(ops[n].id)), answer.is_ok(), "{n}");
    }
    assert_eq!(b.dump().runs.len(), 60);
    fold::check(&b.dump());
}

#[test]
fn a_call_that_is_never_polled_does_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path());
    let before = b.dump();
    drop(b.store.apply_job(b.op(), b.new_job("never")));
    assert_eq!(b.dump(), before);
}

#[test]
fn a_call_whose_caller_is_gone_is_carried_out() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path());
    let op = b.op();
    let mut call = b.store.apply_job(op.clone(), b.new_job("nightly"));
    let polled = block_on(std::future::poll_fn(|cx| {
        std::task::Poll::Ready(call.as_mut().poll(cx).is_ready())
    }));
    drop(call);
    // The writer takes its work in order, so by now it has done that one too.
    b.job("second");
    assert!(wait(b.store.find_op(op.id)), "ready at once: {polled}");
}

#[test]
fn a_row_that_makes_no_sense_is_corrupt_and_spoils_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path());
    let (bad, good) = (b.run_of(1), b.run_of(1));
    let conn = rusqlite::Connection::open(dir.path().join("sichen.db")).unwrap();
    let sql = "update shard set descriptor = 'nonsense' where run_id = ?1";
    assert_eq!(conn.execute(sql, [bad.0 as i64]).unwrap(), 1);
    let read = block_on(b.store.get_shards(vec![ShardKey::new(bad, 0)]));
    let Err(Error::Corrupt(reason)) = read else {
        panic!("{read:?}")
    };
    assert!(
        reason.contains("descriptor") && reason.contains(&bad.to_string()),
        "{reason}"
    );
    assert_eq!(b.shard(ShardKey::new(good, 0)).state, ShardState::Scheduled);
}

#[test]
fn the_schema_itself_refuses_what_may_never_be() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path());
    let run = b.run_of(2);
    let conn = rusqlite::Connection::open(dir.path().join("sichen.db")).unwrap();
    conn.pragma_update(None, "foreign_keys", true).unwrap();
    let id = run.0;
    for (sql, why) in [
        ("update shard set state = 'running'", "nobody holds it"),
        ("update shard set state = 'lost'", "no such state"),
        ("update shard set session_id = 1", "held, and not running"),
        ("update shard set token = -1", "a token below 0"),
        ("update shard set used = 1", "used more than it started"),
        (
            "update run set state = 'succeeded', ended_at = 1",
            "something is open",
        ),
        ("update run set ended_at = 1", "ended, and not closed"),
        (
            "update run set open = open - 1",
            "counters that do not add up",
        ),
        ("update run set stop_cause = 'cancel'", "stopped, but when?"),
        ("delete from run", "its shards would be left"),
        (
            "insert into event select seq + 1000, entity, entity_id, run_id, ver, at, op, actor, duty, term, kind, from_state, to_state, attempt, token, cause, data from event where entity = 'run'",
            "the same version twice",
        ),
        (
            "insert into shard (run_id, no, pool, descriptor, state, ver, token, attempt, used, takeovers, ready_at, grant_seq, digest, checkpoint_seq, checkpoint, done, rate_milli, waiting_on) select 999, no, pool, descriptor, state, ver, token, attempt, used, takeovers, ready_at, grant_seq, digest, checkpoint_seq, checkpoint, done, rate_milli, waiting_on from shard",
            "a shard of no run",
        ),
    ] {
        let refused = conn.execute(sql, []).expect_err(why);
        let code = refused.sqlite_error_code();
        assert_eq!(
            code,
            Some(rusqlite::ErrorCode::ConstraintViolation),
            "{why}: {refused}"
        );
    }
    assert_eq!(b.run(run).id.0, id);
}

/// Where no guard would tell a repeat from a second request, the recorded operation does.
#[test]
fn a_repeated_registration_answers_the_first_one() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path());
    let (op, worker) = (b.op(), b.worker("w", 1));
    let register = || wait(b.store.register_session(op.clone(), worker.clone()));
    let first = register();
    assert_eq!(register(), first);
    let op = b.op();
    let node = || {
        wait(
            b.store
                .register_node(op.clone(), "here".to_owned(), crate::bench::TTL),
        )
    };
    assert_eq!(node(), node());
    assert_eq!(b.dump().sessions.len(), 1);
}

/// A retry of a stop or of a retry must not come back after things have moved on.
#[test]
fn a_late_repeat_of_a_stop_or_a_reopening_does_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path());
    let run = b.run_of(1);
    let op = b.op();
    let stop = || {
        wait(
            b.store
                .request_stop(op.clone(), None, run, StopCause::Deadline),
        )
    };
    assert_eq!(stop(), RequestVerdict::Done(Some(RunState::Failed)));
    let op = b.op();
    let reopen = || wait(b.store.reopen_run(op.clone(), run, None, b.now()));
    assert_eq!(reopen(), RequestVerdict::Done(None));
    assert_eq!(stop(), RequestVerdict::Already);
    assert_eq!(b.run(run).stop, None);
    b.stop(run, StopCause::Fatal);
    assert_eq!(reopen(), RequestVerdict::Already);
    assert_eq!((b.run(run).state, b.run(run).round), (RunState::Failed, 2));
}

/// A worker may report anything; it must not make its run unreadable.
#[test]
fn absurd_progress_spoils_no_sum() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path());
    let (pool, session) = (b.pool(), b.session(5));
    let run = b.run_of(3);
    for no in 0..3 {
        let shard = b.lease(&pool, ShardKey::new(run, no), session).shard;
        let mut save = b.checkpoint(&shard, 1);
        save.progress.done = u64::MAX;
        save.progress.expected = Some(u64::MAX);
        save.progress.rate_milli = 1 << 40;
        wait(b.store.save_checkpoints(b.op(), vec![save]));
    }
    let sum = wait(b.store.get_run(run)).expect("the run").1;
    assert_eq!((sum.done, sum.expected), (u64::MAX, Some(u64::MAX)));
    assert_eq!(sum.rate_milli, 3 << 40);
}
