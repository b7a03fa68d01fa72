//! The event log, and what is removed.

use jiff::SignedDuration;
use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{Occasion, ShardKey};
use sichen_core::lifecycle::StopCause;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::DutyKey;
use sichen_core::port::{CreateVerdict, EventFilter, NewRun, Op, Page};

use crate::bench::{Bench, at, wait};

pub fn events_are_listed_in_pages_and_by_entity(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let (one, two) = (b.run_of(2), b.run_of(1));
    b.attempt(&pool, ShardKey::new(one, 1), session, Ending::Failed);
    b.attempt(&pool, ShardKey::new(two, 0), session, Ending::Succeeded);
    let all = b.dump().events;
    let mut paged = Vec::new();
    loop {
        let page = Page {
            after: paged.last().map(|e: &sichen_core::event::Event| e.seq),
            limit: 3,
        };
        let events = wait(b.store.list_events(EventFilter::default(), page));
        if events.is_empty() {
            break;
        }
        paged.extend(events);
    }
    assert_eq!(paged, all);
    let page = Page {
        after: None,
        limit: 100,
    };
    let of = |run, shard| wait(b.store.list_events(EventFilter { run, shard }, page));
    let key = ShardKey::new(one, 1);
    let about = |e: &Entity| match e {
        Entity::Run(id) => *id == one,
        Entity::Shard(key) => key.run == one,
        _ => false,
    };
    let expect: Vec<_> = all.iter().filter(|e| about(&e.entity)).cloned().collect();
    assert!(expect.len() >= 4);
    assert_eq!(of(Some(one), None), expect);
    // A refused report is of its shard, too.
    let token = b.shard(key).token;
    b.finish(b.report(key, sichen_core::ids::Token(token.0 + 1), Ending::Succeeded));
    let kinds: Vec<Kind> = of(None, Some(key)).iter().map(|e| e.kind).collect();
    assert_eq!(
        kinds,
        [
            Kind::AttemptGranted,
            Kind::AttemptEnded,
            Kind::ReportRefused
        ]
    );
    assert_eq!(of(Some(one), Some(key)).len(), 3);
    assert!(of(Some(two), Some(key)).is_empty());
    let later = Page {
        after: Some(all.last().unwrap().seq),
        limit: 100,
    };
    let filter = EventFilter {
        run: None,
        shard: Some(key),
    };
    assert_eq!(wait(b.store.list_events(filter, later)).len(), 1);
}

pub fn every_event_has_its_operation_and_actor(b: &Bench) {
    let job = b.job("nightly");
    let op = Op {
        actor: "user alice".to_owned(),
        ..b.op()
    };
    let run = b.new_run(job, "key", vec![]);
    wait(b.store.create_runs(op.clone(), vec![], vec![run]));
    let last = b.dump().events.pop().unwrap();
    assert_eq!(
        (last.kind, last.op, last.actor, last.at),
        (Kind::RunCreated, op.id, op.actor, b.now())
    );
    assert_eq!(last.duty, None);
}

pub fn old_closed_runs_are_removed_with_their_events(b: &Bench) {
    let (pool, session, janitor) = (b.pool(), b.session(9), b.fence(DutyKey::Janitor));
    let (old, open) = (b.run_of(2), b.run_of(1));
    b.attempt(&pool, ShardKey::new(old, 0), session, Ending::Succeeded);
    b.stop(old, StopCause::Cancel);
    b.pass(10);
    let young = b.run_of(0);
    let remove = |before, limit| {
        wait(
            b.store
                .remove_history(b.op(), janitor.clone(), before, limit),
        )
        .runs
    };
    assert_eq!(
        remove(at(0), 10),
        0,
        "it ended at that instant, not before it"
    );
    assert_eq!(remove(at(10), 0), 0);
    assert_eq!(remove(at(10), 10), 1);
    let dump = b.dump();
    assert_eq!(
        dump.runs.iter().map(|r| r.id).collect::<Vec<_>>(),
        [open, young]
    );
    assert!(dump.shards.iter().all(|s| s.key.run != old));
    assert!(dump.decisions.is_empty(), "a manual run had no instant");
    let page = Page {
        after: None,
        limit: 100,
    };
    let filter = EventFilter {
        run: Some(old),
        shard: None,
    };
    assert!(wait(b.store.list_events(filter, page)).is_empty());
    assert_eq!(remove(at(10), 10), 0);
    // The oldest go first, as many as were asked for.
    b.run_of(0);
    b.pass(5);
    assert_eq!(remove(b.now(), 1), 1);
    assert_eq!(remove(b.now(), 9), 1);
}

/// SCALE-003: a retention of nothing at all.
pub fn only_what_is_over_is_removed_whatever_its_age(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(99));
    let first = |run| ShardKey::new(run, 0);
    let waiting = b.run_of(1);
    let running = b.run_of(2);
    b.lease(&pool, first(running), session);
    let backing_off = b.run_of(1);
    b.attempt(&pool, first(backing_off), session, Ending::Failed);
    let stopping = b.run_of(2);
    b.lease(&pool, first(stopping), session);
    b.stop(stopping, StopCause::Cancel);
    let [retried, failed] = [0, 1].map(|_| {
        let run = b.run_of(1);
        b.attempt(&pool, first(run), session, Ending::FailedForGood);
        run
    });
    let cancelled = b.run_of(1);
    b.stop(cancelled, StopCause::Cancel);
    let job = b.job("nightly");
    let succeeded = b.create(b.planned_run(job, at(-5)));
    let shards = b.states(succeeded).len();
    for no in 0..shards {
        let key = ShardKey::new(succeeded, i32::try_from(no).unwrap());
        b.attempt(&pool, key, session, Ending::Succeeded);
    }
    wait(b.store.reopen_run(b.op(), retried, None, b.now()));
    b.pass(3 * 24 * 3_600);
    let janitor = b.fence(DutyKey::Janitor);
    let open = [waiting, running, backing_off, stopping, retried];
    let about = |dump: &sichen_core::model::Dump| {
        let is_open = |run| open.contains(&run);
        let shards: Vec<_> = dump
            .shards
            .iter()
            .filter(|s| is_open(s.key.run))
            .cloned()
            .collect();
        let events = dump.events.iter().filter(|event| match event.entity {
            Entity::Run(run) => is_open(run),
            Entity::Shard(key) => is_open(key.run),
            _ => false,
        });
        (shards, events.cloned().collect::<Vec<_>>())
    };
    let before = b.dump();
    let remove = || {
        wait(
            b.store
                .remove_history(b.op(), janitor.clone(), b.now(), 100),
        )
        .runs
    };
    assert_eq!(remove(), 3, "{failed} {cancelled} {succeeded}");
    let after = b.dump();
    let left: Vec<_> = after.runs.iter().map(|run| run.id).collect();
    assert_eq!(left, open);
    assert_eq!(about(&after), about(&before), "with all that belongs to it");
    // When it succeeded last is known from what is left of it.
    let decisions = wait(b.store.list_decisions(job, at(-100), 10));
    let [last] = &decisions[..] else {
        panic!("{decisions:?}");
    };
    assert_eq!((last.to, &*last.reference), (at(-5), "succeeded"));
    assert_eq!(remove(), 0);
    // It ends, and goes in its turn.
    let (pool, again) = (b.pool(), b.session(1));
    b.attempt(&pool, first(retried), again, Ending::Succeeded);
    assert_eq!(remove(), 0, "it has ended now, not before");
    b.pass(1);
    assert_eq!(remove(), 1);
    assert!(b.dump().runs.iter().all(|run| run.id != retried));
}

pub fn a_removed_instant_stays_decided(b: &Bench) {
    let (job, janitor) = (b.job("nightly"), b.fence(DutyKey::Janitor));
    let planned = NewRun {
        shards: [].into(),
        ..b.planned_run(job, at(-5))
    };
    b.create(planned.clone());
    b.pass(10);
    assert_eq!(
        wait(b.store.remove_history(b.op(), janitor, b.now(), 10)).runs,
        1
    );
    let decisions = wait(b.store.list_decisions(job, at(-100), 10));
    assert_eq!(decisions.len(), 1);
    let removed = &decisions[0];
    assert_eq!(
        (removed.from, removed.to, removed.count),
        (at(-5), at(-5), 1)
    );
    assert_eq!(
        (removed.reason.as_str(), removed.reference.as_str()),
        ("removed", "succeeded")
    );
    assert_eq!(wait(b.store.find_run(job, planned.occasion)), None);
    // An explicit rerun of that instant is possible.
    let again = Occasion::Planned {
        at: at(-5),
        rerun: 1,
    };
    let again = NewRun {
        occasion: again,
        ..b.planned_run(job, at(-5))
    };
    let verdicts = wait(b.store.create_runs(b.op(), vec![], vec![again]));
    assert!(
        matches!(verdicts[..], [CreateVerdict::Created(..)]),
        "{verdicts:?}"
    );
}

pub fn time_never_goes_back(b: &Bench) {
    b.pass(100);
    let job = b.job("nightly");
    let session = b.session(1);
    let before = b.now();
    b.clock.set(at(0));
    assert_eq!(b.now(), before);
    b.create(b.new_run(job, "key", vec![]));
    b.clock.set(at(114));
    b.beat(session);
    b.clock.set(at(50));
    assert_eq!(b.now(), at(114));
    assert!(b.dump().events.iter().all(|e| e.at >= before));
    b.clock.advance(SignedDuration::from_secs(65));
    assert_eq!(b.now(), at(115));
}

pub fn ended_runs_are_listed_in_the_order_of_their_end(b: &Bench) {
    let list = |until, after, limit| {
        let runs = wait(b.store.list_ended_runs(until, Page { after, limit }));
        runs.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    let (first, second, open) = (b.run_of(1), b.run_of(1), b.run_of(1));
    b.pass(10);
    let begun = b.now();
    // The one that was written last ends first.
    b.stop(second, StopCause::Cancel);
    b.pass(10);
    let later = b.now();
    b.stop(first, StopCause::Deadline);
    let (third, fourth) = (b.run_of(1), b.run_of(1));
    b.stop(fourth, StopCause::Cancel);
    b.stop(third, StopCause::Cancel);
    b.pass(10);
    let now = b.now();
    assert_eq!(list(now, None, 9), [second, first, third, fourth]);
    assert_eq!(list(now, None, 2), [second, first]);
    assert_eq!(list(begun, None, 9), [second]);
    // Behind a place alone, where several ended at once too.
    assert_eq!(list(now, Some((begun, second)), 9), [first, third, fourth]);
    assert_eq!(list(now, Some((later, first)), 1), [third]);
    assert_eq!(list(now, Some((later, third)), 9), [fourth]);
    assert_eq!(list(now, Some((later, fourth)), 9), []);
    // What is reopened has not ended.
    let ready = b.now();
    wait(b.store.reopen_run(b.op(), first, None, ready));
    assert_eq!(list(now, None, 9), [second, third, fourth]);
    assert!(!list(now, None, 9).contains(&open));
}
