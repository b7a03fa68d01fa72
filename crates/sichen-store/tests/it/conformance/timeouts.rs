//! Limits on time: of an attempt, between its signs of progress, of a run from its first grant.

use jiff::SignedDuration;
use sichen_core::ids::ShardKey;
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState, StopCause};
use sichen_core::model::{RunTerms, Shard};
use sichen_core::port::{Fence, FinishVerdict, Grant, NewRun, Reap, ReapVerdict, SaveCheckpoint};
use sichen_core::timeouts::{Overrun, Timeouts, overrun};

use crate::bench::{Bench, POOL, at, name, terms, wait};

fn secs(s: i64) -> SignedDuration {
    SignedDuration::from_secs(s)
}

/// Grants `key` with an attempt timeout of 60 s and a stall timeout of 10 s.
fn granted(b: &Bench, key: ShardKey) -> (Fence, Shard) {
    let (pool, session) = (b.pool(), b.session(9));
    let grant = Grant {
        timeouts: Timeouts {
            attempt: Some(secs(60)),
            stall: Some(secs(10)),
            active: None,
        },
        ..b.grant(key, session)
    };
    b.lease_all(&pool, vec![grant]);
    (pool, b.shard(key))
}

pub fn a_sign_of_progress_moves_the_stall_and_not_the_attempts_end(b: &Bench) {
    let (_, shard) = granted(b, ShardKey::new(b.run_of(1), 0));
    assert_eq!(shard.timeout_at, Some(at(10)));
    assert_eq!(shard.attempt_until, Some(at(60)));
    assert_eq!(shard.stall, Some(secs(10)));
    let session = shard.session.unwrap();
    let save = |seq, idle| {
        let item = SaveCheckpoint {
            idle: secs(idle),
            ..b.checkpoint(&shard, seq)
        };
        wait(b.store.save_checkpoints(b.op(), vec![item]));
        b.shard(shard.key).timeout_at
    };
    let progress = |idle| {
        let item = SaveCheckpoint {
            checkpoint: None,
            idle: secs(idle),
            ..b.checkpoint(&shard, 0)
        };
        wait(b.store.save_checkpoints(b.op(), vec![item]));
        b.shard(shard.key).timeout_at
    };
    b.pass(5);
    b.beat(session);
    assert_eq!(save(1, 0), Some(at(15)));
    b.pass(3);
    assert_eq!(save(1, 0), Some(at(15)), "the same again is no sign");
    assert_eq!(
        progress(1),
        Some(at(17)),
        "progress is, from when it was made"
    );
    assert_eq!(
        progress(8),
        Some(at(17)),
        "and one that is older moves nothing back"
    );
    for now in [18, 28, 38, 48] {
        b.pass(10);
        b.beat(session);
        assert_eq!(progress(0), Some(at(now + 10)));
    }
    b.pass(7);
    assert_eq!(progress(0), Some(at(60)), "the attempt's own end stays");
    assert_eq!(overrun(&b.shard(shard.key)), Overrun::Attempt);
}

pub fn a_stalled_attempt_is_reaped_unless_a_sign_came_in_between(b: &Bench) {
    let (pool, shard) = granted(b, ShardKey::new(b.run_of(1), 0));
    let session = shard.session.unwrap();
    b.pass(10);
    b.beat(session);
    let found = wait(b.store.list_overdue(name(POOL), secs(0), 9));
    assert_eq!(found.len(), 1);
    assert!(!found[0].session_over);
    assert_eq!(overrun(&found[0].shard), Overrun::Stall);
    let reap = |key| {
        let plan = Reap {
            transition: b.decide(key, Ending::TimedOut),
            only_if_session_over: false,
            ..b.reaping(key, shard.token)
        };
        wait(b.store.reap_shards(b.op(), pool.clone(), vec![plan])).remove(0)
    };
    let sign = b.checkpoint(&shard, 1);
    wait(b.store.save_checkpoints(b.op(), vec![sign]));
    assert_eq!(reap(shard.key), ReapVerdict::Gone);
    b.pass(10);
    assert_eq!(reap(shard.key), ReapVerdict::Reaped(None));
}

pub fn the_first_grant_gives_the_run_its_deadline(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    for (own, active, expect) in [
        (None, Some(30), Some(35)),
        (Some(20), Some(30), Some(20)),
        (Some(90), Some(30), Some(35)),
        (Some(90), None, Some(90)),
        (None, None, None),
    ] {
        let key = format!("{own:?}-{active:?}").to_lowercase();
        let key: String = key.chars().filter(char::is_ascii_alphanumeric).collect();
        let start = b.now();
        let job = b.job(&key);
        let after = |s| start + secs(s);
        let terms = RunTerms {
            deadline: own.map(after),
            ..terms()
        };
        let two = vec![Descriptor::Index, Descriptor::Index];
        let run = b.create(NewRun {
            terms,
            ..b.new_run(job, "key", two)
        });
        b.pass(5);
        let timeouts = Timeouts {
            active: active.map(secs),
            ..Timeouts::default()
        };
        for no in 0..2 {
            let grant = Grant {
                timeouts,
                ..b.grant(ShardKey::new(run, no), session)
            };
            b.lease_all(&pool, vec![grant]);
            let deadline = b.run(run).terms.deadline;
            assert_eq!(deadline, expect.map(after), "{key}, shard {no}");
            b.pass(3);
            b.beat(session);
        }
    }
}

pub fn a_report_past_the_deadline_stops_the_run(b: &Bench) {
    let (pool, session, job) = (b.pool(), b.session(9), b.job("late"));
    let terms = RunTerms {
        deadline: Some(at(10)),
        ..terms()
    };
    let three = vec![Descriptor::Index; 3];
    let run = b.create(NewRun {
        terms,
        ..b.new_run(job, "key", three)
    });
    let key = |no| ShardKey::new(run, no);
    let (one, two) = (
        b.lease(&pool, key(0), session),
        b.lease(&pool, key(1), session),
    );
    b.pass(11);
    let end = b.finish(b.report(key(0), one.shard.token, Ending::Failed));
    assert_eq!(end, FinishVerdict::Accepted(None));
    let row = b.run(run);
    assert_eq!(row.stop.map(|(cause, _)| cause), Some(StopCause::Deadline));
    let states = [0, 1, 2].map(|no| b.shard(key(no)).state);
    use ShardState::{Cancelled, Running};
    assert_eq!(states, [Cancelled, Running, Cancelled]);
    let end = b.finish(b.report(key(1), two.shard.token, Ending::Cancelled));
    assert_eq!(end, FinishVerdict::Accepted(Some(RunState::Failed)));
    assert_eq!(b.run(run).reason, "deadline");
}

pub fn the_running_shards_of_a_run_are_listed(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let (run, other) = (b.run_of(4), b.run_of(1));
    let list = |limit| {
        let shards = wait(b.store.list_running(run, limit));
        shards.into_iter().map(|s| s.key.no.0).collect::<Vec<_>>()
    };
    b.lease(&pool, ShardKey::new(other, 0), session);
    assert_eq!(list(9), [0; 0]);
    for no in [2, 0, 3] {
        b.lease(&pool, ShardKey::new(run, no), session);
    }
    b.attempt(&pool, ShardKey::new(run, 1), session, Ending::Succeeded);
    assert_eq!(list(9), [0, 2, 3]);
    assert_eq!(list(2), [0, 2]);
}
