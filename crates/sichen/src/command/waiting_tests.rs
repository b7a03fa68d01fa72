//! How long one waits, and what one is told.

use std::time::Duration;

use super::{Absence, PATIENCE, Paces, length, lost};
use crate::failure::{Exit, Failure};

fn away() -> Failure {
    Failure::new(
        Exit::Unavailable,
        "SC7003: the server can't be reached\n  is it running?",
    )
}

#[test]
fn a_server_may_be_away_for_a_while_and_not_for_ever() {
    let mut short = Absence::of(Duration::ZERO);
    short.bear(away()).unwrap();
    let failure = short.bear(away()).unwrap_err();
    assert_eq!(failure.exit, Exit::Unavailable);
    assert!(
        failure.text.contains("not waited for any longer"),
        "{}",
        failure.text
    );
    let mut long = Absence::of(PATIENCE);
    for _ in 0..3 {
        long.bear(away()).unwrap();
        assert!(long.lasts());
    }
    long.over();
    assert!(!long.lasts());
    // What it does not come back from is no absence.
    for exit in [Exit::NotFound, Exit::Denied, Exit::Failed] {
        let failure = long
            .bear(Failure::new(exit, "SC5001: no run 7"))
            .unwrap_err();
        assert_eq!(failure.exit, exit);
    }
}

#[test]
fn who_can_not_follow_a_run_is_told_what_is_known_of_it() {
    assert!(lost(7, Exit::NotFound).contains("was there when the waiting began"));
    assert!(lost(7, Exit::Unavailable).contains("is not known"));
}

#[test]
fn it_is_said_less_and_less_often() {
    let mut paces = Paces::new(Duration::ZERO, Duration::from_secs(60));
    assert!(paces.due());
    let mut paces = Paces::new(Duration::from_secs(45), Duration::from_secs(60));
    assert!(!paces.due());
    paces.next = crate::clock::Deadline::after(Some(Duration::ZERO));
    assert!(paces.due());
    assert_eq!(paces.pause, Duration::from_secs(60));
    assert!(!paces.due());
}

#[test]
fn lengths_are_read() {
    assert_eq!(length("10m"), Ok(Duration::from_secs(600)));
    assert!(length("ten").is_err());
}
