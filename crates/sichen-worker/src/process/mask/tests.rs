//! SEC-008: what is hidden, and that nothing else is.

use super::Mask;

/// Everything that a mask passes on of these pieces.
fn masked(secrets: &[&str], pieces: &[&[u8]]) -> Vec<u8> {
    let mut mask = Mask::of(secrets.iter().copied());
    let mut all = Vec::new();
    for piece in pieces {
        all.extend_from_slice(mask.pass(piece));
    }
    all.extend_from_slice(mask.end());
    all
}

/// Every byte of every occurrence, found by looking at the whole.
fn expected(secrets: &[&str], text: &[u8]) -> Vec<u8> {
    let mut shown = text.to_vec();
    for secret in secrets.iter().filter(|s| s.len() >= 4) {
        for at in 0..text.len() {
            if text[at..].starts_with(secret.as_bytes()) {
                shown[at..at + secret.len()].fill(b'*');
            }
        }
    }
    shown
}

#[test]
fn a_secret_is_hidden_however_it_is_cut() {
    let secrets = ["hunter22", "ababab", "babc", "abc"];
    for text in [
        "password=hunter22 and again hunter22hunter22",
        "hunter2 hunter hunter222 xhunter22",
        "abababab ababc abababc ababababababc",
        "hunter22",
        "hunter2",
        "",
        "aba",
    ] {
        let text = text.as_bytes();
        let whole = expected(&secrets, text);
        assert_eq!(masked(&secrets, &[text]), whole);
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                let shown = masked(&secrets, &pieces);
                assert_eq!(shown, whole, "{first} {second}");
            }
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(masked(&secrets, &bytes), whole, "byte by byte");
    }
}

#[test]
fn what_is_no_secret_passes_at_once_whatever_it_is() {
    let every: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let mut mask = Mask::of(["no such text", "abc", ""]);
    let mut passed = mask.pass(&every).len();
    passed += mask.pass(b"nn no such tex").len();
    assert_eq!(passed, 100_003, "the beginning of one alone is held back");
    assert_eq!(mask.end(), b"no such tex");
    assert_eq!(Mask::of([]).pass(&every), every);
}
