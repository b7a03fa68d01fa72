//! What is PostgreSQL's own, and the claims of every store asked of it.
//!
//! Each test starts a server of its own; the claims share one, each in a schema of its own.

mod beacon;
mod clock;
mod faults;
mod held;
mod interleave;
mod look;
mod old;
mod plans;
mod pooled;
mod server;
mod spoilt;
mod start;
mod statements;
mod tls;
mod upgrade;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use sichen_core::port::Store;
use sichen_store::clock::ManualClock;

use crate::bench::{Bench, at};
use crate::fold;

pub use pooled::prove_all as prove_all_through_a_pooler;
pub use server::Server;

/// A claim and its name.
type Claim = (&'static str, fn(&Bench));

/// A store with what must be kept as long as it.
type Fresh = (Arc<dyn Store>, Arc<ManualClock>, Box<dyn Any>);

/// Asks all `claims` of stores on one server, and says which do not hold.
pub fn prove_all(claims: &[Claim]) {
    if let Some(server) = Server::start() {
        hold(claims, || fresh(&server));
    }
}

fn hold(claims: &[Claim], make: impl Fn() -> Fresh) {
    let mut failed = Vec::new();
    for (name, claim) in claims {
        let (store, clock, _kept) = make();
        let held = catch_unwind(AssertUnwindSafe(|| {
            let bench = Bench::new(store, clock);
            claim(&bench);
            fold::check(&bench.dump());
        }));
        if held.is_err() {
            failed.push(*name);
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} claims do not hold: {failed:#?}",
        failed.len(),
        claims.len()
    );
}

/// A store of its own on `server`, with a clock that is moved by hand.
pub fn fresh(server: &Server) -> Fresh {
    let clock = Arc::new(ManualClock::new(at(0)));
    let store = server.open(&server.new_schema(), Some(Arc::clone(&clock) as _));
    (Arc::new(store), clock, Box::new(()))
}
