//! Workers played at their edge: they register, beat, run each grant for a time, report.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sichen_core::ids::{RunId, SessionId, ShardKey, Token};
use sichen_core::lifecycle::RunState;
use sichen_core::lifecycle::shard::Ending;
use sichen_engine::courier::ToWorker;
use sichen_engine::sessions::{BeatAnswer, ReportVerdict};

use crate::fixture::{Cluster, Node, hello, report};

pub const BEAT_S: i64 = 3;

/// A worker played at its edge.
pub struct Player {
    pub name: &'static str,
    pub session: SessionId,
    pub slots: u32,
    pub incarnation: u32,
    pub alive: bool,
    pub highest_seen: u64,
    pub running: BTreeMap<ShardKey, (Token, Timestamp)>,
    pub beats: u32,
    pub taken: usize,
    /// By how much longer it takes for everything.
    pub slowness: i32,
}

impl Player {
    pub fn start(cluster: &Cluster, node: &Node, name: &'static str, slots: u32) -> Self {
        let session = node.register(cluster, hello(name, "1", slots));
        Self {
            name,
            session,
            slots,
            incarnation: 1,
            alive: true,
            highest_seen: 0,
            running: BTreeMap::new(),
            beats: 0,
            taken: 0,
            slowness: 1,
        }
    }

    /// Dies with everything it runs, and says nothing.
    pub fn kill(&mut self) -> usize {
        self.alive = false;
        std::mem::take(&mut self.running).len()
    }

    /// Starts anew on the same machine and data directory.
    pub fn restart(&mut self, cluster: &Cluster, node: &Node) {
        self.incarnation += 1;
        let incarnation = self.incarnation.to_string();
        self.session = node.register(cluster, hello(self.name, &incarnation, self.slots));
        (self.alive, self.highest_seen) = (true, 0);
    }

    /// Takes its grants; each will run for `length`.
    pub fn take(
        &mut self,
        node: &Node,
        now: Timestamp,
        length: impl Fn(ShardKey) -> SignedDuration,
    ) {
        if !self.alive {
            return;
        }
        for message in node.messages(self.session) {
            match message {
                ToWorker::Grant(work) => {
                    self.taken += 1;
                    self.highest_seen = self.highest_seen.max(work.grant_seq);
                    let until = now + length(work.shard.key) * self.slowness;
                    self.running
                        .insert(work.shard.key, (work.shard.token, until));
                }
                ToWorker::Cancel { key, .. } => drop(self.running.remove(&key)),
                ToWorker::Superseded => self.running.clear(),
                ToWorker::Moved { .. } => {}
            }
        }
    }

    /// Reports what is done by now; the number of accepted reports by shard goes to `accepted`.
    pub fn finish(
        &mut self,
        cluster: &Cluster,
        node: &Node,
        accepted: &mut BTreeMap<ShardKey, u32>,
    ) {
        let now = cluster.now();
        let done: Vec<(ShardKey, Token)> = self
            .running
            .iter()
            .filter(|(_, (_, until))| *until <= now)
            .map(|(key, (token, _))| (*key, *token))
            .collect();
        for (key, token) in done {
            self.running.remove(&key);
            if node.report(cluster, report(key, token, Ending::Succeeded))
                == ReportVerdict::Accepted
            {
                *accepted.entry(key).or_default() += 1;
            }
        }
    }

    pub fn beat(&mut self, node: &Node) {
        if !self.alive {
            return;
        }
        self.beats += 1;
        let running: Vec<(ShardKey, Token)> =
            self.running.iter().map(|(k, (t, _))| (*k, *t)).collect();
        match node.beat(self.session, &running, self.highest_seen) {
            BeatAnswer::Alive { stop, .. } => {
                for (key, ..) in stop {
                    self.running.remove(&key);
                }
            }
            BeatAnswer::Lost | BeatAnswer::Superseded => self.running.clear(),
        }
    }
}

/// Players around one node, in steps of 100 ms.
pub struct Stage<'a> {
    pub cluster: &'a Cluster,
    pub node: Node,
    pub players: Vec<Player>,
    pub length: SignedDuration,
    /// Shards by number that take another time.
    pub slow: BTreeMap<i32, SignedDuration>,
    pub accepted: BTreeMap<ShardKey, u32>,
    pub steps: i64,
}

impl<'a> Stage<'a> {
    pub fn new(cluster: &'a Cluster, players: &[(&'static str, u32)], length_s: i64) -> Self {
        let node = cluster.node("n1");
        node.coordinate(cluster);
        let players = players
            .iter()
            .map(|(name, slots)| Player::start(cluster, &node, name, *slots))
            .collect();
        let length = SignedDuration::from_secs(length_s);
        Self {
            cluster,
            node,
            players,
            length,
            slow: BTreeMap::new(),
            accepted: BTreeMap::new(),
            steps: 0,
        }
    }

    pub fn step(&mut self) {
        self.cluster.clock.advance(SignedDuration::from_millis(100));
        self.steps += 1;
        if self.steps % 10 == 0 {
            self.node.coordinate(self.cluster);
            self.node.reap(self.cluster);
        }
        for player in &mut self.players {
            player.finish(self.cluster, &self.node, &mut self.accepted);
            if self.steps % (BEAT_S * 10) == 0 {
                player.beat(&self.node);
            }
        }
        self.node.dispatch(self.cluster);
        let now = self.cluster.now();
        for player in &mut self.players {
            player.take(&self.node, now, |key| {
                self.slow.get(&key.no.0).copied().unwrap_or(self.length)
            });
        }
    }

    pub fn pass_ms(&mut self, ms: i64) {
        for _ in 0..ms / 100 {
            self.step();
        }
    }

    /// Steps until the run is closed, at most `limit_s` seconds.
    pub fn until_closed(&mut self, run: RunId, limit_s: i64) -> RunState {
        for _ in 0..limit_s * 10 {
            let state = self.cluster.get(run).state;
            if state.is_closed() {
                return state;
            }
            self.step();
        }
        panic!(
            "{run} is not closed after {limit_s} s: {:?}",
            self.cluster.get(run)
        );
    }

    pub fn accepted_once(&self, run: RunId, shards: usize) {
        let of_run: Vec<u32> = self
            .accepted
            .iter()
            .filter(|(key, _)| key.run == run)
            .map(|(_, count)| *count)
            .collect();
        assert_eq!(of_run, vec![1; shards], "one accepted success a shard");
    }
}

pub fn sharded(shards: u32) -> serde_json::Value {
    json!({
        "run": { "handler": "h" },
        "shards": { "count": shards },
        "retry": { "maxAttempts": 5, "backoff": { "fixed": "1s" } },
    })
}
