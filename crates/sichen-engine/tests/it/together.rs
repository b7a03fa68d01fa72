//! A worker and its control plane die together, and come back in any order.

use jiff::SignedDuration;
use sichen_core::lifecycle::{RunState, ShardState};
use sichen_engine::sessions::Hello;

use crate::fixture::{Cluster, hello};
use crate::players::{BEAT_S, Player, Stage, sharded};

/// Who dies, or comes back, first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Worker,
    Server,
    Both,
}

/// A stage whose server may be away: nobody can speak to it then.
struct World<'a> {
    stage: Stage<'a>,
    server: bool,
    /// A worker that is back and finds no server.
    waits: bool,
}

impl World<'_> {
    fn pass(&mut self, seconds: i64) {
        if self.server {
            self.stage.pass_ms(seconds * 1_000);
        } else {
            let gone = SignedDuration::from_secs(seconds);
            self.stage.cluster.clock.advance(gone);
        }
    }

    fn kill(&mut self, who: First) {
        if who != First::Worker {
            self.server = false;
        }
        if who != First::Server {
            self.stage.players[0].kill();
        }
    }

    fn start(&mut self, who: First) {
        let cluster = self.stage.cluster;
        if who != First::Worker {
            self.server = true;
            self.stage.node = cluster.node("n1");
            self.stage.node.coordinate(cluster);
        }
        if who != First::Server {
            self.waits = true;
        }
        if self.server && std::mem::take(&mut self.waits) {
            let node = &self.stage.node;
            self.stage.players[0].restart(cluster, node);
        }
    }
}

fn other(first: First) -> Option<First> {
    match first {
        First::Worker => Some(First::Server),
        First::Server => Some(First::Worker),
        First::Both => None,
    }
}

/// STUCK-002: in each order of deaths, each order of returns and each gap, the run ends well within three
/// minutes; each shard has one accepted success and never two holders; nothing is left running.
#[test]
fn a_worker_and_its_server_may_die_and_return_in_any_order() {
    for dies in [First::Worker, First::Server, First::Both] {
        for returns in [First::Worker, First::Server] {
            for gap in [0, 20, 90] {
                dies_and_returns(dies, returns, gap);
            }
        }
    }
}

fn dies_and_returns(dies: First, returns: First, gap: i64) {
    let case = format!("{dies:?} dies first, {returns:?} returns first, {gap} s between");
    let cluster = Cluster::new();
    let mut world = World {
        stage: Stage::new(&cluster, &[("a", 2)], 30),
        server: true,
        waits: false,
    };
    let job = cluster.apply("j", sharded(3));
    let run = cluster.run(job, "k");
    world.pass(10);
    world.kill(dies);
    world.pass(gap);
    if let Some(second) = other(dies) {
        world.kill(second);
        world.pass(gap);
    }
    world.start(returns);
    world.pass(gap);
    world.start(other(returns).unwrap());
    let state = world.stage.until_closed(run, 180);
    assert_eq!(state, RunState::Succeeded, "{case}");
    world.stage.accepted_once(run, 3);
    for shard in cluster.shards(run) {
        assert_eq!(shard.state, ShardState::Succeeded, "{case}");
        assert!(shard.attempt <= 3, "{case}: {shard:?}");
    }
}

/// The server alone dies: its worker goes on with what it has, and resumes its session.
#[test]
fn a_worker_outlives_its_server_with_all_that_it_holds() {
    for gap in [0, 5, 10] {
        let cluster = Cluster::new();
        let mut stage = Stage::new(&cluster, &[("a", 2)], 30);
        let job = cluster.apply("j", sharded(2));
        let run = cluster.run(job, "k");
        stage.pass_ms(10_000);
        cluster.clock.advance(SignedDuration::from_secs(gap));
        stage.node = cluster.node("n1");
        stage.node.coordinate(&cluster);
        let Player {
            session,
            running,
            highest_seen,
            ..
        } = &stage.players[0];
        let resumed = Hello {
            resume: Some(*session),
            running: running
                .iter()
                .map(|(key, (token, _))| (*key, *token))
                .collect(),
            highest_grant_seen: *highest_seen,
            ..hello("a", "1", 2)
        };
        assert_eq!(stage.node.register(&cluster, resumed), *session);
        let left = 30 - 10 - gap + BEAT_S;
        assert_eq!(stage.until_closed(run, left.max(1)), RunState::Succeeded);
        stage.accepted_once(run, 2);
        assert!(cluster.shards(run).iter().all(|shard| shard.attempt == 1));
    }
}
