//! Turns, one move at a time.

use sichen_core::ids::OpId;

use super::*;

fn told(turns: &mut Turns, id: u64, waits: Option<&str>, most: u64) {
    let data = Fields {
        waits: waits.map(str::to_owned),
        most: Some(most),
        ..Fields::default()
    };
    let event = Event {
        seq: id,
        entity: Entity::Run(RunId(id)),
        ver: 1,
        at: Timestamp::UNIX_EPOCH,
        op: OpId(uuid::Uuid::nil()),
        actor: String::new(),
        duty: None,
        kind: Kind::RunCreated,
        from: String::new(),
        to: "scheduled".to_owned(),
        attempt: None,
        token: None,
        cause: String::new(),
        data: String::new(),
    };
    turns.created(RunId(id), JobUid(uuid::Uuid::nil()), &event, &data);
}

fn broken(wrong: Wrong) -> Option<Invariant> {
    wrong.map(|(invariant, _)| invariant)
}

#[test]
fn who_waits_longest_goes_first() {
    let mut turns = Turns::default();
    told(&mut turns, 1, None, 1);
    told(&mut turns, 2, Some(QUEUE), 1);
    told(&mut turns, 3, Some(QUEUE), 1);
    turns.closed(RunId(1), Timestamp::UNIX_EPOCH);
    assert_eq!(broken(turns.released(RunId(3))), Some(Invariant::I30));
    assert_eq!(broken(turns.granted(RunId(2))), Some(Invariant::I30));
}

#[test]
fn no_more_go_than_may() {
    let mut turns = Turns::default();
    told(&mut turns, 1, None, 2);
    told(&mut turns, 2, None, 2);
    told(&mut turns, 3, Some(QUEUE), 2);
    assert_eq!(broken(turns.released(RunId(3))), Some(Invariant::I29));
}

#[test]
fn what_is_replaced_is_over_first() {
    let mut turns = Turns::default();
    told(&mut turns, 1, None, 1);
    told(&mut turns, 2, Some(REPLACED), 1);
    assert_eq!(broken(turns.granted(RunId(2))), Some(Invariant::I31));
    assert_eq!(broken(turns.released(RunId(2))), Some(Invariant::I31));
    told(&mut turns, 3, Some(REPLACED), 1);
    turns.closed(RunId(1), Timestamp::UNIX_EPOCH);
    turns.closed(RunId(2), Timestamp::UNIX_EPOCH);
    assert_eq!(broken(turns.released(RunId(3))), None);
    assert_eq!(broken(turns.granted(RunId(3))), None);
}

#[test]
fn what_was_over_before_its_turn_and_is_reopened_waits_no_more() {
    let mut turns = Turns::default();
    told(&mut turns, 1, None, 1);
    told(&mut turns, 2, Some(QUEUE), 1);
    assert_eq!(broken(turns.granted(RunId(2))), Some(Invariant::I30));
    turns.closed(RunId(2), Timestamp::UNIX_EPOCH);
    turns.reopened(RunId(2), false);
    assert_eq!(broken(turns.granted(RunId(2))), None);
}
