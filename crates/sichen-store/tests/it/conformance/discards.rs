//! Dead letters struck off the list, and back on it.

use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{RunId, ShardKey};
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{RunState, ShardState};
use sichen_core::port::{Discard, Fence, RequestVerdict};

use crate::bench::{Bench, wait};

fn discard(b: &Bench, run: RunId, only: Option<Vec<ShardKey>>) -> RequestVerdict {
    let why = Discard {
        by: "kim".to_owned(),
        reason: "paid by hand".to_owned(),
    };
    wait(b.store.discard_shards(b.op(), run, only, why))
}

/// A run of three: one has succeeded, two have failed for good.
fn partial(b: &Bench) -> (RunId, Fence) {
    let (pool, session) = (b.pool(), b.session(5));
    let run = b.run_of(3);
    b.attempt(&pool, ShardKey::new(run, 0), session, Ending::Succeeded);
    b.attempt(&pool, ShardKey::new(run, 1), session, Ending::FailedForGood);
    let end = b.attempt(&pool, ShardKey::new(run, 2), session, Ending::FailedForGood);
    assert_eq!(end, Some(RunState::Partial));
    (run, pool)
}

fn discarded(b: &Bench, run: RunId) -> Vec<bool> {
    let shards = (0..3).map(|no| b.shard(ShardKey::new(run, no)));
    shards.map(|shard| shard.discarded_at.is_some()).collect()
}

pub fn a_discarded_dead_letter_stays_failed_and_says_why(b: &Bench) {
    let (run, _) = partial(b);
    let before = b.run(run);
    b.pass(7);
    assert_eq!(discard(b, run, None), RequestVerdict::Done(None));
    assert_eq!(discarded(b, run), [false, true, true]);
    let shard = b.shard(ShardKey::new(run, 1));
    assert_eq!(shard.state, ShardState::Failed);
    assert_eq!(shard.discarded_at, Some(b.now()));
    assert_eq!(b.run(run), before, "the run is what it was");
    let dump = b.dump();
    let mut events = dump.events.iter().rev();
    let event = events
        .find(|e| e.kind == Kind::ShardDiscarded && e.entity == Entity::Shard(shard.key))
        .expect("it is in the log");
    assert_eq!(
        (event.from.as_str(), event.to.as_str()),
        ("failed", "failed")
    );
    assert_eq!((event.ver, event.at), (shard.ver, b.now()));
    assert!(event.data.contains("kim") && event.data.contains("paid by hand"));
}

pub fn a_discard_may_name_its_shards(b: &Bench) {
    let (run, _) = partial(b);
    let named = |no| Some(vec![ShardKey::new(run, no)]);
    assert_eq!(discard(b, run, named(2)), RequestVerdict::Done(None));
    assert_eq!(discarded(b, run), [false, false, true]);
    // It is none any more, and a success never was one.
    let refused = RequestVerdict::NotNow(RunState::Partial);
    assert_eq!(discard(b, run, named(2)), refused);
    assert_eq!(discard(b, run, named(0)), refused);
    assert_eq!(discard(b, run, None), RequestVerdict::Done(None));
    assert_eq!(discard(b, run, None), refused);
}

pub fn a_retry_leaves_out_what_was_discarded_unless_it_is_named(b: &Bench) {
    let (run, pool) = partial(b);
    let key = ShardKey::new(run, 1);
    discard(b, run, Some(vec![key]));
    let reopen = |only| wait(b.store.reopen_run(b.op(), run, only, b.now()));
    assert_eq!(reopen(None), RequestVerdict::Done(None));
    let states = [
        ShardState::Succeeded,
        ShardState::Failed,
        ShardState::Scheduled,
    ];
    assert_eq!(b.states(run), states);
    assert_eq!(b.run(run).counters.failed, 1);
    let session = b.session(1);
    let end = b.attempt(&pool, ShardKey::new(run, 2), session, Ending::Succeeded);
    assert_eq!(end, Some(RunState::Partial), "what failed has failed");
    assert_eq!(reopen(None), RequestVerdict::NotNow(RunState::Partial));
    assert_eq!(reopen(Some(vec![key])), RequestVerdict::Done(None));
    assert_eq!(discarded(b, run), [false, false, false]);
    let end = b.attempt(&pool, key, session, Ending::Succeeded);
    assert_eq!(end, Some(RunState::Succeeded));
}

pub fn only_dead_letters_are_discarded(b: &Bench) {
    let run = b.run_of(2);
    let refused = RequestVerdict::NotNow(RunState::Scheduled);
    assert_eq!(discard(b, run, None), refused);
    let nowhere = RunId(987_654);
    assert_eq!(discard(b, nowhere, None), RequestVerdict::Missing);
}
