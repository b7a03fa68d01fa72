//! Claims about what strains a cluster.

use super::*;
use crate::ids::{NodeId, Term};
use crate::model::DutyKey;
use proptest::prelude::*;

const MINUTE: SignedDuration = SignedDuration::from_mins(1);
const WITHIN: SignedDuration = SignedDuration::from_mins(10);

fn secs(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

#[test]
fn usual_is_said_by_enough_runs_alone() {
    let lengths = [secs(600); SAMPLE - 1];
    assert_eq!(usual(&lengths, MINUTE), None);
    assert_eq!(
        usual(&[secs(600); SAMPLE], MINUTE),
        Some((secs(600), secs(900)))
    );
    // Short ones have a minute.
    assert_eq!(usual(&[secs(2); SAMPLE], MINUTE), Some((secs(2), secs(62))));
}

#[test]
fn one_run_that_took_for_ever_makes_nothing_usual() {
    let mut lengths: Vec<SignedDuration> = (0..20).map(|n| secs(600 + n)).collect();
    let (_, before) = usual(&lengths, MINUTE).unwrap();
    lengths.push(secs(86_400));
    let (_, after) = usual(&lengths, MINUTE).unwrap();
    assert!(
        after.abs_diff_under(before, secs(10)),
        "{before:?} {after:?}"
    );
}

trait Near {
    fn abs_diff_under(self, other: Self, within: Self) -> bool;
}

impl Near for SignedDuration {
    fn abs_diff_under(self, other: Self, within: Self) -> bool {
        (self - other).abs() < within
    }
}

proptest! {
    /// Whatever a history is, it says of none of its ordinary runs that it was slow.
    #[test]
    fn the_bound_is_above_what_is_usual(lengths in proptest::collection::vec(0i64..100_000, SAMPLE..60)) {
        let history: Vec<SignedDuration> = lengths.iter().map(|s| secs(*s)).collect();
        let (middle, bound) = usual(&history, MINUTE).unwrap();
        prop_assert!(bound >= middle + MINUTE - secs(1));
        let slow = history.iter().filter(|length| **length > bound).count();
        prop_assert!(slow * 2 < history.len(), "{slow} of {}", history.len());
    }
}

fn failure(rule: Rule, group: &str, subject: &str) -> Finding {
    Finding {
        rule,
        group: group.to_owned(),
        subject: subject.to_owned(),
        cause: String::new(),
        since: at(0),
    }
}

#[test]
fn many_failures_of_one_cause_are_no_surge_and_many_causes_are() {
    let storm: Vec<Finding> = (0..500)
        .map(|n| failure(Rule::Failures, "exit-1", &format!("j{n}")))
        .collect();
    assert_eq!(surge(&storm, 3, at(0)), None);
    let of = |n: usize| {
        let rule = if n.is_multiple_of(2) {
            Rule::Failures
        } else {
            Rule::Partial
        };
        failure(rule, &format!("cause {n}"), "job")
    };
    let causes: Vec<Finding> = (0..3).map(of).collect();
    assert_eq!(surge(&causes[..2], 3, at(0)), None);
    let found = surge(&causes, 3, at(0)).unwrap();
    assert_eq!(found.cause, "1 jobs by 3 causes");
    let others: Vec<Finding> = (0..9)
        .map(|n| failure(Rule::NoWorker, &format!("p{n}"), "p"))
        .collect();
    assert_eq!(surge(&others, 3, at(0)), None);
}

fn duty(key: DutyKey, term: u64, node: Option<u64>) -> Duty {
    Duty {
        key,
        term: Term(term),
        node: node.map(NodeId),
    }
}

#[test]
fn a_duty_of_nobody_or_of_a_dead_node_has_no_owner() {
    let node = |id: u64, expires: i64| Node {
        id: NodeId(id),
        address: String::new(),
        expires_at: at(expires),
    };
    let duties = [
        duty(DutyKey::Trigger(0), 1, Some(1)),
        duty(DutyKey::Trigger(1), 1, Some(2)),
        duty(DutyKey::Janitor, 1, None),
    ];
    let found = no_owner(&[node(1, 10), node(2, 5)], &duties, at(5));
    let subjects: Vec<&str> = found.iter().map(|f| f.subject.as_str()).collect();
    assert_eq!(subjects, ["trigger/1", "janitor"]);
}

#[test]
fn a_duty_flaps_that_changed_hands_often_within_ten_minutes_and_not_once_at_a_restart() {
    let mut terms = Terms::default();
    let mut look = |term, second| {
        terms
            .look(
                &[duty(DutyKey::Alerts, term, Some(1))],
                4,
                WITHIN,
                at(second),
            )
            .len()
    };
    assert_eq!(look(7, 0), 0, "what was before is not known");
    assert_eq!(look(10, 60), 0, "three changes");
    assert_eq!(look(11, 120), 1);
    // Ten minutes after the first of them it is no news any more.
    assert_eq!(look(11, 590), 1);
    assert_eq!(look(11, 700), 0);
    for second in 0..5_000 {
        assert_eq!(look(11, 700 + second), 0);
    }
    assert!(terms.seen.len() <= MAX_LOOKS + 1, "{}", terms.seen.len());
}

#[test]
fn a_transaction_is_named_by_its_process_and_its_beginning() {
    let found = old_transaction(17, secs(300), "bob at psql\nselect 1", at(0));
    assert_eq!((found.subject.as_str(), found.since), ("pid 17", at(-300)));
    assert_eq!(found.cause, "bob at psql");
}
