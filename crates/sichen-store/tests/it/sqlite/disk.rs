//! A store on disk: durable, alone in its directory, one commit for many.

use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use futures::future::join_all;
use sichen_core::ids::{OpId, ShardKey};
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::ShardState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::port::{CreateVerdict, Error, Op, Page};
use sichen_store::clock::ManualClock;
use sichen_store::sqlite::SqliteStore;
use uuid::Uuid;

use crate::bench::{Bench, at, wait};
use crate::fold;

fn open(dir: &Path) -> Bench {
    let clock = Arc::new(ManualClock::new(at(0)));
    let store = SqliteStore::open(dir, Arc::clone(&clock) as _).expect("it opens");
    Bench::new(Arc::new(store), clock)
}

#[test]
fn what_was_acknowledged_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let (run, before) = {
        let b = open(dir.path());
        let (pool, session) = (b.pool(), b.session(5));
        let run = b.run_of(3);
        b.attempt(&pool, ShardKey::new(run, 1), session, Ending::Succeeded);
        (run, b.dump())
    };
    let b = open(dir.path());
    assert_eq!(b.dump(), before);
    assert_eq!(b.shard(ShardKey::new(run, 1)).state, ShardState::Succeeded);
    fold::check(&b.dump());
}

#[test]
fn time_ids_and_event_numbers_go_on_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let (now, dump) = {
        let b = open(dir.path());
        b.pass(1_000);
        b.run_of(1);
        (b.now(), b.dump())
    };
    // This process's clock stands 1,000 s behind.
    let b = open(dir.path());
    assert_eq!(b.now(), now);
    let op = Op {
        id: OpId(Uuid::from_u128(77)),
        actor: "test".to_owned(),
    };
    let job = dump.jobs[0].uid;
    let new = b.new_run(job, "second", vec![Descriptor::Whole]);
    let made = wait(b.store.create_runs(op, vec![], vec![new])).remove(0);
    let CreateVerdict::Created(id, None) = made else {
        panic!("{made:?}")
    };
    assert!(id > dump.runs[0].id);
    let newest = b.dump().events.pop().expect("an event").seq;
    assert!(newest > dump.events.last().expect("an event").seq);
}

#[test]
fn a_second_opener_of_the_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    let clock = Arc::new(ManualClock::new(at(0)));
    let second = SqliteStore::open(dir.path(), Arc::clone(&clock) as _);
    assert!(matches!(second, Err(Error::Unavailable(_))), "{second:?}");
    first.run_of(1);
    drop(first);
    open(dir.path());
}

#[test]
fn calls_that_are_waiting_share_commits_and_all_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let b = open(dir.path());
    let job = b.job("many");
    let calls = (0..600).map(|n| {
        let run = b.new_run(job, &format!("key {n}"), vec![Descriptor::Whole]);
        b.store.create_runs(b.op(), vec![], vec![run])
    });
    for answer in block_on(join_all(calls)) {
        let verdicts = answer.expect("written");
        assert!(
            matches!(verdicts[..], [CreateVerdict::Created(_, None)]),
            "{verdicts:?}"
        );
    }
    let runs = wait(b.store.list_runs(
        Default::default(),
        Page {
            after: None,
            limit: 1_000,
        },
    ));
    assert_eq!(runs.len(), 600);
    fold::check(&b.dump());
}
