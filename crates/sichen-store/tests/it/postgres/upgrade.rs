//! A database of the version before, with rows in it.

use std::sync::Arc;

use sichen_core::access::{Grants, Role};
use sichen_core::port::UserCreated;
use sichen_core::user::NewUser;
use sichen_store::clock::ManualClock;

use super::Server;
use crate::bench::{Bench, at, name, wait};

/// What the migration that brought users did, undone: as the version before left it.
const BEFORE_USERS: &str = "drop table account; \
    alter table event drop constraint event_entity_check; \
    alter table event add constraint event_entity_check check (entity in ('job', 'run', 'shard', 'session', 'node', \
    'duty', 'calendar', 'backfill', 'access_token', 'capacity', 'namespace')); \
    delete from migration where no >= 29";

fn open(server: &Server, schema: &str) -> Bench {
    let clock = Arc::new(ManualClock::new(at(0)));
    let store = server.open(schema, Some(Arc::clone(&clock) as _));
    Bench::new(Arc::new(store), clock)
}

#[test]
fn a_filled_database_learns_of_users_and_keeps_all() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    let before = {
        let b = open(&server, &schema);
        b.run_of(3);
        b.dump()
    };
    assert!(!before.events.is_empty());
    server.execute(&schema, BEFORE_USERS);
    let b = open(&server, &schema);
    assert_eq!(b.dump(), before);
    let new = NewUser {
        name: name("alice"),
        grants: Grants::everywhere(Role::Viewer),
        identity: None,
    };
    let made = b.store.create_user(b.op(), new);
    assert_eq!(wait(made), UserCreated::Created);
    assert_eq!(b.dump().users.len(), 1);
}
