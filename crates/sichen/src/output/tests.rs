//! Claims about how answers look.

use super::*;

#[test]
fn lengths_are_shown_in_two_units_at_most() {
    let check = |ms: i64, expect: &str| {
        assert_eq!(span(SignedDuration::from_millis(ms)), expect, "{ms}");
    };
    check(-5, "0ms");
    check(7, "7ms");
    check(1_500, "1.5s");
    check(12_500, "12s");
    check(61_000, "1m01s");
    check(3_660_000, "1h01m");
    check(90_000_000, "1d01h");
}

#[test]
fn tables_have_no_trailing_blanks_and_no_control_characters() {
    let rows = [["a\u{1b}[31m".to_owned(), String::new()]];
    assert_eq!(
        table(["X", "LONG"], rows.into_iter()),
        "X       LONG\na [31m\n"
    );
}

#[test]
fn numbers_are_grouped_by_thousands() {
    assert_eq!(grouped(0), "0");
    assert_eq!(grouped(999), "999");
    assert_eq!(grouped(1_234_567), "1,234,567");
}
