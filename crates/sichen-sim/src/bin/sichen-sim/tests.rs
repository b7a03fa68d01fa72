//! What the program prints for whoever is to play a seed again.

use super::*;

fn told(words: &[&str]) -> String {
    let words = ["sichen-sim"].iter().chain(words);
    Arguments::parse_from(words).replay(7, &["jobs=2".to_owned()])
}

/// Each of them is read again as it stands.
#[test]
fn the_line_that_plays_a_seed_again_says_all_that_was_chosen() {
    let words = [
        "--saturated",
        "--secs",
        "9",
        "--set",
        "link_cut=off",
        "--threads",
        "2",
    ];
    assert_eq!(
        told(&words),
        "cargo run --profile sim -p sichen-sim -- --seeds 7 --saturated --secs 9 \
         --set link_cut=off --set jobs=2 --keep DIR"
    );
}

#[cfg(feature = "zoo")]
#[test]
fn it_says_which_rule_was_left_out() {
    assert_eq!(
        told(&["--zoo", "reap-keeps-token"]),
        "cargo run --profile sim -p sichen-sim --features zoo -- --seeds 7 \
         --zoo reap-keeps-token --set jobs=2 --keep DIR"
    );
}
