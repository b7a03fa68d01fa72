//! Runs and how they come to be.

use futures::executor::block_on;
use jiff::SignedDuration;
use sichen_core::event::Kind;
use sichen_core::ids::{JobUid, NodeId, Occasion, Revision, RunId, ShardKey, ShardNo, Token};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState, StopCause};
use sichen_core::model::{DutyKey, Period, Progress, RunTerms};
use sichen_core::port::{
    Answer, CreateVerdict, Error, Finish, FinishVerdict, MAX_BATCH, NewRun, Page, RequestVerdict,
    RunFilter,
};
use sichen_core::timeouts::Timeouts;

use crate::bench::{Bench, at, name, nominal, terms, wait};

fn plan() -> Vec<Descriptor> {
    vec![Descriptor::Plan {
        data_source: "orders".into(),
        sql: "select 1".into(),
    }]
}

pub fn a_run_comes_back_as_it_was_written(b: &Bench) {
    let job = b.job("nightly");
    let shards = vec![
        Descriptor::Range {
            from: i64::MIN,
            to: i64::MAX,
        },
        Descriptor::Item("tenant \"a\"\n".to_owned()),
    ];
    let new = NewRun {
        period: Some(Period {
            start: at(-86_400),
            end: at(0),
        }),
        terms: RunTerms {
            pool: name("gpu"),
            handler: "work/x".to_owned(),
            priority: -1_000,
            parallelism: 7,
            parameters: "{\"π\":1}".to_owned(),
            counts_must_match: true,
            deadline: Some(at(500)),
            start_by: Some(at(90)),
            uses: sichen_core::capacity::Uses::default(),
        },
        ready_at: at(30),
        nominal: Some(nominal()),
        ..b.new_run(job, "a key / with \"signs\"", shards.clone())
    };
    let id = b.create(new.clone());
    let run = b.run(id);
    assert_eq!(
        (run.job, &run.occasion, run.revision),
        (job, &new.occasion, new.revision)
    );
    assert_eq!(
        (run.period, &run.terms, &run.digest),
        (new.period, &new.terms, &new.digest)
    );
    assert_eq!((&run.nominal, run.ready_at), (&new.nominal, Some(at(30))));
    assert_eq!((run.state, run.round, run.ver), (RunState::Scheduled, 1, 1));
    assert_eq!(
        (run.created_at, run.started_at, run.ended_at),
        (b.now(), None, None)
    );
    assert_eq!((run.counters.total, run.counters.open), (2, 2));
    assert_eq!(run.job_name.to_string(), "nightly");
    for (no, descriptor) in shards.into_iter().enumerate() {
        let shard = b.shard(ShardKey::new(id, no as i32));
        assert_eq!(
            (shard.descriptor, shard.state),
            (descriptor, ShardState::Scheduled)
        );
        assert_eq!((shard.ver, shard.token, shard.attempt), (1, Token(0), 0));
        assert_eq!(
            (shard.ready_at, shard.session, shard.failure),
            (at(30), None, None)
        );
    }
    assert_eq!(b.get_job(job).active_runs, 1);
    assert_eq!(wait(b.store.find_run(job, new.occasion)), Some(id));
}

pub fn a_manual_key_has_one_run(b: &Bench) {
    let job = b.job("nightly");
    let run = b.new_run(job, "key", vec![Descriptor::Whole]);
    let verdicts = wait(
        b.store
            .create_runs(b.op(), vec![], vec![run.clone(), run.clone()]),
    );
    let [CreateVerdict::Created(id, None), second] = &verdicts[..] else {
        panic!("{verdicts:?}")
    };
    assert_eq!(*second, CreateVerdict::Exists(*id));
    let later = wait(b.store.create_runs(b.op(), vec![], vec![run]));
    assert_eq!(later, [CreateVerdict::Exists(*id)]);
    // The same key of another job is another occasion.
    let other = b.job("other");
    assert_ne!(
        b.create(b.new_run(other, "key", vec![Descriptor::Whole])),
        *id
    );
}

pub fn the_same_key_with_another_request_is_a_conflict(b: &Bench) {
    let job = b.job("nightly");
    let run = b.new_run(job, "key", vec![Descriptor::Whole]);
    let id = b.create(run.clone());
    let other = NewRun {
        digest: "another".to_owned(),
        ..run
    };
    let verdicts = wait(b.store.create_runs(b.op(), vec![], vec![other]));
    assert_eq!(verdicts, [CreateVerdict::OtherRequest(id)]);
}

pub fn callers_of_one_batch_are_independent(b: &Bench) {
    let (job, gone) = (b.job("nightly"), b.job("gone"));
    assert!(wait(b.store.delete_job(b.op(), gone, None, 1)));
    let good = |key: &str| b.new_run(job, key, vec![Descriptor::Whole]);
    let batch = vec![
        good("one"),
        NewRun {
            revision: Revision(2),
            ..good("old revision")
        },
        NewRun {
            job: JobUid(uuid::Uuid::nil()),
            ..good("no job")
        },
        NewRun {
            job: gone,
            ..good("deleted")
        },
        good("two"),
    ];
    let verdicts = wait(b.store.create_runs(b.op(), vec![], batch));
    assert!(
        matches!(verdicts[0], CreateVerdict::Created(..)),
        "{verdicts:?}"
    );
    assert_eq!(verdicts[1..4], [const { CreateVerdict::Conflict }; 3]);
    assert!(
        matches!(verdicts[4], CreateVerdict::Created(..)),
        "{verdicts:?}"
    );
    assert_eq!(b.get_job(job).active_runs, 2);
    assert_eq!(b.dump().runs.len(), 2);
}

pub fn a_run_without_shards_has_succeeded_at_once(b: &Bench) {
    let job = b.job("nightly");
    let run = b.run(b.create(b.new_run(job, "key", vec![])));
    assert_eq!(
        (run.state, run.ended_at),
        (RunState::Succeeded, Some(b.now()))
    );
    assert_eq!(b.get_job(job).active_runs, 0);
}

/// The largest batch is taken; one more item, and nothing of it is.
pub fn a_batch_above_the_limit_is_refused_whole(b: &Bench) {
    let (pool, session, job) = (b.pool(), b.session(1), b.job("nightly"));
    let run = |n: usize| b.new_run(job, &format!("key {n}"), vec![Descriptor::Whole]);
    let most: Vec<NewRun> = (0..MAX_BATCH).map(run).collect();
    let created = wait(b.store.create_runs(b.op(), vec![], most));
    assert_eq!(created.len(), MAX_BATCH);
    let CreateVerdict::Created(id, None) = created[0] else {
        panic!("{:?}", created[0])
    };
    let key = ShardKey::new(id, 0);
    let shard = b.lease(&pool, key, session).shard;
    let token = shard.token;
    let before = b.dump();
    fn many<T: Clone>(item: T) -> Vec<T> {
        vec![item; MAX_BATCH + 1]
    }
    fn refused<T: std::fmt::Debug>(answer: Answer<'_, T>) {
        let error = block_on(answer).expect_err("it is too large");
        assert!(
            matches!(error, Error::TooMany(n) if n == MAX_BATCH + 1),
            "{error}"
        );
    }
    let s = &b.store;
    refused(s.claim_duties(b.op(), NodeId(1), many(DutyKey::Janitor)));
    refused(s.release_duties(b.op(), many(pool.clone())));
    refused(s.create_runs(
        b.op(),
        vec![],
        (MAX_BATCH..=2 * MAX_BATCH).map(run).collect(),
    ));
    refused(s.advance_schedules(b.op(), vec![], many(b.step(job, b.now()))));
    refused(s.lease_shards(b.op(), pool.clone(), many(b.grant(key, session))));
    refused(s.reap_shards(b.op(), pool, many(b.reaping(key, token))));
    refused(s.renew_sessions(many(session), SignedDuration::from_secs(15)));
    refused(s.finish_attempts(b.op(), many(b.report(key, token, Ending::Succeeded))));
    refused(s.get_shards(many(key)));
    refused(s.list_instants(job, many(b.now())));
    refused(s.save_checkpoints(b.op(), many(b.checkpoint(&shard, 1))));
    assert_eq!(b.dump(), before);
}

pub fn a_born_leased_run_runs_at_once(b: &Bench) {
    let (pool, session, job) = (b.pool(), b.session(1), b.job("nightly"));
    let born = NewRun {
        born_leased: Some(session),
        timeouts: Timeouts {
            attempt: Some(SignedDuration::from_secs(60)),
            active: Some(SignedDuration::from_secs(90)),
            ..Timeouts::default()
        },
        ..b.new_run(job, "key", vec![Descriptor::Whole])
    };
    let verdicts = wait(b.store.create_runs(b.op(), vec![pool], vec![born]));
    let [CreateVerdict::Created(id, Some(granted))] = &verdicts[..] else {
        panic!("{verdicts:?}")
    };
    let shard = b.shard(ShardKey::new(*id, 0));
    assert_eq!(granted.shard, shard);
    assert_eq!((granted.grant_seq, shard.grant_seq), (1, 1));
    assert_eq!(
        (shard.state, shard.ver, shard.attempt),
        (ShardState::Running, 1, 1)
    );
    assert_eq!(
        (shard.session, shard.started_at),
        (Some(session), Some(b.now()))
    );
    assert_eq!(
        shard.timeout_at,
        Some(b.now() + SignedDuration::from_secs(60))
    );
    assert!(shard.token > Token(0));
    let run = b.run(*id);
    assert_eq!(
        (run.state, run.ver, run.started_at),
        (RunState::Running, 1, Some(b.now()))
    );
    let deadline = b.now() + SignedDuration::from_secs(90);
    assert_eq!(run.terms.deadline, Some(deadline), "from its first grant");
    let done = b.finish(b.report(shard.key, shard.token, Ending::Succeeded));
    assert_eq!(done, FinishVerdict::Accepted(Some(RunState::Succeeded)));
}

pub fn a_run_that_cannot_be_born_leased_waits(b: &Bench) {
    let (pool, session, job) = (b.pool(), b.session(1), b.job("nightly"));
    let waits = |key: &str, fences, shards| {
        let born = NewRun {
            born_leased: Some(session),
            ..b.new_run(job, key, shards)
        };
        let verdicts = wait(b.store.create_runs(b.op(), fences, vec![born]));
        let [CreateVerdict::Created(id, None)] = verdicts[..] else {
            panic!("{verdicts:?}")
        };
        assert_eq!(b.run(id).state, RunState::Scheduled);
        id
    };
    let one = || vec![Descriptor::Whole];
    waits("no right", vec![], one());
    waits("two shards", vec![pool.clone()], vec![Descriptor::Index; 2]);
    let id = waits(
        "fences of others",
        vec![b.fence(sichen_core::model::DutyKey::Janitor)],
        one(),
    );
    b.lease(&pool, ShardKey::new(id, 0), session);
    waits("no slot", vec![pool.clone()], one());
    b.pass(15);
    waits("session over", vec![pool], one());
}

pub fn a_plan_step_becomes_the_runs_shards(b: &Bench) {
    let (pool, session, job) = (b.pool(), b.session(5), b.job("nightly"));
    let id = b.create(b.new_run(job, "key", plan()));
    let step = ShardKey {
        run: id,
        no: ShardNo::PLAN,
    };
    assert_eq!((b.run(id).counters.total, b.run(id).counters.open), (0, 1));
    assert_eq!(b.shard(step).descriptor, plan()[0]);
    let token = b.lease(&pool, step, session).shard.token;
    b.pass(3);
    let found = vec![
        Descriptor::Range { from: 0, to: 5 },
        Descriptor::Range { from: 5, to: 10 },
    ];
    let report = Finish {
        expand: Some(found.clone()),
        ..b.report(step, token, Ending::Succeeded)
    };
    assert_eq!(b.finish(report.clone()), FinishVerdict::Accepted(None));
    assert_eq!(b.finish(report), FinishVerdict::Duplicate, "it is cut once");
    let run = b.run(id);
    assert_eq!((run.state, run.counters.total), (RunState::Running, 2));
    assert_eq!((run.counters.open, run.counters.succeeded), (2, 0));
    for (no, descriptor) in found.into_iter().enumerate() {
        let shard = b.shard(ShardKey::new(id, no as i32));
        assert_eq!((shard.descriptor, shard.ready_at), (descriptor, b.now()));
    }
    assert_eq!(
        b.attempt(&pool, ShardKey::new(id, 0), session, Ending::Succeeded),
        None
    );
    let last = b.attempt(&pool, ShardKey::new(id, 1), session, Ending::Succeeded);
    assert_eq!(last, Some(RunState::Succeeded));
    assert_eq!(
        b.run(id).counters.succeeded,
        2,
        "the plan step is no shard of the input"
    );
}

pub fn a_plan_step_without_input_ends_the_run_at_once(b: &Bench) {
    let (pool, session, job) = (b.pool(), b.session(1), b.job("nightly"));
    let id = b.create(b.new_run(job, "key", plan()));
    let step = ShardKey {
        run: id,
        no: ShardNo::PLAN,
    };
    let token = b.lease(&pool, step, session).shard.token;
    let report = Finish {
        expand: Some(vec![]),
        ..b.report(step, token, Ending::Succeeded)
    };
    assert_eq!(
        b.finish(report),
        FinishVerdict::Accepted(Some(RunState::Succeeded))
    );
    assert_eq!(b.get_job(job).active_runs, 0);
}

pub fn a_failed_plan_step_fails_the_run(b: &Bench) {
    let (pool, session, job) = (b.pool(), b.session(1), b.job("nightly"));
    let id = b.create(b.new_run(job, "key", plan()));
    let step = ShardKey {
        run: id,
        no: ShardNo::PLAN,
    };
    assert_eq!(b.attempt(&pool, step, session, Ending::Failed), None);
    assert_eq!(b.shard(step).state, ShardState::Retry);
    b.pass(10);
    let end = b.attempt(&pool, step, session, Ending::FailedForGood);
    assert_eq!(end, Some(RunState::Failed));
}

pub fn a_plan_step_that_ends_under_a_stop_grants_nothing(b: &Bench) {
    let (pool, session, job) = (b.pool(), b.session(1), b.job("nightly"));
    let id = b.create(b.new_run(job, "key", plan()));
    let step = ShardKey {
        run: id,
        no: ShardNo::PLAN,
    };
    let token = b.lease(&pool, step, session).shard.token;
    assert_eq!(b.stop(id, StopCause::Cancel), RequestVerdict::Done(None));
    let found = Some(vec![Descriptor::Index; 3]);
    let report = Finish {
        expand: found,
        ..b.report(step, token, Ending::Succeeded)
    };
    assert_eq!(
        b.finish(report),
        FinishVerdict::Accepted(Some(RunState::Cancelled))
    );
    assert_eq!(b.run(id).counters.cancelled, 3);
}

pub fn runs_are_listed_newest_first(b: &Bench) {
    let (one, two) = (b.job("one"), b.job("two"));
    let ids: Vec<RunId> = (0..6)
        .map(|n| {
            let job = if n % 2 == 0 { one } else { two };
            // The fourth and fifth have nothing to do.
            let shards = if n >= 4 {
                vec![]
            } else {
                vec![Descriptor::Whole]
            };
            b.create(b.new_run(job, &format!("key {n}"), shards))
        })
        .collect();
    let list = |job, state, after, limit| -> Vec<usize> {
        let runs = wait(b.store.list_runs(
            RunFilter {
                job,
                state,
                ..RunFilter::default()
            },
            Page { after, limit },
        ));
        runs.iter()
            .map(|run| ids.iter().position(|id| *id == run.id).unwrap())
            .collect()
    };
    assert_eq!(list(None, None, None, 10), [5, 4, 3, 2, 1, 0]);
    assert_eq!(list(None, None, Some(ids[3]), 2), [2, 1]);
    assert_eq!(list(Some(one), None, None, 10), [4, 2, 0]);
    assert_eq!(list(None, Some(RunState::Scheduled), None, 3), [3, 2, 1]);
    assert_eq!(list(None, Some(RunState::Scheduled), Some(ids[1]), 3), [0]);
    assert_eq!(list(Some(two), Some(RunState::Succeeded), None, 10), [5]);
    assert!(list(Some(two), Some(RunState::Failed), None, 10).is_empty());
    assert!(wait(b.store.get_run(RunId(987_654))).is_none());
    let unknown = Occasion::Manual {
        key: "unknown".to_owned(),
    };
    assert_eq!(wait(b.store.find_run(one, unknown)), None);
}

pub fn progress_is_summed_over_shards(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(5));
    let run = b.run_of(3);
    let progress = |done, expected, rate_milli| Progress {
        done,
        expected,
        rate_milli,
        ..Progress::default()
    };
    for (no, progress) in [progress(5, Some(10), 100), progress(7, None, 50)]
        .into_iter()
        .enumerate()
    {
        let shard = b.lease(&pool, ShardKey::new(run, no as i32), session).shard;
        let mut save = b.checkpoint(&shard, 1);
        save.progress = progress;
        wait(b.store.save_checkpoints(b.op(), vec![save]));
    }
    let sum = |b: &Bench| wait(b.store.get_run(run)).unwrap().1;
    assert_eq!(sum(b), progress(12, Some(10), 150));
    // Shards that do not run have no rate, but what they did counts.
    let token = b.shard(ShardKey::new(run, 0)).token;
    b.finish(b.report(ShardKey::new(run, 0), token, Ending::Succeeded));
    assert_eq!(sum(b), progress(12, Some(10), 50));
    assert_eq!(terms().parallelism, 1_000);
    let created = b
        .dump()
        .events
        .iter()
        .filter(|e| e.kind == Kind::RunCreated)
        .count();
    assert_eq!(created, 1);
}
