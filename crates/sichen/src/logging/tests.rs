//! What is read as levels.

use super::parsed;

#[test]
fn a_level_is_told_from_a_misspelt_one() {
    for good in [
        "debug",
        "WARN",
        "off",
        "warn,sichen_engine=debug",
        "info, h2=off",
    ] {
        assert!(parsed(good).is_ok(), "{good}");
    }
    for bad in ["", "debgu", "info,", "sichen_engine", "sichen_engine=loud"] {
        assert!(parsed(bad).is_err(), "{bad:?}");
    }
}
