//! Instants at the ends of time, wherever a request may name one.

use reqwest::Method;
use serde_json::json;

use crate::node::{Node, json};

const JOB: &str = "
apiVersion: sichen/v1
kind: Job
metadata: {name: nightly}
spec:
  schedules: [{cron: '0 3 * * *'}]
  timeZone: Asia/Shanghai
  run: {handler: work}
";

/// The last instant that there is, the first one, and some that are a step from an end.
const ENDS: [&str; 5] = [
    "9999-12-30T22:00:00.999999999Z",
    "9999-12-30T21:59:59.999999Z",
    "-009999-01-02T01:59:59Z",
    "-009999-01-02T02:00:00.000001Z",
    "2026-08-01T00:00:00Z",
];

/// Each is answered, well or with what is wrong with it.
async fn ask(node: &Node, method: Method, path: &str, body: String) {
    let asked = format!("{method} {path} {body}");
    let answer = node.send(method, path, body).await;
    let status = answer.status();
    let text = answer.text().await.unwrap();
    assert!(!status.is_server_error(), "{asked}: {status}: {text}");
}

#[tokio::test]
async fn extreme_instants_are_answered_and_panic_nowhere() {
    let node = Node::start().await;
    let _: serde_json::Value = json(node.post("/api/v1/jobs:apply", JOB).await).await;
    let job = "/api/v1/jobs/default/nightly";
    for at in ENDS {
        let get = async |path: String| ask(&node, Method::GET, &path, String::new()).await;
        get(format!("{job}/decisions?from={at}")).await;
        get(format!("/api/v1/runs/nightly:{at}")).await;
        get(format!("/api/v1/runs/nightly:{at}%232")).await;
        for other in ENDS {
            let post = async |path: String, body: serde_json::Value| {
                ask(&node, Method::POST, &path, body.to_string()).await;
            };
            for (order, mode) in [("oldest", "all"), ("newest", "only_missing")] {
                let range = json!({ "from": at, "to": other, "order": order, "mode": mode });
                post(format!("{job}/backfills/preview"), range.clone()).await;
                for after in ENDS {
                    let path = format!("{job}/backfills/preview?after={after}&limit=2");
                    post(path, range.clone()).await;
                }
                post(format!("{job}/backfills"), range).await;
            }
            let run = json!({
                "planned_at": at, "not_before": other, "period": { "start": at, "end": other },
            });
            post(format!("{job}/runs"), run).await;
            let run = json!({
                "key": format!("{at} {other}"), "not_before": at, "period": { "start": at, "end": other },
            });
            post(format!("{job}/runs"), run).await;
            let name = format!("t{}", at.len() * 100 + other.len());
            let roles = json!([{ "namespace": "default", "role": "viewer" }]);
            let token = json!({ "name": name, "roles": roles, "expires_at": at });
            post("/api/v1/tokens".to_owned(), token).await;
            let bounds = format!("bounds: {{literal: {{from: '{at}', to: '{other}'}}}}");
            let shards = format!("range: {{keys: time, {bounds}, count: 3}}");
            let ranged = JOB.replace("run:", &format!("shards:\n    {shards}\n  run:"));
            ask(&node, Method::POST, "/api/v1/jobs:apply", ranged).await;
        }
    }
    // What was made of them is looked at by the duties too, and none has died of it.
    let _: serde_json::Value = json(node.post("/api/v1/jobs:apply", JOB).await).await;
    let _: serde_json::Value = node.read(&format!("{job}/next")).await;
    node.stop().await;
}
