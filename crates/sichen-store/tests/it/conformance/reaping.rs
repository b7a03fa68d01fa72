//! Attempts that are ended from outside.

use jiff::SignedDuration;
use sichen_core::ids::ShardKey;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState, StopCause};
use sichen_core::port::{Fence, FinishVerdict, Grant, Overdue, Reap, ReapVerdict};
use sichen_core::timeouts::Timeouts;

use crate::bench::{Bench, POOL, name, wait};

fn six_seconds() -> Timeouts {
    Timeouts {
        attempt: Some(SignedDuration::from_secs(6)),
        ..Timeouts::default()
    }
}

fn overdue(b: &Bench, grace: i64) -> Vec<Overdue> {
    wait(
        b.store
            .list_overdue(name(POOL), SignedDuration::from_secs(grace), 100),
    )
}

fn reap(b: &Bench, pool: &Fence, reaps: Vec<Reap>) -> Vec<ReapVerdict> {
    wait(b.store.reap_shards(b.op(), pool.clone(), reaps))
}

pub fn shards_of_a_session_that_is_over_are_overdue(b: &Bench) {
    let (pool, old, live) = (b.pool(), b.session(9), b.session(9));
    let run = b.run_of(3);
    let key = |no| ShardKey::new(run, no);
    b.lease(&pool, key(0), old);
    b.lease(&pool, key(1), live);
    b.lease(&pool, key(2), old);
    b.pass(14);
    b.beat(live);
    assert!(overdue(b, 0).is_empty());
    b.stop(run, StopCause::Cancel);
    b.pass(1);
    let found = overdue(b, 0);
    assert_eq!(
        found.iter().map(|o| o.shard.key).collect::<Vec<_>>(),
        [key(0), key(2)]
    );
    let row = b.run(run);
    assert_eq!(found[0].shard, b.shard(key(0)));
    assert_eq!(
        (found[0].stop, found[0].job),
        (Some(StopCause::Cancel), (row.job, row.revision))
    );
    assert!(found[0].session_over);
    assert_eq!(
        wait(b.store.list_overdue(name(POOL), SignedDuration::ZERO, 1)).len(),
        1
    );
    assert!(wait(b.store.list_overdue(name("gpu"), SignedDuration::ZERO, 9)).is_empty());
    // A session that was ended is over at once.
    wait(
        b.store
            .end_session(b.op(), None, live, "drained".to_owned()),
    );
    assert_eq!(overdue(b, 0).len(), 3);
}

pub fn shards_past_their_timeout_are_overdue_after_the_grace(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let run = b.run_of(2);
    let grant = Grant {
        timeouts: six_seconds(),
        ..b.grant(ShardKey::new(run, 1), session)
    };
    b.lease_all(&pool, vec![b.grant(ShardKey::new(run, 0), session), grant]);
    b.pass(10);
    assert!(overdue(b, 5).is_empty());
    b.pass(1);
    let found = overdue(b, 5);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].shard.key, found[0].session_over),
        (ShardKey::new(run, 1), false)
    );
    // Both at once is one shard, and it says that the session is over.
    b.pass(10);
    let found = overdue(b, 5);
    assert_eq!(
        found.iter().map(|o| o.session_over).collect::<Vec<_>>(),
        [true, true]
    );
}

pub fn a_reap_raises_the_token_and_the_late_report_is_stale(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let key = ShardKey::new(b.run_of(1), 0);
    let token = b.lease(&pool, key, session).shard.token;
    let late = b.report(key, token, Ending::Succeeded);
    b.pass(15);
    assert_eq!(
        reap(b, &pool, vec![b.reaping(key, token)]),
        [ReapVerdict::Reaped(None)]
    );
    let shard = b.shard(key);
    assert_eq!((shard.state, shard.session), (ShardState::Retry, None));
    assert!(shard.token > token);
    assert_eq!(shard.failure.unwrap().code, "session_expired");
    assert_eq!(
        b.finish(late),
        FinishVerdict::Stale {
            current: shard.token
        }
    );
    assert!(wait(b.store.list_leases(session)).is_empty());
    // The next attempt's token is above both.
    b.pass(10);
    let next = b.lease(&pool, key, b.session(1)).shard.token;
    assert!(next > shard.token);
}

pub fn a_session_that_lives_is_not_reaped_as_lost(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let key = ShardKey::new(b.run_of(1), 0);
    let token = b.lease(&pool, key, session).shard.token;
    b.pass(14);
    let plan = b.reaping(key, token);
    // The beat comes between the look and the reap.
    b.beat(session);
    b.pass(1);
    assert_eq!(reap(b, &pool, vec![plan]), [ReapVerdict::Gone]);
    assert_eq!(b.shard(key).token, token);
}

pub fn a_timeout_is_reaped_under_a_live_session(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let key = ShardKey::new(b.run_of(1), 0);
    let grant = Grant {
        timeouts: six_seconds(),
        ..b.grant(key, session)
    };
    b.lease_all(&pool, vec![grant]);
    let token = b.shard(key).token;
    let timed_out = Reap {
        transition: b.decide(key, Ending::TimedOut),
        only_if_session_over: false,
        ..b.reaping(key, token)
    };
    b.pass(5);
    let early = reap(b, &pool, vec![timed_out.clone()]);
    assert_eq!(early, [ReapVerdict::Gone], "its time is not over");
    b.pass(1);
    assert_eq!(reap(b, &pool, vec![timed_out]), [ReapVerdict::Reaped(None)]);
    let shard = b.shard(key);
    assert!(shard.token > token);
    let limits = (shard.timeout_at, shard.attempt_until, shard.stall);
    assert_eq!(limits, (None, None, None));
}

pub fn what_was_reported_meanwhile_is_not_reaped(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let key = ShardKey::new(b.run_of(1), 0);
    let token = b.lease(&pool, key, session).shard.token;
    let plan = b.reaping(key, token);
    b.pass(15);
    let end = b.finish(b.report(key, token, Ending::Succeeded));
    assert_eq!(end, FinishVerdict::Accepted(Some(RunState::Succeeded)));
    assert_eq!(reap(b, &pool, vec![plan]), [ReapVerdict::Gone]);
    assert_eq!(b.shard(key).state, ShardState::Succeeded);
}

pub fn the_last_reap_settles_the_run(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let run = b.run_of(2);
    let key = |no| ShardKey::new(run, no);
    b.attempt(&pool, key(0), session, Ending::Succeeded);
    let token = b.lease(&pool, key(1), session).shard.token;
    b.stop(run, StopCause::Cancel);
    b.pass(15);
    let end = reap(b, &pool, vec![b.reaping(key(1), token)]);
    assert_eq!(end, [ReapVerdict::Reaped(Some(RunState::Cancelled))]);
}

pub fn one_bad_reap_spares_its_neighbours(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let run = b.run_of(3);
    let key = |no| ShardKey::new(run, no);
    let (one, two) = (
        b.lease(&pool, key(0), session).shard,
        b.lease(&pool, key(2), session).shard,
    );
    b.pass(15);
    let wrong = Reap {
        token: sichen_core::ids::Token(99),
        ..b.reaping(key(0), one.token)
    };
    let waiting = b.reaping(key(1), sichen_core::ids::Token(0));
    let good = [b.reaping(key(0), one.token), b.reaping(key(2), two.token)];
    let [first, last] = good;
    let verdicts = reap(b, &pool, vec![wrong, first.clone(), first, waiting, last]);
    use ReapVerdict::{Gone, Reaped};
    assert_eq!(verdicts, [Gone, Reaped(None), Gone, Gone, Reaped(None)]);
}
