//! Signs of life beside the store.

use std::time::Duration;

use sichen_core::beacon::{Beacon, NodeSign};
use sichen_core::ids::NodeId;
use sichen_store::postgres::PostgresBeacon;

use super::Server;
use super::server::runtime;

/// For two connections to be made, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_node_is_seen_by_a_peer_however_great_its_number() {
    let Some(server) = Server::start() else {
        return;
    };
    let url = server.url(&server.new_schema());
    for number in [7, u64::from(u32::MAX), (1 << 32) + 7, (1 << 40) + (1 << 31)] {
        let node = NodeId(number);
        runtime().block_on(async {
            let shows = PostgresBeacon::new(&url).unwrap();
            let looks = PostgresBeacon::new(&url).unwrap();
            shows.show(Some(node));
            let seen = async {
                loop {
                    let shown = looks.look().await.unwrap();
                    if shown.is_some_and(|shown| shown.contains(&NodeSign::of(node))) {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::select! {
                () = shows.run() => unreachable!("it runs as long as its node"),
                () = looks.run() => unreachable!("it runs as long as its node"),
                seen = tokio::time::timeout(PATIENCE, seen) => {
                    seen.unwrap_or_else(|_| panic!("node {number} is not seen"));
                }
            }
        });
    }
}
