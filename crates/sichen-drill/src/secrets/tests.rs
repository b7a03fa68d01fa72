//! Claims about `secrets`.

use super::*;

#[test]
fn a_planted_secret_is_nowhere_in_what_was_masked() {
    let mut secrets = Secrets::default();
    secrets.add("hunter2-and-more");
    secrets.add("hunter2");
    let text = "a hunter2-and-more b \"hunter2\" hunter2hunter2";
    let masked = secrets.mask(text);
    assert_eq!(masked, "a *** b \"***\" ******");
    assert!(secrets.is_in(text) && !secrets.is_in(&masked));
}

#[test]
fn the_password_of_an_address_is_masked_even_if_nobody_named_it() {
    let check = |text: &str, expect: &str| {
        let secrets = Secrets::default();
        assert_eq!(secrets.mask(text), expect);
        assert!(!secrets.is_in(&secrets.mask(text)), "{text}");
    };
    check("postgres://u:p@ss@h/db x", "postgres://u:***@h/db x");
    check(
        "\"postgres://u@h/db?password=abc&x=1\"",
        "\"postgres://u@h/db?password=***&x=1\"",
    );
    check("host=h password=abc user=u", "host=h password=*** user=u");
    check("http://127.0.0.1:7070/api", "http://127.0.0.1:7070/api");
    check("a 10:20 b@c", "a 10:20 b@c");
}

#[test]
fn a_short_word_is_no_secret() {
    let mut secrets = Secrets::default();
    secrets.add("ab");
    assert_eq!(secrets.mask("about"), "about");
}
