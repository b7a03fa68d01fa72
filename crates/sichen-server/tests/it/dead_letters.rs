//! Dead letters over the API: what is listed, page by page, and what can't be retried.

use sichen_server::rest::wire::{Applied, DeadLetterPage, Run};

use crate::node::{Node, json, problem, until};
use crate::runs::{TestWorker, run};

const LIST: &str = "/api/v1/dead-letters";

const JOBS: &str = "
apiVersion: sichen/v1
kind: Job
metadata: {name: broken}
spec:
  run: {handler: fail}
  shards: {count: 3}
---
apiVersion: sichen/v1
kind: Job
metadata: {name: odd}
spec:
  run: {handler: odd}
  shards: {count: 5}
";

/// Starts a run and waits until it is in `state`.
async fn ended(node: &Node, job: &str, key: &str, state: &str) -> Run {
    let path = format!("/api/v1/jobs/default/{job}/runs");
    let started = node.post(&path, format!(r#"{{"key": "{key}"}}"#)).await;
    assert_eq!(started.status(), 201);
    let key = format!("{job}:manual:{key}");
    until(&format!("{key} is {state}"), || async {
        run(node, &key).await.state == state
    })
    .await;
    run(node, &key).await
}

/// Run and shard of each dead letter, read in pages of `limit`.
async fn listed(node: &Node, query: &str, limit: u32) -> Vec<(u64, i32)> {
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let path = format!("{LIST}?limit={limit}{query}{after}");
        let page: DeadLetterPage = node.read(&path).await;
        assert!(page.items.len() <= limit as usize);
        found.extend(page.items.iter().map(|l| (l.run, l.shard.no)));
        match page.next {
            Some(next) => after = format!("&after={next}"),
            None => return found,
        }
    }
}

#[tokio::test]
async fn failed_shards_of_failed_and_partial_runs_are_listed_newest_first_on_any_page() {
    let node = Node::start().await;
    let _: Applied = json(node.post("/api/v1/jobs:apply", JOBS).await).await;
    let worker = TestWorker::start(&node, "w1");
    let first = ended(&node, "broken", "1", "failed").await.id;
    let second = ended(&node, "odd", "2", "partial").await.id;
    let third = ended(&node, "broken", "3", "failed").await.id;
    let fourth = ended(&node, "odd", "4", "partial").await.id;

    let of = |run, shards: &[i32]| shards.iter().map(|no| (run, *no)).collect::<Vec<_>>();
    let failed = [of(third, &[0, 1, 2]), of(first, &[0, 1, 2])].concat();
    let partial = [of(fourth, &[1, 3]), of(second, &[1, 3])].concat();
    let all = [&partial[..2], &failed[..3], &partial[2..], &failed[3..]].concat();
    for limit in [1, 2, 3, 4, 1_000] {
        assert_eq!(listed(&node, "", limit).await, all, "{limit}");
        assert_eq!(listed(&node, "&code=odd", limit).await, partial, "{limit}");
        let of_job = listed(&node, "&job=broken", limit).await;
        assert_eq!(of_job, failed, "{limit}");
    }
    assert!(listed(&node, "&code=other", 10).await.is_empty());

    let page: DeadLetterPage = node.read(&format!("{LIST}?limit=1")).await;
    let letter = &page.items[0];
    let run = (letter.key.as_str(), letter.run_state.as_str());
    assert_eq!(run, ("odd:manual:4", "partial"));
    assert_eq!((letter.run_failed, letter.run_cancelled), (2, 0));
    let failure = letter.shard.failure.as_ref().unwrap();
    assert_eq!(
        (failure.code.as_str(), letter.shard.attempt),
        ("odd", 1),
        "{failure:?}"
    );
    assert!(letter.shard.ended_at.is_some());

    for query in [
        "after=17",
        "after=x.1",
        "after=9223372036854775807.0",
        "limit=0",
    ] {
        let refused = problem(node.get(&format!("{LIST}?{query}")).await, 400).await;
        assert_eq!(refused.code, "SC5021", "{query}");
    }
    problem(node.get(&format!("{LIST}?job=nobody")).await, 404).await;
    worker.drain(&node).await;
    node.stop().await;
}

#[tokio::test]
async fn a_retried_run_leaves_the_list_and_a_second_retry_is_refused() {
    let node = Node::start().await;
    let _: Applied = json(node.post("/api/v1/jobs:apply", JOBS).await).await;
    let worker = TestWorker::start(&node, "w1");
    let kept = ended(&node, "broken", "1", "failed").await.id;
    let retried = ended(&node, "broken", "2", "failed").await.id;
    // Without a worker the retried run stays open.
    worker.drain(&node).await;
    let path = format!("/api/v1/runs/{retried}/retry");
    let _: Run = json(node.post(&path, r#"{"shards": [1]}"#).await).await;
    let left = listed(&node, "", 100).await;
    assert_eq!(left, [(kept, 0), (kept, 1), (kept, 2)]);
    assert_eq!(
        problem(node.post(&path, "").await, 409).await.code,
        "SC5012"
    );

    // Cancelled, it is final: its failed shards are history, no dead letters.
    let _: Run = json(
        node.post(&format!("/api/v1/runs/{retried}/cancel"), "")
            .await,
    )
    .await;
    assert_eq!(run(&node, &retried.to_string()).await.state, "cancelled");
    assert_eq!(listed(&node, "", 100).await, left);
    assert_eq!(
        problem(node.post(&path, "").await, 409).await.code,
        "SC5012"
    );
    node.stop().await;
}

#[tokio::test]
async fn a_discarded_letter_leaves_the_list_and_changes_no_outcome() {
    let node = Node::start().await;
    let _: Applied = json(node.post("/api/v1/jobs:apply", JOBS).await).await;
    let worker = TestWorker::start(&node, "w1");
    let before = ended(&node, "odd", "1", "partial").await;
    worker.drain(&node).await;
    let path = format!("/api/v1/runs/{}/discard", before.id);
    for (body, code) in [
        ("{}", "SC5019"),
        (r#"{"reason": " "}"#, "SC5019"),
        (r#"{"reason": "x", "shards": []}"#, "SC5021"),
        (r#"{"reason": "x", "why": 1}"#, "SC5020"),
    ] {
        let refused = node.post(&path, body).await;
        let refused = problem(refused, 400).await;
        let said = format!("{}{:?}", refused.code, refused.problems);
        assert!(said.contains(code), "{body}: {said}");
    }
    let one = r#"{"reason": "paid by hand", "by": "kim", "shards": [3]}"#;
    let run: Run = json(node.post(&path, one).await).await;
    assert_eq!((&run.state, run.shards), (&before.state, before.shards));
    assert_eq!(listed(&node, "", 100).await, [(before.id, 1)]);
    let refused = problem(node.post(&path, one).await, 409).await;
    assert_eq!(refused.code, "SC5012");
    let _: Run = json(node.post(&path, r#"{"reason": "all"}"#).await).await;
    assert!(listed(&node, "", 100).await.is_empty());
    let retry = format!("/api/v1/runs/{}/retry", before.id);
    assert_eq!(
        problem(node.post(&retry, "").await, 409).await.code,
        "SC5012"
    );
    let _: Run = json(node.post(&retry, r#"{"shards": [3]}"#).await).await;
    node.stop().await;
}
