//! Rows that another transaction holds for long.

use std::sync::Arc;
use std::time::Duration;

use sichen_core::ids::ShardKey;
use sichen_core::layout::Descriptor;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::lifecycle::{StopCause, WaitsFor};
use sichen_core::model::{Counting, DutyKey, Waits};
use sichen_core::port::{
    ApplyJob, ApplyVerdict, AttemptStore as _, FinishVerdict, JobStore as _, NewRun, RunStore as _,
};
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

/// The version of a job's row, and where it lies.
fn row_of(client: &Client, job: &str) -> String {
    let row = format!("select format('%s %s', xmin, ctid) from job where name = '{job}'");
    let row = runtime().block_on(client.query_one(&row, &[])).unwrap();
    row.get(0)
}

/// DB-003: beside a transaction of somebody else that stays open each version of a row stays too, so what every
/// run touched would be looked for among as many versions as there were runs.
#[test]
fn runs_that_nothing_counts_leave_no_versions_of_their_jobs_row() {
    let Some(server) = Server::start() else {
        return;
    };
    let (b, _store, schema) = patient(&server);
    let (pool, job) = (b.pool(), b.free_job("free"));
    let client = server.connect(&schema);
    let before = row_of(&client, "free");
    for n in 0..100 {
        let run = b.create(b.new_run(job, &n.to_string(), vec![Descriptor::Whole]));
        if n % 10 == 0 {
            b.stop(run, StopCause::Cancel);
        } else {
            b.attempt(
                &pool,
                ShardKey::new(run, 0),
                b.session(1),
                Ending::Succeeded,
            );
        }
    }
    assert_eq!(row_of(&client, "free"), before);
    assert_eq!(wait(b.store.count_open_runs(vec![job])), [0]);
}

/// Another program may be changing such a job's row for as long as it likes.
#[test]
fn a_jobs_row_that_is_being_changed_keeps_no_run_that_nothing_counts() {
    let Some(server) = Server::start() else {
        return;
    };
    let (b, _store, schema) = patient(&server);
    let (pool, job) = (b.pool(), b.free_job("free"));
    let holder = server.connect(&schema);
    say(&holder, "begin; select 1 from job for no key update");
    let run = b.create(b.new_run(job, "1", vec![Descriptor::Whole]));
    b.attempt(
        &pool,
        ShardKey::new(run, 0),
        b.session(1),
        Ending::Succeeded,
    );
    assert!(b.run(run).state.is_closed());
    say(&holder, "rollback");
}

/// Who edits waits for those who end runs, and those who come later wait for the edit: it is not put off for
/// as long as runs end.
#[test]
fn an_edit_waits_for_the_runs_that_end_and_later_ones_wait_for_it() {
    let Some(server) = Server::start() else {
        return;
    };
    let (b, store, schema) = patient(&server);
    let (pool, job) = (b.pool(), b.free_job("free"));
    let runs = ["1", "2"].map(|text| b.create(b.new_run(job, text, vec![Descriptor::Whole])));
    let session = b.session(2);
    let held = runs.map(|run| b.lease(&pool, ShardKey::new(run, 0), session).shard);
    let reports = held.map(|shard| b.report(shard.key, shard.token, Ending::Succeeded));
    let [first, second] = reports;
    // The first end is behind its gate and can't go on.
    let holder = server.connect(&schema);
    let held = format!("begin; select 1 from run where id = {} for update", runs[0]);
    say(&holder, &held);
    let ends = |op, report| {
        let store = Arc::clone(&store);
        runtime().spawn(async move { store.finish_attempts(op, vec![report]).await })
    };
    let first = ends(b.op(), first);
    until_waiting(&server, &schema, 1);
    let edit = ApplyJob {
        expected_ver: Some(1),
        document: "{}".to_owned(),
        ..b.new_job("free")
    };
    let (op, editing) = (b.op(), Arc::clone(&store));
    let edited = runtime().spawn(async move { editing.apply_job(op, edit).await });
    until_waiting(&server, &schema, 2);
    let second = ends(b.op(), second);
    until_waiting(&server, &schema, 3);
    say(&holder, "commit");
    runtime().block_on(async {
        let ended = first.await.unwrap().unwrap();
        assert!(matches!(ended[0], FinishVerdict::Accepted(_)), "{ended:?}");
        let edited = edited.await.unwrap().unwrap();
        assert!(matches!(edited, ApplyVerdict::Updated(..)), "{edited:?}");
        second.await.unwrap().unwrap();
    });
    let row = b.get_job(job);
    assert_eq!((row.counting, row.active_runs), (Counting::Always, 0));
}
