//! Claims about idempotency keys.

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::{ClaimKey, HELD, KeptAnswer, KeptKey, KeyVerdict, judge};

fn claim(holder: u128) -> ClaimKey {
    ClaimKey {
        key: "k".repeat(64),
        author: "user a".to_owned(),
        request: "r".repeat(64),
        holder: Uuid::from_u128(holder),
        node: None,
        seed: Uuid::from_u128(100 + holder),
    }
}

fn kept() -> KeptKey {
    KeptKey {
        author: "user a".to_owned(),
        request: "r".repeat(64),
        seed: Uuid::from_u128(7),
        holder: Uuid::from_u128(1),
        node: None,
        at: Timestamp::UNIX_EPOCH,
        held_at: Timestamp::UNIX_EPOCH,
        done: Some(2),
        answer: None,
    }
}

fn after(length: SignedDuration) -> Timestamp {
    Timestamp::UNIX_EPOCH + length
}

const YOURS: KeyVerdict = KeyVerdict::Yours {
    seed: Uuid::from_u128(7),
    done: Some(2),
};

#[test]
fn a_held_key_is_taken_when_its_holder_has_had_its_time_or_its_node_is_gone() {
    let second = SignedDuration::from_secs(1);
    let early = after(HELD - second);
    assert_eq!(judge(&kept(), &claim(2), true, early), KeyVerdict::Held);
    assert_eq!(judge(&kept(), &claim(2), true, after(HELD)), YOURS);
    assert_eq!(judge(&kept(), &claim(2), false, early), YOURS);
    // The same attempt, whose first claim was not heard of, or one that gave the key back.
    assert_eq!(judge(&kept(), &claim(1), true, early), YOURS);
    let free = KeptKey {
        holder: Uuid::nil(),
        ..kept()
    };
    assert_eq!(judge(&free, &claim(2), true, early), YOURS);
}

#[test]
fn a_key_belongs_to_one_author_and_one_request_answered_or_not() {
    let answer = KeptAnswer {
        status: 200,
        kind: "application/json".to_owned(),
        body: Some("{}".to_owned()),
    };
    let answered = KeptKey {
        answer: Some(answer.clone()),
        ..kept()
    };
    for kept in [kept(), answered.clone()] {
        for other in [
            ClaimKey {
                author: "user b".to_owned(),
                ..claim(1)
            },
            ClaimKey {
                request: "s".repeat(64),
                ..claim(1)
            },
        ] {
            let verdict = judge(&kept, &other, false, after(HELD));
            assert_eq!(verdict, KeyVerdict::OtherRequest);
        }
    }
    let late = after(HELD * 100);
    let found = judge(&answered, &claim(2), true, late);
    assert_eq!(found, KeyVerdict::Answered(answer.clone()));
    // One whose body is not kept is made anew, at once.
    let long = KeptKey {
        answer: Some(KeptAnswer {
            body: None,
            ..answer
        }),
        ..kept()
    };
    assert_eq!(judge(&long, &claim(2), true, Timestamp::UNIX_EPOCH), YOURS);
}
