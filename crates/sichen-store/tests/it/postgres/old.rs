//! Transactions that hold back the removal of old rows (DB-003).

use std::time::Duration;

use sichen_store::postgres::{OldTransaction, condition};

use super::Server;
use super::server::runtime;

#[test]
fn an_old_transaction_is_named_as_long_as_it_is_open() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    let url = server.url(&schema);
    let old = |than: u64| -> Vec<OldTransaction> {
        let than = Duration::from_secs(than);
        let found = runtime().block_on(condition(&url, than)).unwrap();
        found.old_transactions
    };
    assert_eq!(old(0), []);
    let client = server.connect(&schema);
    let begin = "set application_name = 'report'; begin isolation level repeatable read; select 1";
    runtime().block_on(client.batch_execute(begin)).unwrap();
    let pid = runtime().block_on(client.query_one("select pg_backend_pid()", &[]));
    let pid: i32 = pid.unwrap().get(0);
    let found = old(0);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].pid, pid);
    assert!(found[0].age_seconds >= Some(0));
    let what = &found[0].what;
    assert!(
        what.contains("'report'") && what.contains("idle in transaction"),
        "{what}"
    );
    assert_eq!(old(300), [], "it is not that old");
    runtime().block_on(client.batch_execute("commit")).unwrap();
    assert_eq!(old(0), []);
}

#[test]
fn rows_that_are_past_are_told_of_until_they_are_removed() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    drop(server.open(&schema, None));
    let client = server.connect(&schema);
    let write = |text: &str| runtime().block_on(client.batch_execute(text)).unwrap();
    write("alter table meta set (autovacuum_enabled = off)");
    let url = server.url(&schema);
    let dead = || {
        // What a session has done it tells of at its leisure, unless it is asked to.
        write("select pg_stat_force_next_flush()");
        let found = condition(&url, Duration::from_secs(300));
        runtime().block_on(found).unwrap().dead_rows
    };
    let before = dead();
    for _ in 0..10 {
        write("update meta set clock_accepts = clock_accepts");
    }
    assert!(dead() >= before + 10, "{} {before}", dead());
    write("vacuum meta");
    assert!(dead() < before + 10, "{} {before}", dead());
}
