//! Runs that wait for others of their job, and how their turn comes.

use jiff::SignedDuration;
use sichen_core::event::{Entity, Event};
use sichen_core::ids::{JobUid, RunId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::run::LATE_AT_ONCE;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, StopCause, WaitsFor};
use sichen_core::model::{RunTerms, Waits, parked, partition_of};
use sichen_core::port::{
    Counted, CreateVerdict, Fence, GrantRefused, NewRun, Reap, ReapVerdict, RequestVerdict,
};

use crate::bench::{Bench, at, nominal, terms, wait};

fn key(run: RunId) -> ShardKey {
    ShardKey::new(run, 0)
}

fn plain(b: &Bench, job: JobUid, text: &str) -> RunId {
    b.create(b.new_run(job, text, vec![Descriptor::Whole]))
}

fn waiting(b: &Bench, job: JobUid, text: &str, what: WaitsFor) -> NewRun {
    NewRun {
        waits: Some(Waits { what, most: 1 }),
        nominal: Some(nominal()),
        ..b.new_run(job, text, vec![Descriptor::Whole])
    }
}

fn queued(b: &Bench, job: JobUid, text: &str) -> RunId {
    b.create(waiting(b, job, text, WaitsFor::Queue))
}

fn counts(b: &Bench, job: JobUid) -> (u32, u32) {
    let row = b.get_job(job);
    (row.active_runs, row.waiting_runs)
}

/// The events by which a run's turn came.
fn releases(b: &Bench, run: RunId) -> Vec<Event> {
    let mut events = b.dump().events;
    events.retain(|e| e.entity == Entity::Run(run) && e.kind.word() == "run_released");
    events
}

/// Grants the run's shard and ends it in success.
fn work(b: &Bench, pool: &Fence, run: RunId) -> Option<RunState> {
    b.attempt(pool, key(run), b.session(5), Ending::Succeeded)
}

pub fn a_run_that_waits_is_not_granted(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    plain(b, job, "first");
    let run = queued(b, job, "second");
    assert_eq!(counts(b, job), (2, 1));
    let row = b.run(run);
    assert_eq!(row.waits.map(|waits| waits.what), Some(WaitsFor::Queue));
    assert_eq!(
        (row.state, row.ready_at),
        (RunState::Scheduled, Some(at(0)))
    );
    assert_eq!(row.nominal, Some(nominal()));
    assert_eq!(b.shard(key(run)).ready_at, parked());
    b.pass(100_000);
    let session = b.session(5);
    let refused = b.try_lease(&pool, key(run), session);
    assert_eq!(refused, Err(GrantRefused::NotReady));
}

pub fn the_oldest_waiting_run_has_its_turn_when_the_last_one_closes(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let first = plain(b, job, "1");
    let (second, third) = (queued(b, job, "2"), queued(b, job, "3"));
    assert_eq!(work(b, &pool, first), Some(RunState::Succeeded));
    assert_eq!(counts(b, job), (2, 1));
    assert_eq!(b.run(second).waits, None);
    assert!(b.run(third).waits.is_some());
    let release = releases(b, second).pop().unwrap();
    assert_eq!((release.ver, release.cause.as_str()), (2, "confirmed"));
    let data: serde_json::Value = serde_json::from_str(&release.data).unwrap();
    assert_eq!(data["after"], first.0);
    assert_eq!(work(b, &pool, second), Some(RunState::Succeeded));
    assert_eq!(work(b, &pool, third), Some(RunState::Succeeded));
    assert_eq!(counts(b, job), (0, 0));
}

pub fn as_many_run_as_may(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let (first, second) = (plain(b, job, "1"), plain(b, job, "2"));
    let what = WaitsFor::Queue;
    let two = |text| NewRun {
        waits: Some(Waits { what, most: 2 }),
        ..b.new_run(job, text, vec![Descriptor::Whole])
    };
    let (third, fourth) = (b.create(two("3")), b.create(two("4")));
    work(b, &pool, second);
    assert_eq!(b.run(third).waits, None);
    assert!(b.run(fourth).waits.is_some());
    work(b, &pool, first);
    assert_eq!(b.run(fourth).waits, None);
    assert_eq!(counts(b, job), (2, 0));
}

pub fn a_waiting_run_that_is_stopped_makes_room(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let first = plain(b, job, "1");
    let (second, third) = (queued(b, job, "2"), queued(b, job, "3"));
    let stopped = b.stop(second, StopCause::Cancel);
    assert_eq!(stopped, RequestVerdict::Done(Some(RunState::Cancelled)));
    assert_eq!(counts(b, job), (2, 1));
    assert_eq!(b.run(second).waits, None);
    work(b, &pool, first);
    assert_eq!(b.run(third).waits, None);
}

pub fn a_replacing_run_stops_the_others_and_starts_when_they_are_gone(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let session = b.session(5);
    let (running, scheduled) = (plain(b, job, "1"), plain(b, job, "2"));
    let waits = queued(b, job, "3");
    let old = b.lease(&pool, key(running), session).shard;
    let new = b.create(waiting(b, job, "4", WaitsFor::Replaced));
    for gone in [scheduled, waits] {
        let row = b.run(gone);
        assert_eq!(
            (row.state, row.reason.as_str()),
            (RunState::Cancelled, "replaced by m/4")
        );
    }
    let row = b.run(running);
    assert_eq!(row.stop.map(|(cause, _)| cause), Some(StopCause::Cancel));
    assert_eq!(row.stop_detail, "replaced by m/4");
    assert!(b.run(new).waits.is_some(), "what runs is not gone yet");
    assert_eq!(counts(b, job), (2, 1));
    b.finish(b.report(old.key, old.token, Ending::Cancelled));
    assert_eq!(b.run(running).state, RunState::Cancelled);
    assert_eq!(b.run(new).waits, None);
    assert_eq!(releases(b, new)[0].cause, "confirmed");
    assert_eq!(work(b, &pool, new), Some(RunState::Succeeded));
}

pub fn a_replacing_run_with_nobody_to_replace_starts_at_once(b: &Bench) {
    let job = b.job("j");
    let alone = b.create(waiting(b, job, "1", WaitsFor::Replaced));
    assert_eq!(b.run(alone).waits, None);
    let next = b.create(waiting(b, job, "2", WaitsFor::Replaced));
    assert_eq!(b.run(alone).state, RunState::Cancelled);
    assert_eq!(b.run(next).waits, None);
    assert_eq!(counts(b, job), (1, 0));
}

pub fn the_next_one_waits_for_trees_that_nobody_confirmed_dead(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let session = b.session(5);
    let run = b.create(b.new_run(job, "1", vec![Descriptor::Index; 2]));
    let lost = b.lease(&pool, ShardKey::new(run, 0), session).shard;
    let kept = b.lease(&pool, ShardKey::new(run, 1), session).shard;
    let new = b.create(waiting(b, job, "2", WaitsFor::Replaced));
    b.pass(15);
    let reap = Reap {
        dead_by: Some(at(30)),
        ..b.reaping(lost.key, lost.token)
    };
    let reaped = wait(b.store.reap_shards(b.op(), pool.clone(), vec![reap]));
    assert_eq!(reaped, [ReapVerdict::Reaped(None)]);
    // The last shard is confirmed, the first one may still be alive until second 30.
    b.finish(b.report(kept.key, kept.token, Ending::Cancelled));
    assert_eq!(b.run(new).waits, None);
    assert_eq!(b.run(new).ready_at, Some(at(30)));
    let release = releases(b, new).pop().unwrap();
    assert_eq!(release.cause, "expired");
    let session = b.session(5);
    assert_eq!(
        b.try_lease(&pool, key(new), session),
        Err(GrantRefused::NotReady)
    );
    b.pass(15);
    let session = b.session(5);
    b.lease(&pool, key(new), session);
}

pub fn who_waited_too_long_is_passed_over(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let first = plain(b, job, "1");
    let by = |second: i64, text| NewRun {
        terms: RunTerms {
            start_by: Some(at(second)),
            ..terms()
        },
        ..waiting(b, job, text, WaitsFor::Queue)
    };
    let (late, later) = (b.create(by(9, "2")), b.create(by(10, "3")));
    let last = queued(b, job, "4");
    b.pass(10);
    work(b, &pool, first);
    let row = b.run(late);
    assert_eq!(
        (row.state, row.reason.as_str()),
        (RunState::Cancelled, "starting_deadline")
    );
    assert_eq!(
        b.run(later).waits,
        None,
        "exactly at the deadline is in time"
    );
    assert!(b.run(last).waits.is_some());
    assert_eq!(counts(b, job), (2, 1));
}

pub fn a_run_counted_with_other_open_runs_is_not_written(b: &Bench) {
    let job = b.job("j");
    plain(b, job, "1");
    let counted = |active, waiting| NewRun {
        counted: Some(Counted { active, waiting }),
        ..waiting_run(b, job)
    };
    for (active, waiting) in [(0, 0), (1, 1), (2, 0)] {
        let run = counted(active, waiting);
        let verdicts = wait(b.store.create_runs(b.op(), vec![], vec![run]));
        assert_eq!(verdicts, [CreateVerdict::Conflict]);
    }
    b.create(counted(1, 0));
    assert_eq!(counts(b, job), (2, 1));
}

fn waiting_run(b: &Bench, job: JobUid) -> NewRun {
    waiting(b, job, "counted", WaitsFor::Queue)
}

pub fn a_run_that_cannot_start_in_time_is_late(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let terms = RunTerms {
        start_by: Some(at(10)),
        ..terms()
    };
    let run = b.create(NewRun {
        terms,
        ..b.new_run(job, "1", vec![Descriptor::Whole])
    });
    let late = || {
        let all: Vec<u8> = (0..64).collect();
        wait(b.store.list_late_runs(all, 10))
    };
    b.pass(10);
    assert_eq!(late().late, []);
    assert_eq!(late().next, Some(at(10)));
    b.clock.advance(SignedDuration::from_micros(1));
    let session = b.session(5);
    assert_eq!(
        b.try_lease(&pool, key(run), session),
        Err(GrantRefused::NotReady)
    );
    assert_eq!(late().late, [(run, partition_of(job))]);
    let fence = Some(b.trigger(job));
    let stop = b
        .store
        .request_stop(b.op(), fence, run, StopCause::Deadline);
    assert_eq!(wait(stop), RequestVerdict::Done(Some(RunState::Cancelled)));
    assert_eq!(b.run(run).reason, "starting_deadline");
    assert_eq!((late().late, late().next), (vec![], None));
}

pub fn a_long_queue_that_is_too_late_is_cancelled_part_by_part(b: &Bench) {
    let (job, pool) = (b.job("j"), b.pool());
    let first = plain(b, job, "first");
    let late: Vec<RunId> = (0..LATE_AT_ONCE + 7)
        .map(|n| {
            let mut new = waiting(b, job, &format!("late-{n}"), WaitsFor::Queue);
            new.terms.start_by = Some(b.now());
            b.create(new)
        })
        .collect();
    let last = queued(b, job, "last");
    b.pass(1);
    work(b, &pool, first);
    let stopped = |b: &Bench| {
        late.iter()
            .filter(|run| b.run(**run).state.is_closed())
            .count()
    };
    assert_eq!(stopped(b), LATE_AT_ONCE, "as many as one transaction takes");
    assert!(b.run(last).waits.is_some(), "its turn is behind them");
    let found = wait(b.store.list_late_runs((0..64).collect(), 500)).late;
    assert_eq!(found.len(), 7);
    b.stop(found[0].0, StopCause::Deadline);
    assert_eq!(stopped(b), late.len());
    assert_eq!(b.run(last).waits, None);
    assert_eq!(work(b, &pool, last), Some(RunState::Succeeded));
}
