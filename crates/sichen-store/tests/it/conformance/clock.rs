//! A clock that steps.

use jiff::{SignedDuration, Timestamp};
use sichen_core::event::Kind;
use sichen_core::model::DutyKey;
use sichen_core::port::{AdvanceVerdict, ApplyJob, Fence, Holder, RenewVerdict, Shorter};

use crate::bench::{Bench, POOL, TTL, at, name, wait};

const HOUR: i64 = 3_600;

fn step(b: &Bench, seconds: i64) {
    b.clock.step(SignedDuration::from_secs(seconds));
}

fn check(b: &Bench, now: i64, held: bool) {
    let told = wait(b.store.clock());
    assert_eq!((told.now, told.held), (at(now), held));
    assert_eq!(b.now(), at(now));
}

fn accept(b: &Bench) -> Option<i64> {
    wait(b.store.accept_clock(b.op())).map(|step| step.as_secs())
}

/// Names of jobs that are due until the end of the hour.
fn due(b: &Bench) -> usize {
    wait(b.store.list_due_jobs((0..64).collect(), at(HOUR), 10)).len()
}

/// A job whose next instant is 10 s after the beginning.
fn due_soon(b: &Bench) -> sichen_core::ids::JobUid {
    let new = ApplyJob {
        next_due: Some(at(10)),
        ..b.new_job("report")
    };
    let uid = new.new_uid;
    wait(b.store.apply_job(b.op(), new));
    uid
}

pub fn a_small_step_ahead_is_believed(b: &Bench) {
    check(b, 0, false);
    step(b, 30);
    check(b, 30, false);
    assert_eq!(accept(b), None);
}

pub fn a_large_step_ahead_is_held_and_nothing_is_due(b: &Bench) {
    let job = due_soon(b);
    let fence = b.trigger(job);
    assert_eq!(due(b), 1);
    step(b, HOUR);
    check(b, 0, true);
    assert_eq!(due(b), 0);
    let advance = b.step(job, at(10));
    let verdicts = wait(
        b.store
            .advance_schedules(b.op(), vec![fence], vec![advance]),
    );
    assert_eq!(verdicts, [AdvanceVerdict::Conflict]);
    b.pass(5);
    check(b, 5, true);
}

pub fn an_accepted_step_is_believed_and_ends_no_lease(b: &Bench) {
    due_soon(b);
    let node = b.node();
    let run = b.run_of(1);
    let (pool, session) = (b.pool(), b.session(1));
    let key = sichen_core::ids::ShardKey::new(run, 0);
    b.lease(&pool, key, session);
    let timeout = b.shard(key).timeout_at;
    step(b, HOUR);
    check(b, 0, true);
    b.pass(5);
    assert_eq!(accept(b), Some(HOUR));
    check(b, HOUR + 5, false);
    assert_eq!(accept(b), None);
    let events = b.dump().events;
    let told: Vec<_> = events
        .iter()
        .filter(|e| e.kind == Kind::ClockAccepted)
        .map(|e| {
            (
                e.entity.to_string(),
                e.ver,
                e.at,
                e.actor.as_str(),
                &*e.data,
            )
        })
        .collect();
    let (from, to) = (at(5).as_microsecond(), at(HOUR + 5).as_microsecond());
    let data = format!("{{\"from\":{from},\"to\":{to}}}");
    let expected = ("duty clock".to_owned(), 0, at(5), "test", &*data);
    assert_eq!(told, [expected], "once, and who asked for it");
    assert_eq!(due(b), 1);
    let later = |at: jiff::Timestamp| at + SignedDuration::from_secs(HOUR);
    assert_eq!(b.shard(key).timeout_at, timeout.map(later));
    let overdue = b.store.list_overdue(name(POOL), SignedDuration::ZERO, 10);
    assert_eq!(wait(overdue), []);
    let renewed = wait(b.store.renew_sessions(vec![session], TTL));
    let expires_at = at(HOUR + 5) + TTL;
    assert_eq!(renewed, [RenewVerdict::Renewed { expires_at }]);
    assert!(wait(b.store.renew_node(node, TTL)).is_some());
    // The next step is held anew.
    step(b, HOUR);
    check(b, HOUR + 5, true);
}

pub fn a_clock_that_is_right_again_is_believed(b: &Bench) {
    // Nobody can tell what happened before the first look.
    check(b, 0, false);
    step(b, HOUR);
    check(b, 0, true);
    step(b, -HOUR);
    b.pass(10);
    check(b, 10, false);
    assert_eq!(accept(b), None);
}

pub fn a_lease_is_shortened_only_while_the_clock_is_behind(b: &Bench) {
    b.pass(60);
    let (session, node) = (b.session(1), b.node());
    let janitor = b.fence(DutyKey::Janitor);
    let end = |b: &Bench| wait(b.store.get_session(session)).unwrap().expires_at;
    let ends_at = |b: &Bench| {
        let (nodes, _) = wait(b.store.list_members());
        nodes.iter().find(|n| n.id == node).unwrap().expires_at
    };
    let shorten = |fence: &Fence, of: Holder, from: Timestamp, less: i64| {
        let to = from - SignedDuration::from_secs(less);
        let leases = vec![Shorter { of, from, to }];
        wait(b.store.shorten_leases(b.op(), fence.clone(), leases))
    };
    let (worker, server) = (Holder::Session(session), Holder::Node(node));
    let (before, of_node) = (end(b), ends_at(b));
    assert_eq!(shorten(&janitor, worker, before, 1), 0, "time goes on");
    step(b, -HOUR);
    let pool = b.pool();
    assert_eq!(shorten(&pool, worker, before, 1), 0, "of another duty");
    let other = before - SignedDuration::from_secs(1);
    assert_eq!(shorten(&janitor, worker, other, 1), 0, "it has another end");
    assert_eq!(
        shorten(&janitor, worker, before, -1),
        0,
        "it is no longer one"
    );
    assert_eq!(end(b), before);
    assert_eq!(shorten(&janitor, worker, before, 1), 1);
    assert_eq!(shorten(&janitor, server, of_node, 1), 1);
    assert_eq!(end(b), before - SignedDuration::from_secs(1));
    assert_eq!(ends_at(b), of_node - SignedDuration::from_secs(1));
    // The janitor's own node may be the dead one.
    let of_node = ends_at(b);
    assert_eq!(shorten(&pool, server, of_node, 1), 1);
    assert_eq!(ends_at(b), of_node - SignedDuration::from_secs(1));
    // Who lives has all of it again.
    wait(b.store.renew_sessions(vec![session], TTL));
    assert_eq!(end(b), b.now() + TTL);
    let whole = end(b);
    let gone = TTL.as_secs();
    assert_eq!(shorten(&janitor, worker, whole, gone), 1);
    assert_eq!(
        wait(b.store.renew_sessions(vec![session], TTL)),
        [RenewVerdict::Lost]
    );
    step(b, HOUR);
    b.pass(1);
    assert_eq!(shorten(&janitor, server, ends_at(b), 1), 0);
}
