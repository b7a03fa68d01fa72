//! Broken connections, a restarted server, and writers in each other's way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::executor::block_on;
use sichen_core::ids::OpId;
use sichen_core::model::NamespaceChange;
use sichen_core::name::Name;
use sichen_core::port::{
    CreateVerdict, Error, HistoryStore, MemberStore, NamespaceStore, NewRun, Op, TimeStore,
};
use sichen_store::postgres::PostgresStore;
use uuid::Uuid;

use super::Server;
use super::server::runtime;
use crate::bench::{Bench, POOL};

/// Registers a node under operation `n`: a small write.
fn write(store: &PostgresStore, n: u128) -> Result<(), Error> {
    let op = Op {
        id: OpId(Uuid::from_u128(n)),
        actor: "test".to_owned(),
        hold: None,
    };
    let ttl = jiff::SignedDuration::from_secs(15);
    block_on(store.register_node(op, format!("n{n}"), ttl)).map(drop)
}

fn rows(server: &Server, schema: &str, table: &str) -> i64 {
    let client = server.connect(schema);
    let query = format!("select count(*) from {table}");
    let row = runtime().block_on(client.query_one(&query, &[])).unwrap();
    row.get(0)
}

/// Backends are terminated all the time; every call has a definite answer, and what was answered is
/// there exactly once.
#[test]
fn terminated_backends_lose_and_repeat_nothing() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    let store = Arc::new(server.open(&schema, None));
    let over = Arc::new(AtomicBool::new(false));
    let killer = std::thread::spawn({
        let (client, over) = (server.connect("public"), Arc::clone(&over));
        move || {
            let mut killed = 0_i64;
            while !over.load(Ordering::SeqCst) {
                let query = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                             where application_name = 'sichen'";
                let row = runtime().block_on(async {
                    let row = client.query_one(query, &[]).await;
                    tokio::time::sleep(std::time::Duration::from_millis(40)).await;
                    row
                });
                killed += row.unwrap().get::<_, i64>(0);
            }
            killed
        }
    });
    let (mut done, mut unknown, mut refused) = (0, Vec::new(), 0);
    for n in 1..=150 {
        match write(&store, n) {
            Ok(()) => done += 1,
            Err(Error::Unknown { op, .. }) => unknown.push(op),
            Err(e) => {
                assert!(e.is_retryable(), "{e}");
                refused += 1;
            }
        }
    }
    over.store(true, Ordering::SeqCst);
    let killed = killer.join().unwrap();
    assert!(killed > 0 && done > 0, "{killed} killed, {done} done");
    for op in unknown {
        done += i64::from(block_on(store.find_op(op)).unwrap());
    }
    assert_eq!(rows(&server, &schema, "node"), done, "{refused} refused");
    assert_eq!(rows(&server, &schema, "event"), done);
}

#[test]
fn a_restarted_server_is_found_again_unaided() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    let store = server.open(&schema, None);
    write(&store, 1).unwrap();
    server.stop();
    let e = write(&store, 2).unwrap_err();
    assert!(matches!(e, Error::Unavailable(_)), "{e}");
    assert!(block_on(store.now()).is_err());
    server.run();
    write(&store, 3).unwrap();
    assert!(block_on(store.find_op(OpId(Uuid::from_u128(1)))).unwrap());
    assert_eq!(rows(&server, &schema, "node"), 2);
}

/// A lock that nobody gives up makes a call fail in time, and only that call.
#[test]
fn a_lock_held_by_another_is_an_error_in_time() {
    let Some(server) = Server::start() else {
        return;
    };
    let (store, clock, _kept) = super::fresh(&server);
    let bench = Bench::new(store, clock);
    let schema = "s0";
    let uid = bench.job("report");
    let job = bench.get_job(uid);
    let holder = server.connect(schema);
    runtime()
        .block_on(holder.batch_execute("begin; select * from job for update"))
        .unwrap();
    let blocked = block_on(bench.store.delete_job(bench.op(), job.uid, None, job.ver));
    let blocked = blocked.unwrap_err();
    assert!(matches!(blocked, Error::Busy(_)), "{blocked}");
    assert!(
        block_on(bench.store.get_job_by_uid(job.uid))
            .unwrap()
            .is_some()
    );
    runtime()
        .block_on(holder.batch_execute("rollback"))
        .unwrap();
    assert!(block_on(bench.store.delete_job(bench.op(), job.uid, None, job.ver)).unwrap());
}

/// Many callers want the run of the same occasion at once: one is written, the others are told its id.
#[test]
fn callers_at_once_make_one_run() {
    let Some(server) = Server::start() else {
        return;
    };
    let (store, clock, _kept) = super::fresh(&server);
    let bench = Bench::new(Arc::clone(&store), clock);
    let job = bench.job("report");
    let new: NewRun = bench.new_run(job, "key", vec![sichen_core::layout::Descriptor::Whole]);
    assert_eq!(new.terms.pool.as_str(), POOL);
    let verdicts = runtime().block_on(async {
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..20_u128 {
            let (store, new) = (Arc::clone(&store), new.clone());
            calls.spawn(async move {
                let op = Op {
                    id: OpId(Uuid::from_u128(1_000_000 + n)),
                    actor: "test".to_owned(),
                    hold: None,
                };
                store.create_runs(op, Vec::new(), vec![new]).await.unwrap()
            });
        }
        calls.join_all().await
    });
    let created = verdicts.iter().flatten();
    let created = created
        .filter(|v| matches!(v, CreateVerdict::Created(..)))
        .count();
    assert_eq!(created, 1, "{verdicts:?}");
    let told = verdicts
        .iter()
        .flatten()
        .filter(|v| matches!(v, CreateVerdict::Exists(_)));
    assert_eq!(told.count(), 19);
    crate::fold::check(&bench.dump());
}

/// Whether any namespace has a limit is noted in one row, by whoever sets one; a second one that waits for
/// that row does not see the limit that the first has set.
#[test]
fn a_limit_that_is_set_while_another_namespace_is_changed_holds() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    let store = Arc::new(server.open(&schema, None));
    let client = server.connect(&schema);
    let holder = server.connect(&schema);
    let ask = |text: &str| runtime().block_on(client.query_one(text, &[])).unwrap();
    runtime()
        .block_on(holder.batch_execute("begin; select * from meta for update"))
        .unwrap();
    let waiting = |n: i64| {
        let text = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        while ask(text).get::<_, i64>(0) < n {
            std::thread::yield_now();
        }
    };
    let limit = NamespaceChange {
        max_running: Some(Some(5)),
        ..NamespaceChange::default()
    };
    let weight = NamespaceChange {
        weight: Some(3),
        ..NamespaceChange::default()
    };
    let mut calls = Vec::new();
    for (n, (name, change)) in [("a", limit), ("b", weight)].into_iter().enumerate() {
        let store = Arc::clone(&store);
        calls.push(runtime().spawn(async move {
            let op = Op {
                id: OpId(Uuid::from_u128(n as u128)),
                actor: "test".to_owned(),
                hold: None,
            };
            let name = Name::new(name).unwrap();
            store.set_namespace(op, name, change).await.unwrap()
        }));
        waiting(n as i64 + 1);
    }
    runtime()
        .block_on(holder.batch_execute("rollback"))
        .unwrap();
    for call in calls {
        runtime().block_on(call).unwrap();
    }
    assert!(ask("select limited from meta").get::<_, bool>(0));
}
