//! What a store refuses to start on.

use sichen_core::port::Error;
use sichen_store::postgres::{Options, PostgresStore};

use super::Server;
use super::server::runtime;

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
