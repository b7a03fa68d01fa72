//! NAME-004: any text through the API, wherever a caller may write one.

use std::fmt::Write as _;

use reqwest::Method;
use serde_json::{Value, json};
use sichen_server::rest::wire::StartedRun;

use crate::node::{Node, json as body_of, problem};

/// Emoji, both directions, a sign of direction, a joiner, and one letter composed and decomposed.
const TEXTS: [&str; 6] = [
    "😀👩‍👩‍👧 ok",
    "שלום \u{202e}abc",
    "a\u{200d}b",
    "caf\u{e9}",
    "cafe\u{301}",
    "司辰 %2F/?#&+ \"'<b>\\ \u{1f}\u{85}",
];

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        write!(all, "%{byte:02X}").unwrap();
        all
    })
}

#[tokio::test]
async fn any_text_is_shown_as_it_was_given() {
    let node = Node::start().await;
    let mut ids = Vec::new();
    for (n, text) in TEXTS.iter().enumerate() {
        let document = json!({
            "apiVersion": "sichen/v1", "kind": "Job",
            "metadata": { "name": format!("j{n}"), "title": text },
            "spec": { "run": { "handler": "work" }, "parameters": { *text: text } },
        });
        body_of::<Value>(node.post("/api/v1/jobs:apply", document.to_string()).await).await;
        let job: Value = node.read(&format!("/api/v1/jobs/default/j{n}")).await;
        assert_eq!(job["document"]["metadata"]["title"], *text, "{job}");
        assert_eq!(job["document"]["spec"]["parameters"][text], *text, "{job}");
        let asked = json!({ "key": "k", "parameters": { *text: [text] } });
        let path = format!("/api/v1/jobs/default/j{n}/runs");
        let started: StartedRun = body_of(node.post(&path, asked.to_string()).await).await;
        let run: Value = node.read(&format!("/api/v1/runs/{}", started.id)).await;
        assert_eq!(run["parameters"][text], json!([text]), "{run}");
        // All of one job: each is a key of its own.
        let asked = json!({ "key": text }).to_string();
        let started = node.post("/api/v1/jobs/default/j0/runs", asked).await;
        let started: StartedRun = body_of(started).await;
        let by_number: Value = node.read(&format!("/api/v1/runs/{}", started.id)).await;
        assert_eq!(by_number["key"], format!("j0:manual:{text}"), "{by_number}");
        let key = encoded(&format!("j0:manual:{text}"));
        let by_key: Value = node.read(&format!("/api/v1/runs/{key}")).await;
        assert_eq!(by_key["id"], started.id);
        ids.push(started.id);
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(
        ids.len(),
        TEXTS.len(),
        "composed and decomposed are two keys"
    );
    node.stop().await;
}

/// A NUL character, which no database can keep, and half a pair, which is no text at all.
#[tokio::test]
async fn what_no_store_can_keep_is_refused_wherever_it_stands() {
    let node = Node::start().await;
    let job =
        "{apiVersion: sichen/v1, kind: Job, metadata: {name: j}, spec: {run: {handler: work}}}";
    body_of::<Value>(node.post("/api/v1/jobs:apply", job).await).await;
    let run = node
        .post("/api/v1/jobs/default/j/runs", r#"{"key":"k"}"#)
        .await;
    let run: StartedRun = body_of(run).await;
    let discard = format!("/runs/{}/discard", run.id);
    let discard = discard.as_str();
    let before: Value = node.read("/api/v1/events?limit=1000").await;
    for bad in [r"a\u0000b", r"\ud800", r"\udc00x"] {
        for (path, body) in [
            ("/jobs/default/j/runs", r#"{"key":"BAD"}"#),
            (
                "/jobs/default/j/runs",
                r#"{"key":"x","parameters":{"a":"BAD"}}"#,
            ),
            (
                "/jobs/default/j/runs",
                r#"{"key":"x","parameters":{"a":[{"b":["BAD"]}]}}"#,
            ),
            (
                "/jobs/default/j/runs",
                r#"{"key":"x","parameters":{"BAD":1}}"#,
            ),
            (
                "/jobs/default/j/backfills",
                r#"{"key":"BAD","from":"2020-01-01T00:00:00Z","to":"2020-02-01T00:00:00Z"}"#,
            ),
            (
                "/jobs/default/j/backfills",
                r#"{"key":"x","reason":"BAD","from":"2020-01-01T00:00:00Z","to":"2020-02-01T00:00:00Z"}"#,
            ),
            (discard, r#"{"reason":"BAD"}"#),
            (discard, r#"{"reason":"why","by":"BAD"}"#),
            (
                "/tokens",
                r#"{"name":"BAD","roles":[{"namespace":"*","role":"viewer"}]}"#,
            ),
            ("/tokens", r#"{"name":"x","pool":"p","handlers":["BAD"]}"#),
            (
                "/tokens",
                r#"{"name":"x","roles":[{"namespace":"BAD","role":"viewer"}]}"#,
            ),
            (
                "/restore/decide",
                r#"{"as":"done","reason":"BAD","evidence":"x"}"#,
            ),
            (
                "/restore/decide",
                r#"{"as":"done","reason":"x","evidence":"BAD"}"#,
            ),
            (
                "/jobs:apply",
                r#"{"apiVersion":"sichen/v1","kind":"Job","metadata":{"name":"t","title":"BAD"},"spec":{"run":{"handler":"work"}}}"#,
            ),
            (
                "/jobs:apply",
                r#"{"apiVersion":"sichen/v1","kind":"Job","metadata":{"name":"t"},"spec":{"run":{"handler":"BAD"}}}"#,
            ),
        ] {
            let body = body.replace("BAD", bad);
            let answer = node.post(&format!("/api/v1{path}"), body.clone()).await;
            let status = answer.status().as_u16();
            assert!(matches!(status, 400 | 409), "{path} {body}: {status}");
            let told = problem(answer, status).await;
            let what = format!("{path} {body}: {told:?}");
            assert!(status == 400 || told.detail.contains("NUL"), "{what}");
        }
        let batch = r#"{"runs":[{"key":"BAD"}]}"#.replace("BAD", bad);
        let answer = node.post("/api/v1/jobs/default/j/runs:batch", batch).await;
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(
            !status.is_server_error() && text.contains("SC50"),
            "{status} {text}"
        );
    }
    for path in [
        "/runs/j:manual:a%00b",
        "/runs/a%00b",
        "/runs?job=a%00b",
        "/jobs/default/a%00b",
        "/jobs/a%00b/j",
        "/tokens/a%00b",
        "/capacities/a%00b",
        "/jobs?search=a%00b",
        "/jobs?after=a%00b",
        "/runs/j:manual:%FF",
        "/jobs?search=%FF",
    ] {
        let answer = node.send(Method::GET, &format!("/api/v1{path}"), "").await;
        let status = answer.status().as_u16();
        assert!(matches!(status, 200 | 400 | 404 | 405), "{path}: {status}");
        let found = answer.text().await.unwrap();
        assert!(
            status != 200 || found.contains("\"items\":[]"),
            "{path}: {found}"
        );
    }
    let manual = node.get("/api/v1/runs/j:manual:a%00b").await;
    assert_eq!(problem(manual, 400).await.code, "SC5022");
    let after: Value = node.read("/api/v1/events?limit=1000").await;
    assert_eq!(after, before, "nothing was written");
    node.stop().await;
}
