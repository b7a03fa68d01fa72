//! Claims about names.

use super::*;

fn check(text: &str, expect: Result<(), Error>) {
    assert_eq!(Name::new(text).map(|_| ()), expect, "{text:?}");
}

/// NAME-001: the limit is said where the name is given, so none is accepted and fails later.
#[test]
fn long_names_are_refused_with_the_limit() {
    for (text, bytes) in [
        ("a".repeat(64), 64),
        ("a".repeat(128), 128),
        ("a".repeat(255), 255),
        ("a".repeat(256), 256),
        ("a".repeat(10_000), 10_000),
        ("任".repeat(255), 765),
        ("🙂".repeat(255), 1_020),
    ] {
        let error = Name::new(&text).unwrap_err();
        assert_eq!(error, Error::TooLong { bytes });
        assert!(error.to_string().ends_with("the limit is 63"), "{error}");
    }
    for length in [1, 52, 63] {
        assert!(Name::new(&"a".repeat(length)).is_ok());
    }
}

/// NAME-002, NAME-004: what does not survive addresses, files and labels unchanged is refused.
#[test]
fn special_characters_are_refused() {
    for text in [
        "a/b",
        "a b",
        "a%2Fb",
        "a+b",
        "#1",
        "?x=1",
        "a&b",
        "..",
        ".",
        "a\\b",
        "a\"b'c",
        "ünïcode",
        "任务",
        "a ",
        "a\tb",
        "a\0",
        "e\u{301}",
        "é",
        "\u{202e}abc",
        "a\u{200d}b",
    ] {
        assert!(Name::new(text).is_err(), "{text:?} was accepted");
    }
}

#[test]
fn names_keep_to_the_documented_set() {
    check("a", Ok(()));
    check("daily-settlement.v2_x", Ok(()));
    check(&"x".repeat(63), Ok(()));
    check(&"x".repeat(64), Err(Error::TooLong { bytes: 64 }));
    check(&"任".repeat(255), Err(Error::TooLong { bytes: 765 }));
    check("", Err(Error::Empty));
    check(" \t", Err(Error::Empty));
    check("a/b", Err(Error::Character { found: '/', at: 1 }));
    check(
        "任务",
        Err(Error::Character {
            found: '任', at: 0
        }),
    );
    check("Backup", Err(Error::Character { found: 'B', at: 0 }));
    check("..", Err(Error::Edge));
    check("a-", Err(Error::Edge));
}
