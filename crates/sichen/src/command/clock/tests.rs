//! What is said of each state of the clock.

use sichen_server::rest::wire;

use super::said;

fn check(ahead_seconds: i64, held: bool, accepted_seconds: Option<i64>, says: &str) {
    let clock = wire::Clock {
        now: String::new(),
        reading: String::new(),
        ahead_seconds,
        held,
        accepted_seconds,
    };
    let text = said(&clock, accepted_seconds.is_some());
    assert!(text.contains(says), "{text}");
}

#[test]
fn each_state_of_the_clock_is_said() {
    check(0, false, None, "is believed");
    check(3_600, true, None, "sichen clock accept");
    check(0, false, Some(3_600), "3600 s is accepted");
    check(-90, false, None, "behind by 90 s");
}
