//! Runs from their start to their end, over both edges.

use sichen_sdk::worker::{Error, Handle};
use sichen_sdk::{Context, Drained, HandlerError, Worker};
use sichen_server::rest::wire::{
    Applied, Change, EventPage, Namespace, Run, ShardPage, StartedRun, Workers,
};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::node::{Node, ON_REQUEST, json, problem, until};

const RUNS: &str = "/api/v1/jobs/default/on-request/runs";

/// A worker of the SDK with the handlers `work`, which succeeds, and `fail`, which does not.
pub struct TestWorker {
    handle: Handle,
    done: JoinSet<Result<Drained, Error>>,
    _dir: TempDir,
}

impl TestWorker {
    pub fn start(node: &Node, name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let worker = Worker::builder()
            .server(format!("http://{}", node.address))
            .join_token(node.join_token())
            .name(name)
            .data_dir(dir.path().join("worker"))
            .handler("work", |_: Context, _: serde_json::Value| async { Ok(()) })
            .handler(
                "hang",
                |context: Context, _: serde_json::Value| async move {
                    context.cancelled().await;
                    Err::<(), _>(HandlerError::retryable("told", "it was told to stop"))
                },
            )
            .handler("fail", |_: Context, _: serde_json::Value| async {
                Err::<(), _>(HandlerError::fatal_shard("broken", "on purpose"))
            })
            .handler("odd", |context: Context, _: serde_json::Value| async move {
                match context.shard_no() % 2 {
                    0 => Ok(()),
                    _ => Err(HandlerError::fatal_shard("odd", "an odd shard")),
                }
            })
            .build()
            .unwrap();
        let handle = worker.handle();
        let mut done = JoinSet::new();
        done.spawn(worker.run());
        Self {
            handle,
            done,
            _dir: dir,
        }
    }

    /// Drains the worker and waits until its session is over.
    pub async fn drain(mut self, node: &Node) {
        self.handle.drain(1_000).await;
        self.done.join_next().await.unwrap().unwrap().unwrap();
        until("no session is left", || async {
            let workers: Workers = node.read("/api/v1/workers").await;
            workers.items.is_empty()
        })
        .await;
    }
}

/// The run `id`.
pub async fn run(node: &Node, id: &str) -> Run {
    node.read(&format!("/api/v1/runs/{id}")).await
}

#[tokio::test]
async fn a_worker_runs_what_the_api_starts() {
    let node = Node::start().await;
    let applied: Applied = json(node.post("/api/v1/jobs:apply", ON_REQUEST).await).await;
    assert_eq!(applied.documents[0].change, Change::Created);
    let worker = TestWorker::start(&node, "w1");
    let started = node.post(RUNS, r#"{"key": "first"}"#).await;
    assert_eq!(started.status(), 201);
    let started: StartedRun = json(started).await;
    assert_eq!(started.key, "on-request:manual:first");
    until("the run succeeds", || async {
        run(&node, &started.key).await.state == "succeeded"
    })
    .await;
    let run = run(&node, &started.key).await;
    assert_eq!((run.id, run.shards.succeeded), (started.id, 1));
    let shards: ShardPage = node.read(&format!("/api/v1/runs/{}/shards", run.id)).await;
    assert_eq!(shards.items[0].state, "succeeded");
    let events: EventPage = node.read(&format!("/api/v1/runs/{}/events", run.id)).await;
    let kinds: Vec<&str> = events.items.iter().map(|e| e.kind.as_str()).collect();
    assert_eq!(kinds.first(), Some(&"run_created"), "{kinds:?}");
    assert!(kinds.contains(&"run_settled"), "{kinds:?}");
    let workers: Workers = node.read("/api/v1/workers").await;
    let seen = (workers.items[0].name.as_str(), workers.items[0].held);
    assert_eq!(seen, ("w1", 0));
    worker.drain(&node).await;
    node.stop().await;
}

#[tokio::test]
async fn a_worker_without_the_join_token_is_refused() {
    let node = Node::start().await;
    let dir = tempfile::tempdir().unwrap();
    let worker = Worker::builder()
        .server(format!("http://{}", node.address))
        .join_token(&node.token)
        .name("w1")
        .data_dir(dir.path().join("worker"))
        .handler("work", |_: Context, (): ()| async { Ok(()) })
        .build()
        .unwrap();
    let refused = worker.run().await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    node.stop().await;
}

#[tokio::test]
async fn one_key_is_one_run() {
    let node = Node::start().await;
    let _: Applied = json(node.post("/api/v1/jobs:apply", ON_REQUEST).await).await;
    let body = r#"{"key": "k/1 +#?", "parameters": {"b": 1, "a": [true, null]}}"#;
    let first = node.post(RUNS, body).await;
    assert_eq!(first.status(), 201);
    let first: StartedRun = json(first).await;
    let reordered = r#"{"parameters": {"a": [true, null], "b": 1}, "key": "k/1 +#?"}"#;
    let again = node.post(RUNS, reordered).await;
    assert_eq!(again.status(), 200);
    let again: StartedRun = json(again).await;
    assert_eq!((again.id, again.created), (first.id, false));
    let other = node.post(RUNS, r#"{"key": "k/1 +#?"}"#).await;
    assert_eq!(problem(other, 409).await.code, "SC5011");
    let found = run(&node, "on-request:manual:k%2F1%20%2B%23%3F").await;
    assert_eq!(
        (found.id, found.key.as_str()),
        (first.id, "on-request:manual:k/1 +#?")
    );

    let url = format!("http://{}{RUNS}", node.address);
    let by_header = || {
        let request = node.client.post(&url).bearer_auth(&node.token);
        request.header("idempotency-key", "h1").send()
    };
    let first = by_header().await.unwrap();
    assert_eq!(first.status(), 201);
    let first: StartedRun = json(first).await;
    // The request again is answered as it was; another one finds the run by its key.
    let again = by_header().await.unwrap();
    assert_eq!(again.status(), 201);
    assert_eq!(json::<StartedRun>(again).await, first);
    let found = node.post(RUNS, r#"{"key": "h1"}"#).await;
    assert_eq!(found.status(), 200);
    assert_eq!(json::<StartedRun>(found).await.id, first.id);
    assert_eq!(run(&node, "on-request:manual:h1").await.state, "scheduled");
    let twice = node.client.post(&url).bearer_auth(&node.token);
    let twice = twice.header("idempotency-key", "h2");
    let twice = twice.header("idempotency-key", "h3").send();
    assert_eq!(problem(twice.await.unwrap(), 400).await.code, "SC5022");
    for (parameters, code) in [
        (r#"{"account": 123456789012345678901}"#.to_owned(), "SC1059"),
        (r#"{"cmd": "\u0000"}"#.to_owned(), "SC1036"),
        (format!(r#"{{"cmd": "{}"}}"#, "x".repeat(70_000)), "SC1008"),
    ] {
        let body = format!(r#"{{"key": "odd", "parameters": {parameters}}}"#);
        let told = problem(node.post(RUNS, body).await, 400).await;
        assert!(told.problems[0].message.starts_with(code), "{told:?}");
    }
    node.stop().await;
}

#[tokio::test]
async fn a_full_queue_refuses_a_run_whose_key_stays_good() {
    let node = Node::start().await;
    let _: Applied = json(node.post("/api/v1/jobs:apply", ON_REQUEST).await).await;
    let set = |body: &'static str| node.post("/api/v1/namespaces/default", body);
    assert_eq!(
        problem(set(r#"{"max_queued": 100001}"#).await, 400)
            .await
            .code,
        "SC5002"
    );
    let both = set(r#"{"max_queued": 1, "unlimited_queue": true}"#).await;
    assert_eq!(problem(both, 400).await.code, "SC5021");
    let one: Namespace = json(set(r#"{"max_queued": 1}"#).await).await;
    assert_eq!((one.max_queued, one.queued), (Some(1), Some(0)));
    let first: StartedRun = json(node.post(RUNS, r#"{"key": "a"}"#).await).await;
    let refused = node.post(RUNS, r#"{"key": "b"}"#).await;
    assert!(refused.headers().contains_key("retry-after"));
    let refused = problem(refused, 429).await;
    assert_eq!(refused.code, "SC5053");
    let again = node.post(RUNS, r#"{"key": "a"}"#).await;
    assert_eq!(again.status(), 200, "what is there is found");
    let of_first = format!("/api/v1/runs/{}", first.id);
    assert_eq!(
        node.post(&format!("{of_first}/cancel"), "").await.status(),
        200
    );
    assert_eq!(node.post(RUNS, r#"{"key": "b"}"#).await.status(), 201);
    node.stop().await;
}

#[tokio::test]
async fn a_planned_instant_is_one_run_and_shown_in_its_zone() {
    let node = Node::start().await;
    let job = ON_REQUEST.replace("spec:", "spec:\n  timeZone: Asia/Shanghai");
    let _: Applied = json(node.post("/api/v1/jobs:apply", job).await).await;
    let body = r#"{"planned_at": "2026-08-29T16:00:00Z",
        "period": {"start": "2026-08-28T16:00:00Z", "end": "2026-08-29T16:00:00Z"}}"#;
    let started: StartedRun = json(node.post(RUNS, body).await).await;
    assert_eq!(started.key, "on-request:2026-08-30T00:00:00+08:00");
    for key in [
        "on-request:2026-08-30T00:00:00%2B08:00",
        "default%2Fon-request:2026-08-30T00:00:00+08:00",
        "on-request:2026-08-29T16:00:00Z",
    ] {
        let run = run(&node, key).await;
        assert_eq!(run.id, started.id);
        assert_eq!(run.planned_at.unwrap(), "2026-08-30T00:00:00+08:00");
        assert_eq!(run.period.unwrap().start, "2026-08-29T00:00:00+08:00");
    }
    problem(
        node.get("/api/v1/runs/on-request:2026-08-30T00:00:00Z")
            .await,
        404,
    )
    .await;
    let future = node
        .post(RUNS, r#"{"planned_at": "2999-01-01T00:00:00Z"}"#)
        .await;
    assert_eq!(problem(future, 409).await.code, "SC5010");
    node.stop().await;
}

#[tokio::test]
async fn a_failed_run_is_retried_and_a_waiting_one_cancelled() {
    let node = Node::start().await;
    let job = ON_REQUEST.replace("handler: work", "handler: fail");
    let _: Applied = json(node.post("/api/v1/jobs:apply", job).await).await;
    let worker = TestWorker::start(&node, "w1");
    let started: StartedRun = json(node.post(RUNS, r#"{"key": "a"}"#).await).await;
    let id = started.id.to_string();
    until("the run fails", || async {
        run(&node, &id).await.state == "failed"
    })
    .await;
    let cancel = node.post(&format!("/api/v1/runs/{id}/cancel"), "").await;
    assert_eq!(problem(cancel, 409).await.code, "SC5012");
    worker.drain(&node).await;

    let retried: Run = json(node.post(&format!("/api/v1/runs/{id}/retry"), "").await).await;
    assert_eq!((retried.round, retried.shards.open), (2, 1));
    let again = node.post(&format!("/api/v1/runs/{id}/retry"), "{}").await;
    assert_eq!(problem(again, 409).await.code, "SC5012");
    let none = node
        .post(&format!("/api/v1/runs/{id}/retry"), r#"{"shards": []}"#)
        .await;
    assert_eq!(problem(none, 400).await.code, "SC5021");
    let cancelled: Run = json(node.post(&format!("/api/v1/runs/{id}/cancel"), "").await).await;
    assert_eq!(cancelled.state, "cancelled");
    assert_eq!(cancelled.stop.unwrap().cause, "cancel");
    let only = node
        .post(&format!("/api/v1/runs/{id}/retry"), r#"{"shards": [0]}"#)
        .await;
    assert_eq!(problem(only, 409).await.code, "SC5012");
    node.stop().await;
}

#[tokio::test]
async fn listings_are_paged() {
    let node = Node::start().await;
    let job = ON_REQUEST.replace("spec:", "spec:\n  shards: {count: 5}");
    let _: Applied = json(node.post("/api/v1/jobs:apply", job).await).await;
    for key in ["a", "b", "c"] {
        let body = format!(r#"{{"key": "{key}"}}"#);
        let _: StartedRun = json(node.post(RUNS, body).await).await;
    }
    let runs = pages(
        &node,
        "/api/v1/runs?job=on-request&state=scheduled&limit=2",
        "key",
    )
    .await;
    let keys = ["c", "b", "a"].map(|key| format!("on-request:manual:{key}"));
    assert_eq!(runs, keys);
    let path = "/api/v1/runs/on-request:manual:a/shards?limit=2";
    assert_eq!(pages(&node, path, "no").await, ["0", "1", "2", "3", "4"]);
    let all = pages(&node, "/api/v1/events?limit=1000", "seq").await;
    assert_eq!(pages(&node, "/api/v1/events?limit=7", "seq").await, all);
    node.stop().await;
}

/// The field `name` of all rows, page by page.
async fn pages(node: &Node, path: &str, name: &str) -> Vec<String> {
    let mut rows = Vec::new();
    let mut after = String::new();
    loop {
        let page: serde_json::Value = node.read(&format!("{path}{after}")).await;
        let items = page["items"].as_array().unwrap();
        rows.extend(
            items
                .iter()
                .map(|item| item[name].to_string().replace('"', "")),
        );
        match page["next"].as_str() {
            Some(next) if !items.is_empty() => after = format!("&after={next}"),
            Some(_) | None => return rows,
        }
    }
}
