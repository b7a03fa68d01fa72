//! Claims about who is wished which duty.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use proptest::prelude::*;

use super::{Members, Wish, successor, wish, wish_alerts};
use crate::ids::{NodeId, Term};
use crate::model::{Duty, DutyKey, Node, PARTITIONS};
use crate::name::Name;

fn node(id: u64, address: &str) -> Node {
    Node {
        id: NodeId(id),
        address: address.to_owned(),
        expires_at: Timestamp::UNIX_EPOCH,
    }
}

fn nodes(ids: impl IntoIterator<Item = u64>) -> Vec<Node> {
    let address = |id| format!("http://10.0.0.{id}:7070");
    ids.into_iter().map(|id| node(id, &address(id))).collect()
}

fn keys() -> Vec<DutyKey> {
    let pools = ["default", "gpu", "etl"].map(|name| DutyKey::Pool(Name::new(name).unwrap()));
    let triggers = (0..PARTITIONS).map(DutyKey::Trigger);
    triggers.chain([DutyKey::Janitor]).chain(pools).collect()
}

fn owners(nodes: &[Node]) -> BTreeMap<DutyKey, NodeId> {
    let members = Members::of(nodes);
    let wished = |key: DutyKey| (key.clone(), members.wished(&key).unwrap());
    keys().into_iter().map(wished).collect()
}

fn owned(key: DutyKey, node: Option<u64>) -> Duty {
    let term = Term(3);
    let node = node.map(NodeId);
    Duty { key, term, node }
}

/// What `me` wishes of the janitor's duty alone, everything else being its own.
fn of_janitor(me: u64, live: &[Node], expected: &[Node], owner: Option<u64>) -> Wish {
    let mut duties: Vec<Duty> = (0..PARTITIONS)
        .map(|n| owned(DutyKey::Trigger(n), Some(99)))
        .collect();
    duties.push(owned(DutyKey::Janitor, owner));
    let mut live = live.to_vec();
    live.push(node(99, "elsewhere"));
    let expected = Members::of(expected);
    wish(NodeId(me), &live, &expected, &duties, &BTreeSet::new())
}

proptest! {
    #[test]
    fn a_node_that_comes_or_goes_moves_only_its_own_share(
        ids in proptest::collection::btree_set(1u64..250, 1..12),
        comes in 250u64..255,
    ) {
        let (with, without): (Vec<u64>, Vec<u64>) =
            (ids.iter().copied().chain([comes]).collect(), ids.into_iter().collect());
        let (before, after) = (owners(&nodes(without)), owners(&nodes(with)));
        for (key, owner) in &after {
            prop_assert!(*owner == NodeId(comes) || before[key] == *owner, "{key:?}");
        }
    }

    #[test]
    fn the_order_in_which_members_are_seen_changes_nothing(
        ids in proptest::collection::vec(1u64..250, 1..12),
    ) {
        let mut backwards = nodes(ids.clone());
        backwards.reverse();
        prop_assert_eq!(owners(&nodes(ids)), owners(&backwards));
    }

    #[test]
    fn a_restarted_node_is_wished_what_it_had(
        ids in proptest::collection::btree_set(1u64..200, 2..8),
    ) {
        let all = nodes(ids);
        let mut again = all.clone();
        again[0].id = NodeId(1_000);
        // Its past still has a lease.
        let mut both = again.clone();
        both.push(all[0].clone());
        let before = owners(&all);
        for after in [owners(&again), owners(&both)] {
            for (key, owner) in &after {
                let same = if before[key] == all[0].id { NodeId(1_000) } else { before[key] };
                prop_assert_eq!(*owner, same);
            }
        }
    }

    /// Every key has one owner once each node has done what it wishes, in whatever order.
    #[test]
    fn nodes_that_follow_their_wishes_share_everything_and_then_rest(
        ids in proptest::collection::btree_set(1u64..40, 1..6),
        held in proptest::collection::vec(proptest::option::of(1u64..60), 68),
        turns in proptest::collection::vec(0usize..6, 0..20),
    ) {
        let live = nodes(ids.clone());
        let ids: Vec<u64> = ids.into_iter().collect();
        let members = Members::of(&live);
        let mut duties: Vec<Duty> =
            keys().into_iter().zip(held).map(|(key, node)| owned(key, node)).collect();
        let order = turns.into_iter().chain((0..3).flat_map(|_| 0..ids.len()));
        for turn in order {
            let me = NodeId(ids[turn % ids.len()]);
            let wish = wish(me, &live, &members, &duties, &BTreeSet::new());
            for duty in &mut duties {
                if wish.take.contains(&duty.key) {
                    prop_assert!(duty.node.is_none_or(|n| !ids.contains(&n.0)), "taken from the living");
                    duty.node = Some(me);
                }
                if wish.give.iter().any(|(key, ..)| *key == duty.key) {
                    prop_assert_eq!(duty.node, Some(me));
                    duty.node = None;
                }
            }
        }
        for duty in &duties {
            prop_assert_eq!(duty.node, members.wished(&duty.key));
        }
        for id in ids {
            let rest = wish(NodeId(id), &live, &members, &duties, &BTreeSet::new());
            prop_assert_eq!(rest, Wish::default());
        }
    }
}

#[test]
fn three_nodes_share_the_partitions_about_evenly() {
    for first in 1..50 {
        let owners = owners(&nodes(first..first + 3));
        let mut shares: BTreeMap<NodeId, u32> = BTreeMap::new();
        for owner in owners.values() {
            *shares.entry(*owner).or_default() += 1;
        }
        assert_eq!(shares.len(), 3, "{shares:?}");
        assert!(shares.values().all(|n| (8..=38).contains(n)), "{shares:?}");
    }
}

/// The owner of a key moves with no build and no machine.
#[test]
fn the_owners_are_these_for_ever() {
    let owners = owners(&nodes(1..4));
    let of = |key: &DutyKey| owners[key].0;
    let first: Vec<u64> = (0..8).map(|n| of(&DutyKey::Trigger(n))).collect();
    assert_eq!(
        (&*first, of(&DutyKey::Janitor)),
        (&[3, 2, 3, 1, 3, 3, 3, 1][..], 3)
    );
}

#[test]
fn a_free_key_is_its_wished_owner_s_and_awaited_by_the_others() {
    let all = nodes(1..4);
    let janitor = Members::of(&all).wished(&DutyKey::Janitor).unwrap().0;
    for me in 1..4 {
        for owner in [None, Some(50)] {
            let wish = of_janitor(me, &all, &all, owner);
            let (take, awaited) = if me == janitor {
                (vec![DutyKey::Janitor], vec![])
            } else {
                (vec![], vec![DutyKey::Janitor])
            };
            assert_eq!((wish.take, wish.awaited), (take, awaited));
        }
    }
}

#[test]
fn a_key_is_given_up_only_for_a_node_that_lives() {
    let all = nodes(1..4);
    let janitor = Members::of(&all).wished(&DutyKey::Janitor).unwrap();
    let me = all.iter().find(|n| n.id != janitor).unwrap().id.0;
    let given = of_janitor(me, &all, &all, Some(me)).give;
    assert_eq!(given, [(DutyKey::Janitor, Term(3), janitor)]);
    let others: Vec<Node> = all.iter().filter(|n| n.id != janitor).cloned().collect();
    assert!(of_janitor(me, &others, &all, Some(me)).give.is_empty());
}

#[test]
fn a_key_that_nobody_ever_owned_is_taken_by_whoever_knows_it() {
    let all = nodes(1..4);
    let pools = BTreeSet::from([Name::new("new").unwrap()]);
    let duties: Vec<Duty> = keys().into_iter().map(|key| owned(key, Some(1))).collect();
    for me in 2..4 {
        let wish = wish(NodeId(me), &all, &Members::of(&all), &duties, &pools);
        assert_eq!(wish.take, [DutyKey::Pool(Name::new("new").unwrap())]);
    }
}

#[test]
fn the_successor_is_who_would_own_it_without_its_owner() {
    let all = nodes(1..=4);
    for key in keys() {
        let owner = Members::of(&all).wished(&key).unwrap();
        let rest: Vec<Node> = all.iter().filter(|n| n.id != owner).cloned().collect();
        assert_eq!(
            successor(&key, &all, owner),
            Members::of(&rest).wished(&key)
        );
        assert_eq!(successor(&key, &[node(owner.0, "alone")], owner), None);
    }
}

/// Not every node can send alerts: who can takes them where nobody has them, and keeps them, whoever would
/// be wished them as its share.
#[test]
fn the_alerts_are_taken_by_who_can_send_and_kept() {
    let all = nodes(1..4);
    let members = Members::of(&all);
    for me in 1..4 {
        for (owner, can, takes) in [
            (None, true, true),
            (None, false, false),
            (Some(50), true, true),
            (Some(50), false, false),
            (Some(1), true, false),
            (Some(2), false, false),
        ] {
            let duties = [owned(DutyKey::Alerts, owner)];
            let mut wish = wish(NodeId(me), &all, &members, &duties, &BTreeSet::new());
            wish_alerts(&mut wish, &all, &duties, can);
            let of_alerts = |key: &&DutyKey| **key == DutyKey::Alerts;
            assert_eq!(wish.take.iter().filter(of_alerts).count() == 1, takes);
            assert_eq!(wish.awaited.iter().find(of_alerts), None);
            assert!(wish.give.iter().all(|(key, ..)| *key != DutyKey::Alerts));
        }
    }
}
