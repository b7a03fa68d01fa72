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

#[test]
fn a_long_last_column_is_broken_into_lines_on_a_terminal_only() {
    let rows = || {
        [[
            "1".to_owned(),
            "the bank did not answer within 30 seconds".to_owned(),
        ]]
    };
    let head = ["SHARD", "LAST FAILURE"];
    assert_eq!(
        table_within(Some(40), head, rows().into_iter()),
        "SHARD  LAST FAILURE\n\
         1      the bank did not answer within\n\
         \u{20}      30 seconds\n"
    );
    let whole = table_within(None, head, rows().into_iter());
    assert_eq!(whole.lines().count(), 2, "{whole}");
    // Too narrow for that: the terminal breaks it.
    let narrow = table_within(Some(20), head, rows().into_iter());
    assert_eq!(narrow, whole);
}

#[test]
fn sentences_are_broken_between_words_and_chinese_between_characters() {
    let check = |text: &str, expect: &str| assert_eq!(prose_within(Some(46), text), expect);
    check("short\n", "short\n");
    check(
        "  the store went back: nothing fires and nothing is granted\n",
        "  the store went back: nothing fires and\n    nothing is granted\n",
    );
    check(
        "每天每 5 分钟；时区在那一天把钟拨快一小时的时候，落入空缺的时刻只运行一次。\n",
        "每天每 5 分钟；时区在那一天把钟拨快一小时的\n  时候，落入空缺的时刻只运行一次。\n",
    );
    // What is one word stays one, however long.
    let word = "x".repeat(60);
    let whole = prose_within(Some(46), &word);
    assert_eq!(whole.replace(['\n', ' '], ""), word);
}

#[test]
fn a_shortened_text_says_that_there_is_more() {
    let check = |text: &str, expect: &str| assert_eq!(short(text, 8), expect, "{text:?}");
    check("", "");
    check("exit-1", "exit-1");
    check("exit-1\n", "exit-1");
    check("12345678", "12345678");
    check("123456789", "1234567…");
    check("first\nsecond", "first…");
}

#[test]
fn instants_are_shown_as_exactly_as_wanted() {
    let check = |text: &str, digits, expect: &str| assert_eq!(instant(text, digits), expect);
    check("2026-11-29T20:07:14.35991Z", 0, "2026-11-29T20:07:14Z");
    check("2026-11-29T20:07:14.35991Z", 3, "2026-11-29T20:07:14.359Z");
    check(
        "2026-11-29T20:07:14.5+08:00",
        3,
        "2026-11-29T20:07:14.500+08:00",
    );
    check("2026-11-29T20:07:00+00:00", 3, "2026-11-29T20:07:00Z");
    check("soon", 0, "soon");
}

#[test]
fn a_failure_in_one_line_has_the_last_line_of_what_it_announces() {
    let check = |text: &str, expect: &str| assert_eq!(gist(text, 60), expect, "{text:?}");
    check("no luck", "no luck");
    check("no luck\nat all", "no luck…");
    check(
        "exit code 1; stderr ends with:\nno file x\n",
        "exit code 1; stderr ends with: no file x",
    );
    check(
        "exit code 1; stderr ends with:\nTraceback\n  line 3\n\nKeyError: 'a'\n",
        "exit code 1; stderr ends with: … KeyError: 'a'",
    );
    check("ends with a colon:", "ends with a colon:");
    let long = gist(&format!("why:\n{}", "x".repeat(100)), 60);
    assert_eq!((long.chars().count(), long.ends_with('…')), (60, true));
}

#[test]
fn sentences_are_broken_between_words_on_a_terminal_only() {
    let text =
        "head\n  queue: it waits behind two others of its job, the first of them since noon\n";
    assert_eq!(prose_within(None, text), text);
    let folded = prose_within(Some(50), text);
    assert_eq!(
        folded,
        "head\n  queue: it waits behind two others of its job,\n    the first of them since noon\n"
    );
    let facts = [(
        "Why",
        "it waits behind two others of its job, since noon".to_owned(),
    )];
    let folded = facts_within(Some(50), &facts);
    assert_eq!(
        folded,
        "Why:  it waits behind two others of its job, since\n      noon\n"
    );
}

#[test]
fn instants_are_told_at_the_offset_of_another() {
    let check = |like, expect: &str| {
        assert_eq!(instant_like("2026-03-01T16:00:00.5Z", 3, like), expect);
    };
    check(None, "2026-03-01T16:00:00.500Z");
    check(
        Some("2026-03-02T00:00:00+00:00"),
        "2026-03-01T16:00:00.500Z",
    );
    check(
        Some("2026-03-02T00:00:00+08:00"),
        "2026-03-02T00:00:00.500+08:00",
    );
    check(Some("some day"), "2026-03-01T16:00:00.500Z");
}
