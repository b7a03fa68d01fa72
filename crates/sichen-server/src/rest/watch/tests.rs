//! Which events a watcher is sent.

use super::*;

#[test]
fn an_event_that_is_committed_late_is_sent_once_though_its_number_is_lower() {
    let mut log = Log::new(10);
    assert!(log.is_new(12));
    log.settle();
    assert_eq!(log.settled, 10, "11 may still come");
    assert!(log.is_new(11) && !log.is_new(12));
    for _ in 0..SETTLED_AFTER {
        log.settle();
    }
    assert_eq!((log.settled, log.seen.len()), (12, 0));
}

#[test]
fn what_is_kept_in_mind_has_a_limit() {
    let mut log = Log::new(0);
    for seq in 1..=3_000 {
        assert!(log.is_new(seq));
    }
    log.settle();
    assert_eq!((log.settled, log.seen.len()), (1_000, MAX_UNSETTLED));
}
