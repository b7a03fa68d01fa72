//! What `sichen export` writes, `sichen verify` reads, whichever store it is from.

use serde_json::{Value, json};

use crate::scene::{Scene, on_both_stores, text};

on_both_stores!(new => an_export_says_what_it_is_from_and_is_accepted);

fn an_export_says_what_it_is_from_and_is_accepted(scene: Scene) {
    let worker = scene.worker("w1", &scene.server.url, 2);
    scene.apply("j", &json!({ "handler": "noop" }), &json!({}), 3);
    scene.client.ok("run j --key k --wait");
    let export = scene.client.ok("export");
    let (head, rest) = export.split_once('\n').unwrap();
    let head: Value = serde_json::from_str(head).unwrap();
    let store = match scene.database {
        None => "sqlite",
        Some(_) => "postgres",
    };
    assert_eq!(head, json!({ "format": 1, "store": store }));
    let file = scene.path("export.jsonl");
    // Whole, and as a release without a first line wrote it.
    for content in [export.as_str(), rest] {
        std::fs::write(&file, content).unwrap();
        let verdict = scene.client.json(&format!("verify --file {}", text(&file)));
        assert_eq!(verdict["outcome"], "ok", "{verdict:#}");
    }
    // The end of an attempt before its grant: of commits in order that is no history.
    let mut forged: Vec<&str> = export.lines().collect();
    let place = |kind: &str| {
        let of_shard = |line: &&str| line.contains(kind) && line.contains("/0\"");
        forged.iter().position(of_shard).unwrap()
    };
    let (granted, ended) = (place("attempt_granted"), place("attempt_ended"));
    forged.swap(granted, ended);
    std::fs::write(&file, forged.join("\n")).unwrap();
    let verdict = scene
        .client
        .run(&format!("verify --file {} -o json", text(&file)));
    assert_eq!(verdict.status.success(), store == "postgres", "{verdict:?}");
    drop(worker);
}
