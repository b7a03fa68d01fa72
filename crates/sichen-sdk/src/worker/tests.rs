//! What the builder makes of what it is given.

use super::*;

#[test]
fn a_host_name_becomes_a_name() {
    for (host, name) in [
        ("node-1.example\n", "node-1.example"),
        ("Build_Box 7", "build_box-7"),
        ("-x-", "x"),
        ("司辰", "worker"),
        ("", "worker"),
    ] {
        assert_eq!(name_from(host), name, "{host:?}");
    }
}

#[test]
fn an_unusable_worker_is_refused_with_what_it_lacks() {
    let check = |builder: Builder, word: &str| {
        let error = builder.build().expect_err("not usable").to_string();
        assert!(error.contains(word), "{error}");
    };
    let noop = || Worker::builder().handler("noop", |_, (): ()| async { Ok(()) });
    check(noop(), "server");
    check(noop().server("http://127.0.0.1:1"), "data directory");
    check(
        noop().server("127.0.0.1:1").data_dir("/nonexistent"),
        "http://host:port",
    );
    check(Worker::builder().server("http://127.0.0.1:1"), "handler");
    check(noop().server("http://127.0.0.1:1").slots(0), "slot");
    let probe = |_, _| async { Ok(Probed::DidNot) };
    check(
        noop().server("http://127.0.0.1:1").probe("other", probe),
        "other",
    );
}
