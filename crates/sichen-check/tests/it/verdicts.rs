//! Valid histories are accepted, empty ones prove nothing, exports come back as they went.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sichen_check::{Checker, Invariant, Options, Outcome, Sight, Verdict, check_dump, jsonl};
use sichen_core::event::{Event, Kind};

use crate::history::{History, Minutes, Rng, valid};
use crate::rights::{grant_after_stop, grant_to_the_dead, use_old_revision};

pub fn options() -> Options {
    Options {
        seq_is_commit_order: true,
        quiescent: true,
        oracle: Some(Box::new(Minutes)),
        demand: Invariant::ALL.to_vec(),
        ..Options::default()
    }
}

pub fn judge(history: &History) -> Verdict {
    check_dump(&history.dump, options(), &history.acks)
}

/// What does not need the order of commits.
fn judged_by_entity() -> Vec<Invariant> {
    use Invariant as I;
    let between = [I::I6, I::I19, I::I29, I::I30, I::I31, I::I40];
    let all = Invariant::ALL.iter().copied();
    all.filter(|invariant| !between.contains(invariant))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_valid_history_is_accepted(seed: u64) {
        let verdict = judge(&valid(seed, 1_500));
        prop_assert!(verdict.is_ok(), "{verdict}");
    }

    /// Ids are not commit order: events of different entities may be exchanged, and those of one
    /// entity may come a few places late.
    #[test]
    fn events_slightly_out_of_order_are_accepted(seed: u64) {
        let mut history = valid(seed, 600);
        for chunk in history.dump.events.chunks_mut(7) {
            chunk.reverse();
        }
        let verdict = check_dump(
            &history.dump,
            Options {
                seq_is_commit_order: false,
                demand: judged_by_entity(),
                ..options()
            },
            &history.acks,
        );
        prop_assert!(verdict.is_ok(), "{verdict}");
    }

    #[test]
    fn a_history_that_begins_in_the_middle_is_accepted(seed: u64) {
        let mut history = valid(seed, 600);
        history.dump.events.drain(..300);
        let options = Options { partial: true, demand: Vec::new(), oracle: None, ..options() };
        let verdict = check_dump(&history.dump, options, &[]);
        prop_assert!(verdict.is_ok(), "{verdict}");
    }
}

#[test]
fn the_model_reaches_everything_worth_seeing() {
    let verdict = judge(&valid(1, 20_000));
    let seen: BTreeSet<Sight> = verdict.counts.keys().copied().collect();
    for sight in [
        Sight::RunReopened,
        Sight::Released,
        Sight::Takeover,
        Sight::Resumed,
        Sight::Lost,
        Sight::Refused,
        Sight::TermChanged,
        Sight::SessionEnded,
        Sight::Decided,
    ] {
        assert!(
            seen.contains(&sight),
            "{sight:?} never happened: {:?}",
            verdict.counts
        );
    }
}

#[test]
fn an_empty_history_proves_nothing() {
    let options = Options {
        minimums: vec![(Sight::Granted, 1)],
        ..Options::default()
    };
    let verdict = Checker::new(options).finish();
    assert_eq!(verdict.outcome, Outcome::Unknown);
    assert_eq!(verdict.vacuous, [(Sight::Granted, 0, 1)]);
}

#[test]
fn a_demanded_invariant_without_its_evidence_is_unknown() {
    let history = valid(3, 300);
    let options = Options {
        demand: vec![Invariant::I44],
        ..options()
    };
    assert_eq!(
        check_dump(&history.dump, options, &[]).outcome,
        Outcome::Unknown
    );
}

#[test]
fn an_export_reads_back_as_it_was_written() {
    let history = valid(4, 500);
    let mut lines = Vec::new();
    for event in &history.dump.events {
        jsonl::write(&mut lines, event).expect("memory takes it");
    }
    let mut back = Vec::new();
    jsonl::read(&lines[..], |e| back.push(e)).expect("every line is an event");
    assert_eq!(back, history.dump.events);
    let broken = jsonl::read(&b"{\"seq\":1}\n"[..], |_| {});
    assert!(
        broken
            .expect_err("no event")
            .to_string()
            .starts_with("line 1 ")
    );
}

/// 1 million events in under 10 s. The limit is for optimized code; run with
/// `--cargo-profile sim --run-ignored all`.
#[test]
#[ignore = "a measurement: run with --cargo-profile sim --run-ignored all"]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn a_million_events_are_judged_within_ten_seconds() {
    let history = valid(5, 1_000_000);
    let start = std::time::Instant::now();
    let verdict = judge(&history);
    let took = start.elapsed();
    assert!(verdict.is_ok(), "{verdict}");
    let events = history.dump.events.len();
    eprintln!(
        "{events} events, {} shards: {took:?}",
        history.dump.shards.len()
    );
    assert!(took.as_secs() < 10, "{events} events took {took:?}");
}

/// What a log of PostgreSQL tells: which of two came first where both held a lock on one row.
#[test]
fn the_order_of_locks_decides_what_is_written_under_one() {
    use Invariant as I;
    type Inject = fn(&mut History, &mut Rng) -> bool;
    let judge_locks = |history: &History, seq_is_lock_order: bool| {
        let options = Options {
            seq_is_commit_order: false,
            seq_is_lock_order,
            ..options()
        };
        check_dump(&history.dump, options, &history.acks)
    };
    let undecided =
        |verdict: &Verdict| -> Vec<I> { verdict.unknown.iter().map(|u| u.invariant).collect() };
    let sound = valid(11, 3_000);
    let verdict = judge_locks(&sound, true);
    assert_eq!(verdict.violation_count, 0, "{verdict}");
    assert_eq!(undecided(&verdict), [I::I29, I::I30, I::I31]);
    let verdict = judge_locks(&sound, false);
    assert_eq!(
        undecided(&verdict),
        [I::I6, I::I19, I::I29, I::I30, I::I31, I::I40]
    );
    let faults: [(I, Inject); 3] = [
        (I::I6, use_old_revision),
        (I::I19, grant_to_the_dead),
        (I::I40, grant_after_stop),
    ];
    for (invariant, inject) in faults {
        let found = (1..50).find_map(|seed| {
            let mut history = valid(seed, 1_500);
            let suits = inject(&mut history, &mut Rng(seed));
            suits.then_some(history)
        });
        let verdict = judge_locks(&found.expect("a history with a place for it"), true);
        let named: Vec<I> = verdict.violations.iter().map(|v| v.invariant).collect();
        assert_eq!(named, [invariant], "{verdict}");
    }
}

/// Logs of before the takeover's event told it.
#[test]
fn a_takeover_that_does_not_say_when_the_lease_ended_is_not_judged() {
    let is_takeover = |e: &Event| e.kind == Kind::DutyAcquired && e.cause == "expired";
    let mut history = (1..50)
        .map(|seed| valid(seed, 1_500))
        .find(|history| history.dump.events.iter().any(is_takeover))
        .expect("a history with takeovers");
    for event in history.dump.events.iter_mut().filter(|e| is_takeover(e)) {
        let mut data: serde_json::Value =
            serde_json::from_str(&event.data).expect("data of an event");
        data.as_object_mut().expect("an object").remove("lease_end");
        event.data = data.to_string();
    }
    let verdict = judge(&history);
    assert_eq!(verdict.outcome, Outcome::Unknown, "{verdict}");
    let undecided: Vec<Invariant> = verdict.unknown.iter().map(|u| u.invariant).collect();
    assert_eq!(undecided, [Invariant::I12]);
}
