//! Claims about limits on time, with real clocks, a real worker and all duties running.

use jiff::{SignedDuration, Timestamp};
use sichen_server::rest::wire::{Run, ShardPage, StartedRun, Workers};

use crate::node::{Node, json, until};
use crate::runs::{TestWorker, run};

/// How long after its limit a run may be stopped: far less than the trigger's own pace of 10 s, and
/// enough for a machine that is busy with other tests.
const AT_ONCE: SignedDuration = SignedDuration::from_secs(3);

async fn started(node: &Node, name: &str, timeouts: &str, handler: &str) -> u64 {
    let document = format!(
        "apiVersion: sichen/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec:\n  \
         run: {{handler: {handler}}}\n  shards: {{count: 2}}\n  timeouts: {timeouts}\n  \
         retry: {{rules: [{{errors: [stalled], action: failShard}}]}}\n"
    );
    node.post("/api/v1/jobs:apply", document).await;
    let path = format!("/api/v1/jobs/default/{name}/runs");
    let started: StartedRun = json(node.post(&path, r#"{"key": "k"}"#).await).await;
    started.id
}

/// A worker whose session has begun.
async fn joined(node: &Node) -> TestWorker {
    let worker = TestWorker::start(node, "w1");
    until("the worker has joined", || async {
        let workers: Workers = node.read("/api/v1/workers").await;
        !workers.items.is_empty()
    })
    .await;
    worker
}

async fn closed(node: &Node, id: u64) -> Run {
    let id = id.to_string();
    until("the run has ended", || async {
        run(node, &id).await.ended_at.is_some()
    })
    .await;
    run(node, &id).await
}

fn instant(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn took(run: &Run, from: &str) -> SignedDuration {
    instant(run.ended_at.as_deref().unwrap()).duration_since(instant(from))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_stopped_when_its_time_is_over_and_not_ten_seconds_later() {
    let node = Node::start().await;
    // Nobody runs it: the trigger alone knows.
    let id = started(&node, "waits", "{run: 700ms}", "work").await;
    let waited = closed(&node, id).await;
    let length = took(&waited, &waited.created_at);
    assert_eq!(
        (waited.state.as_str(), waited.reason.as_str()),
        ("failed", "deadline")
    );
    let limit = SignedDuration::from_millis(700);
    assert!(length >= limit && length < limit + AT_ONCE, "{length:?}");

    let worker = joined(&node).await;
    for (name, timeouts) in [
        ("runs", "{run: 900ms}"),
        ("active", "{activeDeadline: 900ms}"),
    ] {
        let id = started(&node, name, timeouts, "hang").await;
        let stopped = closed(&node, id).await;
        let outcome = (stopped.state.as_str(), stopped.reason.as_str());
        assert_eq!(outcome, ("failed", "deadline"), "{name}");
        let length = took(&stopped, stopped.started_at.as_deref().unwrap());
        assert!(
            length < SignedDuration::from_millis(900) + AT_ONCE,
            "{name}: {length:?}"
        );
    }
    worker.drain(&node).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_without_a_sign_of_progress_ends_as_stalled() {
    let node = Node::start().await;
    let worker = joined(&node).await;
    let id = started(&node, "stalls", "{stall: 600ms}", "hang").await;
    let ended = closed(&node, id).await;
    assert_eq!(ended.state, "failed");
    let length = took(&ended, ended.started_at.as_deref().unwrap());
    assert!(
        length < SignedDuration::from_millis(600) + AT_ONCE,
        "{length:?}"
    );
    let shards: ShardPage = node.read(&format!("/api/v1/runs/{id}/shards")).await;
    for shard in shards.items {
        let failure = shard.failure.unwrap();
        assert_eq!(failure.code, "stalled");
        assert!(
            failure
                .message
                .ends_with("(retry.rules[0] fails the shard)")
        );
    }
    worker.drain(&node).await;
    node.stop().await;
}
