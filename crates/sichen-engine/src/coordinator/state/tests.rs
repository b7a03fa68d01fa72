//! What is made of peers' signs.

use super::*;

#[test]
fn a_peer_whose_number_needs_more_room_than_a_sign_has_is_missed_all_the_same() {
    let peer = NodeId((1 << 32) + 7);
    let at = |second| Timestamp::from_second(second).unwrap();
    let mut state = State::default();
    let shown = BTreeSet::from([NodeSign::of(peer)]);
    let (gone, doubtful) = state.judge_signs(&[peer], Some(&shown), at(1));
    assert!(gone.is_empty() && doubtful.is_empty(), "it is there");
    let none = BTreeSet::new();
    assert!(state.misses(&[peer], Some(&none)));
    let (gone, doubtful) = state.judge_signs(&[peer], Some(&none), at(2));
    assert_eq!((gone.len(), doubtful), (0, BTreeSet::from([peer])));
    let (gone, _) = state.judge_signs(&[peer], Some(&none), at(2) + GRACE);
    assert_eq!(gone, BTreeSet::from([peer]));
}
