//! What a node's watchers share of the log, and what each of them is sent.

use sichen_core::event::{Entity, Event, Kind};
use sichen_core::ids::{OpId, RunId};

use super::tail::{End, LOOK_EACH, MAX_RECENT, MAX_UNSETTLED, News, SETTLED_AFTER, UNWATCHED, now};

fn event(seq: u64) -> Event {
    Event {
        seq,
        entity: Entity::Run(RunId(7)),
        ver: 1,
        at: "2026-03-01T00:00:00Z".parse().unwrap(),
        op: OpId("00000000-0000-0000-0000-000000000001".parse().unwrap()),
        actor: "node 1".to_owned(),
        duty: None,
        kind: Kind::RunCreated,
        from: String::new(),
        to: "scheduled".to_owned(),
        attempt: None,
        token: None,
        cause: String::new(),
        data: "{}".to_owned(),
    }
}

fn events(seqs: impl IntoIterator<Item = u64>) -> Vec<Event> {
    seqs.into_iter().map(event).collect()
}

fn numbers(news: Option<Vec<News>>) -> Option<Vec<u64>> {
    news.map(|news| news.iter().map(|one| one.seq).collect())
}

/// The end of a log that knows all up to `last`.
fn end(last: u64) -> End {
    let mut end = End::default();
    end.begin(last);
    end.settled = last;
    end.found(&[], now());
    end
}

#[test]
fn an_event_that_is_committed_late_is_sent_once_though_its_number_is_lower() {
    let mut end = end(10);
    let place = end.place();
    let now = now();
    end.found(&events([12]), now);
    assert_eq!(end.settled, 10, "11 may still come");
    end.found(&events([11, 12]), now);
    assert_eq!(numbers(end.from(place)), Some(vec![12, 11]));
    for _ in 0..SETTLED_AFTER {
        end.found(&events([11, 12]), now);
    }
    assert_eq!((end.settled, end.last()), (12, 12));
    assert_eq!(numbers(end.from(place)), Some(vec![12, 11]));
}

#[test]
fn an_event_below_the_begin_of_a_watcher_is_sent_if_it_is_committed_afterwards() {
    let now = now();
    let mut end = End::default();
    end.begin(100);
    end.found(&events(90..=98), now);
    end.found(&events([100]), now);
    let (begin, place) = (end.last(), end.place());
    assert_eq!(begin, 100);
    end.found(&events([99, 100]), now);
    assert_eq!(numbers(end.from(place)), Some(vec![99]));
}

#[test]
fn one_look_is_enough_for_all_who_ask_within_its_time() {
    let now = now();
    let mut end = end(10);
    end.found(&events([11]), now);
    assert!(!end.is_due(now) && !end.is_due(now + LOOK_EACH / 2));
    assert!(end.is_due(now + LOOK_EACH) && !end.is_unwatched(now + LOOK_EACH));
    assert!(end.is_unwatched(now + UNWATCHED));
}

#[test]
fn who_comes_again_goes_on_from_its_number_or_reads_the_log_up_to_the_end() {
    let mut end = end(10);
    end.found(&events([11, 12, 13]), now());
    assert_eq!(numbers(end.after(11)), Some(vec![12, 13]));
    assert_eq!(numbers(end.after(10)), Some(vec![11, 12, 13]));
    assert_eq!(numbers(end.after(9)), None);
}

#[test]
fn what_is_kept_has_a_limit_and_who_falls_behind_it_is_told() {
    let now = now();
    let mut end = end(0);
    let slow = end.place();
    let many = MAX_UNSETTLED as u64 + 1_000;
    end.found(&events(1..=many), now);
    assert_eq!(end.settled, 1_000);
    assert_eq!(numbers(end.from(slow)).map(|all| all.len()), Some(3_000));
    end.found(&events(many + 1..=MAX_RECENT as u64), now);
    assert!(end.from(slow).is_some());
    end.found(&events([MAX_RECENT as u64 + 1]), now);
    assert_eq!(end.from(slow), None, "the first one is gone");
    let place = end.place();
    end.begin(20_000);
    assert_eq!(
        end.from(place),
        None,
        "found anew, so that nobody has a hole"
    );
}
