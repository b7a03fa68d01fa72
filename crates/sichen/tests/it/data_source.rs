//! Data sources that a worker's configuration names.

use crate::database::Database;
use crate::program::spawn;
use crate::scene::{Kind, Scene, text};

const JOB: &str = r#"
apiVersion: sichen/v1
kind: Job
metadata: { name: keys }
spec:
  run: { handler: echo }
  shards:
    range:
      bounds: { query: { dataSource: ledger, sql: "SELECT min(id), max(id) FROM ledger" } }
      count: 3
"#;

#[test]
fn bounds_are_read_from_a_postgres_that_the_worker_names() {
    let Some(database) = Database::start() else {
        return;
    };
    database.connect().execute(
        "CREATE TABLE ledger (id bigint); INSERT INTO ledger SELECT generate_series(101, 190)",
    );
    let scene = Scene::new(Kind::Sqlite).unwrap();
    let config = format!(
        "builtin: true\ndata_sources:\n  ledger: {{ postgres: '{}' }}\n",
        database.url()
    );
    let (file, data) = (scene.path("worker.yaml"), scene.path("w1"));
    std::fs::write(&file, config).unwrap();
    let shown = scene
        .client
        .ok(&format!("config worker --config {}", text(&file)));
    assert!(
        shown.contains("ledger") && !shown.contains("postgres@"),
        "{shown}"
    );
    let join = scene.path("server/join-token");
    let worker = spawn(&[
        "worker",
        "--config",
        text(&file),
        "--data",
        text(&data),
        "--server",
        &scene.server.url,
        "--join-token-file",
        text(&join),
    ]);
    let job = scene.path("keys.yaml");
    std::fs::write(&job, JOB).unwrap();
    scene.client.ok(&format!("apply -f {}", text(&job)));
    scene.client.ok("run keys --key k");
    scene.settles("keys:manual:k", "succeeded");
    let parts: Vec<String> = scene
        .shards("keys:manual:k")
        .iter()
        .map(|shard| shard["part"].to_string())
        .collect();
    assert!(parts.iter().any(|part| part.contains("101")), "{parts:?}");
    assert!(parts.iter().any(|part| part.contains("191")), "{parts:?}");
    assert_eq!(parts.len(), 4, "the plan step and three shards: {parts:?}");
    drop(worker);
}
