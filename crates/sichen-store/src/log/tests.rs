//! Where the log is begun.

use sichen_core::event::{Entity, Kind};
use sichen_core::ids::{OpId, SessionId};

use super::*;

fn event(seq: u64, minute: i64) -> Event {
    Event {
        seq,
        entity: Entity::Session(SessionId(seq)),
        ver: 1,
        at: Timestamp::from_second(minute * 60).unwrap(),
        op: OpId(uuid::Uuid::nil()),
        actor: String::new(),
        duty: None,
        kind: Kind::SessionRegistered,
        from: String::new(),
        to: String::new(),
        attempt: None,
        token: None,
        cause: String::new(),
        data: "{}".to_owned(),
    }
}

/// The first place that is read in a log of one event a minute at places 10, 20, …, and how often
/// the log was asked.
fn check(events: u64, since_minute: i64) -> (Option<u64>, u32) {
    let log: Vec<Event> = (1..=events).map(|n| event(n * 10, n as i64)).collect();
    let next = |after: u64| log.iter().find(|e| e.seq > after);
    let mut search = Search::new(Timestamp::from_second(since_minute * 60).ok());
    let mut asked = 0;
    while let Some(after) = search.probe() {
        search.found(next(after));
        asked += 1;
    }
    (next(search.start()).map(|e| e.seq), asked)
}

#[test]
fn the_log_is_read_from_a_little_before_the_time() {
    assert_eq!(check(1_000, 500).0, Some(4_950));
    assert_eq!(check(1_000, 0).0, Some(10));
    assert_eq!(check(1_000, 1_003).0, Some(9_980));
    assert_eq!(check(1_000, 2_000).0, None);
    assert_eq!(check(0, 5).0, None);
    assert!(check(1_000, 500).1 < 70);
}
