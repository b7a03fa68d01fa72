//! Capacities: what is held of them, by whom, and until when.

use jiff::{SignedDuration, Timestamp};
use sichen_core::capacity::{Limits, Rate, Uses};
use sichen_core::event::Kind;
use sichen_core::ids::{JobUid, RunId, SessionId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::ShardState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::Standing;
use sichen_core::port::{
    ApplyCapacity, ApplyJob, ApplyVerdict, CapacityDeleted, CapacityVerdict, CreateVerdict, Fence,
    FinishVerdict, GrantRefused, GrantVerdict, NewRun, Page, Reap, ReapVerdict,
};

use crate::bench::{Bench, TTL, name, terms, wait};

fn units(n: u32) -> Limits {
    Limits {
        units: Some(n),
        rate: None,
    }
}

fn rate(text: &str, burst: u32) -> Limits {
    Limits {
        units: None,
        rate: Some(Rate::parse(text, Some(burst)).unwrap()),
    }
}

fn uses(weights: &[(&str, u32)]) -> Uses {
    Uses::new(weights.iter().map(|(text, n)| (name(text), *n)))
}

fn apply(b: &Bench, text: &str, limits: Limits, expected: Option<u32>) -> CapacityVerdict {
    let apply = ApplyCapacity {
        name: name(text),
        expected,
        document: limits.to_string(),
        limits,
    };
    wait(b.store.apply_capacity(b.op(), apply))
}

fn delete(b: &Bench, text: &str) -> CapacityDeleted {
    wait(b.store.delete_capacity(b.op(), name(text)))
}

fn standing(b: &Bench, text: &str) -> Option<Standing> {
    wait(b.store.get_capacities(vec![name(text)])).pop()
}

/// Units held and by how many.
fn held(b: &Bench, text: &str) -> (u64, u32) {
    standing(b, text).map_or((0, 0), |s| (s.used, s.holds))
}

/// A job that uses capacities.
fn user(b: &Bench, text: &str, weights: &[(&str, u32)]) -> ApplyJob {
    ApplyJob {
        uses: uses(weights),
        ..b.new_job(text)
    }
}

fn new_run(b: &Bench, job: JobUid, key: &str, n: usize, weights: &[(&str, u32)]) -> NewRun {
    let run = b.new_run(job, key, vec![Descriptor::Index; n]);
    NewRun {
        terms: sichen_core::model::RunTerms {
            uses: uses(weights),
            ..terms()
        },
        ..run
    }
}

/// A run with `n` shards whose attempts use this.
fn run(b: &Bench, text: &str, n: usize, weights: &[(&str, u32)]) -> RunId {
    let job = b.job(text);
    b.create(new_run(b, job, "key", n, weights))
}

fn keys(run: RunId, n: i32) -> Vec<ShardKey> {
    (0..n).map(|no| ShardKey::new(run, no)).collect()
}

/// Which of the grants were made.
fn lease(b: &Bench, fence: &Fence, keys: &[ShardKey], session: SessionId) -> Vec<bool> {
    let grants = keys.iter().map(|key| b.grant(*key, session)).collect();
    let verdicts = b.lease_all(fence, grants);
    let made = verdicts.iter().map(|verdict| match verdict {
        GrantVerdict::Granted(..) => true,
        GrantVerdict::Refused(GrantRefused::Capacity) => false,
        other => panic!("{other:?}"),
    });
    made.collect()
}

fn end(b: &Bench, key: ShardKey, ending: Ending) {
    let token = b.shard(key).token;
    let verdict = b.finish(b.report(key, token, ending));
    assert!(matches!(verdict, FinishVerdict::Accepted(_)), "{verdict:?}");
}

fn reap(b: &Bench, fence: &Fence, reap: Reap) -> ReapVerdict {
    wait(b.store.reap_shards(b.op(), fence.clone(), vec![reap])).remove(0)
}

pub fn each_change_of_a_capacity_is_a_version(b: &Bench) {
    assert_eq!(apply(b, "x", units(4), None), CapacityVerdict::Created(1));
    b.pass(5);
    assert_eq!(
        apply(b, "x", units(4), Some(1)),
        CapacityVerdict::Unchanged(1)
    );
    assert_eq!(
        apply(b, "x", units(5), Some(1)),
        CapacityVerdict::Updated(2)
    );
    let found = standing(b, "x").expect("it is there");
    assert_eq!((found.capacity.ver, found.capacity.limits), (2, units(5)));
    assert_eq!(found.capacity.document, "5 units");
    assert_eq!(found.capacity.changed_at, b.now());
    assert_eq!(delete(b, "x"), CapacityDeleted::Deleted);
    assert_eq!(standing(b, "x"), None);
    assert_eq!(delete(b, "x"), CapacityDeleted::Missing);
    assert_eq!(apply(b, "x", units(5), None), CapacityVerdict::Created(4));
    for text in ["a", "c", "b"] {
        apply(b, text, units(1), None);
    }
    let page = |after: Option<&str>, limit| {
        let after = after.map(name);
        let found = wait(b.store.list_capacities(Page { after, limit }));
        found
            .iter()
            .map(|s| s.capacity.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(page(None, 9), ["a", "b", "c", "x"]);
    assert_eq!(page(Some("a"), 2), ["b", "c"]);
    let both = wait(
        b.store
            .get_capacities(vec![name("x"), name("nope"), name("a"), name("x")]),
    );
    assert_eq!(both.len(), 2, "each once, in the order of names");
    let dump = b.dump();
    let of_x = dump.events.iter().filter(|e| e.entity.id() == "x");
    let kinds: Vec<(u32, Kind)> = of_x.map(|e| (e.ver, e.kind)).collect();
    assert_eq!(
        kinds,
        [
            (1, Kind::CapacityApplied),
            (2, Kind::CapacityApplied),
            (3, Kind::CapacityDeleted),
            (4, Kind::CapacityApplied)
        ]
    );
}

pub fn a_capacity_decided_on_an_old_version_is_a_conflict(b: &Bench) {
    assert_eq!(apply(b, "x", units(4), Some(1)), CapacityVerdict::Conflict);
    apply(b, "x", units(4), None);
    assert_eq!(apply(b, "x", units(5), None), CapacityVerdict::Conflict);
    apply(b, "x", units(5), Some(1));
    assert_eq!(apply(b, "x", units(6), Some(1)), CapacityVerdict::Conflict);
}

pub fn a_job_uses_only_what_is_there(b: &Bench) {
    let job = user(b, "j", &[("x", 1)]);
    assert_eq!(
        wait(b.store.apply_job(b.op(), job.clone())),
        ApplyVerdict::Conflict
    );
    apply(b, "x", units(4), None);
    assert_eq!(
        wait(b.store.apply_job(b.op(), job.clone())),
        ApplyVerdict::Created(job.new_uid)
    );
    let dump = b.dump();
    assert_eq!(dump.capacity_uses, [(name("x"), job.new_uid, 1)]);
    let edit = ApplyJob {
        expected_ver: Some(1),
        document: "other".to_owned(),
        ..user(b, "j", &[("x", 1), ("y", 1)])
    };
    assert_eq!(
        wait(b.store.apply_job(b.op(), edit)),
        ApplyVerdict::Conflict
    );
}

pub fn a_capacity_in_use_is_not_deleted(b: &Bench) {
    apply(b, "x", units(4), None);
    let job = user(b, "j", &[("x", 1)]);
    let uid = job.new_uid;
    wait(b.store.apply_job(b.op(), job));
    let users = CapacityDeleted::Used(vec![sichen_core::name::JobName {
        namespace: name("default"),
        name: name("j"),
    }]);
    assert_eq!(delete(b, "x"), users);
    let open = b.create(new_run(b, uid, "key", 1, &[("x", 1)]));
    let edit = ApplyJob {
        expected_ver: Some(b.get_job(uid).ver),
        document: "without".to_owned(),
        ..user(b, "j", &[])
    };
    wait(b.store.apply_job(b.op(), edit));
    assert_eq!(delete(b, "x"), CapacityDeleted::Open(vec![open]));
    let (fence, session) = (b.pool(), b.session(4));
    let key = ShardKey::new(open, 0);
    let token = b.lease(&fence, key, session).shard.token;
    b.pass(TTL.as_secs());
    // Lost and not to be tried again: the run is closed, and its attempt may still be alive.
    b.stop(open, sichen_core::lifecycle::StopCause::Cancel);
    let gone = b.now() + SignedDuration::from_secs(15);
    let lost = Reap {
        dead_by: Some(gone),
        ..b.reaping(key, token)
    };
    assert!(matches!(
        reap(b, &fence, lost),
        ReapVerdict::Reaped(Some(_))
    ));
    assert_eq!(delete(b, "x"), CapacityDeleted::Held(1));
    b.pass(15);
    assert_eq!(delete(b, "x"), CapacityDeleted::Deleted);
    assert_eq!(b.dump().holds, [], "nothing is left of it");
}

pub fn grants_take_units_up_to_the_limit_and_ends_give_them_back(b: &Bench) {
    apply(b, "x", units(5), None);
    let (fence, session) = (b.pool(), b.session(10));
    let keys = keys(run(b, "j", 4, &[("x", 2)]), 4);
    assert_eq!(lease(b, &fence, &keys[..1], session), [true]);
    assert_eq!(lease(b, &fence, &keys[1..2], session), [true]);
    assert_eq!(held(b, "x"), (4, 2));
    assert_eq!(lease(b, &fence, &keys[2..3], session), [false]);
    assert_eq!(b.shard(keys[2]).state, ShardState::Scheduled);
    end(b, keys[0], Ending::Succeeded);
    assert_eq!(held(b, "x"), (2, 1));
    assert_eq!(lease(b, &fence, &keys[2..3], session), [true]);
    let dump = b.dump();
    let granted = dump.events.iter().rfind(|e| e.kind == Kind::AttemptGranted);
    let data: serde_json::Value = serde_json::from_str(&granted.unwrap().data).unwrap();
    assert_eq!(data["uses"], serde_json::json!({ "x": 2 }));
}

pub fn a_batch_of_grants_is_judged_as_one(b: &Bench) {
    apply(b, "x", units(5), None);
    let (fence, session) = (b.pool(), b.session(10));
    let heavy = keys(run(b, "heavy", 3, &[("x", 2)]), 3);
    let light = keys(run(b, "light", 2, &[("x", 1)]), 2);
    let free = keys(run(b, "free", 1, &[]), 1);
    let all = [heavy, light, free].concat();
    assert_eq!(
        lease(b, &fence, &all, session),
        [true, true, false, true, false, true]
    );
    assert_eq!(held(b, "x"), (5, 3));
}

pub fn what_is_lowered_below_its_use_grants_nothing_and_ends_nothing(b: &Bench) {
    apply(b, "x", units(5), None);
    let (fence, session) = (b.pool(), b.session(10));
    let keys = keys(run(b, "j", 8, &[("x", 1)]), 8);
    assert_eq!(lease(b, &fence, &keys[..5], session), [true; 5]);
    apply(b, "x", units(2), Some(1));
    assert_eq!(held(b, "x"), (5, 5), "5 of 2");
    for key in &keys[..3] {
        assert_eq!(lease(b, &fence, &keys[5..6], session), [false]);
        end(b, *key, Ending::Succeeded);
    }
    assert_eq!(lease(b, &fence, &keys[5..6], session), [false], "2 of 2");
    end(b, keys[3], Ending::Succeeded);
    assert_eq!(lease(b, &fence, &keys[5..7], session), [true, false]);
    apply(b, "x", units(0), Some(2));
    end(b, keys[4], Ending::Succeeded);
    end(b, keys[5], Ending::Succeeded);
    assert_eq!(lease(b, &fence, &keys[6..7], session), [false], "0 of 0");
    apply(b, "x", units(4), Some(3));
    assert_eq!(lease(b, &fence, &keys[6..8], session), [true, true]);
}

pub fn all_uses_are_taken_or_none(b: &Bench) {
    apply(b, "x", units(5), None);
    apply(b, "y", rate("1/s", 1), None);
    let (fence, session) = (b.pool(), b.session(10));
    let both = keys(run(b, "both", 3, &[("x", 1), ("y", 1)]), 3);
    assert_eq!(lease(b, &fence, &both, session), [true, false, false]);
    assert_eq!(held(b, "x"), (1, 1));
    // What was short of `x` has taken no token of `y`.
    apply(b, "x", units(0), Some(1));
    b.pass(1);
    assert_eq!(lease(b, &fence, &both[1..], session), [false, false]);
    apply(b, "x", units(2), Some(2));
    assert_eq!(lease(b, &fence, &both[1..], session), [true, false]);
    let missing = keys(run(b, "missing", 1, &[("x", 1), ("z", 1)]), 1);
    assert_eq!(lease(b, &fence, &missing, session), [false]);
}

pub fn a_lost_attempt_holds_until_its_tree_is_surely_gone(b: &Bench) {
    apply(b, "x", units(1), None);
    let (fence, first) = (b.pool(), b.session(10));
    let keys = keys(run(b, "j", 2, &[("x", 1)]), 2);
    let token = b.lease(&fence, keys[0], first).shard.token;
    b.pass(TTL.as_secs());
    let second = b.session(10);
    let gone = b.now() + SignedDuration::from_secs(15);
    let lost = Reap {
        dead_by: Some(gone),
        ..b.reaping(keys[0], token)
    };
    assert!(matches!(reap(b, &fence, lost), ReapVerdict::Reaped(None)));
    let found = standing(b, "x").expect("it is there");
    assert_eq!((found.used, found.next_end), (1, Some(gone)));
    let dump = b.dump();
    let ended = dump.events.iter().rfind(|e| e.kind == Kind::AttemptEnded);
    let data: serde_json::Value = serde_json::from_str(&ended.unwrap().data).unwrap();
    assert_eq!(data["held_until"], gone.as_microsecond());
    b.pass(14);
    assert_eq!(lease(b, &fence, &keys[1..], second), [false]);
    b.beat(second);
    b.pass(1);
    assert_eq!(held(b, "x"), (0, 0), "it counts no more, there or not");
    assert_eq!(b.dump().holds.len(), 1);
    assert_eq!(lease(b, &fence, &keys, second), [true, false]);
    let holds = b.dump().holds;
    assert_eq!(
        holds.len(),
        1,
        "the next grant took the old one away: {holds:?}"
    );
    // Of a worker that has confirmed the end nothing is left.
    let token = b.shard(keys[0]).token;
    b.pass(TTL.as_secs());
    assert!(matches!(
        reap(b, &fence, b.reaping(keys[0], token)),
        ReapVerdict::Reaped(None)
    ));
    assert_eq!(b.dump().holds, []);
}

pub fn a_rate_grants_no_faster_than_it_says(b: &Bench) {
    apply(b, "x", rate("2/s", 3), None);
    let (fence, session) = (b.pool(), b.session(100));
    let keys = keys(run(b, "j", 12, &[("x", 1)]), 12);
    let made = lease(b, &fence, &keys[..5], session);
    assert_eq!(made, [true, true, true, false, false], "one burst");
    for key in &keys[..3] {
        // An end gives no token back.
        end(b, *key, Ending::Succeeded);
    }
    assert_eq!(lease(b, &fence, &keys[3..4], session), [false]);
    b.pass(1);
    assert_eq!(lease(b, &fence, &keys[3..6], session), [true, true, false]);
    b.beat(session);
    b.pass(14);
    let made = lease(b, &fence, &keys[5..10], session);
    assert_eq!(
        made,
        [true, true, true, false, false],
        "never more than the burst"
    );
    let bucket = standing(b, "x").unwrap().capacity.bucket;
    assert_eq!((bucket.level, bucket.at), (0, b.now()));
}

pub fn a_changed_rate_never_gives_more_than_its_burst(b: &Bench) {
    apply(b, "x", rate("10/s", 10), None);
    let (fence, session) = (b.pool(), b.session(100));
    let keys = keys(run(b, "j", 20, &[("x", 1)]), 20);
    assert_eq!(lease(b, &fence, &keys[..4], session), [true; 4]);
    apply(b, "x", rate("60/m", 5), Some(1));
    let made = lease(b, &fence, &keys[4..10], session);
    assert_eq!(made, [true, true, true, true, true, false]);
    apply(b, "x", rate("60/m", 50), Some(2));
    assert_eq!(
        lease(b, &fence, &keys[9..10], session),
        [false],
        "it fills by and by"
    );
    b.pass(2);
    assert_eq!(lease(b, &fence, &keys[9..12], session), [true, true, false]);
    apply(b, "x", units(9), Some(3));
    let made = lease(b, &fence, &keys[11..12], session);
    assert_eq!(
        made,
        [false],
        "what holds counts, whatever the limit was then"
    );
}

pub fn every_end_of_an_attempt_frees_what_it_held(b: &Bench) {
    apply(b, "x", units(1), None);
    let (fence, session) = (b.pool(), b.session(10));
    let all = run(b, "j", 6, &[("x", 1)]);
    let endings = [
        Ending::Succeeded,
        Ending::Failed,
        Ending::TimedOut,
        Ending::Released,
        Ending::Cancelled,
    ];
    for (key, ending) in keys(all, 6).into_iter().zip(endings) {
        if ending == Ending::Cancelled {
            assert_eq!(lease(b, &fence, &[key], session), [true]);
            b.stop(all, sichen_core::lifecycle::StopCause::Cancel);
            assert_eq!(held(b, "x"), (1, 1), "it runs until its end is reported");
        } else {
            assert_eq!(lease(b, &fence, &[key], session), [true], "{ending:?}");
        }
        end(b, key, ending);
        assert_eq!(held(b, "x"), (0, 0), "{ending:?}");
    }
}

pub fn a_run_that_uses_capacities_is_not_born_leased(b: &Bench) {
    apply(b, "x", units(1), None);
    let (fence, session) = (b.pool(), b.session(10));
    let job = b.job("j");
    let run = NewRun {
        born_leased: Some(session),
        ..new_run(b, job, "key", 1, &[("x", 1)])
    };
    let made = wait(b.store.create_runs(b.op(), vec![fence.clone()], vec![run])).remove(0);
    let CreateVerdict::Created(id, None) = made else {
        panic!("{made:?}");
    };
    assert_eq!(
        b.run(id).terms.uses,
        uses(&[("x", 1)]),
        "it comes back as written"
    );
    assert_eq!(held(b, "x"), (0, 0));
    assert_eq!(lease(b, &fence, &keys(id, 1), session), [true]);
}

pub fn holders_and_waiters_are_listed(b: &Bench) {
    apply(b, "x", units(3), None);
    apply(b, "y", units(3), None);
    let (fence, session) = (b.pool(), b.session(10));
    let first = run(b, "first", 2, &[("x", 2)]);
    let second = run(b, "second", 2, &[("x", 1), ("y", 3)]);
    let began: Timestamp = b.now();
    assert_eq!(lease(b, &fence, &keys(first, 2), session), [true, false]);
    b.pass(5);
    assert_eq!(lease(b, &fence, &keys(second, 2), session), [true, false]);
    let holds = wait(b.store.list_holds(name("x"), 10));
    let shown: Vec<_> = holds
        .iter()
        .map(|h| (h.key, h.units, h.session, h.since, h.until))
        .collect();
    assert_eq!(
        shown,
        [
            (ShardKey::new(first, 0), 2, session, began, None),
            (ShardKey::new(second, 0), 1, session, b.now(), None),
        ]
    );
    assert_eq!(wait(b.store.list_holds(name("x"), 1)).len(), 1);
    let waiters = |text: &str, limit| {
        let found = wait(b.store.list_waiters(name(text), limit));
        found
            .iter()
            .map(|w| (w.run, w.units, w.since))
            .collect::<Vec<_>>()
    };
    assert_eq!(waiters("x", 10), [(first, 2, began), (second, 1, began)]);
    assert_eq!(waiters("y", 10), [(second, 3, began)]);
    assert_eq!(waiters("x", 1).len(), 1);
    assert_eq!(waiters("z", 10), []);
    b.stop(first, sichen_core::lifecycle::StopCause::Cancel);
    assert_eq!(
        waiters("x", 10),
        [(second, 1, began)],
        "what is stopped waits no more"
    );
}
