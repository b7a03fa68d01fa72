//! Equal peers on one store: who owns what when nodes come, go, stand still and are cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures::executor::block_on;
use sichen_core::beacon::{Beacon, Heard, Hint, NodeSign};
use sichen_core::ids::NodeId;
use sichen_core::members::Members;
use sichen_core::model::{DutyKey, PARTITIONS};
use sichen_core::port::Answer;
use sichen_engine::courier::ToWorker;
use sichen_engine::driver::{Engine, Settings};
use sichen_engine::sessions::HelloAnswer;

use crate::fixture::{Cluster, Mailboxes, Node, hello, pool};

/// The signs that are shown, by the node's address.
#[derive(Clone, Debug, Default)]
struct Air(Arc<Mutex<BTreeMap<String, NodeId>>>);

#[derive(Debug)]
struct Sign {
    air: Air,
    address: String,
}

impl Beacon for Sign {
    fn show(&self, node: Option<NodeId>) {
        let mut air = self.air.0.lock().unwrap();
        match node {
            Some(node) => air.insert(self.address.clone(), node),
            None => air.remove(&self.address),
        };
    }

    fn look(&self) -> Answer<'_, Option<BTreeSet<NodeSign>>> {
        let air = self.air.0.lock().unwrap();
        let seen = air.values().map(|id| NodeSign::of(*id)).collect();
        drop(air);
        Box::pin(async move { Ok(Some(seen)) })
    }

    fn tell(&self, _: Hint) {}

    fn hear(&self) -> Pin<Box<dyn Future<Output = Heard> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

impl Air {
    fn node(&self, cluster: &Cluster, address: &str) -> Node {
        let mail = Arc::new(Mailboxes::default());
        let sign = Sign {
            air: self.clone(),
            address: address.to_owned(),
        };
        let engine = Engine::with_beacon(
            cluster.store.clone(),
            cluster.ids.clone(),
            mail.clone(),
            Settings::new(address.to_owned()),
            Arc::new(sign),
        );
        Node { engine, mail }
    }

    fn goes_out(&self, address: &str) {
        self.0.lock().unwrap().remove(address);
    }
}

fn keys() -> Vec<DutyKey> {
    let triggers = (0..PARTITIONS).map(DutyKey::Trigger);
    triggers.chain([DutyKey::Janitor]).collect()
}

/// Looks that come by themselves are half a minute apart, so the past's lease is what says when.
#[test]
fn what_a_node_s_past_owned_is_taken_when_its_lease_ends() {
    let cluster = Cluster::new();
    let past = cluster.node("n1");
    past.coordinate(&cluster);
    let killed_at = cluster.now();
    cluster.pass(1);
    let node = cluster.node("n1");
    let pass = || block_on(node.engine.coordinator.run_once(cluster.now())).unwrap();
    let end = killed_at + sichen_core::lease::Rhythm::NODE.ttl;
    for _ in 1..5 {
        let pass = pass();
        assert_eq!((pass.gained, pass.next), (false, Some(end)));
        cluster.pass(1);
    }
    assert_eq!(cluster.now(), end);
    let pass = pass();
    assert_eq!(
        (pass.gained, pass.next),
        (true, None),
        "nobody else is there"
    );
    let owns = |key| node.engine.coordinator.owns(key);
    assert!(keys().iter().all(owns));
}

#[test]
fn a_newcomer_that_tells_nobody_is_seen_by_the_next_beat() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.node("n1"), cluster.node("n2"));
    one.coordinate(&cluster);
    cluster.pass(1);
    one.coordinate(&cluster);
    two.coordinate(&cluster);
    assert!(!one.engine.coordinator.has_peers());
    cluster.pass(1);
    one.coordinate(&cluster);
    assert!(one.engine.coordinator.has_peers());
}

/// Half a second, and each node's pass.
fn half_second(cluster: &Cluster, nodes: &[&Node]) {
    cluster
        .clock
        .advance(jiff::SignedDuration::from_millis(500));
    for node in nodes {
        node.coordinate(cluster);
    }
}

/// Each node has exactly what the members wish it, and can write for it.
fn is_shared(cluster: &Cluster, nodes: &[&Node]) -> bool {
    let (live, _) = block_on(cluster.store.list_members()).unwrap();
    let members = Members::of(&live);
    let here = |node: &&Node| {
        live.iter()
            .any(|n| node.engine.coordinator.node() == Some(n.id))
    };
    nodes.iter().all(here)
        && keys().iter().all(|key| {
            nodes.iter().all(|node| {
                let wished = members.wished(key) == node.engine.coordinator.node();
                let fence = node.engine.coordinator.fence(key, cluster.now());
                wished == fence.is_some()
            })
        })
}

/// Whether one node has everything.
fn has_all(cluster: &Cluster, node: &Node) -> bool {
    let fence = |key: &DutyKey| node.engine.coordinator.fence(key, cluster.now());
    keys().iter().all(|key| fence(key).is_some())
}

/// How many half seconds it takes until they share everything; at most `bound`.
fn share_within(cluster: &Cluster, nodes: &[&Node], bound: usize) {
    let mut halves = 0;
    while !is_shared(cluster, nodes) {
        assert!(halves < bound, "not shared in {halves} half seconds");
        half_second(cluster, nodes);
        halves += 1;
    }
}

#[test]
fn a_node_that_joins_has_its_share_within_its_peers_look_and_two_beats() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.node("n1"), cluster.node("n2"));
    share_within(&cluster, &[&one], 1);
    share_within(&cluster, &[&one, &two], 8);
    let three = cluster.node("n3");
    share_within(&cluster, &[&one, &two, &three], 4);
    for _ in 0..20 {
        half_second(&cluster, &[&one, &two, &three]);
        assert!(is_shared(&cluster, &[&one, &two, &three]), "they rest");
    }
}

#[test]
fn a_duty_is_not_used_any_more_when_it_is_given_up() {
    let cluster = Cluster::new();
    let (one, two) = (cluster.node("n1"), cluster.node("n2"));
    share_within(&cluster, &[&one], 1);
    for _ in 0..8 {
        half_second(&cluster, &[&two, &one]);
        let (_, duties) = block_on(cluster.store.list_members()).unwrap();
        for duty in duties {
            let used = one.engine.coordinator.owns(&duty.key);
            assert!(!used || duty.node == one.engine.coordinator.node());
        }
    }
    assert!(is_shared(&cluster, &[&one, &two]));
}

#[test]
fn a_peer_whose_sign_is_out_is_taken_over_after_the_grace() {
    let (cluster, air) = (Cluster::new(), Air::default());
    let (one, two) = (air.node(&cluster, "n1"), air.node(&cluster, "n2"));
    share_within(&cluster, &[&one, &two], 8);
    half_second(&cluster, &[&one, &two]);
    air.goes_out("n1");
    half_second(&cluster, &[&two]);
    assert!(!has_all(&cluster, &two), "it may be back");
    half_second(&cluster, &[&two]);
    assert!(has_all(&cluster, &two), "its lease has not ended");
    // It lived after all: it registers anew, and has its share again.
    assert!(one.engine.coordinator.is_live(cluster.now()));
    share_within(&cluster, &[&one, &two], 8);
}

/// MISS-005: the store's clock was set back, so its time stands still.
#[test]
fn a_peer_whose_sign_is_out_is_taken_over_after_the_grace_while_time_stands_still() {
    let (cluster, air) = (Cluster::new(), Air::default());
    let (one, two) = (air.node(&cluster, "n1"), air.node(&cluster, "n2"));
    share_within(&cluster, &[&one, &two], 8);
    half_second(&cluster, &[&one, &two]);
    cluster.clock.step(jiff::SignedDuration::from_secs(-120));
    half_second(&cluster, &[&one, &two]);
    let stands = cluster.now();
    air.goes_out("n1");
    for half in 0..2 {
        assert!(!has_all(&cluster, &two), "after {half} half seconds");
        half_second(&cluster, &[&two]);
    }
    assert!(has_all(&cluster, &two), "whichever of them was the janitor");
    assert_eq!(cluster.now(), stands);
}

/// MISS-005: nobody sees signs, and time stands still. Whoever is frozen, the node with the janitor's duty too,
/// which lets all other leases run out: its own runs out in its time, and no earlier.
#[test]
fn a_frozen_peer_is_taken_over_after_its_lease_while_time_stands_still() {
    for frozen in 0..3 {
        let cluster = Cluster::new();
        let nodes = ["n1", "n2", "n3"].map(|address| cluster.node(address));
        let all: Vec<&Node> = nodes.iter().collect();
        share_within(&cluster, &all, 10);
        cluster.clock.step(jiff::SignedDuration::from_secs(-120));
        for _ in 0..20 {
            half_second(&cluster, &all);
            assert!(is_shared(&cluster, &all), "who renews keeps what it has");
        }
        let stands = cluster.now();
        let dead = all[frozen].engine.coordinator.node();
        let living: Vec<&Node> = (0..3).filter(|n| *n != frozen).map(|n| all[n]).collect();
        let is_there = || {
            let (live, _) = block_on(cluster.store.list_members()).unwrap();
            live.iter().any(|node| Some(node.id) == dead)
        };
        let mut halves = 0;
        while is_there() {
            half_second(&cluster, &living);
            halves += 1;
            assert!(halves <= 14, "its lease of 5 s, and two looks");
        }
        assert!(halves >= 9, "not before its lease: {halves} half seconds");
        share_within(&cluster, &living, 4);
        assert_eq!(cluster.now(), stands);
    }
}

#[test]
fn a_peer_whose_sign_comes_back_within_the_grace_keeps_its_own() {
    let (cluster, air) = (Cluster::new(), Air::default());
    let (one, two) = (air.node(&cluster, "n1"), air.node(&cluster, "n2"));
    share_within(&cluster, &[&one, &two], 8);
    let node = one.engine.coordinator.node().unwrap();
    for _ in 0..5 {
        half_second(&cluster, &[&one, &two]);
        air.goes_out("n1");
        half_second(&cluster, &[&one, &two]);
        air.0.lock().unwrap().insert("n1".to_owned(), node);
    }
    assert_eq!(one.engine.coordinator.node(), Some(node));
    assert!(is_shared(&cluster, &[&one, &two]));
}

#[test]
fn a_peer_whose_sign_was_never_seen_is_waited_for() {
    let (cluster, air) = (Cluster::new(), Air::default());
    let (one, two) = (cluster.node("n1"), air.node(&cluster, "n2"));
    share_within(&cluster, &[&one, &two], 8);
    for half in 0..9 {
        half_second(&cluster, &[&two]);
        assert!(!has_all(&cluster, &two), "after {half} half seconds");
    }
    half_second(&cluster, &[&two]);
    assert!(has_all(&cluster, &two), "its lease has ended");
}

#[test]
fn a_node_whose_own_sign_is_out_writes_nothing_until_its_lease_has_proved_its_own() {
    let (cluster, air) = (Cluster::new(), Air::default());
    let (one, two) = (air.node(&cluster, "n1"), air.node(&cluster, "n2"));
    share_within(&cluster, &[&one, &two], 8);
    let key = keys()
        .into_iter()
        .find(|key| one.engine.coordinator.owns(key));
    let key = key.unwrap();
    let fence = |node: &Node| node.engine.coordinator.fence(&key, cluster.now());
    one.engine.coordinator.sign_is_out();
    assert!(fence(&one).is_none());
    // Nor does it miss anybody's sign now: all may have gone out with its own.
    air.goes_out("n2");
    one.coordinate(&cluster);
    assert!(fence(&one).is_some());
    half_second(&cluster, &[&one, &two]);
    half_second(&cluster, &[&one, &two]);
    assert!(
        is_shared(&cluster, &[&one, &two]),
        "nobody was taken for gone"
    );
}

#[test]
fn after_an_outage_each_node_takes_its_own_share_first() {
    let cluster = Cluster::new();
    let nodes = ["n1", "n2", "n3"].map(|address| cluster.node(address));
    let all: Vec<&Node> = nodes.iter().collect();
    share_within(&cluster, &all, 10);
    let owned = |node: &Node| -> Vec<DutyKey> {
        let keys = keys().into_iter();
        keys.filter(|key| node.engine.coordinator.owns(key))
            .collect()
    };
    let before: Vec<Vec<DutyKey>> = all.iter().map(|node| owned(node)).collect();
    // Longer than a lease: all have to register anew, one after the other.
    cluster.pass(10);
    for (n, node) in all.iter().enumerate() {
        node.coordinate(&cluster);
        assert_eq!(
            owned(node),
            before[n],
            "and nothing of those who are about to come"
        );
    }
    // Two come back, one does not.
    cluster.pass(10);
    for _ in 0..6 {
        half_second(&cluster, &all[..2]);
    }
    assert!(is_shared(&cluster, &all[..2]), "nothing lies idle");
}

#[test]
fn a_node_that_stops_leaves_its_share_to_its_peers_at_once_and_takes_nothing_again() {
    let cluster = Cluster::new();
    let nodes = ["n1", "n2", "n3"].map(|address| cluster.node(address));
    let all: Vec<&Node> = nodes.iter().collect();
    share_within(&cluster, &all, 10);
    block_on(all[0].engine.coordinator.hand_over()).unwrap();
    for node in &all {
        node.coordinate(&cluster);
    }
    assert!(is_shared(&cluster, &all[1..]));
    assert!(!all[0].engine.coordinator.is_ready(cluster.now()));
    assert!(
        keys()
            .iter()
            .all(|key| !all[0].engine.coordinator.owns(key))
    );
}

#[test]
fn the_workers_of_a_pool_that_moves_are_told_where_to() {
    let cluster = Cluster::new();
    let one = cluster.node("n1");
    share_within(&cluster, &[&one], 1);
    // To somebody whom the pool is wished, whoever that is.
    let names: Vec<String> = (2..30).map(|n| format!("n{n}")).collect();
    let members = |address: &str| {
        let node = |id, address: &str| sichen_core::model::Node {
            id: NodeId(id),
            address: address.to_owned(),
            expires_at: cluster.now(),
        };
        Members::of(&[node(1, "n1"), node(2, address)])
    };
    let wished = |name: &&String| members(name).wished(&DutyKey::Pool(pool())) == Some(NodeId(2));
    let address = names.iter().find(wished).unwrap();
    let session = one.worker(&cluster, "w1", 1);
    let two = cluster.node(address);
    let mut moved = BTreeMap::new();
    for _ in 0..8 {
        half_second(&cluster, &[&two]);
        let pass = one.engine.coordinator.run_once(cluster.now());
        moved.extend(block_on(pass).unwrap().moved);
    }
    assert_eq!(moved, BTreeMap::from([(pool(), address.clone())]));
    block_on(one.engine.sessions.tell_moved(&pool(), address)).unwrap();
    let told = ToWorker::Moved {
        address: address.clone(),
    };
    assert_eq!(one.messages(session), [told]);
    let sent = one
        .engine
        .sessions
        .hello(hello("w2", "x", 1), cluster.now());
    let sent = block_on(sent).unwrap();
    assert_eq!(
        sent,
        HelloAnswer::Moved {
            address: address.clone()
        }
    );
    two.worker(&cluster, "w2", 1);
}

/// Nobody is sent to a node that may be gone: whoever is asked serves the worker meanwhile.
#[test]
fn no_worker_is_sent_to_a_peer_whose_sign_is_out() {
    let (cluster, air) = (Cluster::new(), Air::default());
    let (one, two) = (air.node(&cluster, "n1"), air.node(&cluster, "n2"));
    share_within(&cluster, &[&one, &two], 8);
    one.engine.coordinator.add_pool(&pool());
    share_within(&cluster, &[&one, &two], 8);
    half_second(&cluster, &[&one, &two]);
    half_second(&cluster, &[&one, &two]);
    let key = DutyKey::Pool(pool());
    let (owner, other, address) = if one.engine.coordinator.owns(&key) {
        (&one, &two, "n1")
    } else {
        (&two, &one, "n2")
    };
    assert!(owner.engine.coordinator.owns(&key));
    air.goes_out(address);
    half_second(&cluster, &[]);
    other.worker(&cluster, "w1", 1);
}

/// How often the loop of `duty` has gone round.
fn rounds(engine: &Engine, duty: &str) -> u64 {
    let mut registry = prometheus_client::registry::Registry::default();
    engine.context.meter.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let line = text
        .lines()
        .find(|line| line.contains("_count{") && line.contains(&format!("\"{duty}\"")));
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

/// What no peer asks for is not looked at more often because there are some.
#[test]
fn the_janitor_of_many_nodes_goes_round_as_seldom_as_that_of_one() {
    let cluster = Cluster::new();
    let engines = ["n1", "n2"].map(|address| Arc::new(cluster.node(address).engine));
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    runtime.block_on(async {
        let running = engines.clone().map(Engine::start);
        let sees_more = async {
            while engines.iter().any(|e| rounds(e, "trigger") < 6) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        let soon = std::time::Duration::from_secs(60);
        let seen = tokio::time::timeout(soon, sees_more).await;
        seen.expect("with peers the tables are looked at each second");
        for engine in &engines {
            assert!(engine.coordinator.has_peers());
            assert_eq!(rounds(engine, "janitor"), 1);
        }
        for running in running {
            running.stop().await.unwrap();
        }
    });
}
