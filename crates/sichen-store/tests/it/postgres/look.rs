//! A store that is only looked at.

use sichen_core::model::Dump;
use sichen_core::port::Error;
use sichen_store::postgres::PostgresStore;

use super::Server;
use super::server::runtime;
use crate::bench::Bench;

fn look(url: &str) -> Result<Dump, Error> {
    runtime().block_on(PostgresStore::look(url))
}

#[test]
fn a_look_needs_no_right_but_to_read_and_changes_nothing() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    let b = {
        let clock = std::sync::Arc::new(sichen_store::clock::ManualClock::new(crate::bench::at(0)));
        let store = server.open(&schema, Some(std::sync::Arc::clone(&clock) as _));
        Bench::new(std::sync::Arc::new(store), clock)
    };
    b.run_of(3);
    server.execute(
        &schema,
        &format!(
            "create role reader login; grant usage on schema {schema} to reader; \
             grant select on all tables in schema {schema} to reader"
        ),
    );
    let url = server.url(&schema).replace("user=postgres", "user=reader");
    assert_eq!(look(&url).expect("it can be read"), b.dump());
}

#[test]
fn a_look_never_migrates() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    let url = server.url(&schema);
    let refused = look(&url).unwrap_err().to_string();
    assert!(refused.contains("there is no store"), "{refused}");
    drop(server.open(&schema, None));
    look(&url).expect("it can be read");
    server.execute(
        &schema,
        "delete from migration where no = (select max(no) from migration)",
    );
    for _ in 0..2 {
        let refused = look(&url).unwrap_err().to_string();
        assert!(refused.contains("brings it up to date"), "{refused}");
    }
    server.execute(&schema, "insert into migration values (999, 'newer', '')");
    let refused = look(&url).unwrap_err().to_string();
    assert!(refused.contains("newer version"), "{refused}");
}
