//! Claims about `logs`.

use super::*;

#[test]
fn a_warning_that_no_drill_expects_is_found_and_one_that_it_does_is_not() {
    let log = "2026-11-30T02:40:25.000000Z  INFO a: the server is ready\n\
               2026-11-30T02:40:25.000000Z  WARN a: session lost why=\"late\"\n\
               2026-11-30T02:40:26.000000Z ERROR a: the journal could not be written\n\
               thread 'main' panicked at src/a.rs:1:1\n";
    let expects = [Expected {
        part: "session lost",
        why: "it was frozen",
    }];
    let mut found = Found::default();
    found.read("worker-1", log, &[&expects]);
    assert_eq!((found.expected, found.unexpected_count), (1, 2));
    assert!(found.unexpected[0].text.contains("journal"));
    let mut none = Found::default();
    none.read("worker-1", log, &[]);
    assert_eq!((none.expected, none.unexpected_count), (0, 3));
}
