//! Who changed what, and what a worker runs.

use sichen_server::rest::wire::{ChangePage, HeldShards, MadeToken, Workers};

use crate::node::{Node, ON_REQUEST, json};

async fn told(node: &Node, query: &str) -> Vec<String> {
    let page: ChangePage = node.read(&format!("/api/v1/changes{query}")).await;
    let shown = page.items.into_iter().map(|change| {
        let job = change.job.unwrap_or_default();
        format!("{} {job}", change.event.kind)
    });
    shown.collect()
}

#[tokio::test]
async fn what_was_asked_for_is_told_newest_first_and_nothing_beside_it() {
    let node = Node::start().await;
    let job = "/api/v1/jobs/default/on-request";
    node.post("/api/v1/jobs:apply", ON_REQUEST).await;
    node.post(&format!("{job}/pause"), "").await;
    node.post(&format!("{job}/resume"), "").await;
    node.post(&format!("{job}/runs"), r#"{"key": "k"}"#).await;
    let asked = r#"{"name": "w", "roles": [{"namespace": "other", "role": "viewer"}]}"#;
    let made: MadeToken = json(node.post("/api/v1/tokens", asked).await).await;
    let all = [
        "access_token_created ",
        "run_created on-request",
        "job_resumed on-request",
        "job_paused on-request",
        "job_applied on-request",
    ];
    assert_eq!(told(&node, "").await, all);
    assert_eq!(told(&node, "?entity=run&actor=user").await, all[1..2]);
    assert_eq!(told(&node, "?actor=worker").await, Vec::<String>::new());
    // Page by page they are the same ones.
    let (mut paged, mut query) = (Vec::new(), "?limit=1".to_owned());
    loop {
        let page: ChangePage = node.read(&format!("/api/v1/changes{query}")).await;
        assert!(page.items.len() <= 1);
        paged.extend(page.items.into_iter().map(|change| change.event.kind));
        let Some(next) = page.next else { break };
        query = format!("?limit=1&after={next}");
    }
    let kinds: Vec<&str> = all
        .iter()
        .map(|said| said.split_once(' ').unwrap().0)
        .collect();
    assert_eq!(paged, kinds);
    // Nothing of a namespace that one does not see.
    let request = node
        .client
        .get(format!("http://{}/api/v1/changes", node.address))
        .bearer_auth(&made.secret);
    let page: ChangePage = json(request.send().await.unwrap()).await;
    assert_eq!(page.items, []);
    let bad = node.get("/api/v1/changes?after=-1").await;
    assert_eq!(bad.status(), 400);
    node.stop().await;
}

#[tokio::test]
async fn a_session_that_is_over_or_never_was_holds_nothing() {
    let node = Node::start().await;
    let workers: Workers = node.read("/api/v1/workers").await;
    assert_eq!(workers.items, []);
    for session in ["7", "18446744073709551615"] {
        let path = format!("/api/v1/workers/{session}/shards");
        let held: HeldShards = node.read(&path).await;
        assert_eq!(held.items, [], "{session}");
    }
    node.stop().await;
}
