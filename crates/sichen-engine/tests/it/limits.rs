//! Limits that change, weigh and stand beside each other: what runs never exceeds them, and what waits is
//! told the one condition whose end lets it start.

use std::collections::{BTreeMap, BTreeSet};

use futures::executor::block_on;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sichen_core::document::CapacityDocument;
use sichen_core::ids::{JobUid, RunId, SessionId, ShardKey, ShardNo};
use sichen_core::lifecycle::ShardState;
use sichen_core::lifecycle::shard::Ending;
use sichen_core::model::NamespaceChange;
use sichen_core::name::Name;
use sichen_engine::control::Control;
use sichen_engine::work::Work;

use crate::fixture::{Cluster, Node, pool, report};
use crate::players::{Player, Stage, sharded};

fn units(node: &Node, name: &str, units: u32) {
    let document: CapacityDocument = serde_json::from_value(json!({
        "apiVersion": "sichen/v1", "kind": "Capacity",
        "metadata": { "name": name }, "spec": { "units": units },
    }))
    .unwrap();
    block_on(node.engine.control.apply_capacity("user test", &document)).unwrap();
}

fn job(cluster: &Cluster, name: &str, capacity: &str, weight: u32) -> JobUid {
    let spec = json!({ "run": { "handler": "h" }, "uses": { capacity: weight } });
    cluster.apply(name, spec)
}

fn many(cluster: &Cluster, job: JobUid, n: usize) -> Vec<RunId> {
    (0..n).map(|n| cluster.run(job, &n.to_string())).collect()
}

/// Units of a capacity, and who holds them.
fn held(cluster: &Cluster, capacity: &str) -> (u64, BTreeSet<ShardKey>) {
    let name = Name::new(capacity).unwrap();
    let holds = block_on(cluster.store.list_holds(name, 100)).unwrap();
    let used = holds.iter().map(|hold| u64::from(hold.units)).sum();
    (used, holds.iter().map(|hold| hold.key).collect())
}

/// QUEUE-001: 6 units, 20 runs that take 3 and 10 that take 1, 5 s each.
#[test]
fn runs_that_weigh_more_than_one_unit_neither_exceed_nor_starve() {
    let cluster = Cluster::new();
    let mut stage = Stage::new(&cluster, &[("w1", 20), ("w2", 20)], 5);
    units(&stage.node, "group", 6);
    let heavy = job(&cluster, "heavy", "group", 3);
    let light = job(&cluster, "light", "group", 1);
    let heavy = many(&cluster, heavy, 20);
    let light = many(&cluster, light, 10);
    let begun = cluster.now();
    let mut first: Option<Timestamp> = None;
    let open = |runs: &[RunId]| runs.iter().any(|run| !cluster.get(*run).state.is_closed());
    while open(&heavy) || open(&light) {
        stage.step();
        let (used, holders) = held(&cluster, "group");
        assert!(used <= 6, "{used} of 6 units are held");
        let is_heavy = holders.iter().any(|key| heavy.contains(&key.run));
        first = first.or(is_heavy.then(|| cluster.now()));
        let took = cluster.now().duration_since(begun);
        // As much as there is to do takes 58 s when nothing is left over.
        assert!(took < SignedDuration::from_secs(75), "still open");
    }
    let waited = first.unwrap().duration_since(begun);
    assert!(waited < SignedDuration::from_secs(11), "{waited:?}");
}

/// QUEUE-002: what runs goes on, nothing new starts above the new limit, and others are not touched.
#[test]
fn a_limit_below_what_is_in_use_stops_new_starts_of_its_own_alone() {
    let cluster = Cluster::new();
    let mut stage = Stage::new(&cluster, &[("w1", 20)], 4);
    units(&stage.node, "a", 5);
    units(&stage.node, "b", 5);
    let a = job(&cluster, "red/a", "a", 1);
    let b = job(&cluster, "blue/b", "b", 1);
    many(&cluster, a, 30);
    many(&cluster, b, 40);
    stage.pass_ms(1_000);
    assert_eq!((held(&cluster, "a").0, held(&cluster, "b").0), (5, 5));
    units(&stage.node, "a", 2);
    let (_, mut before) = held(&cluster, "a");
    assert_eq!(before.len(), 5, "what runs goes on");
    let watch = |stage: &mut Stage<'_>, before: &mut BTreeSet<ShardKey>, steps, most| {
        for _ in 0..steps {
            stage.step();
            let (used, now) = held(&cluster, "a");
            let new = now.difference(before).count();
            assert!(new == 0 || used <= most, "{used} after {new} new starts");
            assert_eq!(held(&cluster, "b").0, 5, "others are not touched");
            *before = now;
        }
    };
    watch(&mut stage, &mut before, 100, 2);
    assert_eq!(before.len(), 2);
    units(&stage.node, "a", 0);
    watch(&mut stage, &mut before, 60, 0);
    assert!(before.is_empty(), "{before:?}");
    units(&stage.node, "a", 4);
    watch(&mut stage, &mut before, 50, 4);
    assert_eq!(before.len(), 4);
}

/// SHARD-010: more workers, and one that is slow.
#[test]
fn new_workers_take_part_and_a_slow_one_keeps_nobody_waiting() {
    let cluster = Cluster::new();
    let names = ["a", "b", "c", "d", "e"];
    let mut stage = Stage::new(&cluster, &names.map(|name| (name, 8)), 1);
    let jobs: Vec<JobUid> = (0..50)
        .map(|n| cluster.apply(&format!("j{n}"), sharded(1)))
        .collect();
    let wanted = jobs.iter().cycle().take(1_000).enumerate();
    let runs: Vec<RunId> = wanted
        .map(|(n, job)| cluster.run(*job, &format!("k{n}")))
        .collect();
    stage.pass_ms(5_000);
    for name in ["f", "g", "h"] {
        let player = Player::start(&cluster, &stage.node, name, 8);
        stage.players.push(player);
    }
    stage.pass_ms(3_000);
    for Player { name, taken, .. } in &stage.players[5..] {
        assert!(*taken >= 8, "{name} took {taken} in 3 s");
    }
    stage.players[0].slowness = 10;
    let before: Vec<usize> = stage.players.iter().map(|p| p.taken).collect();
    for run in &runs {
        stage.until_closed(*run, 100);
    }
    let after = stage.players.iter().map(|p| p.taken);
    let taken: Vec<usize> = after.zip(before).map(|(now, then)| now - then).collect();
    assert!(taken[1..].iter().all(|n| *n > 3 * taken[0]), "{taken:?}");
    let started = |run: &RunId| cluster.get(*run).started_at.unwrap();
    let mut waits: Vec<SignedDuration> = runs
        .iter()
        .map(|run| started(run).duration_since(cluster.get(*run).created_at))
        .collect();
    waits.sort();
    assert!(
        waits[999] < waits[500] * 3,
        "{:?} {:?}",
        waits[999],
        waits[500]
    );
}

/// What keeps a shard waiting here, in the order in which conditions are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Parallelism,
    Namespace,
    Capacity,
    NoSlot,
}

impl Block {
    const ALL: [Block; 4] = [
        Block::Parallelism,
        Block::Namespace,
        Block::Capacity,
        Block::NoSlot,
    ];

    fn word(self) -> &'static str {
        match self {
            Block::Parallelism => "parallelism",
            Block::Namespace => "namespace",
            Block::Capacity => "capacity",
            Block::NoSlot => "no_slot",
        }
    }
}

/// The second shard of a run waits, and the first one runs.
struct World {
    cluster: Cluster,
    node: Node,
    blocks: Vec<Block>,
    /// Its worker, with one slot, and the attempt there.
    first: (SessionId, Work),
    /// The other worker, and what fills it.
    other: SessionId,
    fillers: Vec<Work>,
}

fn most(node: &Node, most: Option<u32>) {
    let change = NamespaceChange {
        max_running: Some(most),
        ..NamespaceChange::default()
    };
    let (control, red) = (&node.engine.control, Name::new("red").unwrap());
    block_on(control.set_namespace("user test", &red, change)).unwrap();
}

impl World {
    fn new(blocks: &[Block]) -> Self {
        let cluster = Cluster::new();
        let node = cluster.node("n1");
        node.coordinate(&cluster);
        units(&node, "x", 10);
        let filled = blocks.contains(&Block::NoSlot);
        let mut other = None;
        let mut fillers = Vec::new();
        if filled {
            let session = node.worker(&cluster, "w2", 3);
            let filler = cluster.apply("blue/filler", json!({ "run": { "handler": "h" } }));
            many(&cluster, filler, 3);
            node.dispatch(&cluster);
            fillers = node.grants(session);
            other = Some(session);
        }
        let w1 = node.worker(&cluster, "w1", 1);
        let parallelism = if blocks.contains(&Block::Parallelism) {
            1
        } else {
            2
        };
        let mine = cluster.apply(
            "red/mine",
            json!({
                "run": { "handler": "h" }, "shards": { "count": 2 },
                "parallelism": parallelism, "uses": { "x": 1 },
            }),
        );
        cluster.run(mine, "k");
        node.dispatch(&cluster);
        let first = node.grants(w1).remove(0);
        if blocks.contains(&Block::Namespace) {
            most(&node, Some(0));
        }
        if blocks.contains(&Block::Capacity) {
            units(&node, "x", 0);
        }
        let other = other.unwrap_or_else(|| node.worker(&cluster, "w2", 3));
        Self {
            cluster,
            node,
            blocks: blocks.to_vec(),
            first: (w1, first),
            other,
            fillers,
        }
    }

    fn end(&self, session: SessionId, work: &Work) {
        let done = report(work.shard.key, work.shard.token, Ending::Succeeded);
        self.node.report(&self.cluster, done);
        let dispatcher = &self.node.engine.dispatcher;
        dispatcher.freed(session, &[work.shard.key]);
    }

    fn remove(&mut self, block: Block) {
        match block {
            Block::Parallelism => {
                let (session, work) = &self.first;
                if self.blocks.contains(&Block::NoSlot) {
                    // Its slot is to be nobody's.
                    block_on(self.cluster.store.drain_session(*session)).unwrap();
                }
                self.end(*session, work);
            }
            Block::Namespace => most(&self.node, None),
            Block::Capacity => units(&self.node, "x", 10),
            Block::NoSlot => {
                for work in std::mem::take(&mut self.fillers) {
                    self.end(self.other, &work);
                }
            }
        }
        self.blocks.retain(|kept| *kept != block);
    }

    /// Within a second: the reason for which it waits still, or none.
    fn reason(&self) -> Option<&'static str> {
        self.cluster.clock.advance(SignedDuration::from_millis(900));
        self.node.dispatch(&self.cluster);
        let run = self.first.1.run.id;
        if self.cluster.shard(ShardKey::new(run, 1)).state == ShardState::Running {
            return None;
        }
        let control = Control::new(self.node.engine.context.clone());
        let (_, _, reasons) = block_on(control.explain_shard(run, ShardNo(1))).unwrap();
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        let counts = self
            .node
            .engine
            .dispatcher
            .census_by_pool(self.cluster.now());
        let counts = block_on(counts).unwrap().remove(&pool()).unwrap();
        let counted: BTreeMap<&str, u64> = counts.iter().map(|(r, n)| (r.word(), *n)).collect();
        assert_eq!(counted.get(reasons[0].word), Some(&1), "{counted:?}");
        Some(reasons[0].word)
    }
}

#[test]
fn the_end_of_the_named_condition_starts_a_shard_and_that_of_no_other() {
    for block in Block::ALL {
        let mut world = World::new(&[block]);
        assert_eq!(world.reason(), Some(block.word()));
        world.remove(block);
        assert_eq!(world.reason(), None, "{block:?} is gone");
    }
    for (n, first) in Block::ALL.into_iter().enumerate() {
        for second in Block::ALL.into_iter().skip(n + 1) {
            let mut world = World::new(&[first, second]);
            assert_eq!(world.reason(), Some(first.word()), "{second:?} beside it");
            world.remove(second);
            assert_eq!(world.reason(), Some(first.word()), "{second:?} is gone");
            world.remove(first);
            assert_eq!(world.reason(), None, "{first:?} and {second:?} are gone");

            let mut world = World::new(&[first, second]);
            world.remove(first);
            assert_eq!(world.reason(), Some(second.word()), "{first:?} is gone");
            world.remove(second);
            assert_eq!(world.reason(), None, "{first:?} and {second:?} are gone");
        }
    }
}
