//! A run from its start to its end, over both edges.

use sichen_sdk::{Context, Worker};
use sichen_server::rest::wire::{Applied, Change, EventPage, Run, ShardPage, StartedRun, Workers};
use tokio::task::JoinSet;

use crate::node::{Node, ON_REQUEST, json, until};

#[tokio::test]
async fn a_worker_runs_what_the_api_starts() {
    let node = Node::start().await;
    let applied: Applied = json(node.post("/api/v1/jobs:apply", ON_REQUEST).await).await;
    assert_eq!(applied.documents[0].change, Change::Created);

    let dir = tempfile::tempdir().unwrap();
    let worker = Worker::builder()
        .server(format!("http://{}", node.address))
        .join_token(node.join_token())
        .name("w1")
        .data_dir(dir.path().join("worker"))
        .handler("work", |_: Context, (): ()| async { Ok(()) })
        .build()
        .unwrap();
    let handle = worker.handle();
    let mut done = JoinSet::new();
    done.spawn(worker.run());

    let path = "/api/v1/jobs/default/on-request/runs";
    let started = node.post(path, r#"{"key": "first"}"#).await;
    assert_eq!(started.status(), 201);
    let started: StartedRun = json(started).await;
    assert_eq!(started.key, "on-request:manual:first");

    let run = || async {
        let run: Run = node.read("/api/v1/runs/on-request:manual:first").await;
        run
    };
    until("the run succeeds", || async {
        run().await.state == "succeeded"
    })
    .await;
    let run = run().await;
    assert_eq!((run.id, run.shards.succeeded), (started.id, 1));
    let shards: ShardPage = node.read(&format!("/api/v1/runs/{}/shards", run.id)).await;
    assert_eq!(shards.items[0].state, "succeeded");
    let events: EventPage = node.read(&format!("/api/v1/runs/{}/events", run.id)).await;
    let kinds: Vec<&str> = events.items.iter().map(|e| e.kind.as_str()).collect();
    assert_eq!(kinds.first(), Some(&"run_created"), "{kinds:?}");
    assert!(kinds.contains(&"run_settled"), "{kinds:?}");
    let workers: Workers = node.read("/api/v1/workers").await;
    assert_eq!(
        (workers.items[0].name.as_str(), workers.items[0].held),
        ("w1", 0)
    );

    handle.drain(1_000).await;
    done.join_next().await.unwrap().unwrap().unwrap();
    node.stop().await;
}
