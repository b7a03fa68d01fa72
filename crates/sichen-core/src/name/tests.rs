//! Claims about names.

use super::*;

fn check(text: &str, expect: Result<(), Error>) {
    assert_eq!(Name::new(text).map(|_| ()), expect, "{text:?}");
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
