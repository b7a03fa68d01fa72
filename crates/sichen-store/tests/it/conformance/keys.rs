//! Idempotency keys: one holder at a time, and what is written under one that was lost.

use futures::executor::block_on;
use futures::future::join_all;
use jiff::SignedDuration;
use sichen_core::event::Kind;
use sichen_core::ids::NodeId;
use sichen_core::keys::{
    ClaimKey, HELD, KEPT, KeptAnswer, KeyHold, KeyVerdict, MAX_KEYS_OF_AUTHOR,
};
use sichen_core::model::DutyKey;
use sichen_core::port::{ApplyVerdict, Error, Op};
use uuid::Uuid;

use crate::bench::{Bench, wait};

fn claim(holder: u128) -> ClaimKey {
    ClaimKey {
        key: "a".repeat(64),
        author: "user a".to_owned(),
        request: "b".repeat(64),
        holder: Uuid::from_u128(holder),
        node: None,
        seed: Uuid::from_u128(holder + 1_000),
    }
}

fn claimed(b: &Bench, claim: ClaimKey) -> KeyVerdict {
    wait(b.store.claim_key(claim))
}

fn yours(seed: u128, done: Option<u32>) -> KeyVerdict {
    KeyVerdict::Yours {
        seed: Uuid::from_u128(seed),
        done,
    }
}

fn answer(body: Option<&str>) -> KeptAnswer {
    KeptAnswer {
        status: 201,
        kind: "application/json".to_owned(),
        body: body.map(str::to_owned),
    }
}

fn answered(b: &Bench, holder: u128, answer: Option<KeptAnswer>) -> bool {
    let (key, holder) = ("a".repeat(64), Uuid::from_u128(holder));
    wait(b.store.answer_key(key, holder, answer))
}

/// An operation for a step of the request.
fn under(b: &Bench, holder: u128, step: u32) -> Op {
    Op {
        hold: Some(KeyHold {
            key: "a".repeat(64),
            holder: Uuid::from_u128(holder),
            step,
        }),
        ..b.op()
    }
}

pub fn a_key_is_answered_as_its_request_was(b: &Bench) {
    assert_eq!(claimed(b, claim(1)), yours(1_001, None));
    assert_eq!(claimed(b, claim(1)), yours(1_001, None), "not heard of");
    assert_eq!(claimed(b, claim(2)), KeyVerdict::Held);
    assert!(!answered(b, 2, Some(answer(Some("no")))));
    let kept = answer(Some("{\"ä\":\"\\u0000\"}"));
    assert!(answered(b, 1, Some(kept.clone())));
    assert_eq!(claimed(b, claim(2)), KeyVerdict::Answered(kept.clone()));
    b.pass(3_600);
    assert_eq!(claimed(b, claim(3)), KeyVerdict::Answered(kept));
    let body = ClaimKey {
        request: "c".repeat(64),
        ..claim(4)
    };
    assert_eq!(claimed(b, body), KeyVerdict::OtherRequest);
    let caller = ClaimKey {
        author: "user b".to_owned(),
        ..claim(4)
    };
    assert_eq!(claimed(b, caller), KeyVerdict::OtherRequest);
    let other = ClaimKey {
        key: "d".repeat(64),
        ..claim(4)
    };
    assert_eq!(claimed(b, other), yours(1_004, None));
}

pub fn a_key_goes_to_a_repeat_when_its_holder_is_gone(b: &Bench) {
    let node = b.node();
    let on = |node: NodeId, holder: u128| ClaimKey {
        node: Some(node),
        ..claim(holder)
    };
    assert_eq!(claimed(b, on(node, 1)), yours(1_001, None));
    assert_eq!(claimed(b, on(node, 2)), KeyVerdict::Held);
    // Its time is over, though its node lives.
    b.clock.advance(HELD);
    assert_eq!(claimed(b, on(node, 2)), yours(1_001, None));
    // Its node is over, though its time is not.
    assert_eq!(claimed(b, on(node, 3)), KeyVerdict::Held);
    assert!(wait(b.store.end_node(b.op(), node, "stopped".to_owned())));
    assert_eq!(claimed(b, on(NodeId(999_999), 3)), yours(1_001, None));
    // One that is on a node that nobody knows is gone too.
    assert_eq!(claimed(b, claim(4)), yours(1_001, None));
    // And one that was given back, or whose answer is not kept whole, is free at once.
    assert!(answered(b, 4, None));
    assert_eq!(claimed(b, claim(5)), yours(1_001, None));
    assert!(answered(b, 5, Some(answer(None))));
    assert_eq!(claimed(b, claim(6)), yours(1_001, None));
}

pub fn what_was_done_under_a_key_is_known_to_its_next_holder(b: &Bench) {
    assert_eq!(claimed(b, claim(1)), yours(1_001, None));
    let job = b.new_job("nightly");
    let made = wait(b.store.apply_job(under(b, 1, 0), job.clone()));
    assert!(matches!(made, ApplyVerdict::Created(_)));
    // What is refused is no step.
    let refused = wait(b.store.apply_job(under(b, 1, 1), job));
    assert_eq!(refused, ApplyVerdict::Conflict);
    b.clock.advance(HELD);
    assert_eq!(claimed(b, claim(2)), yours(1_001, Some(0)));
    let made = wait(b.store.apply_job(under(b, 2, 1), b.new_job("hourly")));
    assert!(matches!(made, ApplyVerdict::Created(_)));
    assert!(answered(b, 2, None));
    assert_eq!(claimed(b, claim(3)), yours(1_001, Some(1)));
}

pub fn nothing_is_written_under_a_key_that_was_lost(b: &Bench) {
    assert_eq!(claimed(b, claim(1)), yours(1_001, None));
    b.clock.advance(HELD);
    assert_eq!(claimed(b, claim(2)), yours(1_001, None));
    let late = block_on(b.store.apply_job(under(b, 1, 0), b.new_job("nightly")));
    assert!(matches!(late, Err(Error::Busy(_))), "{late:?}");
    assert!(b.dump().jobs.is_empty());
    assert_eq!(
        claimed(b, claim(2)),
        yours(1_001, None),
        "and noted is none"
    );
    let made = wait(b.store.apply_job(under(b, 2, 0), b.new_job("nightly")));
    assert!(matches!(made, ApplyVerdict::Created(_)));
    let dump = b.dump();
    let made = dump.events.iter().filter(|e| e.kind == Kind::JobApplied);
    assert_eq!(made.count(), 1);
}

pub fn keys_are_kept_for_a_time_and_in_bounded_number(b: &Bench) {
    let numbered = |n: u32| ClaimKey {
        key: format!("{n:064}"),
        ..claim(u128::from(n))
    };
    let all: Vec<u32> = (0..MAX_KEYS_OF_AUTHOR).collect();
    for some in all.chunks(50) {
        let claims = some.iter().map(|n| b.store.claim_key(numbered(*n)));
        for verdict in block_on(join_all(claims)) {
            assert!(
                matches!(verdict, Ok(KeyVerdict::Yours { .. })),
                "{verdict:?}"
            );
        }
    }
    let more = numbered(MAX_KEYS_OF_AUTHOR);
    assert_eq!(claimed(b, more.clone()), KeyVerdict::Full);
    let another = ClaimKey {
        author: "user b".to_owned(),
        ..more.clone()
    };
    assert!(matches!(claimed(b, another), KeyVerdict::Yours { .. }));
    let janitor = b.fence(DutyKey::Janitor);
    let sweep = || {
        let removed = b.store.remove_history(b.op(), janitor.clone(), b.now(), 10);
        wait(removed).more
    };
    b.clock.advance(KEPT);
    assert!(!sweep(), "they are kept to their end");
    assert!(matches!(
        claimed(b, numbered(0)),
        KeyVerdict::Yours { seed, .. } if seed == Uuid::from_u128(1_000)
    ));
    b.clock.advance(SignedDuration::from_secs(1));
    let mut sweeps = 1;
    while sweep() {
        sweeps += 1;
    }
    assert!(sweeps > 4, "in small batches: {sweeps}");
    assert!(matches!(claimed(b, more), KeyVerdict::Yours { .. }));
}
