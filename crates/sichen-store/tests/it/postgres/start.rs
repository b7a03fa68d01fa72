//! What a store refuses to start on.

use std::sync::Arc;

use futures::executor::block_on;
use jiff::SignedDuration;
use sichen_core::ids::OpId;
use sichen_core::port::{Error, MemberStore, Op, RestoreStore, TimeStore};
use sichen_store::clock::ManualClock;
use sichen_store::postgres::{Options, PostgresStore};

use super::Server;
use super::server::runtime;
use crate::bench::at;

fn open(server: &Server, schema: &str, unsafe_durability: bool) -> Result<PostgresStore, Error> {
    let options = Options {
        unsafe_durability,
        connections: 2,
        ..Options::default()
    };
    runtime().block_on(PostgresStore::open(&server.url(schema), options))
}

#[test]
fn a_server_that_may_forget_is_refused_unless_allowed() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    let refused = open(&server, &schema, false).unwrap_err().to_string();
    assert!(refused.contains("fsync = off"), "{refused}");
    open(&server, &schema, true).unwrap();
    // A second start finds the schema as it is.
    open(&server, &schema, true).unwrap();
}

#[test]
fn a_database_of_a_newer_version_or_another_text_is_refused() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    drop(open(&server, &schema, true).unwrap());
    server.execute(&schema, "insert into migration values (999, 'newer', '')");
    let refused = open(&server, &schema, true).unwrap_err();
    assert!(matches!(refused, Error::Unavailable(_)), "{refused}");
    server.execute(
        &schema,
        "delete from migration where no = 999; update migration set checksum = 'other'",
    );
    let refused = open(&server, &schema, true).unwrap_err();
    assert!(matches!(refused, Error::Corrupt(_)), "{refused}");
}

#[test]
fn several_processes_may_start_at_once() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    let opened = runtime().block_on(async {
        let mut starts = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let url = server.url(&schema);
            let options = Options {
                unsafe_durability: true,
                connections: 2,
                ..Options::default()
            };
            starts.spawn(async move { PostgresStore::open(&url, options).await.map(drop) });
        }
        starts.join_all().await
    });
    for start in opened {
        start.unwrap();
    }
}

/// A step that one process saw is held by all, also by one that starts later, until one accepts it.
#[test]
fn a_step_of_the_clock_is_held_by_every_process() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    let clock = Arc::new(ManualClock::new(at(0)));
    let open = || server.open(&schema, Some(Arc::clone(&clock) as _));
    let held = |store: &PostgresStore| block_on(store.clock()).unwrap().held;
    let op = |n| Op {
        id: OpId(uuid::Uuid::from_u128(n)),
        actor: "test".to_owned(),
        hold: None,
    };
    let first = open();
    assert!(!held(&first));
    clock.step(SignedDuration::from_secs(3_600));
    assert!(held(&first));
    // A write keeps it.
    let ttl = SignedDuration::from_secs(15);
    block_on(first.register_node(op(1), "n".to_owned(), ttl)).unwrap();
    let second = open();
    assert!(held(&second));
    assert!(block_on(second.accept_clock(op(2))).unwrap().is_some());
    assert!(!held(&second));
    assert!(!held(&first));
    assert_eq!(block_on(first.now()).unwrap(), at(3_600));
}

/// A database that is in another installation than it was is a copy, of whatever moment: it waits for
/// decisions. A new timeline is mostly a promotion that lost nothing: it raises the epoch alone.
#[test]
fn a_database_that_was_copied_waits_and_one_on_a_new_timeline_goes_on() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    let undecided = || {
        let store = open(&server, &schema, true).unwrap();
        block_on(store.get_restore()).unwrap()
    };
    let epoch = || {
        let row = runtime().block_on(
            server
                .connect(&schema)
                .query_one("select store_epoch from meta", &[]),
        );
        row.unwrap().get::<_, i64>(0)
    };
    assert_eq!(
        (undecided(), undecided()),
        (None, None),
        "a new one, and the same again"
    );
    let before = epoch();
    server.execute(&schema, "update meta set timeline = timeline - 1");
    assert_eq!(undecided(), None);
    let promoted = epoch();
    assert!(promoted > before);
    server.execute(&schema, "update meta set place = 'another'");
    let restore = undecided().expect("it is a copy");
    assert!(i64::from(restore.epoch) > promoted);
    // Seen again, it is the same restore.
    assert_eq!(undecided(), Some(restore));
}
