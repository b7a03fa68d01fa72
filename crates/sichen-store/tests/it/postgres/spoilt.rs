//! Rows that make no sense.

use std::sync::Arc;

use sichen_store::clock::ManualClock;

use super::Server;
use crate::bench::{Bench, at};

#[test]
fn a_row_without_sense_stops_no_listing_of_a_duty() {
    let Some(server) = Server::start() else {
        return;
    };
    let schema = server.new_schema();
    let clock = Arc::new(ManualClock::new(at(0)));
    let store = server.open(&schema, Some(Arc::clone(&clock) as _));
    let bench = Bench::new(Arc::new(store), clock);
    crate::spoilt::check(&bench, &|statement| server.execute(&schema, statement));
}
