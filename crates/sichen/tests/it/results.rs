//! What shards return is kept, and shown to whoever asks.

use serde_json::json;

use crate::scene::{Scene, on_both_stores};

on_both_stores!(new => what_an_attempt_returned_is_kept_as_it_was_said);

fn what_an_attempt_returned_is_kept_as_it_was_said(scene: Scene) {
    let _worker = scene.worker("w1", &scene.server.url, 2);
    let echo = json!({ "handler": "echo" });
    scene.apply(
        "small",
        &echo,
        &json!({ "rows": 9000, "of": "\u{e9}\u{1b}[31m" }),
        1,
    );
    scene.apply("large", &echo, &json!({ "rows": "x".repeat(5_000) }), 1);
    scene.apply("none", &json!({ "handler": "noop" }), &json!({}), 1);
    for job in ["small", "large", "none"] {
        scene.client.ok(&format!("run {job} --key k"));
        scene.settles(&format!("{job}:manual:k"), "succeeded");
    }
    let attempt = |job: &str| {
        let text = scene
            .client
            .ok(&format!("describe shard {job}:manual:k 0 -o json"));
        let view: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        view["attempts"][0].clone()
    };
    let small = attempt("small");
    let result: serde_json::Value =
        serde_json::from_str(small["result"].as_str().expect("a result")).expect("JSON");
    assert_eq!(result, json!({ "rows": 9000, "of": "\u{e9}\u{1b}[31m" }));
    let large = attempt("large");
    assert_eq!(large["result"], json!(null));
    assert!(large["result_bytes"].as_u64() > Some(5_000), "{large}");
    let none = attempt("none");
    assert_eq!([&none["result"], &none["result_bytes"]], [&json!(null); 2]);

    let people = scene.client.ok("describe shard small:manual:k 0");
    let number = scene.client.json("runs small")["items"][0]["id"].to_string();
    assert_eq!(
        scene.client.ok(&format!("describe shard {number}/0")),
        people
    );
    let which = scene.client.fails("describe shard small:manual:k", 2);
    assert!(which.contains("which shard of small"), "{which}");
    assert!(
        people.contains("Attempt 1 returned:") && people.contains("9000"),
        "{people}"
    );
    assert!(
        !people.contains('\u{1b}'),
        "a result can't write to a terminal: {people:?}"
    );
    let people = scene.client.ok("describe shard large:manual:k 0");
    assert!(people.contains("too many to be kept"), "{people}");
    scene.history_is_accepted();
}
