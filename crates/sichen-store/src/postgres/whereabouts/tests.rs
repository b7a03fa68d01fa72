//! Claims about `whereabouts`.

use super::*;

fn at(timeline: u64) -> Place {
    let place = "1/2/3".to_owned();
    Place { place, timeline }
}

#[test]
fn a_connection_elsewhere_is_a_move_until_it_is_settled_there() {
    let whereabouts = Whereabouts::default();
    whereabouts.found(at(1));
    assert!(!whereabouts.have_moved(), "nothing is noted yet");
    whereabouts.settled(at(1));
    assert!(!whereabouts.have_moved());
    whereabouts.found(at(2));
    assert!(whereabouts.have_moved());
    // A second fail-over while the first is settled.
    whereabouts.found(at(3));
    whereabouts.settled(at(2));
    assert!(whereabouts.have_moved());
    whereabouts.settled(at(3));
    assert!(!whereabouts.have_moved());
}

#[test]
fn the_last_promises_are_remembered_until_they_were_looked_for() {
    let whereabouts = Whereabouts::default();
    let op = |n: usize| OpId(uuid::Uuid::from_u128(n as u128));
    let then = Timestamp::UNIX_EPOCH;
    for n in 0..=MAX_PROMISED {
        whereabouts.promised(op(n), then);
    }
    let promises = whereabouts.promises(then + YOUNG);
    assert_eq!(promises.len(), MAX_PROMISED);
    assert_eq!(promises.last(), Some(&op(MAX_PROMISED)));
    let much_later = then + YOUNG + SignedDuration::from_secs(1);
    assert!(whereabouts.promises(much_later).is_empty());
    whereabouts.settled(at(2));
    assert!(whereabouts.promises(then).is_empty());
}
