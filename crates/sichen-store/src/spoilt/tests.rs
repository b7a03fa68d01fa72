//! How far a listing reads.

use super::*;

#[test]
fn a_page_is_made_wider_by_what_was_passed_over() {
    assert_eq!(wider(10, 10, 10, 10), None);
    assert_eq!(wider(10, 10, 9, 3), None, "there are no more");
    assert_eq!(wider(10, 10, 10, 7), Some(13));
    assert_eq!(wider(10, 13, 13, 8), Some(15));
    assert_eq!(wider(10, 13, 13, 10), None);
    let greatest = 10 + MAX_PASSED_OVER;
    assert_eq!(wider(10, greatest, greatest as usize, 0), None);
}
