//! What namespaces may have of the pools.

use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{RunId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{Namespace, NamespaceChange};
use sichen_core::port::{Grant, GrantRefused, GrantVerdict, Page};

use crate::bench::{Bench, name, wait};

fn set(b: &Bench, namespace: &str, weight: Option<u32>, most: Option<Option<u32>>) -> Namespace {
    let change = NamespaceChange {
        weight,
        max_running: most,
    };
    wait(b.store.set_namespace(b.op(), name(namespace), change))
}

fn list(b: &Bench, limit: u32) -> Vec<(Namespace, Option<u32>)> {
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
    assert_eq!(wait(b.store.list_namespaces(after)), [(third, None)]);
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
    assert_eq!(list(b, 10)[0].1, Some(2));
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
    assert_eq!(list(b, 10)[0].1, Some(1));
    assert!(!again(third));
    set(b, "red", None, Some(None));
    assert!(again(third));
    assert_eq!(list(b, 10)[0].1, None, "counted only where it is limited");
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
