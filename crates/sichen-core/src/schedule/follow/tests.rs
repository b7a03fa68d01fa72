//! What follows what, as tables.

use super::*;

fn at(text: &str) -> Timestamp {
    format!("2026-06-01T{text}Z").parse().expect("an instant")
}

fn secs(n: i64) -> SignedDuration {
    SignedDuration::from_secs(n)
}

fn after(minutes: i64) -> Follow {
    Follow {
        wait: Wait::Delay(SignedDuration::from_mins(minutes)),
        start: None,
        end: None,
    }
}

fn continuous() -> Follow {
    Follow {
        wait: Wait::Continuous {
            min: MIN_WAIT,
            max: MAX_WAIT,
        },
        start: None,
        end: None,
    }
}

/// A new job, its mark at 10:00:00.3.
fn new(follow: Follow) -> Chain {
    Chain::applied(None, Some(follow), false, at("10:00:00.3")).expect("it follows")
}

fn ended(outcome: RunState, started: &str, end: &str) -> Ended {
    Ended {
        outcome,
        started_at: Some(at(started)),
        at: at(end),
    }
}

fn pending(chain: &Chain, expect: Option<&str>) {
    assert_eq!(chain.pending, expect.map(at), "{chain:?}");
}

#[test]
fn the_first_run_is_due_at_once_or_when_the_schedule_starts() {
    pending(&new(after(10)), Some("10:00:01"));
    pending(&new(continuous()), Some("10:00:01"));
    let from = Follow {
        start: Some(at("11:00:00")),
        ..after(10)
    };
    pending(&new(from), Some("11:00:00"));
    let over = Follow {
        end: Some(at("09:00:00")),
        ..after(10)
    };
    pending(&new(over), None);
}

#[test]
fn the_end_of_the_last_run_makes_the_next_instant() {
    use RunState::{Cancelled, Failed, Partial, Succeeded};
    let running = new(after(10)).passed(at("10:00:01.2"));
    pending(&running, None);
    assert_eq!(running.before, Some(at("10:00:01")));
    for outcome in [Succeeded, Failed, Partial, Cancelled] {
        let run = ended(outcome, "10:00:01.5", "10:03:00.1");
        let mark = at("10:00:01.2");
        pending(&running.ended(run, true, mark), None);
        pending(&running.ended(run, false, mark), Some("10:13:01"));
    }
}

#[test]
fn an_instant_ahead_counts_from_the_newest_end_and_one_that_has_come_stays() {
    let chain = new(after(10)).passed(at("10:00:01.2"));
    let mark = at("10:00:01.2");
    let chain = chain.ended(
        ended(RunState::Succeeded, "10:00:01.5", "10:03:00"),
        false,
        mark,
    );
    pending(&chain, Some("10:13:00"));
    let manual = ended(RunState::Succeeded, "10:05:00", "10:07:00");
    pending(&chain.ended(manual, false, mark), Some("10:17:00"));
    let long = ended(RunState::Succeeded, "10:05:00", "10:13:00");
    pending(&chain.ended(long, false, mark), Some("10:13:00"));
}

#[test]
fn what_is_decided_without_an_open_run_makes_the_next_instant_itself() {
    let now = at("12:00:00.5");
    let skipped = new(after(10)).passed(now);
    pending(&skipped, None);
    pending(&skipped.restarted(now, now), Some("12:10:01"));
    let mut chain = new(continuous());
    for wait in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
        let mark = chain.pending.expect("it goes on");
        chain = chain.passed(mark).restarted(mark, mark);
        assert_eq!(chain.pending, mark.checked_add(secs(wait)).ok());
    }
}

#[test]
fn continuous_goes_on_at_once_and_backs_off_after_failures_in_a_row() {
    use RunState::{Cancelled, Failed, Partial, Succeeded};
    let rows: &[(RunState, &str, &str, &str, u32)] = &[
        (Succeeded, "10:00:01", "10:00:20.5", "10:00:21", 0),
        (Failed, "10:00:21", "10:00:30", "10:00:31", 1),
        (Partial, "10:00:31", "10:00:40", "10:00:42", 2),
        // A cancelled one says nothing about the work.
        (Cancelled, "10:00:42", "10:00:50", "10:00:52", 2),
        (Failed, "10:00:52", "10:01:00", "10:01:04", 3),
        // It held out for longer than the longest wait.
        (Failed, "10:01:04", "10:06:05", "10:06:06", 1),
        (Succeeded, "10:06:06", "10:06:06.1", "10:06:07", 0),
        // One a second at most.
        (Succeeded, "10:06:07.01", "10:06:07.05", "10:06:08", 0),
    ];
    let mut chain = new(continuous());
    for (outcome, started, end, next, failures) in rows {
        let mark = at(started);
        let run = ended(*outcome, started, end);
        chain = chain.passed(mark).ended(run, false, mark);
        pending(&chain, Some(next));
        assert_eq!(chain.failures, *failures);
    }
}

#[test]
fn waits_never_overflow() {
    let wait = Wait::Continuous {
        min: SignedDuration::from_hours(24),
        max: SignedDuration::from_hours(48),
    };
    assert_eq!(wait.after(u32::MAX), SignedDuration::from_hours(48));
}

#[test]
fn an_edit_counts_anew_from_the_last_end() {
    let mark = at("10:00:01.2");
    let chain = new(after(10)).passed(mark);
    let run = ended(RunState::Succeeded, "10:00:01.5", "10:03:00");
    let chain = chain.ended(run, false, mark);
    let edit = |follow, open, mark| Chain::applied(Some(&chain), follow, open, at(mark));
    let edited = |follow, mark| edit(Some(follow), false, mark).expect("it follows");
    pending(&edited(after(10), "10:05:00"), Some("10:13:00"));
    pending(&edited(after(20), "10:05:00"), Some("10:23:00"));
    pending(&edited(after(1), "10:05:00"), Some("10:05:01"));
    pending(&edited(continuous(), "10:05:00"), Some("10:05:01"));
    let later = Follow {
        start: Some(at("11:00:00")),
        ..after(10)
    };
    pending(&edited(later, "10:05:00"), Some("11:00:00"));
    // Open runs make it when they end, by the new rule.
    let open = edit(Some(after(20)), true, "10:05:00").expect("it follows");
    pending(&open, None);
    assert_eq!(edit(None, false, "10:05:00"), None);
}

#[test]
fn it_ends_with_its_schedule_and_an_edit_takes_it_up_again() {
    let until = |text| Follow {
        end: Some(at(text)),
        ..after(10)
    };
    let mark = at("10:00:01.2");
    let run = ended(RunState::Succeeded, "10:00:01.5", "10:03:00");
    let over = new(until("10:13:00")).passed(mark).ended(run, false, mark);
    pending(&over, None);
    let edited = Chain::applied(Some(&over), Some(until("12:00:00")), false, at("10:30:00"));
    pending(&edited.expect("it follows"), Some("10:30:01"));
}

#[test]
fn it_is_kept_as_text() {
    let chain = new(continuous()).passed(at("10:00:05"));
    let text = serde_json::to_string(&chain).expect("text");
    let read: Chain = serde_json::from_str(&text).expect("a chain");
    assert_eq!(read, chain);
    let old = r#"{"follow":{"wait":{"delay":"PT10M"},"start":null,"end":null},
        "pending":"2026-06-01T10:00:01Z","before":null,"since":null,"failures":0}"#;
    let read: Chain = serde_json::from_str(old).expect("a chain");
    assert_eq!(read, new(after(10)));
}
