//! Claims about `stop`.

use super::*;

#[test]
fn each_condition_stops_by_itself_and_none_holds_of_a_sound_cluster() {
    let sound = Look {
        free_bytes: FREE_BYTES,
        ..Look::harmless()
    };
    assert_eq!(reason(&sound), None);
    let each = [
        Look {
            doubled: vec!["a".into()],
            ..sound.clone()
        },
        Look {
            deaths: vec!["server".into()],
            ..sound.clone()
        },
        Look {
            free_bytes: FREE_BYTES - 1,
            ..sound.clone()
        },
        Look {
            silence_ms: SILENCE_MS + 1,
            ..sound.clone()
        },
    ];
    for (look, condition) in each.iter().zip(CONDITIONS) {
        assert!(reason(look).unwrap().starts_with(condition));
    }
}
