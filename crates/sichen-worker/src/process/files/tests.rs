//! Slots and the files that they need.

use super::*;

#[test]
fn no_more_slots_are_offered_than_there_are_files_for() {
    for (files, slots, offered) in [
        (1_024, 4, 4),
        (1_024, 150, 56),
        (65_536, 150, 150),
        (64, 10, 1),
        (rlim_t::MAX, 10_000, 10_000),
    ] {
        assert_eq!(
            slots_within(files, slots),
            offered,
            "{files} files, {slots} slots"
        );
    }
}
