//! Claims about hints.

use super::*;

#[test]
fn a_hint_is_read_as_it_was_written() {
    let pool = Name::new("gpu-2").unwrap();
    let all = [
        Hint::Members,
        Hint::Trigger,
        Hint::Backfill,
        Hint::Dispatch,
        Hint::Pool(pool),
    ];
    for hint in all {
        assert!(!hint.text().contains(' '));
        assert_eq!(Hint::parse(&hint.text()), Some(hint));
    }
    assert_eq!(Hint::parse("of a later release"), None);
}
