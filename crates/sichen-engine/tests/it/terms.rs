//! Two nodes on one store: an old owner writes nothing.

use futures::executor::block_on;
use jiff::SignedDuration;
use serde_json::json;
use sichen_core::ids::{RunId, SessionId, ShardKey, Token};
use sichen_core::lifecycle::StopCause;
use sichen_core::lifecycle::shard::Transition;
use sichen_core::model::{DutyKey, Failure, partition_of};
use sichen_core::name::Name;
use sichen_core::port::{
    Advance, AdvanceVerdict, Error, Fence, Grant, GrantRefused, GrantVerdict, Reap, ReapVerdict,
    RequestVerdict,
};
use sichen_engine::coordinator::MAX_POOLS;
use sichen_engine::sessions::HelloAnswer;

use crate::fixture::{Cluster, hello, pool};

#[test]
fn a_node_is_ready_while_every_duty_is_in_live_hands() {
    let cluster = Cluster::new();
    let ready = |node: &crate::fixture::Node| node.engine.coordinator.is_ready(cluster.now());
    let (first, peer) = (cluster.node("n1"), cluster.node("n2"));
    assert!(!ready(&first), "it has asked nobody yet");
    first.coordinate(&cluster);
    peer.coordinate(&cluster);
    assert!(
        ready(&first) && ready(&peer),
        "a peer need not hold them itself"
    );
    // The process at this address was killed and started again: its lease is its own past.
    let again = cluster.node("n1");
    again.coordinate(&cluster);
    assert!(!ready(&again));
    cluster.pass(5);
    assert!(!ready(&first) && !ready(&peer), "their leases are over");
    again.coordinate(&cluster);
    assert!(ready(&again));
}

/// As when a machine has slept, or a clock that was set back has caught up: what the pass knows of the
/// time is from before.
#[test]
fn a_node_whose_time_jumped_past_its_lease_can_use_what_it_is_given_anew() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let before = cluster.now();
    cluster.pass(10);
    let coordinator = &node.engine.coordinator;
    let pass = block_on(coordinator.run_once(before)).unwrap();
    assert!(pass.gained, "whatever waits in its duties is looked at now");
    assert_eq!(pass.told, Some(cluster.now()));
    assert!(!coordinator.trigger_fences(cluster.now()).is_empty());
}

/// As when workers asked who owns their pool in the moment in which the node registered anew.
#[test]
fn a_pass_that_began_before_another_shortens_no_lease() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let before = cluster.now();
    cluster.pass(10);
    let coordinator = &node.engine.coordinator;
    block_on(coordinator.run_once(before)).unwrap();
    let again = block_on(coordinator.run_once(before)).unwrap();
    assert!(!again.gained, "it had everything");
    assert!(!coordinator.trigger_fences(cluster.now()).is_empty());
    assert!(coordinator.is_ready(cluster.now()));
}

/// While the store's time stands still a node counts on between two readings: what it counted is no part of
/// its lease.
#[test]
fn a_node_that_counted_on_while_time_stood_still_has_no_longer_lease() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let coordinator = &node.engine.coordinator;
    let counted = cluster.now() + SignedDuration::from_secs(4);
    block_on(coordinator.run_once(counted)).unwrap();
    assert!(coordinator.is_live(cluster.now()));
    assert!(!coordinator.is_live(counted + SignedDuration::from_secs(1)));
}

/// Who was refused sleeps until its next look, ten seconds of it where a node is alone.
#[test]
fn duties_that_were_refused_while_the_lease_was_in_doubt_are_woken_when_it_has_proved() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    node.coordinate(&cluster);
    let coordinator = &node.engine.coordinator;
    let beat = || block_on(coordinator.run_once(cluster.now())).unwrap();
    assert!(!beat().gained);
    coordinator.sign_is_out();
    assert!(!beat().gained, "nobody asked for a fence meanwhile");
    coordinator.sign_is_out();
    assert!(coordinator.trigger_fences(cluster.now()).is_empty());
    assert!(beat().gained);
    assert!(!beat().gained, "it is told once");
}

#[test]
fn a_node_that_owns_everything_sees_peers_come_and_go() {
    let cluster = Cluster::new();
    let (owner, peer) = (cluster.node("n1"), cluster.node("n2"));
    owner.coordinate(&cluster);
    assert!(!owner.engine.coordinator.has_peers());
    peer.coordinate(&cluster);
    assert!(peer.engine.coordinator.has_peers());
    let mut seconds = 0;
    while !owner.engine.coordinator.has_peers() {
        cluster.pass(1);
        seconds += 1;
        owner.coordinate(&cluster);
        peer.coordinate(&cluster);
    }
    assert!(seconds <= 10, "{seconds} s");
    for _ in 0..20 {
        cluster.pass(1);
        owner.coordinate(&cluster);
    }
    assert!(!owner.engine.coordinator.has_peers(), "its lease is over");
}

/// Each is looked after for good, by whoever is there.
#[test]
fn pools_beyond_the_limit_are_refused_and_those_there_are_are_all_taken_in_batches() {
    let cluster = Cluster::new();
    let node = cluster.node("n1");
    let coordinator = &node.engine.coordinator;
    for n in 0..MAX_POOLS {
        let pool = Name::new(&format!("p{n}")).unwrap();
        assert!(coordinator.takes_pool(&pool));
        coordinator.add_pool(&pool);
    }
    node.coordinate(&cluster);
    for n in 0..MAX_POOLS {
        let pool = Name::new(&format!("p{n}")).unwrap();
        assert!(coordinator.owns(&DutyKey::Pool(pool)), "{n}");
    }
    let say = |pool: &str| {
        let mut hello = hello("w1", "x", 1);
        hello.pool = Name::new(pool).unwrap();
        block_on(node.engine.sessions.hello(hello, cluster.now())).unwrap()
    };
    let one_more = say("one-more");
    assert!(
        matches!(&one_more, HelloAnswer::Refused { code: "too-many-pools", message } if message.starts_with("SC4009")),
        "{one_more:?}"
    );
    let known = say("p7");
    assert!(matches!(known, HelloAnswer::Welcome { .. }), "{known:?}");
    block_on(coordinator.hand_over()).unwrap();
    assert!(!coordinator.owns(&DutyKey::Janitor));
}

#[test]
fn a_second_node_takes_over_only_after_the_first_one_s_lease() {
    let cluster = Cluster::new();
    let (first, second) = (cluster.node("n1"), cluster.node("n2"));
    first.coordinate(&cluster);
    second.coordinate(&cluster);
    let key = DutyKey::Trigger(0);
    assert!(
        first
            .engine
            .coordinator
            .fence(&key, cluster.now())
            .is_some()
    );
    assert!(
        second
            .engine
            .coordinator
            .fence(&key, cluster.now())
            .is_none()
    );
    cluster.pass(4);
    assert!(
        first
            .engine
            .coordinator
            .fence(&key, cluster.now())
            .is_none(),
        "it stops by itself before its lease can have ended"
    );
    second.coordinate(&cluster);
    assert!(
        second
            .engine
            .coordinator
            .fence(&key, cluster.now())
            .is_none()
    );
    cluster.pass(1);
    second.coordinate(&cluster);
    let fence = second
        .engine
        .coordinator
        .fence(&key, cluster.now())
        .unwrap();
    assert_eq!(fence.term.0, 2);
}

#[test]
fn a_node_that_stops_hands_its_duties_over_at_once() {
    let cluster = Cluster::new();
    let (first, second) = (cluster.node("n1"), cluster.node("n2"));
    first.coordinate(&cluster);
    block_on(first.engine.coordinator.hand_over()).unwrap();
    second.coordinate(&cluster);
    let key = DutyKey::Trigger(63);
    assert!(
        second
            .engine
            .coordinator
            .fence(&key, cluster.now())
            .is_some()
    );
}

#[test]
fn a_worker_is_sent_to_the_owner_of_its_pool() {
    let cluster = Cluster::new();
    let (first, second) = (cluster.node("n1"), cluster.node("n2"));
    first.coordinate(&cluster);
    second.coordinate(&cluster);
    first.worker(&cluster, "w1", 1);
    let answer = block_on(
        second
            .engine
            .sessions
            .hello(hello("w2", "x", 1), cluster.now()),
    );
    assert_eq!(
        answer.unwrap(),
        HelloAnswer::Moved {
            address: "n1".to_owned()
        }
    );
}

/// A server that was killed and is back: its workers stay with it while its old lease runs out.
#[test]
fn a_worker_is_not_sent_away_by_its_own_server_s_past() {
    let cluster = Cluster::new();
    let (killed, back) = (cluster.node("n1"), cluster.node("n1"));
    killed.engine.coordinator.add_pool(&pool());
    killed.coordinate(&cluster);
    back.coordinate(&cluster);
    let session = back.worker(&cluster, "w2", 1);
    let job = cluster.apply("j", json!({ "run": { "handler": "h" } }));
    cluster.run(job, "k");
    assert_eq!(back.dispatch(&cluster), 0, "the pool is not its own yet");
    cluster.pass(5);
    back.coordinate(&cluster);
    assert_eq!(back.dispatch(&cluster), 1);
    assert_eq!(back.grants(session).len(), 1);
}

/// DUP-002: every method of the port that a duty calls, under the term of before a takeover.
#[test]
fn an_old_term_is_refused_in_every_method() {
    let cluster = Cluster::new();
    let (first, second) = (cluster.node("n1"), cluster.node("n2"));
    first.coordinate(&cluster);
    let session = first.worker(&cluster, "w1", 4);
    let spec = json!({ "run": { "handler": "h" }, "shards": { "count": 2 } });
    let job = cluster.apply("j", spec);
    let run = cluster.run(job, "k");
    first.dispatch(&cluster);
    let now = cluster.now();
    let fence = |key: DutyKey| first.engine.coordinator.fence(&key, now).unwrap();
    let trigger = fence(DutyKey::Trigger(partition_of(job)));
    let lease = fence(DutyKey::Pool(pool()));
    let janitor = fence(DutyKey::Janitor);
    let alerts = released(&cluster, DutyKey::Alerts);
    cluster.pass(20);
    second.engine.coordinator.add_pool(&pool());
    second.coordinate(&cluster);
    let before = block_on(cluster.store.dump()).unwrap();

    let refused = [
        ("advance_schedules", advance(&cluster, &trigger, job)),
        ("request_stop", stop(&cluster, &trigger, run)),
        ("settle_runs", settle(&cluster, &trigger)),
        ("lease_shards", grant(&cluster, &lease, run, session)),
        ("reap_shards", reap(&cluster, &lease, run)),
        ("end_session", end_session(&cluster, &lease, session)),
        ("remove_history", remove(&cluster, &janitor)),
        ("save_alerts", save_alerts(&cluster, &alerts)),
        ("end_notices", end_notices(&cluster, &alerts)),
    ];
    for (method, refused) in refused {
        assert!(refused, "{method} wrote under an old term");
    }
    let after = block_on(cluster.store.dump()).unwrap();
    assert_eq!(before, after, "nothing was written");
}

fn advance(c: &Cluster, fence: &Fence, job: sichen_core::ids::JobUid) -> bool {
    let row = block_on(c.store.get_job_by_uid(job)).unwrap().unwrap();
    let item = Advance {
        zones: None,
        job,
        revision: row.revision,
        from: row.high_water,
        to: c.now(),
        next_due: None,
        pending: row.pending(),
        counted: None,
        runs: vec![],
        lengthens: None,
        decisions: vec![],
    };
    let verdicts = c
        .store
        .advance_schedules(c.op(), vec![fence.clone()], vec![item]);
    block_on(verdicts).unwrap() == [AdvanceVerdict::OldTerm]
}

fn stop(c: &Cluster, fence: &Fence, run: RunId) -> bool {
    let verdict = c
        .store
        .request_stop(c.op(), Some(fence.clone()), run, StopCause::Deadline);
    block_on(verdict).unwrap() == RequestVerdict::OldTerm
}

fn settle(c: &Cluster, fence: &Fence) -> bool {
    block_on(c.store.settle_runs(c.op(), vec![fence.clone()], 9))
        .unwrap()
        .is_empty()
}

fn grant(c: &Cluster, fence: &Fence, run: RunId, session: SessionId) -> bool {
    let key = ShardKey::new(run, 0);
    let grant = Grant {
        key,
        token: Token(0),
        session,
        timeouts: Default::default(),
        most_of_job: None,
    };
    let verdicts = block_on(c.store.lease_shards(c.op(), fence.clone(), vec![grant])).unwrap();
    verdicts == [GrantVerdict::Refused(GrantRefused::OldTerm)]
}

fn reap(c: &Cluster, fence: &Fence, run: RunId) -> bool {
    let key = ShardKey::new(run, 0);
    let reap = Reap {
        dead_by: None,
        key,
        token: c.shard(key).token,
        transition: Transition::SUCCESS,
        failure: Failure::default(),
        only_if_session_over: false,
    };
    let verdicts = block_on(c.store.reap_shards(c.op(), fence.clone(), vec![reap])).unwrap();
    verdicts == [ReapVerdict::OldTerm]
}

fn end_session(c: &Cluster, fence: &Fence, session: SessionId) -> bool {
    let ended = c
        .store
        .end_session(c.op(), Some(fence.clone()), session, "expired".to_owned());
    !block_on(ended).unwrap()
}

/// The term of a node that has given the duty up.
fn released(c: &Cluster, key: DutyKey) -> Fence {
    let (address, ttl) = ("gone".to_owned(), SignedDuration::from_secs(1));
    let node = block_on(c.store.register_node(c.op(), address, ttl)).unwrap();
    let claimed = block_on(c.store.claim_duties(c.op(), node, vec![key])).unwrap();
    block_on(c.store.release_duties(c.op(), claimed.clone())).unwrap();
    claimed[0].clone()
}

fn save_alerts(c: &Cluster, fence: &Fence) -> bool {
    let saved = c
        .store
        .save_alerts(c.op(), fence.clone(), Default::default());
    matches!(block_on(saved), Err(Error::Busy(_)))
}

fn end_notices(c: &Cluster, fence: &Fence) -> bool {
    let ended = c.store.end_notices(c.op(), fence.clone(), Vec::new());
    matches!(block_on(ended), Err(Error::Busy(_)))
}

fn remove(c: &Cluster, fence: &Fence) -> bool {
    let before = c.now() - SignedDuration::from_secs(1);
    let removed = block_on(c.store.remove_history(c.op(), fence.clone(), before, 9));
    matches!(removed, Err(Error::Busy(_)))
}
