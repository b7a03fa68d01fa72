//! Every interleaving of the protocol in miniature, within bounds, on one core.

use std::time::Duration;

use sichen_sim::model::{Action, Bounds, Broken, Flaw, Model, ShardState, Sight, State, stranded};
use stateright::{Checker, DiscoveryClassification, HasDiscoveries, Model as _, Property};

struct Checked(Model);

impl stateright::Model for Checked {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.0.initial()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.0.actions(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        self.0.step(last, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn not(s: &State, broken: Broken) -> bool {
            s.broken != Some(broken)
        }
        vec![
            Property::always("an old term's write never lands", |_, s| {
                not(s, Broken::OldTermLanded)
            }),
            Property::always("an old token's write never lands", |_, s| {
                not(s, Broken::OldTokenLanded)
            }),
            Property::always(
                "an old token's write never lands in the user's store",
                |_, s| not(s, Broken::OldTokenLandedAtUser),
            ),
            Property::always("a token is worked under by one incarnation", |_, s| {
                not(s, Broken::TokenShared)
            }),
            Property::always("a result is accepted at most once", |_, s| {
                not(s, Broken::ResultTwice)
            }),
            Property::always("an attempt ends once", |_, s| not(s, Broken::EndedTwice)),
            Property::always("no acknowledged checkpoint is lost", |_, s| {
                not(s, Broken::CheckpointLost) && s.shard.checkpoint >= s.acked_checkpoint
            }),
            Property::always("an item is counted once in the user's store", |_, s| {
                not(s, Broken::ItemTwice)
            }),
            Property::always("success means every item is counted", |_, s| {
                not(s, Broken::ItemMissing)
            }),
            Property::always("no shard is stranded", |_, s| !stranded(s)),
            Property::sometimes("the shard succeeds after a takeover", |_, s: &State| {
                s.shard.state == ShardState::Succeeded && s.shard.grants > 1
            }),
        ]
    }
}

const ALL: Bounds = Bounds {
    terms: 2,
    grants: 2,
    freezes: 1,
    crashes: 1,
};
const LIMIT: Duration = Duration::from_secs(120);

/// Tries every order within `bounds`; each of `sights` must have happened, or the check was empty.
fn check_holds(bounds: Bounds, sights: &[Sight]) {
    let checker = Checked(Model::new(bounds, None))
        .checker()
        .threads(1)
        .timeout(LIMIT)
        .spawn_bfs()
        .join();
    assert!(
        checker.is_done(),
        "{bounds:?} was not exhausted in {LIMIT:?}"
    );
    for (name, path) in checker.discoveries() {
        let classified = checker.discovery_classification(name);
        assert!(
            matches!(classified, DiscoveryClassification::Example),
            "{name}: {:#?}",
            path.into_actions()
        );
    }
    for sight in sights {
        assert!(
            checker.model().0.seen.count(*sight) > 0,
            "{sight:?} never happened within {bounds:?}"
        );
    }
    assert!(
        checker
            .discovery("the shard succeeds after a takeover")
            .is_some()
    );
}

#[test]
fn promises_hold_in_every_order_of_takeovers_and_a_freeze() {
    check_holds(
        Bounds { crashes: 0, ..ALL },
        &[
            Sight::ServerTakeover,
            Sight::OldTermRefused,
            Sight::OldTokenRefused,
            Sight::OldTokenRefusedByUser,
            Sight::CheckpointUnderExpiredSessionRefused,
            Sight::FinishAfterExpiryAccepted,
            Sight::FinishAnsweredDuplicate,
            Sight::ResumedFromCheckpoint,
            Sight::OldHolderCommittedBeforeOpen,
            Sight::SecondIncarnationWorked,
            Sight::FrozenWorkerWentOn,
        ],
    );
}

#[test]
fn promises_hold_in_every_order_of_takeovers_and_a_crash() {
    let sights = [
        Sight::ServerTakeover,
        Sight::OldTermRefused,
        Sight::SecondIncarnationWorked,
    ];
    check_holds(Bounds { freezes: 0, ..ALL }, &sights);
}

#[test]
fn promises_hold_in_every_order_of_a_freeze_and_a_crash() {
    let sights = [
        Sight::FrozenWorkerWentOn,
        Sight::SecondIncarnationWorked,
        Sight::OldTokenRefusedByUser,
    ];
    check_holds(Bounds { terms: 1, ..ALL }, &sights);
}

#[test]
#[ignore = "3 million states: run with --cargo-profile sim --run-ignored all"]
fn promises_hold_in_every_order_of_all_faults_together() {
    check_holds(
        ALL,
        &[
            Sight::ServerTakeover,
            Sight::FrozenWorkerWentOn,
            Sight::SecondIncarnationWorked,
        ],
    );
}

fn check_flaw(flaw: Flaw, expect: &[&str]) {
    let checker = Checked(Model::new(ALL, Some(flaw)))
        .checker()
        .threads(1)
        .timeout(LIMIT)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let found: Vec<&str> = checker
        .discoveries()
        .into_keys()
        .filter(|name| expect.contains(name))
        .collect();
    assert!(
        !found.is_empty(),
        "{flaw:?} was not found in {} states",
        checker.unique_state_count()
    );
}

#[test]
fn a_session_without_incarnation_is_caught() {
    check_flaw(
        Flaw::NoIncarnation,
        &[
            "a token is worked under by one incarnation",
            "no shard is stranded",
        ],
    );
}

#[test]
fn a_reap_that_keeps_the_token_is_caught() {
    check_flaw(Flaw::ReapKeepsToken, &["an attempt ends once"]);
}

#[test]
fn a_missing_term_check_is_caught() {
    check_flaw(Flaw::TermUnchecked, &["an old term's write never lands"]);
}

#[test]
fn a_finish_that_is_not_idempotent_is_caught() {
    check_flaw(
        Flaw::FinishNotIdempotent,
        &["a result is accepted at most once"],
    );
}

#[test]
fn a_start_from_the_display_checkpoint_is_caught() {
    check_flaw(
        Flaw::StartFromDisplay,
        &["an item is counted once in the user's store"],
    );
}

#[test]
fn a_checkpoint_that_moves_back_is_caught() {
    check_flaw(
        Flaw::CheckpointMovesBack,
        &["no acknowledged checkpoint is lost"],
    );
}

#[test]
fn an_unfenced_checkpoint_is_caught() {
    check_flaw(
        Flaw::CheckpointUnfenced,
        &["an old token's write never lands"],
    );
}

#[test]
fn an_unfenced_user_store_is_caught() {
    check_flaw(
        Flaw::UserStoreUnfenced,
        &["an old token's write never lands in the user's store"],
    );
}
