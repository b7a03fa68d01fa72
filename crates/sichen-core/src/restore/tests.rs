//! Claims about where a restore begins.

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn what_is_lost_begins_at_the_newest_event_that_is_left() {
    let restore = Restore::begun(7, at(100), Some((31, at(40))), None);
    assert_eq!((restore.epoch, restore.at), (7, at(100)));
    assert_eq!((restore.mark, restore.newest), (at(40), 31));
    let empty = Restore::begun(1, at(100), None, None);
    assert_eq!((empty.mark, empty.newest), (at(100), 0));
}

/// A backup of a store that waits, or a beginning that is said twice: its newest events are those of the wait.
#[test]
fn a_restore_of_a_store_that_waits_loses_none_of_what_the_first_one_lost() {
    let first = Restore::begun(7, at(100), Some((31, at(40))), None);
    let again = Restore::begun(8, at(300), Some((1_000_035, at(250))), Some(first));
    assert_eq!((again.epoch, again.at), (8, at(300)));
    assert_eq!((again.mark, again.newest), (at(40), 31));
}
