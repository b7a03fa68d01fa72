//! Claims about lengths of time.

use super::*;

#[test]
fn a_length_is_not_negative_and_not_longer_than_any_use_of_it() {
    for fine in ["0s", "500ms", "1h 30m", "1000000h"] {
        assert!(fine.parse::<Duration>().is_ok(), "{fine}");
    }
    for (bad, why) in [
        ("-1s", "is not a length of time"),
        ("soon", "is not a length of time"),
        ("1000000h 1ns", "is longer than"),
        ("999999999999h", "is longer than"),
    ] {
        let told = bad.parse::<Duration>().unwrap_err();
        assert!(told.contains(why), "{told}");
    }
}
