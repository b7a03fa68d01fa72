//! What is told as a change.

use super::*;

/// People decide about a restore and accept the clock's step: nobody else does.
#[test]
fn what_people_alone_can_do_is_a_change() {
    let asked = [
        Kind::StoreRestored,
        Kind::RestoreDecided,
        Kind::ClockAccepted,
    ];
    for kind in asked {
        assert!(is_change(kind), "{kind}");
    }
    assert!(!is_change(Kind::ShardStopped), "it follows from a stop");
}
