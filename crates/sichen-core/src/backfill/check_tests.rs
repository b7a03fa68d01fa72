//! Checks go forward only, and what their runs reported decides.

use super::super::State;
use super::*;

fn progress(done: u64, expected: Option<u64>) -> Progress {
    Progress {
        done,
        expected,
        rate_milli: 0,
        waiting_on: String::new(),
    }
}

fn check(state: CheckState) -> Check {
    Check {
        run: RunId(7),
        round: 1,
        backfill: BackfillId(3),
        state,
        by: None,
        counts: None,
        why: String::new(),
        at: Timestamp::UNIX_EPOCH,
    }
}

#[test]
fn what_a_checks_run_reported_decides() {
    use RunState::{Failed, Running, Succeeded};
    let both = |found, expected| Some(Counted::Both(found, expected));
    let nothing = |why: &str| Some(Counted::Nothing(why.to_owned()));
    let cases = [
        (Running, "", progress(3, Some(3)), None),
        (Succeeded, "", progress(3, Some(3)), both(3, 3)),
        (Succeeded, "", progress(2, Some(3)), both(2, 3)),
        (
            Succeeded,
            "",
            progress(3, None),
            nothing("its check reported no counts"),
        ),
        // `countsMustMatch` has failed it.
        (Failed, "counts_differ", progress(2, Some(3)), both(2, 3)),
        // It counted, and died after that: whether it was all is not known.
        (
            Failed,
            "",
            progress(3, Some(3)),
            nothing("its check is failed"),
        ),
        (
            Failed,
            "exit 1",
            progress(0, None),
            nothing("its check is failed (exit 1)"),
        ),
    ];
    for (state, reason, progress, expected) in cases {
        assert_eq!(
            counted(state, reason, &progress),
            expected,
            "{state} {progress:?}"
        );
    }
}

#[test]
fn a_check_goes_forward_only() {
    let open = CheckTo::Open(RunId(9));
    let over = CheckTo::Over(Counted::Both(1, 1));
    let nothing = CheckTo::Over(Counted::Nothing("no such job".to_owned()));
    for state in CheckState::ALL {
        for backfill in State::ALL {
            for to in [&open, &over, &nothing] {
                let starts = matches!(backfill, State::Running | State::Finished);
                let may = match state {
                    CheckState::Due => to == &open && starts || to == &nothing,
                    CheckState::Open => to != &open,
                    _ => false,
                };
                let moved = check(*state).moved(*backfill, to, Timestamp::UNIX_EPOCH);
                assert_eq!(
                    moved.is_some(),
                    may,
                    "{state} of a {backfill} one to {to:?}"
                );
                if let Some(moved) = moved {
                    assert_eq!(moved.state, to.state());
                }
            }
        }
    }
}

#[test]
fn a_long_reason_is_cut_between_characters() {
    let to = CheckTo::Over(Counted::Nothing("é".repeat(MAX_CHECK_WHY)));
    let moved = check(CheckState::Due).moved(State::Running, &to, Timestamp::UNIX_EPOCH);
    assert_eq!(moved.unwrap().why.len(), MAX_CHECK_WHY);
}

#[test]
fn moves_are_counted() {
    let mut checks = Checks::default();
    for _ in 0..4 {
        checks.moved(None, CheckState::Due);
    }
    for to in [CheckState::Agrees, CheckState::Differs] {
        checks.moved(Some(CheckState::Due), CheckState::Open);
        checks.moved(Some(CheckState::Open), to);
    }
    checks.moved(Some(CheckState::Due), CheckState::Uncounted);
    assert_eq!((checks.due, checks.open), (1, 0));
    assert_eq!((checks.agree, checks.differ, checks.uncounted), (1, 1, 1));
    assert_eq!((checks.pending(), checks.total()), (1, 4));
}
