//! What namespaces may have of the pools.

use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{RunId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{Namespace, NamespaceChange, NamespaceUse, QueueFull};
use sichen_core::port::{
    AdvanceVerdict, ApplyVerdict, CreateVerdict, Grant, GrantRefused, GrantVerdict, NewRun, Page,
};

use crate::bench::{Bench, name, wait};

fn set(b: &Bench, namespace: &str, weight: Option<u32>, most: Option<Option<u32>>) -> Namespace {
    let change = NamespaceChange {
        weight,
        max_running: most,
        ..NamespaceChange::default()
    };
    wait(b.store.set_namespace(b.op(), name(namespace), change))
}

fn list(b: &Bench, limit: u32) -> Vec<(Namespace, NamespaceUse)> {
    wait(b.store.list_namespaces(Page { after: None, limit }))
}

fn run_in(b: &Bench, namespace: &str, shards: usize) -> RunId {
    let job = b.job_in(namespace, &format!("job-{}", b.dump().jobs.len()));
    b.create(b.new_run(job, "key", vec![Descriptor::Index; shards]))
}

pub fn a_namespace_is_set_in_parts_and_says_so_in_the_log(b: &Bench) {
    assert!(list(b, 10).is_empty());
    let first = set(b, "red", Some(300), None);
    assert_eq!((first.ver, first.weight, first.max_running), (1, 300, None));
    let second = set(b, "red", None, Some(Some(2)));
    assert_eq!(
        (second.ver, second.weight, second.max_running),
        (2, 300, Some(2))
    );
    // Nothing changes, so nothing is written.
    assert_eq!(set(b, "red", Some(300), None), second);
    assert_eq!(
        set(b, "blue", Some(100), None),
        Namespace::plain(name("blue"))
    );
    let third = set(b, "red", None, Some(None));
    assert_eq!((third.ver, third.max_running), (3, None));
    set(b, "green", Some(1), None);
    let names: Vec<String> = list(b, 10)
        .iter()
        .map(|(n, _)| n.name.to_string())
        .collect();
    assert_eq!(names, ["green", "red"]);
    assert_eq!(list(b, 1).len(), 1);
    let after = Page {
        after: Some(name("green")),
        limit: 10,
    };
    assert_eq!(
        wait(b.store.list_namespaces(after)),
        [(third, NamespaceUse::default())]
    );
    let dump = b.dump();
    let kinds = dump.events.iter().filter(|e| e.kind == Kind::NamespaceSet);
    let entities: Vec<&Entity> = kinds.map(|e| &e.entity).collect();
    let red = Entity::Namespace(name("red"));
    assert_eq!(
        entities,
        [&red, &red, &red, &Entity::Namespace(name("green"))]
    );
}

pub fn no_grant_goes_beyond_what_a_namespace_may_run(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(50));
    set(b, "red", None, Some(Some(2)));
    let (one, two, other) = (
        run_in(b, "red", 3),
        run_in(b, "red", 3),
        run_in(b, "blue", 3),
    );
    let keys = [(one, 0), (two, 0), (one, 1), (other, 0), (other, 1)];
    let grants = keys.map(|(run, no)| b.grant(ShardKey::new(run, no), session));
    let verdicts = wait(b.store.lease_shards(b.op(), pool.clone(), grants.to_vec()));
    let granted = |v: &GrantVerdict| matches!(v, GrantVerdict::Granted(..));
    let made: Vec<bool> = verdicts.iter().map(granted).collect();
    assert_eq!(made, [true, true, false, true, true]);
    assert_eq!(verdicts[2], GrantVerdict::Refused(GrantRefused::Namespace));
    assert_eq!(list(b, 10)[0].1.running, Some(2));
    let again = |key| {
        let grant = b.grant(key, session);
        let verdict = wait(b.store.lease_shards(b.op(), pool.clone(), vec![grant]));
        granted(&verdict[0])
    };
    let third = ShardKey::new(one, 1);
    assert!(!again(third));
    // A lower limit ends nothing; one that ends makes room only below it.
    set(b, "red", None, Some(Some(1)));
    let first = ShardKey::new(two, 0);
    b.finish(b.report(first, b.shard(first).token, Ending::Succeeded));
    assert_eq!(list(b, 10)[0].1.running, Some(1));
    assert!(!again(third));
    set(b, "red", None, Some(None));
    assert!(again(third));
    assert_eq!(
        list(b, 10)[0].1.running,
        None,
        "counted only where it is limited"
    );
}

pub fn no_grant_goes_beyond_what_a_job_may_run(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(50));
    let (job, other) = (b.job_in("red", "one"), b.job_in("red", "two"));
    let run = |job, key: &str| b.create(b.new_run(job, key, vec![Descriptor::Index; 3]));
    let (one, two, three) = (run(job, "a"), run(job, "b"), run(other, "a"));
    let lease = |most: Option<u32>, keys: &[(RunId, i32)]| -> Vec<GrantVerdict> {
        let grants = keys.iter().map(|(run, no)| Grant {
            most_of_job: most,
            ..b.grant(ShardKey::new(*run, *no), session)
        });
        wait(b.store.lease_shards(b.op(), pool.clone(), grants.collect()))
    };
    let made = |verdicts: &[GrantVerdict]| -> Vec<bool> {
        let granted = |v: &GrantVerdict| matches!(v, GrantVerdict::Granted(..));
        verdicts.iter().map(granted).collect()
    };
    // Of both runs together, and of no other job.
    let keys = [(one, 0), (two, 0), (three, 0), (one, 1), (three, 1)];
    let verdicts = lease(Some(2), &keys);
    assert_eq!(made(&verdicts), [true, true, true, false, true]);
    assert_eq!(verdicts[3], GrantVerdict::Refused(GrantRefused::Job));
    let running = |job| wait(b.store.count_running_of_job(job));
    assert_eq!((running(job), running(other)), (2, 2));
    assert_eq!(made(&lease(Some(2), &[(two, 1)])), [false]);
    // What ends makes room for as many, a lower limit ends nothing, and none limits nothing.
    let first = ShardKey::new(one, 0);
    b.finish(b.report(first, b.shard(first).token, Ending::Succeeded));
    assert_eq!(running(job), 1);
    assert_eq!(made(&lease(Some(1), &[(two, 1)])), [false]);
    assert_eq!(made(&lease(Some(2), &[(two, 1), (two, 2)])), [true, false]);
    assert_eq!(made(&lease(None, &[(two, 2)])), [true]);
    assert_eq!(running(job), 3);
}

pub fn a_limited_namespaces_runs_are_born_leased_only_below_its_limit(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(50));
    set(b, "red", None, Some(Some(0)));
    let job = b.job_in("red", "now");
    let run = sichen_core::port::NewRun {
        born_leased: Some(session),
        ..b.new_run(job, "key", vec![Descriptor::Whole])
    };
    wait(b.store.create_runs(b.op(), vec![pool], vec![run]));
    assert!(wait(b.store.list_leases(session)).is_empty());
}

/// So many runs of the namespace may be queued.
fn queue(b: &Bench, namespace: &str, most: Option<u32>) {
    let change = NamespaceChange {
        max_queued: Some(most),
        ..NamespaceChange::default()
    };
    let set = wait(b.store.set_namespace(b.op(), name(namespace), change));
    assert_eq!(set.max_queued, most);
}

fn queued(b: &Bench) -> Option<u32> {
    list(b, 10)[0].1.queued
}

pub fn no_run_is_written_beyond_what_a_namespace_may_queue(b: &Bench) {
    queue(b, "red", Some(2));
    let (job, other) = (b.job_in("red", "mine"), b.job_in("blue", "other"));
    let new = |key: &str| b.new_run(job, key, vec![Descriptor::Whole]);
    let create = |runs: Vec<NewRun>| wait(b.store.create_runs(b.op(), vec![], runs));
    let full = QueueFull { most: 2, queued: 2 };
    let foreign = b.new_run(other, "a", vec![Descriptor::Whole]);
    let verdicts = create(vec![new("a"), new("b"), new("c"), foreign]);
    let CreateVerdict::Created(first, None) = verdicts[0] else {
        panic!("{verdicts:?}");
    };
    assert!(matches!(verdicts[1], CreateVerdict::Created(_, None)));
    assert_eq!(verdicts[2], CreateVerdict::Full(full));
    assert!(matches!(verdicts[3], CreateVerdict::Created(_, None)));
    // Nothing of it was written: its key is as good as new. What is there already is answered.
    let before = (b.dump().runs, b.dump().events.len());
    assert_eq!(create(vec![new("c")]), [CreateVerdict::Full(full)]);
    assert_eq!(create(vec![new("a")]), [CreateVerdict::Exists(first)]);
    assert_eq!((b.dump().runs, b.dump().events.len()), before);
    assert_eq!(queued(b), Some(2));
    // What has nothing to do is over at once and joins no queue.
    let empty = create(vec![b.new_run(job, "empty", vec![])]);
    assert!(matches!(empty[0], CreateVerdict::Created(_, None)));
    // Who starts makes room.
    let (pool, session) = (b.pool(), b.session(5));
    b.lease(&pool, ShardKey::new(first, 0), session);
    assert_eq!(queued(b), Some(1));
    assert!(matches!(
        create(vec![new("c")])[0],
        CreateVerdict::Created(_, None)
    ));
    // A lower limit takes nothing away, and none limits nothing.
    queue(b, "red", Some(0));
    assert_eq!(queued(b), Some(2));
    let full = QueueFull { most: 0, queued: 2 };
    assert_eq!(create(vec![new("d")]), [CreateVerdict::Full(full)]);
    queue(b, "red", None);
    assert!(matches!(
        create(vec![new("d")])[0],
        CreateVerdict::Created(_, None)
    ));
    assert_eq!(queued(b), None, "counted only where it is limited");
}

pub fn planned_times_wait_while_their_namespace_may_queue_no_more(b: &Bench) {
    queue(b, "red", Some(1));
    let job = b.job_in("red", "mine");
    let trigger = b.trigger(job);
    let mark = b.get_job(job).high_water;
    let runs = |n: i64| -> Vec<NewRun> {
        let at = |n| mark + jiff::SignedDuration::from_secs(n);
        (1..=n).map(|n| b.planned_run(job, at(n))).collect()
    };
    let advance = |runs: Vec<NewRun>| {
        let to = mark + jiff::SignedDuration::from_secs(runs.len() as i64);
        let step = sichen_core::port::Advance {
            runs,
            ..b.step(job, to)
        };
        wait(
            b.store
                .advance_schedules(b.op(), vec![trigger.clone()], vec![step]),
        )
        .remove(0)
    };
    // All of a step or nothing of it: the mark stands, and no instant is passed over.
    let before = (b.get_job(job), b.dump().runs.len());
    let full = QueueFull { most: 1, queued: 0 };
    assert_eq!(advance(runs(2)), AdvanceVerdict::Full(full));
    assert_eq!((b.get_job(job), b.dump().runs.len()), before);
    assert!(matches!(advance(runs(1)), AdvanceVerdict::Advanced(_)));
    let full = QueueFull { most: 1, queued: 1 };
    let mark = b.get_job(job).high_water;
    let late = b.planned_run(job, mark + jiff::SignedDuration::from_secs(1));
    let step = sichen_core::port::Advance {
        runs: vec![late],
        ..b.step(job, mark + jiff::SignedDuration::from_secs(1))
    };
    let again = wait(
        b.store
            .advance_schedules(b.op(), vec![trigger], vec![step.clone()]),
    );
    assert_eq!(again, [AdvanceVerdict::Full(full)]);
    // What a pause decides before it begins is owed, whatever is queued.
    let ver = b.get_job(job).ver;
    let paused = wait(b.store.set_job_paused(b.op(), true, step, ver));
    assert!(matches!(paused, ApplyVerdict::Updated(..)));
    assert_eq!(queued(b), Some(2));
}
