//! Through a pooler that gives each transaction another server connection.

use std::sync::Arc;

use futures::executor::block_on;
use sichen_core::ids::OpId;
use sichen_core::port::{Error, HistoryStore, MemberStore, Op};
use sichen_store::clock::ManualClock;
use sichen_store::postgres::{Options, PostgresStore, condition, facts};
use sichen_testdb::pgbouncer::Pgbouncer;
use tokio_postgres::{NoTls, SimpleQueryMessage};
use uuid::Uuid;

use super::server::runtime;
use super::{Claim, Server, hold};
use crate::bench::at;

fn open(url: &str, clock: Option<Arc<ManualClock>>) -> Result<PostgresStore, Error> {
    let options = Options {
        clock: clock.map(|clock| clock as _),
        unsafe_durability: true,
        connections: 4,
        ..Options::default()
    };
    runtime().block_on(PostgresStore::open(url, options))
}

/// Asks all `claims` of stores behind one pooler that has fewer server connections than they use.
pub fn prove_all(claims: &[Claim]) {
    let Some(server) = Server::start() else {
        return;
    };
    let Some(pooler) = server.pooler(2, "") else {
        return;
    };
    hold(claims, || {
        let clock = Arc::new(ManualClock::new(at(0)));
        let url = pooler.url(&server.new_schema());
        let store = open(&url, Some(Arc::clone(&clock))).unwrap();
        (Arc::new(store), clock, Box::new(()))
    });
}

/// What the one server connection of `schema` has been left with.
fn left(pooler: &Pgbouncer, schema: &str) -> Vec<String> {
    let query = "select current_setting(name) from unnest(array['statement_timeout', 'lock_timeout', \
                 'idle_in_transaction_session_timeout', 'enable_seqscan', 'plan_cache_mode']) name \
                 union all select name from pg_prepared_statements";
    let rows = runtime().block_on(async {
        let (client, connection) = tokio_postgres::connect(&pooler.url(schema), NoTls)
            .await
            .unwrap();
        runtime().spawn(connection);
        client.simple_query(query).await.unwrap()
    });
    let texts = rows.iter().filter_map(|row| match row {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap().to_owned()),
        _ => None,
    });
    texts.collect()
}

fn write(store: &PostgresStore, n: u128) -> Result<(), Error> {
    let op = Op {
        id: OpId(Uuid::from_u128(n)),
        actor: "test".to_owned(),
        hold: None,
    };
    let ttl = jiff::SignedDuration::from_secs(15);
    block_on(store.register_node(op, format!("n{n}"), ttl)).map(drop)
}

/// Whether it refuses what only a server takes, or drops it in silence, or is said to be there.
#[test]
fn a_pooler_is_found_and_left_as_it_was() {
    let Some(server) = Server::start() else {
        return;
    };
    for (more, said) in [
        ("", ""),
        ("ignore_startup_parameters = options", ""),
        ("", " pooler=transaction"),
    ] {
        let Some(pooler) = server.pooler(1, more) else {
            return;
        };
        let schema = server.new_schema();
        let clean = left(&pooler, &schema);
        let store = open(&format!("{}{said}", pooler.url(&schema)), None).unwrap();
        for n in 1..=20 {
            write(&store, n).unwrap();
        }
        assert_eq!(block_on(store.list_members()).unwrap().0.len(), 20);
        // What is asked beside the store, by the server at its start and by `sichen doctor`.
        let url = format!("{}{said}", pooler.url(&schema));
        let facts = runtime().block_on(facts(&url)).unwrap();
        assert!(facts.iter().any(|(name, _)| name == "fsync"), "{facts:?}");
        let found = condition(&url, std::time::Duration::from_secs(300));
        assert_eq!(runtime().block_on(found).unwrap().old_transactions, []);
        assert_eq!(left(&pooler, &schema), clean, "{more}{said}");
    }
}

/// A pooler that dies takes its connections along, and the store finds the next one unaided.
#[test]
fn a_restarted_pooler_is_found_again_unaided() {
    let Some(server) = Server::start() else {
        return;
    };
    let Some(mut pooler) = server.pooler(2, "") else {
        return;
    };
    let store = open(&pooler.url(&server.new_schema()), None).unwrap();
    write(&store, 1).unwrap();
    pooler.stop();
    let e = write(&store, 2).unwrap_err();
    assert!(e.is_retryable(), "{e}");
    server.run_pooler(&mut pooler);
    write(&store, 3).unwrap();
    assert!(block_on(store.find_op(OpId(Uuid::from_u128(1)))).unwrap());
    assert!(!block_on(store.find_op(OpId(Uuid::from_u128(2)))).unwrap());
}
