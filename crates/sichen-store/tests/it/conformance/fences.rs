//! Nothing is written under an old term: every method that takes a fence, in one table.

use futures::executor::block_on;
use jiff::SignedDuration;
use sichen_core::backfill::check::{CheckStep, CheckVerdict};
use sichen_core::backfill::{self, Turn, TurnVerdict};
use sichen_core::dispatch::preempt::RecallVerdict;
use sichen_core::ids::{BackfillId, JobUid, RunId, SessionId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::{RunState, StopCause};
use sichen_core::model::{DutyKey, partition_of};
use sichen_core::port::{
    AdvanceVerdict, CreateVerdict, Fence, GrantRefused, GrantVerdict, Holder, NewRun, ReapVerdict,
    RequestVerdict, Shorter,
};

use super::backfills;
use crate::bench::{Bench, name, wait};

/// A store in which each duty has something to do.
struct Stage {
    job: JobUid,
    run: RunId,
    backfill: BackfillId,
    /// Held under an expired session.
    lost: ShardKey,
    expired: SessionId,
    pool: Fence,
    trigger: Fence,
    janitor: Fence,
}

fn stage(b: &Bench) -> Stage {
    let (pool, expired) = (b.pool(), b.session(1));
    let run = b.run_of(2);
    let job = b.run(run).job;
    let lost = ShardKey::new(run, 0);
    b.lease(&pool, lost, expired);
    b.create(b.new_run(job, "old", vec![]));
    let backfill = backfills::start(b, job, 2);
    b.pass(100);
    let (trigger, janitor) = (b.trigger(job), b.fence(DutyKey::Janitor));
    Stage {
        job,
        run,
        backfill,
        lost,
        expired,
        pool,
        trigger,
        janitor,
    }
}

/// One method under a fence that gives no right: what it must answer.
type Attempt = (&'static str, fn(&Bench, &Stage, &Stage));

const METHODS: &[Attempt] = &[
    ("release_duties", |b, s, _| {
        wait(
            b.store
                .release_duties(b.op(), vec![s.pool.clone(), s.trigger.clone()]),
        );
    }),
    ("advance_schedules", |b, s, _| {
        let item = b.step(s.job, b.now());
        let fences = vec![s.trigger.clone()];
        let verdicts = wait(
            b.store
                .advance_schedules(b.op(), fences, vec![item.clone()]),
        );
        assert_eq!(verdicts, [AdvanceVerdict::OldTerm]);
        let none = wait(b.store.advance_schedules(b.op(), vec![], vec![item]));
        assert_eq!(none, [AdvanceVerdict::OldTerm], "no fence is no right");
    }),
    ("turn_backfill", |b, s, _| {
        let fence = Some(s.trigger.clone());
        let cause = "deleted".to_owned();
        let verdict = b
            .store
            .turn_backfill(b.op(), fence, s.backfill, Turn::Cancel, cause);
        assert_eq!(wait(verdict), TurnVerdict::OldTerm);
    }),
    ("advance_backfill", |b, s, _| {
        let step = backfills::step(b, s.backfill, Vec::new());
        let verdict = b.store.advance_backfill(b.op(), s.trigger.clone(), step);
        assert_eq!(wait(verdict), backfill::AdvanceVerdict::OldTerm);
    }),
    ("move_checks", |b, s, _| {
        let step = CheckStep {
            id: s.backfill,
            moves: Vec::new(),
            next_at: None,
        };
        let verdict = b.store.move_checks(b.op(), s.trigger.clone(), step);
        assert_eq!(wait(verdict), CheckVerdict::OldTerm);
    }),
    ("shorten_leases", |b, s, _| {
        b.clock.step(SignedDuration::from_secs(-600));
        let session = wait(b.store.get_session(s.expired)).unwrap();
        let lease = Shorter {
            of: Holder::Session(s.expired),
            from: session.expires_at,
            to: session.expires_at - SignedDuration::from_secs(1),
        };
        let none = b
            .store
            .shorten_leases(b.op(), s.janitor.clone(), vec![lease]);
        assert_eq!(wait(none), 0);
        b.clock.step(SignedDuration::from_secs(600));
    }),
    ("request_stop", |b, s, _| {
        let fence = Some(s.trigger.clone());
        let verdict = b
            .store
            .request_stop(b.op(), fence, s.run, StopCause::Deadline);
        assert_eq!(wait(verdict), RequestVerdict::OldTerm);
    }),
    ("settle_runs", |b, s, _| {
        assert!(wait(b.store.settle_runs(b.op(), vec![s.trigger.clone()], 10)).is_empty());
    }),
    ("lease_shards", |b, s, new| {
        let grant = b.grant(ShardKey::new(s.run, 1), new.expired);
        let verdicts = b.lease_all(&s.pool, vec![grant]);
        assert_eq!(verdicts, [GrantVerdict::Refused(GrantRefused::OldTerm)]);
    }),
    ("reap_shards", |b, s, _| {
        let token = b.shard(s.lost).token;
        let reaps = vec![b.reaping(s.lost, token)];
        let verdicts = wait(b.store.reap_shards(b.op(), s.pool.clone(), reaps));
        assert_eq!(verdicts, [ReapVerdict::OldTerm]);
    }),
    ("recall_shards", |b, s, _| {
        let recall = super::recalls::recall(s.lost, b.shard(s.lost).token);
        let verdicts = b.store.recall_shards(b.op(), s.pool.clone(), vec![recall]);
        assert_eq!(wait(verdicts), [RecallVerdict::OldTerm]);
    }),
    ("end_session", |b, s, _| {
        let fence = Some(s.pool.clone());
        assert!(!wait(b.store.end_session(
            b.op(),
            fence,
            s.expired,
            "expired".to_owned()
        )));
    }),
    ("remove_history", |b, s, _| {
        let call = b
            .store
            .remove_history(b.op(), s.janitor.clone(), b.now(), 10);
        assert!(block_on(call).is_err());
    }),
];

fn refuse_all(b: &Bench, old: &Stage, new: &Stage) {
    for (method, attempt) in METHODS {
        let before = b.dump();
        attempt(b, old, new);
        assert_eq!(b.dump(), before, "{method} wrote something");
    }
    // The right to have a run born leased is a right of the pool's owner, too: it waits.
    let born = NewRun {
        born_leased: Some(new.expired),
        ..b.new_run(old.job, "born", vec![Descriptor::Whole])
    };
    let verdicts = wait(
        b.store
            .create_runs(b.op(), vec![old.pool.clone()], vec![born]),
    );
    let [CreateVerdict::Created(id, None)] = verdicts[..] else {
        panic!("{verdicts:?}")
    };
    assert_eq!(b.run(id).state, RunState::Scheduled);
}

/// The same store, with a live session to grant to.
fn with_session(b: &Bench, s: &Stage, fences: [Fence; 3]) -> Stage {
    let [pool, trigger, janitor] = fences;
    Stage {
        expired: b.session(5),
        pool,
        trigger,
        janitor,
        ..*s
    }
}

pub fn an_old_term_writes_nothing(b: &Bench) {
    let old = stage(b);
    let fences = [&old.pool, &old.trigger, &old.janitor].map(|fence| b.take_over(fence));
    let new = with_session(b, &old, fences);
    refuse_all(b, &old, &new);
    // The same calls are good ones: the new owner's are taken.
    let right = Stage {
        expired: old.expired,
        pool: new.pool.clone(),
        trigger: new.trigger.clone(),
        janitor: new.janitor.clone(),
        ..old
    };
    works(b, &right, new.expired);
}

fn works(b: &Bench, s: &Stage, session: SessionId) {
    b.lease(&s.pool, ShardKey::new(s.run, 1), session);
    let token = b.shard(s.lost).token;
    let reaps = vec![b.reaping(s.lost, token)];
    let reaped = wait(b.store.reap_shards(b.op(), s.pool.clone(), reaps));
    assert_eq!(reaped, [ReapVerdict::Reaped(None)]);
    let fence = Some(s.pool.clone());
    assert!(wait(b.store.end_session(
        b.op(),
        fence,
        s.expired,
        "expired".to_owned()
    )));
    let step = b.step(s.job, b.now());
    let advanced = wait(
        b.store
            .advance_schedules(b.op(), vec![s.trigger.clone()], vec![step]),
    );
    assert_eq!(advanced, [AdvanceVerdict::Advanced(vec![])]);
    let fence = Some(s.trigger.clone());
    let stopped = b
        .store
        .request_stop(b.op(), fence, s.run, StopCause::Deadline);
    assert_eq!(wait(stopped), RequestVerdict::Done(None));
    assert_eq!(
        wait(
            b.store
                .remove_history(b.op(), s.janitor.clone(), b.now(), 10)
        )
        .runs,
        1
    );
}

pub fn a_duty_that_was_released_writes_nothing(b: &Bench) {
    let old = stage(b);
    let fences = vec![old.pool.clone(), old.trigger.clone(), old.janitor.clone()];
    wait(b.store.release_duties(b.op(), fences.clone()));
    let new = with_session(
        b,
        &old,
        [old.pool.clone(), old.trigger.clone(), old.janitor.clone()],
    );
    refuse_all(b, &old, &new);
}

pub fn another_duty_is_no_right(b: &Bench) {
    let old = stage(b);
    let other = (partition_of(old.job) + 1) % 64;
    let wrong = Stage {
        pool: b.fence(DutyKey::Pool(name("gpu"))),
        trigger: b.fence(DutyKey::Trigger(other)),
        janitor: old.pool.clone(),
        ..old
    };
    let new = with_session(
        b,
        &wrong,
        [
            wrong.pool.clone(),
            wrong.trigger.clone(),
            wrong.janitor.clone(),
        ],
    );
    for (method, attempt) in METHODS
        .iter()
        .filter(|(method, _)| *method != "release_duties")
    {
        let before = b.dump();
        attempt(b, &wrong, &new);
        assert_eq!(b.dump(), before, "{method} wrote something");
    }
}
