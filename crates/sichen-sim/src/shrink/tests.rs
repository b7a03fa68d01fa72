//! Claims about `shrink`.

use super::*;

#[test]
fn what_a_failure_needs_is_all_that_is_left_and_can_be_said_again() {
    let mut options = Options::of(3);
    options.worker_freeze = Some(20_000);
    options.jobs = 5;
    let fails = |o: &Options| o.worker_freeze.is_some() && o.jobs >= 2 && o.unsafe_secs >= 40;
    let words = shrink(&options, fails);
    let mut again = options.clone();
    for word in &words {
        again.set(word).unwrap();
    }
    assert!(fails(&again));
    assert_eq!((again.jobs, again.unsafe_secs), (2, 40));
    assert_eq!((again.workers, again.servers), (1, 1));
    let mut left = again.clone();
    for part in PARTS.iter().filter(|part| **part != "worker_freeze") {
        assert!(left.leave_out(part));
    }
    assert_eq!(left, again, "nothing more could be left out");
}

#[test]
fn a_change_that_is_none_is_refused_with_those_that_are() {
    for text in [
        "jobs",
        "jobs=few",
        "nothing=off",
        "server_crash=often",
        "sqlite=3",
    ] {
        let error = Options::of(1).set(text).unwrap_err();
        assert!(
            error.contains("link_cut") && error.contains("unsafe_secs"),
            "{error}"
        );
    }
}

#[test]
fn a_fault_can_be_made_more_frequent() {
    let mut options = Options::of(1);
    options.set("server_freeze=7").unwrap();
    assert_eq!(options.server_freeze, Some(7_000));
}
