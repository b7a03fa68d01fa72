//! What is taken up of a changed configuration, and what is not.

use super::*;

fn of(text: &str) -> ServerConfig {
    let config: Option<ServerConfig> = serde_saphyr::from_str(text).unwrap();
    config.unwrap_or_default().whole()
}

#[test]
fn a_key_is_taken_up_or_named_for_a_restart_and_never_passed_over() {
    let before = of("store: postgres://me:old@db/x\n");
    assert_eq!(compared(&before, &before), Changed::default());
    let after = of(
        "store: postgres://me:new@db/x\nlog: debug\nretention: 1h\nbeat: 1s\ntls_client_ca: a.pem\n",
    );
    let changed = compared(&before, &after);
    assert_eq!(changed.taken, ["log", "retention"]);
    assert_eq!(changed.for_a_restart, ["beat", "store", "tls_client_ca"]);
    // And back.
    assert_eq!(compared(&after, &before), changed);
}
