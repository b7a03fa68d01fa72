//! Grants that come in any order.

use super::*;

#[test]
fn a_lower_number_that_comes_later_is_new_once() {
    let mut seen = Seen::default();
    assert!(seen.take(1) && seen.take(4));
    assert!(seen.take(2));
    assert!(!seen.take(2) && !seen.take(4) && !seen.take(1));
    assert!(seen.take(3));
    assert_eq!(seen.highest(), 4);
}

#[test]
fn what_two_beats_did_not_list_is_awaited_no_more() {
    let mut seen = Seen::default();
    assert!(seen.take(3));
    seen.told();
    assert!(seen.take(1), "one beat is no verdict");
    seen.told();
    assert!(!seen.take(2));
}

#[test]
fn a_mad_number_is_no_harm() {
    let mut seen = Seen::default();
    assert!(seen.take(5) && seen.take(u64::MAX));
    assert_eq!(seen.awaited.len() as u64, MAX_AWAITED);
    assert!(!seen.take(3), "too far behind");
    assert!(seen.take(u64::MAX - 1));
}
