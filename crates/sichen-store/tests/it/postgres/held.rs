//! Rows that another transaction holds for long.

use std::sync::Arc;
use std::time::Duration;

use sichen_core::ids::ShardKey;
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::WaitsFor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::{DutyKey, Waits};
use sichen_core::port::{NewRun, RunStore as _};
use sichen_store::clock::ManualClock;
use sichen_store::postgres::{Options, PostgresStore};
use tokio_postgres::Client;

use super::Server;
use super::server::runtime;
use crate::bench::{Bench, at, pool_key, wait};

/// A store that waits long for locks, and its schema.
fn patient(server: &Server) -> (Bench, Arc<PostgresStore>, String) {
    let schema = server.new_schema();
    let clock = Arc::new(ManualClock::new(at(0)));
    drop(server.open(&schema, Some(Arc::clone(&clock) as _)));
    let options = Options {
        clock: Some(Arc::clone(&clock) as _),
        lock_timeout: Duration::from_secs(60),
        unsafe_durability: true,
        ..Options::default()
    };
    let url = server.url(&schema);
    let store = runtime().block_on(PostgresStore::open(&url, options));
    let store = Arc::new(store.unwrap());
    (Bench::new(Arc::clone(&store) as _, clock), store, schema)
}

fn say(client: &Client, statement: &str) {
    runtime().block_on(client.batch_execute(statement)).unwrap();
}

/// Waits until so many sessions wait for a lock.
pub fn until_waiting(server: &Server, schema: &str, n: i64) {
    let watcher = server.connect(schema);
    let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
    runtime().block_on(async {
        while watcher
            .query_one(waiting, &[])
            .await
            .unwrap()
            .get::<_, i64>(0)
            < n
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

/// A node that froze within a transaction under one duty keeps no other duty from being taken over.
#[test]
fn a_duty_that_is_written_under_keeps_no_other_from_being_taken() {
    let Some(server) = Server::start() else {
        return;
    };
    let (b, _store, schema) = patient(&server);
    let keys = vec![pool_key(), DutyKey::Janitor, DutyKey::Trigger(1)];
    let ttl = jiff::SignedDuration::from_secs(10);
    let old = wait(b.store.register_node(b.op(), "old:1".to_owned(), ttl));
    let owned = wait(b.store.claim_duties(b.op(), old, keys[..2].to_vec()));
    assert_eq!(owned.len(), 2);
    let frozen = server.connect(&schema);
    say(
        &frozen,
        "begin; select 1 from duty where key = 'janitor' for share",
    );
    b.pass(11);
    let new = b.node();
    let claim = |b: &Bench| {
        let owned = wait(b.store.claim_duties(b.op(), new, keys.clone()));
        let mut keys: Vec<DutyKey> = owned.into_iter().map(|fence| fence.key).collect();
        keys.sort();
        keys
    };
    let mut free = vec![pool_key(), DutyKey::Trigger(1)];
    free.sort();
    assert_eq!(claim(&b), free);
    // What is one's own is answered, whoever reads it.
    say(&frozen, "select 1 from duty for share");
    assert_eq!(claim(&b), free);
    say(&frozen, "commit");
    let mut all = keys.clone();
    all.sort();
    assert_eq!(claim(&b), all);
}

/// Who takes the place of a run has it locked before any session, as everybody else does.
#[test]
fn a_run_that_is_replaced_is_locked_before_sessions() {
    let Some(server) = Server::start() else {
        return;
    };
    let (b, store, schema) = patient(&server);
    let (pool, session) = (b.pool(), b.session(5));
    let (plain, replacing) = (b.job("plain"), b.job("replacing"));
    let old = b.create(b.new_run(replacing, "old", vec![Descriptor::Whole]));
    let born = NewRun {
        born_leased: Some(session),
        ..b.new_run(plain, "born", vec![Descriptor::Whole])
    };
    let what = WaitsFor::Replaced;
    let new = NewRun {
        waits: Some(Waits { what, most: 1 }),
        ..b.new_run(replacing, "new", vec![Descriptor::Whole])
    };
    let (holder, other) = (server.connect(&schema), server.connect(&schema));
    say(
        &holder,
        &format!("begin; select 1 from session where id = {session} for update"),
    );
    let (op, fences) = (b.op(), vec![pool.clone()]);
    let created =
        runtime().spawn(async move { store.create_runs(op, fences, vec![born, new]).await });
    until_waiting(&server, &schema, 1);
    let free = format!("select 1 from run where id = {old} for update skip locked");
    let free = runtime().block_on(other.query(&free, &[])).unwrap();
    assert!(
        free.is_empty(),
        "the run is locked while the session is waited for"
    );
    // The clock is read behind all of them.
    b.pass(7);
    say(&holder, "commit");
    runtime().block_on(created).unwrap().unwrap();
    let (stopped_by, stopped_at) = b.run(old).stop.unwrap();
    assert_eq!(stopped_by.word(), "cancel");
    assert_eq!(stopped_at, at(7));
    let key = ShardKey::new(old, 0);
    assert!(b.try_lease(&pool, key, session).is_err());
    let next = wait(b.store.list_runs(
        sichen_core::port::RunFilter {
            job: Some(replacing),
            open: true,
            ..Default::default()
        },
        sichen_core::port::Page {
            after: None,
            limit: 5,
        },
    ));
    b.attempt(
        &pool,
        ShardKey::new(next[0].id, 0),
        session,
        Ending::Succeeded,
    );
}
