//! Grants and their limits.

use jiff::SignedDuration;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{RunId, SessionId, ShardKey, Token};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState, StopCause};
use sichen_core::model::{DutyKey, RunTerms};
use sichen_core::port::{Grant, GrantRefused, GrantVerdict, NewRun};
use sichen_core::timeouts::Timeouts;

use crate::bench::{Bench, at, name, terms, wait};

pub fn a_grant_raises_the_token_and_tells_the_holder(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(2));
    let key = ShardKey::new(b.run_of(1), 0);
    b.pass(7);
    let grant = Grant {
        timeouts: Timeouts {
            attempt: Some(SignedDuration::from_secs(60)),
            ..Timeouts::default()
        },
        ..b.grant(key, session)
    };
    let verdict = b.lease_all(&pool, vec![grant]).remove(0);
    let GrantVerdict::Granted(granted, run) = verdict else {
        panic!("{verdict:?}")
    };
    let shard = b.shard(key);
    assert_eq!(granted.shard, shard, "the holder is told what is stored");
    assert_eq!(*run, b.run(key.run), "and of its run");
    assert_eq!(
        (shard.state, shard.ver, shard.session),
        (ShardState::Running, 2, Some(session))
    );
    assert_eq!((shard.attempt, shard.used, shard.takeovers), (1, 1, 0));
    assert!(shard.token > Token(0));
    assert_eq!(shard.started_at, Some(b.now()));
    assert_eq!(
        shard.timeout_at,
        Some(b.now() + SignedDuration::from_secs(60))
    );
    assert_eq!(wait(b.store.list_leases(session)), [shard]);
}

pub fn a_shard_is_granted_once(b: &Bench) {
    let (pool, one, two) = (b.pool(), b.session(2), b.session(2));
    let key = ShardKey::new(b.run_of(1), 0);
    let plan = [b.grant(key, one), b.grant(key, two)];
    let verdicts = b.lease_all(&pool, plan.to_vec());
    assert!(
        matches!(verdicts[0], GrantVerdict::Granted(..)),
        "{verdicts:?}"
    );
    assert_eq!(verdicts[1], GrantVerdict::Refused(GrantRefused::NotReady));
    // Nor on the same plan once it has come back: its token is another by then.
    let token = b.shard(key).token;
    b.finish(b.report(key, token, Ending::Released));
    let late = b.lease_all(&pool, plan.to_vec());
    assert_eq!(
        late,
        [
            GrantVerdict::Refused(GrantRefused::NotReady),
            GrantVerdict::Refused(GrantRefused::NotReady)
        ]
    );
}

pub fn grants_are_numbered_within_their_session(b: &Bench) {
    let (pool, one, two) = (b.pool(), b.session(9), b.session(9));
    let run = b.run_of(4);
    let numbers: Vec<u64> = [one, two, one, one]
        .into_iter()
        .enumerate()
        .map(|(no, session)| {
            b.lease(&pool, ShardKey::new(run, no as i32), session)
                .grant_seq
        })
        .collect();
    assert_eq!(numbers, [1, 1, 2, 3]);
    assert_eq!(wait(b.store.get_session(one)).unwrap().grant_seq, 3);
}

pub fn a_session_holds_no_more_than_its_slots(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(2));
    let run = b.run_of(4);
    let grants = (0..4)
        .map(|no| b.grant(ShardKey::new(run, no), session))
        .collect();
    let verdicts = b.lease_all(&pool, grants);
    let granted = verdicts
        .iter()
        .filter(|v| matches!(v, GrantVerdict::Granted(..)))
        .count();
    assert_eq!(granted, 2);
    assert_eq!(
        verdicts[2..],
        [const { GrantVerdict::Refused(GrantRefused::NoSlot) }; 2]
    );
    let token = b.shard(ShardKey::new(run, 0)).token;
    b.finish(b.report(ShardKey::new(run, 0), token, Ending::Succeeded));
    b.lease(&pool, ShardKey::new(run, 2), session);
    let refused = b.try_lease(&pool, ShardKey::new(run, 3), session);
    assert_eq!(refused.unwrap_err(), GrantRefused::NoSlot);
}

pub fn a_run_runs_no_more_than_its_parallelism(b: &Bench) {
    let (pool, session, job) = (b.pool(), b.session(9), b.job("nightly"));
    let terms = RunTerms {
        parallelism: 2,
        ..terms()
    };
    let run = NewRun {
        terms,
        ..b.new_run(job, "key", vec![Descriptor::Index; 4])
    };
    let run = b.create(run);
    let grants = (0..3)
        .map(|no| b.grant(ShardKey::new(run, no), session))
        .collect();
    let verdicts = b.lease_all(&pool, grants);
    assert_eq!(
        verdicts[2],
        GrantVerdict::Refused(GrantRefused::Parallelism)
    );
    let refused = b.try_lease(&pool, ShardKey::new(run, 3), session);
    assert_eq!(refused.unwrap_err(), GrantRefused::Parallelism);
    let token = b.shard(ShardKey::new(run, 1)).token;
    b.finish(b.report(ShardKey::new(run, 1), token, Ending::Failed));
    b.lease(&pool, ShardKey::new(run, 3), session);
}

pub fn a_session_that_is_over_gets_nothing(b: &Bench) {
    let (pool, ended, expired) = (b.pool(), b.session(9), b.session(9));
    let run = b.run_of(2);
    assert!(wait(b.store.end_session(
        b.op(),
        None,
        ended,
        "drained".to_owned()
    )));
    let refused = |session| {
        b.try_lease(&pool, ShardKey::new(run, 0), session)
            .unwrap_err()
    };
    assert_eq!(refused(ended), GrantRefused::NoSession);
    assert_eq!(refused(SessionId(987_654)), GrantRefused::NoSession);
    b.pass(14);
    b.lease(&pool, ShardKey::new(run, 1), expired);
    // At the very instant of its expiry it is over.
    b.pass(1);
    assert_eq!(refused(expired), GrantRefused::NoSession);
}

pub fn a_draining_session_gets_nothing(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let run = b.run_of(2);
    let held = b.lease(&pool, ShardKey::new(run, 0), session).shard;
    wait(b.store.drain_session(session));
    let refused = b.try_lease(&pool, ShardKey::new(run, 1), session);
    assert_eq!(refused.unwrap_err(), GrantRefused::NoSession);
    // What it holds it may end, and it goes on beating.
    b.beat(session);
    b.finish(b.report(held.key, held.token, Ending::Succeeded));
    assert!(wait(b.store.get_session(session)).unwrap().draining);
}

pub fn a_session_of_another_pool_gets_nothing(b: &Bench) {
    let pool = b.pool();
    let mut worker = b.worker("w", 9);
    worker.pool = name("gpu");
    let session = b.register(worker).session;
    let refused = b.try_lease(&pool, ShardKey::new(b.run_of(1), 0), session);
    assert_eq!(refused.unwrap_err(), GrantRefused::NoSession);
}

pub fn nothing_is_granted_before_its_time(b: &Bench) {
    let (pool, session, job) = (b.pool(), b.session(9), b.job("nightly"));
    let run = b.new_run(job, "key", vec![Descriptor::Whole]);
    let run = b.create(NewRun {
        ready_at: at(10),
        ..run
    });
    let key = ShardKey::new(run, 0);
    let refused = |b: &Bench| b.try_lease(&pool, key, session).unwrap_err();
    b.pass(9);
    assert_eq!(refused(b), GrantRefused::NotReady);
    b.pass(1);
    b.attempt(&pool, key, session, Ending::Failed);
    b.beat(session);
    b.pass(9);
    assert_eq!(
        refused(b),
        GrantRefused::NotReady,
        "its retry has its time, too"
    );
    b.pass(1);
    b.lease(&pool, key, session);
    let stopped = b.run_of(1);
    b.stop(stopped, StopCause::Cancel);
    let refused = b.try_lease(&pool, ShardKey::new(stopped, 0), session);
    assert_eq!(refused.unwrap_err(), GrantRefused::NotReady);
    let unknown = b.try_lease(&pool, ShardKey::new(RunId(987_654), 0), session);
    assert_eq!(unknown.unwrap_err(), GrantRefused::NotReady);
}

pub fn a_pools_owner_grants_for_its_own_pool_only(b: &Bench) {
    let (gpu, session) = (b.fence(DutyKey::Pool(name("gpu"))), b.session(9));
    let refused = b.try_lease(&gpu, ShardKey::new(b.run_of(1), 0), session);
    assert_eq!(refused.unwrap_err(), GrantRefused::OldTerm);
}

pub fn one_bad_grant_spares_its_neighbours(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let run = b.run_of(3);
    let key = |no| ShardKey::new(run, no);
    let wrong = Grant {
        token: Token(99),
        ..b.grant(key(1), session)
    };
    let nobody = Grant {
        session: SessionId(987_654),
        ..b.grant(key(1), session)
    };
    let missing = b.grant(ShardKey::new(RunId(987_654), 0), session);
    let grants = vec![
        b.grant(key(0), session),
        wrong,
        missing,
        nobody,
        b.grant(key(2), session),
    ];
    let verdicts = b.lease_all(&pool, grants);
    assert!(
        matches!(verdicts[0], GrantVerdict::Granted(..)),
        "{verdicts:?}"
    );
    assert_eq!(verdicts[1], GrantVerdict::Refused(GrantRefused::NotReady));
    assert_eq!(verdicts[2], GrantVerdict::Refused(GrantRefused::NotReady));
    assert_eq!(verdicts[3], GrantVerdict::Refused(GrantRefused::NoSession));
    assert!(
        matches!(verdicts[4], GrantVerdict::Granted(..)),
        "{verdicts:?}"
    );
    use ShardState::{Running, Scheduled};
    assert_eq!(b.states(run), [Running, Scheduled, Running]);
}

pub fn the_first_grant_starts_the_run(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let run = b.run_of(2);
    b.pass(3);
    let grants = (0..2)
        .map(|no| b.grant(ShardKey::new(run, no), session))
        .collect();
    b.lease_all(&pool, grants);
    let row = b.run(run);
    assert_eq!(
        (row.state, row.started_at, row.ver),
        (RunState::Running, Some(b.now()), 2)
    );
    let started =
        |e: &&sichen_core::event::Event| e.entity == Entity::Run(run) && e.kind == Kind::RunStarted;
    assert_eq!(b.dump().events.iter().filter(started).count(), 1);
    let fenced = b
        .dump()
        .events
        .into_iter()
        .filter(|e| e.kind == Kind::AttemptGranted);
    for event in fenced {
        assert_eq!(event.duty, Some((pool.key.text(), pool.term)));
    }
}

pub fn a_grant_after_a_lost_attempt_counts_as_a_takeover(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let key = ShardKey::new(b.run_of(1), 0);
    let token = b.lease(&pool, key, session).shard.token;
    b.pass(15);
    wait(
        b.store
            .reap_shards(b.op(), pool.clone(), vec![b.reaping(key, token)]),
    );
    b.pass(10);
    let other = b.session(9);
    let taken = b.lease(&pool, key, other).shard;
    assert_eq!((taken.takeovers, taken.attempt, taken.used), (1, 2, 2));
    // One that was given back is none.
    b.finish(b.report(key, taken.token, Ending::Released));
    assert_eq!(b.lease(&pool, key, other).shard.takeovers, 1);
}
