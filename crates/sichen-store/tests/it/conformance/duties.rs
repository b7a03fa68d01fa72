//! Server nodes and duties.

use jiff::SignedDuration;
use sichen_core::event::{Event, Kind};
use sichen_core::ids::{NodeId, Term};
use sichen_core::model::DutyKey;
use sichen_core::port::{Fence, RenewedNode};

use crate::bench::{Bench, pool_key, wait};

fn short_node(b: &Bench) -> NodeId {
    wait(
        b.store
            .register_node(b.op(), "there".to_owned(), SignedDuration::from_secs(5)),
    )
}

fn claim(b: &Bench, node: NodeId, key: DutyKey) -> Vec<Fence> {
    wait(b.store.claim_duties(b.op(), node, vec![key]))
}

fn last_acquired(b: &Bench) -> Event {
    let events = b.dump().events;
    let event = events.into_iter().rfind(|e| e.kind == Kind::DutyAcquired);
    event.expect("somebody acquired it")
}

fn last_cause(b: &Bench) -> String {
    last_acquired(b).cause
}

/// When the lease ended of who had the duty before, as the takeover's event says.
fn last_lease_end(b: &Bench) -> Option<i64> {
    let data: serde_json::Value =
        serde_json::from_str(&last_acquired(b).data).expect("data of an event");
    data["lease_end"].as_i64()
}

pub fn a_free_duty_is_claimed_and_its_term_rises_with_each_owner(b: &Bench) {
    let (one, two) = (b.node(), b.node());
    let first = claim(b, one, DutyKey::Trigger(7));
    assert_eq!(
        first,
        [Fence {
            key: DutyKey::Trigger(7),
            term: Term(1)
        }]
    );
    assert_eq!(last_cause(b), "first");
    wait(b.store.release_duties(b.op(), first));
    let second = claim(b, two, DutyKey::Trigger(7));
    assert_eq!(
        second,
        [Fence {
            key: DutyKey::Trigger(7),
            term: Term(2)
        }]
    );
    assert_eq!(last_cause(b), "released");
}

pub fn a_live_owner_keeps_its_duty(b: &Bench) {
    let (one, two) = (b.node(), b.node());
    claim(b, one, pool_key());
    let both = wait(
        b.store
            .claim_duties(b.op(), two, vec![pool_key(), DutyKey::Janitor]),
    );
    assert_eq!(
        both,
        [Fence {
            key: DutyKey::Janitor,
            term: Term(1)
        }]
    );
}

pub fn an_owner_that_claims_again_keeps_its_term(b: &Bench) {
    let one = b.node();
    let first = claim(b, one, pool_key());
    assert_eq!(claim(b, one, pool_key()), first);
    // Also when its own duty was released in between: that is a new ownership.
    wait(b.store.release_duties(b.op(), first.clone()));
    assert_eq!(claim(b, one, pool_key())[0].term, Term(first[0].term.0 + 1));
}

pub fn an_expired_owners_duty_is_claimed_by_another(b: &Bench) {
    let (one, two) = (short_node(b), b.node());
    let old = claim(b, one, pool_key());
    assert_eq!(last_lease_end(b), None, "nobody had it before");
    b.pass(4);
    assert!(
        claim(b, two, pool_key()).is_empty(),
        "it lives for another second"
    );
    b.pass(1);
    let end = b.now().as_microsecond();
    b.pass(2);
    let new = claim(b, two, pool_key());
    assert!(new[0].term > old[0].term);
    assert_eq!(last_cause(b), "expired");
    assert_eq!(last_lease_end(b), Some(end));
}

pub fn a_release_under_an_old_term_is_passed_over(b: &Bench) {
    let old = b.pool();
    let new = b.take_over(&old);
    wait(b.store.release_duties(b.op(), vec![old]));
    let other = b.node();
    assert!(
        claim(b, other, pool_key()).is_empty(),
        "{new:?} still owns it"
    );
}

pub fn an_expired_node_is_never_renewed_and_claims_nothing(b: &Bench) {
    let node = short_node(b);
    b.pass(3);
    let ttl = SignedDuration::from_secs(5);
    let others = |renewed: RenewedNode| {
        assert_eq!(renewed.expires_at, b.now() + ttl);
        renewed.others
    };
    let before = wait(b.store.renew_node(node, ttl)).map(others);
    let other = short_node(b);
    let renewed = wait(b.store.renew_node(node, ttl)).map(others);
    assert_eq!(renewed, before.map(|n| n + 1), "another has come");
    wait(b.store.end_node(b.op(), other, "gone".to_owned()));
    assert_eq!(wait(b.store.renew_node(node, ttl)).map(others), before);
    // At the very instant it has ended.
    b.pass(5);
    assert_eq!(wait(b.store.renew_node(node, ttl)), None);
    assert_eq!(wait(b.store.renew_node(NodeId(987_654), ttl)), None);
    assert!(claim(b, node, pool_key()).is_empty());
}

pub fn an_ended_node_is_not_renewed_and_its_duties_are_free(b: &Bench) {
    let (one, two) = (short_node(b), b.node());
    let old = claim(b, one, pool_key());
    let end = |node| wait(b.store.end_node(b.op(), node, "gone".to_owned()));
    assert!(end(one), "it was live");
    let ended = b.dump().events.pop().expect("it is written down");
    assert_eq!((ended.kind, &*ended.cause), (Kind::NodeEnded, "gone"));
    assert!(!end(one), "only once");
    assert!(!end(NodeId(987_654)), "nobody");
    let ttl = SignedDuration::from_secs(5);
    assert_eq!(wait(b.store.renew_node(one, ttl)), None);
    assert!(claim(b, one, DutyKey::Janitor).is_empty());
    let new = claim(b, two, pool_key());
    assert!(new[0].term > old[0].term);
    assert_eq!(last_cause(b), "expired");
    assert_eq!(last_lease_end(b), Some(ended.at.as_microsecond()));
}

pub fn live_nodes_and_all_duties_are_listed(b: &Bench) {
    let (dead, live) = (short_node(b), b.node());
    claim(b, dead, DutyKey::Janitor);
    let released = claim(b, live, DutyKey::Trigger(3));
    wait(b.store.release_duties(b.op(), released));
    b.pass(5);
    let (nodes, duties) = wait(b.store.list_members());
    assert_eq!(nodes.iter().map(|n| n.id).collect::<Vec<_>>(), [live]);
    assert_eq!(nodes[0].address, "127.0.0.1:1");
    let owners: Vec<_> = duties.iter().map(|d| (d.key.text(), d.node)).collect();
    assert_eq!(
        owners,
        [
            ("trigger/3".to_owned(), None),
            ("janitor".to_owned(), Some(dead))
        ]
    );
}
