//! A step of the clock that two people accept at once.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use sichen_core::port::TimeStore as _;
use sichen_store::clock::ManualClock;
use sichen_store::postgres::{Options, PostgresStore};

use super::Server;
use super::server::runtime;
use crate::bench::{Bench, TTL, at, wait};

const HOUR: i64 = 3_600;

#[test]
fn a_step_is_accepted_once_however_many_ask_at_once() {
    let Some(server) = Server::start() else {
        return;
    };
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
    let b = Bench::new(Arc::clone(&store) as _, Arc::clone(&clock));
    let session = b.session(1);
    b.clock.step(SignedDuration::from_secs(HOUR));
    // A row that both write is held until both wait.
    let client = server.connect(&schema);
    let hold = format!("begin; select 1 from session where id = {session} for update");
    runtime().block_on(client.batch_execute(&hold)).unwrap();
    let asked: Vec<_> = (0..2)
        .map(|_| {
            let (store, op) = (Arc::clone(&store), b.op());
            runtime().spawn(async move { store.accept_clock(op).await })
        })
        .collect();
    super::held::until_waiting(&server, &schema, 2);
    runtime().block_on(client.batch_execute("commit")).unwrap();
    let answers = asked
        .into_iter()
        .map(|asked| runtime().block_on(asked).unwrap().unwrap());
    let accepted: Vec<i64> = answers.flatten().map(|step| step.as_secs()).collect();
    assert_eq!(accepted, [HOUR]);
    let row = wait(b.store.get_session(session)).unwrap();
    assert_eq!(row.expires_at, at(HOUR) + TTL);
}
