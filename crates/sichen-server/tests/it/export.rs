//! Exports: what was written is read again, and the checker accepts it.

use std::sync::Arc;

use sichen_check::{Options, Sight, check_dump};
use sichen_core::port::HistoryStore;
use sichen_server::rest::export::{Line, parse, read};
use sichen_store::clock::SystemClock;
use sichen_store::memory::MemoryStore;

use crate::node::{Node, ON_REQUEST, json, until};
use crate::runs::{TestWorker, run};

#[tokio::test]
async fn an_export_is_the_store_and_the_checker_accepts_it() {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let node = Node::ready_on(store.clone()).await;
    let _: serde_json::Value = json(node.post("/api/v1/jobs:apply", ON_REQUEST).await).await;
    let worker = TestWorker::start(&node, "w1");
    for key in ["one", "two"] {
        let body = format!(r#"{{"key": "{key}", "parameters": {{"z": 1, "a": "任务"}}}}"#);
        let path = "/api/v1/jobs/default/on-request/runs";
        let _: serde_json::Value = json(node.post(path, body).await).await;
        until("the run succeeds", || async {
            run(&node, &format!("on-request:manual:{key}")).await.state == "succeeded"
        })
        .await;
    }
    worker.drain(&node).await;
    let waiting = r#"{"key": "three"}"#;
    let path = "/api/v1/jobs/default/on-request/runs";
    let _: serde_json::Value = json(node.post(path, waiting).await).await;
    let cancel = "/api/v1/runs/on-request:manual:three/cancel";
    let _: serde_json::Value = json(node.post(cancel, "").await).await;
    let answer = node.get("/api/v1/export").await;
    assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
    let text = answer.text().await.unwrap();
    let only_events = node.get("/api/v1/export?rows=false").await;
    let only_events = only_events.text().await.unwrap();
    node.stop().await;

    let (head, old) = text.split_once('\n').unwrap();
    let Line::Head(head) = parse(head).unwrap() else {
        panic!("{head}");
    };
    assert_eq!(head.format, 1);
    let told = read(text.as_bytes()).unwrap();
    // One from before there was a first line about itself.
    assert_eq!(read(old.as_bytes()).unwrap(), told);
    let kept = store.dump().await.unwrap();
    assert_eq!(
        (&told.jobs, &told.runs, &told.shards),
        (&kept.jobs, &kept.runs, &kept.shards)
    );
    assert_eq!(told.revisions, kept.revisions);
    assert!(!told.revisions.is_empty());
    assert_eq!(told.events[..], kept.events[..told.events.len()]);

    let minimums = vec![(Sight::Event, 20)];
    let options = Options {
        seq_is_commit_order: true,
        quiescent: true,
        minimums,
        ..Options::default()
    };
    let verdict = check_dump(&told, options, &[]);
    assert!(verdict.violations.is_empty(), "{verdict:#?}");

    let mut events = 0;
    sichen_check::jsonl::read(only_events.as_bytes(), |_| events += 1).unwrap();
    assert!(events >= told.events.len());
}

#[test]
fn an_export_of_a_later_form_is_refused_with_words() {
    let later = parse(r#"{"format": 2, "store": "sqlite"}"#);
    let told = later.unwrap_err().to_string();
    assert!(
        told.contains("format 2") && told.contains("up to 1"),
        "{told}"
    );
}
