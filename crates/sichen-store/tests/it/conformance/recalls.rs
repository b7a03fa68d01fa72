//! Running shards that are asked to give their slots up.

use jiff::SignedDuration;
use sichen_core::dispatch::preempt::{Recall, RecallVerdict, Recalled};
use sichen_core::event::Kind;
use sichen_core::ids::{RunId, ShardKey, Token};
use sichen_core::lifecycle::ShardState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::DutyKey;
use sichen_core::port::{Fence, FinishVerdict, MAX_BATCH};

use crate::bench::{Bench, wait};

const BY: RunId = RunId(4_711);

pub(super) fn recall(key: ShardKey, token: Token) -> Recall {
    Recall {
        key,
        token,
        by: BY,
        priority: 5,
        own: 0,
        most: 2,
    }
}

fn ask(b: &Bench, pool: &Fence, key: ShardKey, token: Token) -> RecallVerdict {
    let recalls = vec![recall(key, token)];
    wait(b.store.recall_shards(b.op(), pool.clone(), recalls)).remove(0)
}

fn listed(b: &Bench, run: RunId) -> Vec<Recalled> {
    wait(b.store.list_recalls(vec![run]))
}

pub fn a_shard_is_asked_once_an_attempt_and_runs_on(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let key = ShardKey::new(b.run_of(1), 0);
    assert_eq!(ask(b, &pool, key, Token(0)), RecallVerdict::Gone);
    let token = b.lease(&pool, key, session).shard.token;
    let before = b.shard(key);
    assert_eq!(ask(b, &pool, key, token), RecallVerdict::Recalled);
    assert_eq!(ask(b, &pool, key, token), RecallVerdict::Already);
    let after = b.shard(key);
    assert_eq!(
        (after.state, after.token, after.ver),
        (ShardState::Running, token, before.ver + 1)
    );
    let record = recall(key, token).recorded(b.now());
    assert_eq!(listed(b, key.run), [record]);
    assert_eq!(listed(b, BY), []);
    assert_eq!(wait(b.store.list_recalls_for(BY, 9)), [record]);
    assert_eq!(wait(b.store.list_recalls_for(key.run, 9)), []);
    let told = b.dump().events;
    let told: Vec<_> = told
        .iter()
        .filter(|e| e.kind == Kind::AttemptRecalled)
        .collect();
    assert_eq!(told.len(), 1);
    let data: serde_json::Value = serde_json::from_str(&told[0].data).unwrap();
    assert_eq!(
        data,
        serde_json::json!({ "by": BY.0, "priority": 5, "own": 0, "n": 1, "most": 2 })
    );
    // It gives its slot up: no failure, and no attempt is used up.
    let released = b.report(key, token, Ending::Released);
    assert_eq!(b.finish(released), FinishVerdict::Accepted(None));
    let shard = b.shard(key);
    assert_eq!(
        (shard.state, shard.used, b.run(key.run).failures),
        (ShardState::Scheduled, 0, 0)
    );
    assert_eq!(ask(b, &pool, key, token), RecallVerdict::Gone);
}

pub fn shards_of_a_run_are_asked_no_more_often_than_they_may(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let (run, other) = (b.run_of(3), b.run_of(1));
    let lease = |run, no| {
        let key = ShardKey::new(run, no);
        (key, b.lease(&pool, key, session).shard.token)
    };
    let keys = [lease(run, 0), lease(run, 1), lease(run, 2), lease(other, 0)];
    let recalls = keys.map(|(key, token)| recall(key, token)).to_vec();
    let verdicts = wait(b.store.recall_shards(b.op(), pool, recalls));
    use RecallVerdict::{Recalled, UsedUp};
    assert_eq!(verdicts, [Recalled, Recalled, UsedUp, Recalled]);
    let all = wait(b.store.list_recalls(vec![run, other]));
    let all: Vec<ShardKey> = all.iter().map(|recalled| recalled.key).collect();
    assert_eq!(all, [keys[0].0, keys[1].0, keys[3].0]);
    let first = wait(b.store.list_recalls_for(BY, 2));
    let first: Vec<ShardKey> = first.iter().map(|recalled| recalled.key).collect();
    assert_eq!(first, [keys[0].0, keys[1].0]);
}

pub fn one_bad_recall_spares_its_neighbours(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let key = ShardKey::new(b.run_of(1), 0);
    let token = b.lease(&pool, key, session).shard.token;
    let missing = recall(ShardKey::new(BY, 0), Token(1));
    let stale = recall(key, Token(token.0 + 1));
    let recalls = vec![missing, stale, recall(key, token), recall(key, token)];
    let verdicts = wait(b.store.recall_shards(b.op(), pool, recalls));
    use RecallVerdict::{Already, Gone, OldTerm, Recalled};
    // A run that is not there is in no pool of anybody's.
    assert_eq!(verdicts, [OldTerm, Gone, Recalled, Already]);
}

pub fn what_is_on_record_of_recalls_goes_with_its_run(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let key = ShardKey::new(b.run_of(1), 0);
    let token = b.lease(&pool, key, session).shard.token;
    assert_eq!(ask(b, &pool, key, token), RecallVerdict::Recalled);
    b.finish(b.report(key, token, Ending::Succeeded));
    assert_eq!(listed(b, key.run).len(), 1);
    b.pass(1_000);
    let janitor = b.fence(DutyKey::Janitor);
    let before = b.now() - SignedDuration::from_secs(1);
    assert_eq!(
        wait(b.store.remove_history(b.op(), janitor, before, 10)).runs,
        1
    );
    assert_eq!(listed(b, key.run), []);
}

pub fn recalls_are_taken_in_batches(b: &Bench) {
    let (pool, session) = (b.pool(), b.session(9));
    let key = ShardKey::new(b.run_of(1), 0);
    let token = b.lease(&pool, key, session).shard.token;
    let before = b.dump();
    assert!(wait(b.store.recall_shards(b.op(), pool.clone(), vec![])).is_empty());
    assert!(wait(b.store.list_recalls(vec![])).is_empty());
    let many = vec![recall(key, token); MAX_BATCH + 1];
    let refused = futures::executor::block_on(b.store.recall_shards(b.op(), pool, many));
    assert!(refused.is_err());
    assert_eq!(b.dump(), before);
}
