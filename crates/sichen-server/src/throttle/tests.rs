//! Claims about who must wait after failed logins, and who must not.

#![expect(
    clippy::disallowed_methods,
    reason = "one instant from which the others are counted"
)]
use super::*;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

const HERE: &str = "192.0.2.1";

#[test]
fn failures_make_the_next_try_wait_longer_and_longer_up_to_a_bound() {
    let (throttle, start) = (Throttle::default(), Instant::now());
    for _ in 0..5 {
        assert_eq!(throttle.begin("alice", ip(HERE), start), Ok(()));
    }
    let mut now = start;
    for expected in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
        let wait = throttle.begin("alice", ip(HERE), now);
        assert_eq!(wait, Err(seconds(expected)));
        assert_eq!(
            throttle.begin("alice", ip(HERE), now),
            wait,
            "it grows no longer"
        );
        now += seconds(expected);
        assert_eq!(throttle.begin("alice", ip(HERE), now), Ok(()));
    }
}

#[test]
fn who_guesses_from_elsewhere_keeps_nobody_out_for_long() {
    let (throttle, now) = (Throttle::default(), Instant::now());
    for i in 0..10u8 {
        for _ in 0..5 {
            let address = IpAddr::from([198, 51, 100, i]);
            assert_eq!(throttle.begin("alice", address, now), Ok(()));
        }
    }
    let wait = throttle.begin("alice", ip(HERE), now).unwrap_err();
    assert!(wait <= seconds(5), "{wait:?}");
    assert_eq!(throttle.begin("alice", ip(HERE), now + seconds(5)), Ok(()));
    assert_eq!(throttle.begin("bob", ip(HERE), now), Ok(()));
}

/// Strangers who never stop, and a neighbour behind the same proxy, whose failures are counted elsewhere.
#[test]
fn where_a_user_has_logged_in_what_others_do_keeps_him_out_never() {
    let (throttle, now) = (Throttle::default(), Instant::now());
    assert_eq!(throttle.begin("alice", ip(HERE), now), Ok(()));
    throttle.succeeded("alice", ip(HERE), now);
    for i in 0..60u8 {
        let address = IpAddr::from([198, 51, 100, i]);
        let _ = throttle.begin("alice", address, now);
        let _ = throttle.begin(&format!("u{i}"), ip(HERE), now);
    }
    assert!(throttle.begin("alice", ip("192.0.2.9"), now).is_err());
    assert!(throttle.begin("bob", ip(HERE), now).is_err());
    assert_eq!(throttle.begin("alice", ip(HERE), now), Ok(()));
    for _ in 0..4 {
        assert_eq!(throttle.begin("alice", ip(HERE), now), Ok(()));
    }
    assert!(
        throttle.begin("alice", ip(HERE), now).is_err(),
        "who guesses there is slowed down all the same"
    );
    let late = now + KNOWN_FOR;
    for i in 0..60u8 {
        let _ = throttle.begin(&format!("v{i}"), ip(HERE), late);
    }
    assert!(
        throttle.begin("alice", ip(HERE), late).is_err(),
        "not for ever"
    );
}

#[test]
fn the_addresses_that_are_known_are_bounded() {
    let (throttle, now) = (Throttle::default(), Instant::now());
    for i in 0..MAX_KNOWN + 10 {
        let [.., a, b] = (i as u32).to_be_bytes();
        throttle.succeeded(
            "alice",
            IpAddr::from([10, 0, a, b]),
            now + seconds(i as u64),
        );
    }
    assert_eq!(throttle.0.lock().unwrap().known.len(), MAX_KNOWN);
}

#[test]
fn one_address_tries_few_names() {
    let (throttle, now) = (Throttle::default(), Instant::now());
    for i in 0..50 {
        assert_eq!(throttle.begin(&format!("u{i}"), ip(HERE), now), Ok(()));
    }
    assert!(throttle.begin("more", ip(HERE), now).is_err());
    assert_eq!(throttle.begin("more", ip("192.0.2.2"), now), Ok(()));
}

#[test]
fn a_network_of_ipv6_is_one_address_and_a_mapped_ipv4_is_that_one() {
    let (throttle, now) = (Throttle::default(), Instant::now());
    for i in 0..5 {
        let address = ip(&format!("2001:db8::{i}"));
        assert_eq!(throttle.begin("alice", address, now), Ok(()));
        let address = ip(&format!("::ffff:{HERE}"));
        assert_eq!(throttle.begin("bob", address, now), Ok(()));
    }
    assert!(throttle.begin("alice", ip("2001:db8::ffff"), now).is_err());
    assert_eq!(throttle.begin("alice", ip("2001:db8:0:1::1"), now), Ok(()));
    assert!(throttle.begin("bob", ip(HERE), now).is_err());
}

#[test]
fn a_right_password_is_no_failure_and_forgives_those_before() {
    let (throttle, now) = (Throttle::default(), Instant::now());
    for _ in 0..100 {
        for _ in 0..4 {
            assert_eq!(throttle.begin("alice", ip(HERE), now), Ok(()));
            throttle.forgive("alice", ip(HERE));
        }
        assert_eq!(throttle.begin("alice", ip(HERE), now), Ok(()));
        throttle.succeeded("alice", ip(HERE), now);
    }
    assert!(throttle.0.lock().unwrap().failures.is_empty());
}

#[test]
fn failures_are_forgotten_and_what_is_remembered_is_bounded() {
    let (throttle, start) = (Throttle::default(), Instant::now());
    for _ in 0..5 {
        throttle.begin("alice", ip(HERE), start).unwrap();
    }
    let later = start + FORGOTTEN_AFTER;
    for _ in 0..5 {
        assert_eq!(throttle.begin("alice", ip(HERE), later), Ok(()));
    }
    for i in 0..MAX_FAILURES / 3 + 100 {
        let [.., a, b] = (i as u32).to_be_bytes();
        let _ = throttle.begin(&format!("u{i}"), IpAddr::from([10, 0, a, b]), later);
    }
    assert!(throttle.0.lock().unwrap().failures.len() <= MAX_FAILURES);
}

/// Who comes back from a provider has no name yet: his address alone counts, and keeps no user out elsewhere.
#[test]
fn tries_without_a_name_count_for_their_address_alone() {
    let (throttle, now) = (Throttle::default(), Instant::now());
    for _ in 0..50 {
        assert_eq!(throttle.begin_unnamed(ip(HERE), now), Ok(()));
    }
    assert!(throttle.begin_unnamed(ip(HERE), now).is_err());
    assert_eq!(throttle.begin_unnamed(ip("192.0.2.2"), now), Ok(()));
    throttle.forgive_unnamed(ip(HERE));
    assert_eq!(throttle.begin_unnamed(ip(HERE), now), Ok(()));
}
