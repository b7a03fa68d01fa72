//! How runs close, and how they open again.

use sichen_core::ids::{RunId, ShardKey, ShardNo};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState, StopCause};
use sichen_core::model::{DutyKey, Progress, RunTerms};
use sichen_core::port::{Finish, FinishVerdict, NewRun, RequestVerdict};

use crate::bench::{Bench, at, terms, wait};

fn reopen(b: &Bench, run: RunId, only: Option<Vec<ShardKey>>) -> RequestVerdict {
    wait(b.store.reopen_run(b.op(), run, only, b.now()))
}

pub fn the_last_report_settles_the_run(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(5));
    let run = b.run_of(2);
    assert_eq!(
        b.attempt(&pool, ShardKey::new(run, 1), session, Ending::Succeeded),
        None
    );
    b.pass(5);
    let end = b.attempt(&pool, ShardKey::new(run, 0), session, Ending::Succeeded);
    assert_eq!(end, Some(RunState::Succeeded));
    let run = b.run(run);
    assert_eq!(
        (run.state, run.ended_at, run.reason.as_str()),
        (RunState::Succeeded, Some(b.now()), "")
    );
    assert_eq!((run.counters.open, run.counters.succeeded), (0, 2));
    assert_eq!(b.get_job(run.job).active_runs, 0);
}

pub fn some_successes_make_a_partial_run(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(5));
    let run = b.run_of(2);
    b.attempt(&pool, ShardKey::new(run, 0), session, Ending::FailedForGood);
    let end = b.attempt(&pool, ShardKey::new(run, 1), session, Ending::Succeeded);
    assert_eq!(end, Some(RunState::Partial));
    let none = b.run_of(1);
    let end = b.attempt(
        &pool,
        ShardKey::new(none, 0),
        session,
        Ending::FailedForGood,
    );
    assert_eq!(end, Some(RunState::Failed));
}

pub fn counts_that_must_match_decide_the_outcome(b: &Bench) {
    let (pool, session, job) = (b.pool(), b.session(5), b.job("nightly"));
    let ends = |key: &str, counts: [(u64, Option<u64>); 2]| {
        let terms = RunTerms {
            counts_must_match: true,
            ..terms()
        };
        let run = NewRun {
            terms,
            ..b.new_run(job, key, vec![Descriptor::Index; 2])
        };
        let run = b.create(run);
        let mut end = FinishVerdict::Missing;
        for (no, (done, expected)) in counts.into_iter().enumerate() {
            let key = ShardKey::new(run, no as i32);
            let token = b.lease(&pool, key, session).shard.token;
            let progress = Some(Progress {
                done,
                expected,
                ..Progress::default()
            });
            end = b.finish(Finish {
                progress,
                ..b.report(key, token, Ending::Succeeded)
            });
        }
        let FinishVerdict::Accepted(Some(outcome)) = end else {
            panic!("{end:?}")
        };
        (outcome, b.run(run).reason)
    };
    let good = (RunState::Succeeded, String::new());
    assert_eq!(ends("equal", [(3, Some(3)), (4, Some(4))]), good);
    assert_eq!(ends("equal in all", [(2, Some(3)), (5, Some(4))]), good);
    let bad = (RunState::Failed, "done 6 of 7 expected".to_owned());
    assert_eq!(ends("one is missing", [(3, Some(3)), (3, Some(4))]), bad);
}

/// Two shards, one succeeded and one failed.
fn partial(b: &Bench) -> (RunId, sichen_core::port::Fence) {
    let (pool, session) = (b.pool(), b.session(5));
    let run = b.run_of(2);
    b.attempt(&pool, ShardKey::new(run, 0), session, Ending::Succeeded);
    b.attempt(&pool, ShardKey::new(run, 1), session, Ending::FailedForGood);
    (run, pool)
}

pub fn a_reopened_run_repeats_only_what_did_not_succeed(b: &Bench) {
    let (run, pool) = partial(b);
    b.pass(100);
    assert_eq!(reopen(b, run, None), RequestVerdict::Done(None));
    let row = b.run(run);
    assert_eq!(
        (row.state, row.round, row.ended_at),
        (RunState::Running, 2, None)
    );
    assert_eq!((row.counters.open, row.counters.failed), (1, 0));
    assert_eq!(
        b.states(run),
        [ShardState::Succeeded, ShardState::Scheduled]
    );
    assert_eq!(b.get_job(row.job).active_runs, 1);
    let session = b.session(1);
    let end = b.attempt(&pool, ShardKey::new(run, 1), session, Ending::Succeeded);
    assert_eq!(end, Some(RunState::Succeeded));
}

pub fn a_reopened_shard_keeps_its_checkpoint_token_and_attempts(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(5));
    let run = b.run_of(1);
    let key = ShardKey::new(run, 0);
    let shard = b.lease(&pool, key, session).shard;
    wait(
        b.store
            .save_checkpoints(b.op(), vec![b.checkpoint(&shard, 4)]),
    );
    let report = b.report(key, shard.token, Ending::FailedForGood);
    b.finish(report.clone());
    let before = b.shard(key);
    assert_eq!(reopen(b, run, None), RequestVerdict::Done(None));
    let after = b.shard(key);
    assert_eq!(
        (after.used, after.attempt, after.token),
        (0, 1, before.token)
    );
    assert_eq!(
        (&after.checkpoint, after.ready_at),
        (&before.checkpoint, b.now())
    );
    assert_eq!(after.ended_at, None);
    // The report of the closed round, late: it ends nothing now.
    assert_eq!(b.finish(report), FinishVerdict::NotRunning);
    let granted = b.lease(&pool, key, session).shard;
    assert_eq!((granted.attempt, granted.used), (2, 1));
    assert!(granted.token > before.token);
    assert_eq!(granted.checkpoint.seq, 4);
}

pub fn reopening_may_name_its_shards(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(5));
    let run = b.run_of(3);
    for no in 0..3 {
        b.attempt(
            &pool,
            ShardKey::new(run, no),
            session,
            Ending::FailedForGood,
        );
    }
    let unknown = vec![ShardKey::new(run, 9), ShardKey::new(RunId(987_654), 1)];
    let none = reopen(b, run, Some(unknown));
    assert_eq!(
        none,
        RequestVerdict::NotNow(RunState::Failed),
        "it would reopen nothing"
    );
    let only = vec![ShardKey::new(run, 1), ShardKey::new(run, 1)];
    assert_eq!(reopen(b, run, Some(only)), RequestVerdict::Done(None));
    use ShardState::{Failed, Scheduled};
    assert_eq!(b.states(run), [Failed, Scheduled, Failed]);
    let end = b.attempt(&pool, ShardKey::new(run, 1), session, Ending::Succeeded);
    assert_eq!(end, Some(RunState::Partial));
}

pub fn a_run_reopens_only_when_it_failed(b: &Bench) {
    let succeeded = b.run_of(0);
    assert_eq!(
        reopen(b, succeeded, None),
        RequestVerdict::NotNow(RunState::Succeeded)
    );
    let cancelled = b.run_of(1);
    b.stop(cancelled, StopCause::Cancel);
    assert_eq!(
        reopen(b, cancelled, None),
        RequestVerdict::NotNow(RunState::Cancelled)
    );
    let open = b.run_of(1);
    assert_eq!(
        reopen(b, open, None),
        RequestVerdict::NotNow(RunState::Scheduled)
    );
    assert_eq!(reopen(b, RunId(987_654), None), RequestVerdict::Missing);
}

pub fn a_reopened_run_has_no_stop_and_no_deadline(b: &Bench) {
    let (pool, session, job) = (b.pool(), b.session(5), b.job("nightly"));
    let terms = RunTerms {
        deadline: Some(at(5)),
        ..terms()
    };
    let run = NewRun {
        terms,
        ..b.new_run(job, "key", vec![Descriptor::Index; 2])
    };
    let run = b.create(run);
    b.attempt(&pool, ShardKey::new(run, 0), session, Ending::Succeeded);
    b.pass(6);
    let stopped = b.stop(run, StopCause::Deadline);
    assert_eq!(stopped, RequestVerdict::Done(Some(RunState::Failed)));
    assert_eq!(reopen(b, run, None), RequestVerdict::Done(None));
    let row = b.run(run);
    assert_eq!(
        (row.stop, row.terms.deadline, row.reason.as_str()),
        (None, None, "")
    );
    assert!(
        wait(b.store.list_late_runs((0..64).collect(), 10))
            .late
            .is_empty()
    );
    let end = b.attempt(&pool, ShardKey::new(run, 1), session, Ending::Succeeded);
    assert_eq!(end, Some(RunState::Succeeded));
}

pub fn a_reopened_plan_step_plans_again(b: &Bench) {
    let (pool, session, job) = (b.pool(), b.session(5), b.job("nightly"));
    let plan = Descriptor::Plan {
        data_source: "db".into(),
        sql: "select 1".into(),
    };
    let run = b.create(b.new_run(job, "key", vec![plan]));
    let step = ShardKey {
        run,
        no: ShardNo::PLAN,
    };
    b.attempt(&pool, step, session, Ending::FailedForGood);
    assert_eq!(reopen(b, run, None), RequestVerdict::Done(None));
    let token = b.lease(&pool, step, session).shard.token;
    let found = Some(vec![Descriptor::Whole]);
    let report = Finish {
        expand: found,
        ..b.report(step, token, Ending::Succeeded)
    };
    assert_eq!(b.finish(report), FinishVerdict::Accepted(None));
    let end = b.attempt(&pool, ShardKey::new(run, 0), session, Ending::Succeeded);
    assert_eq!(end, Some(RunState::Succeeded));
}

pub fn there_is_nothing_for_the_sweep_to_settle(b: &Bench) {
    let (run, _) = partial(b);
    b.run_of(1);
    let job = b.run(run).job;
    let fences = vec![b.trigger(job), b.fence(DutyKey::Janitor)];
    let before = b.dump();
    assert!(wait(b.store.settle_runs(b.op(), fences, 100)).is_empty());
    assert_eq!(b.dump(), before);
}
