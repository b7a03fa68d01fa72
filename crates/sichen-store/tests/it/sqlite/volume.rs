//! A run with as many shards as one may have.

use std::sync::Arc;

use rusqlite::{Connection, StatementStatus};
use sichen_core::dispatch::queue::{Place, Window};
use sichen_core::ids::ShardKey;
use sichen_core::layout::{Descriptor, MAX_SHARDS};
use sichen_core::lifecycle::{RunState, StopCause};
use sichen_core::port::{MAX_PAGE, Page, ReadyHead, RequestVerdict};
use sichen_store::clock::ManualClock;
use sichen_store::sqlite::SqliteStore;
use sichen_store::sqlite::sql::STATEMENTS;

use crate::bench::{Bench, POOL, at, name, wait};

fn list(b: &Bench, total: u32, per_run: u32) -> Vec<ReadyHead> {
    // Half of a lane's part is for one priority.
    let (lane, job) = (2 * total, total);
    let window = Window { total, lane, job };
    wait(
        b.store
            .list_ready(name(POOL), Place::FIRST, window, per_run),
    )
}

#[test]
fn the_largest_run_is_written_listed_leased_and_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(at(0)));
    let store = SqliteStore::open(dir.path(), Arc::clone(&clock) as _).unwrap();
    let b = Bench::new(Arc::new(store), clock);
    let run = b.run_of(MAX_SHARDS as usize);
    assert_eq!(b.run(run).counters.open, MAX_SHARDS);

    let mut seen = 0;
    let mut after = None;
    loop {
        let page = wait(b.store.list_shards(
            run,
            Page {
                after,
                limit: u32::MAX,
            },
        ));
        assert!(page.len() <= MAX_PAGE as usize, "a page has its limit");
        let Some(last) = page.last() else { break };
        (after, seen) = (Some(last.key.no.0), seen + page.len());
    }
    assert_eq!(seen, MAX_SHARDS as usize);

    let (pool, session) = (b.pool(), b.session(1_000));
    let ready = list(&b, 10, 500);
    assert_eq!(ready[0].shards.len(), 500);
    let grants = ready[0]
        .shards
        .iter()
        .map(|(key, _)| b.grant(*key, session))
        .collect();
    b.lease_all(&pool, grants);
    assert_eq!(wait(b.store.list_leases(session)).len(), 500);
    few_steps(dir.path(), run.0);

    assert_eq!(b.stop(run, StopCause::Cancel), RequestVerdict::Done(None));
    assert_eq!(b.run(run).counters.cancelled, MAX_SHARDS - 500);
    let all = (0..500).map(|no| b.shard(ShardKey::new(run, no)));
    let all: Vec<_> = all
        .map(|s| {
            b.report(
                s.key,
                s.token,
                sichen_core::lifecycle::shard::Ending::Succeeded,
            )
        })
        .collect();
    wait(b.store.finish_attempts(b.op(), all));
    assert_eq!(b.run(run).state, RunState::Cancelled);
}

/// What a dispatcher asks again and again costs the same with 100,000 shards waiting as with few.
fn few_steps(dir: &std::path::Path, run: u64) {
    let conn = Connection::open(dir.join("sichen.db")).unwrap();
    let now = at(0).as_microsecond();
    let run = run as i64;
    let steps = |statement: &str, params: &[&dyn rusqlite::ToSql]| {
        let text = STATEMENTS
            .iter()
            .find(|(name, _)| *name == statement)
            .unwrap()
            .1;
        let mut statement = conn.prepare(text).unwrap();
        let mut rows = statement.query(params).unwrap();
        while rows.next().unwrap().is_some() {}
        drop(rows);
        statement.get_status(StatementStatus::VmStep)
    };
    let (first, none) = (-1i64, 0i64);
    let measured = [
        (
            "list_ready_runs",
            steps("list_ready_runs", &[&POOL, &first, &first, &none, &now]),
        ),
        (
            "list_ready_shards",
            steps("list_ready_shards", &[&run, &now, &50]),
        ),
        ("count_running", steps("count_running", &[&run])),
        (
            "get_next_ready_at",
            steps("get_next_ready_at", &[&POOL, &now]),
        ),
        ("list_holders", steps("list_holders", &[&POOL, &now])),
        (
            "list_timed_out",
            steps("list_timed_out", &[&POOL, &now, &100]),
        ),
    ];
    for (statement, steps) in measured {
        assert!(
            steps < 10_000,
            "{statement} took {steps} steps: {measured:?}"
        );
    }
}

#[test]
fn shards_wait_in_their_own_run_only() {
    let clock = Arc::new(ManualClock::new(at(0)));
    let store = SqliteStore::open_in_memory(Arc::clone(&clock) as _).unwrap();
    let b = Bench::new(Arc::new(store), clock);
    let job = b.job("many");
    let runs: Vec<_> = (0..500)
        .map(|n| b.new_run(job, &format!("key {n}"), vec![Descriptor::Whole]))
        .collect();
    wait(b.store.create_runs(b.op(), vec![], runs));
    let heads = list(&b, 500, 10);
    assert_eq!(heads.len(), 500);
    assert!(
        heads
            .iter()
            .all(|h| h.shards.len() == 1 && h.shards[0].0.run == h.run.id)
    );
}
