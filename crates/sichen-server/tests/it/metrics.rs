//! Claims about `/metrics`: what is counted, who may read it, and that Prometheus does.

use std::path::Path;

use reqwest::StatusCode;
use serde_json::json;
use sichen_server::rest::wire::{Applied, DecisionPage, MadeToken, StartedRun};
use sichen_testdb::prometheus::{self, Prometheus};

use crate::node::{Node, ON_REQUEST, json as body_of, problem, until};
use crate::runs::{TestWorker, run};

/// A job with one shard that fails and one that does not, and one that fires each second.
const JOBS: &str = "
apiVersion: sichen/v1
kind: Job
metadata: {name: half}
spec:
  run: {handler: odd}
  shards: {count: 2}
  retry: {maxAttempts: 1}
---
apiVersion: sichen/v1
kind: Job
metadata: {name: each-second}
spec:
  schedules: [{every: 1s}]
  run: {handler: work}
";

/// A job that fires each second, and whose run does not end by itself.
const BLOCKED: &str = "
apiVersion: sichen/v1
kind: Job
metadata: {name: blocked}
spec:
  schedules: [{every: 1s}]
  overlap: forbid
  run: {handler: hang}
";

async fn shown(node: &Node) -> String {
    let answer = node.get("/metrics").await;
    assert_eq!(answer.status(), StatusCode::OK);
    answer.text().await.unwrap()
}

/// The value of one series, such as `sichen_workers{pool="default"}`.
fn value(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find_map(|l| l.strip_prefix(series));
    line.and_then(|rest| rest.strip_prefix(' '))
        .map(|v| v.parse().unwrap())
}

async fn ended(node: &Node, path: &str, state: &str) {
    let started: StartedRun = body_of(node.post(path, r#"{"key": "k"}"#).await).await;
    until(state, || async {
        run(node, &started.key).await.state == state
    })
    .await;
}

/// A job that uses a capacity.
const DOWNSTREAM: &str = "
apiVersion: sichen/v1
kind: Capacity
metadata: {name: bank}
spec: {units: 1}
---
apiVersion: sichen/v1
kind: Job
metadata: {name: pays}
spec:
  uses: {bank: 1}
  run: {handler: work}
";

#[tokio::test]
async fn beats_and_what_waits_downstream_are_told() {
    let node = Node::start().await;
    let _: Applied = body_of(node.post("/api/v1/jobs:apply", DOWNSTREAM).await).await;
    let text = shown(&node).await;
    assert_eq!(value(&text, "sichen_runs_open_oldest_seconds"), Some(0.0));
    assert_eq!(
        value(&text, "sichen_capacity_wait_seconds_count"),
        Some(0.0)
    );
    let _: StartedRun = body_of(
        node.post("/api/v1/jobs/default/pays/runs", r#"{"key": "k"}"#)
            .await,
    )
    .await;
    until("the run is seen to wait", || async {
        let age = value(&shown(&node).await, "sichen_runs_open_oldest_seconds");
        age.is_some_and(|age| age >= 1.0)
    })
    .await;
    let _worker = TestWorker::start(&node, "w1");
    until("it waited for its capacity", || async {
        let text = shown(&node).await;
        let sum = value(&text, "sichen_capacity_wait_seconds_sum");
        value(&text, "sichen_capacity_wait_seconds_count") == Some(1.0)
            && sum.is_some_and(|waited| waited >= 1.0)
    })
    .await;
    until("a second beat came", || async {
        let beats = value(&shown(&node).await, "sichen_heartbeat_delay_seconds_count");
        beats.is_some_and(|beats| beats >= 1.0)
    })
    .await;
}

#[tokio::test]
async fn what_was_committed_is_counted_once() {
    let node = Node::start().await;
    let _: Applied = body_of(node.post("/api/v1/jobs:apply", ON_REQUEST).await).await;
    let _: Applied = body_of(node.post("/api/v1/jobs:apply", JOBS).await).await;
    let worker = TestWorker::start(&node, "w1");
    ended(&node, "/api/v1/jobs/default/on-request/runs", "succeeded").await;
    ended(&node, "/api/v1/jobs/default/half/runs", "partial").await;
    // The same key is the same run.
    let again = node
        .post("/api/v1/jobs/default/half/runs", r#"{"key": "k"}"#)
        .await;
    assert_eq!(again.status(), StatusCode::OK);
    until("a run of the schedule is counted", || async {
        let fired = value(
            &shown(&node).await,
            "sichen_runs_created_total{cause=\"schedule\"}",
        );
        fired.is_some_and(|n| n >= 1.0)
    })
    .await;
    let paused = node
        .post("/api/v1/jobs/default/each-second/pause", "")
        .await;
    assert!(paused.status().is_success(), "{paused:?}");
    until("nothing runs", || async {
        value(&shown(&node).await, "sichen_runs_open{state=\"running\"}") == Some(0.0)
    })
    .await;
    let text = shown(&node).await;
    let fired = value(&text, "sichen_runs_created_total{cause=\"schedule\"}").unwrap();
    for (series, expected) in [
        ("sichen_runs_created_total{cause=\"request\"}", 2.0),
        ("sichen_runs_settled_total{state=\"partial\"}", 1.0),
        (
            "sichen_runs_settled_total{state=\"succeeded\"}",
            1.0 + fired,
        ),
        (
            "sichen_attempts_granted_total{pool=\"default\"}",
            3.0 + fired,
        ),
        ("sichen_attempts_ended_total{end=\"failed\"}", 1.0),
        (
            "sichen_attempts_ended_total{end=\"succeeded\"}",
            2.0 + fired,
        ),
        ("sichen_reports_total{verdict=\"accepted\"}", 3.0 + fired),
        ("sichen_schedule_delay_seconds_count", fired),
        (
            "sichen_queue_time_seconds_count{pool=\"default\"}",
            3.0 + fired,
        ),
        ("sichen_sessions_total{cause=\"registered\"}", 1.0),
        ("sichen_jobs{state=\"live\"}", 2.0),
        ("sichen_jobs{state=\"paused\"}", 1.0),
        ("sichen_workers{pool=\"default\"}", 1.0),
        ("sichen_worker_slots_taken{pool=\"default\"}", 0.0),
        ("sichen_pool_slots_missing{pool=\"default\"}", 0.0),
        ("sichen_nodes", 1.0),
        ("sichen_duties_idle", 0.0),
        ("sichen_ready", 1.0),
        ("sichen_store_up", 1.0),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}\n{text}");
    }
    // Their times are counted when what was committed with their ends is surely there.
    let planned = "sichen_planned_to_settled_seconds_count";
    until("all that ended are counted", || async {
        value(&shown(&node).await, planned) == Some(fired)
    })
    .await;
    let text = shown(&node).await;
    for (series, expected) in [
        ("sichen_start_latency_seconds_count", 2.0 + fired),
        ("sichen_run_duration_seconds_count{state=\"partial\"}", 1.0),
        (
            "sichen_run_duration_seconds_count{state=\"succeeded\"}",
            1.0 + fired,
        ),
    ] {
        assert_eq!(value(&text, series), Some(expected), "{series}\n{text}");
    }
    worker.drain(&node).await;
    node.stop().await;
}

/// MISS-009: One that blocks many instants has one record, which grows: all of it is counted.
#[tokio::test]
async fn each_skipped_instant_is_counted_however_few_records_say_so() {
    let node = Node::start().await;
    let _: Applied = body_of(node.post("/api/v1/jobs:apply", BLOCKED).await).await;
    let worker = TestWorker::start(&node, "w1");
    let skipped = "sichen_instants_skipped_total{reason=\"overlap\"}";
    until("three are skipped", || async {
        value(&shown(&node).await, skipped).is_some_and(|n| n >= 3.0)
    })
    .await;
    let paused = node.post("/api/v1/jobs/default/blocked/pause", "").await;
    assert!(paused.status().is_success(), "{paused:?}");
    let path = "/api/v1/jobs/default/blocked/decisions";
    let decided: DecisionPage = node.read(path).await;
    let of = decided.items.iter().filter(|d| d.reason == "overlap");
    let counts: Vec<u64> = of.map(|d| d.count).collect();
    let sum = f64::from(u32::try_from(counts.iter().sum::<u64>()).unwrap());
    assert_eq!(value(&shown(&node).await, skipped), Some(sum), "{counts:?}");
    assert!(
        counts.iter().any(|n| *n > 1),
        "one record stands for several: {counts:?}"
    );
    worker.drain(&node).await;
    node.stop().await;
}

#[tokio::test]
async fn promtool_finds_nothing_wrong_with_the_metrics() {
    let node = Node::start().await;
    let _: Applied = body_of(node.post("/api/v1/jobs:apply", ON_REQUEST).await).await;
    let worker = TestWorker::start(&node, "w1");
    ended(&node, "/api/v1/jobs/default/on-request/runs", "succeeded").await;
    let text = shown(&node).await;
    if let Some(faults) = prometheus::faults(&text) {
        assert_eq!(faults, "", "{text}");
        let wrong = prometheus::faults("# TYPE a counter\na 1\n").unwrap();
        assert!(
            wrong.contains("no help text"),
            "it finds what is wrong: {wrong}"
        );
    }
    worker.drain(&node).await;
    node.stop().await;
}

#[tokio::test]
async fn only_who_sees_the_whole_cluster_is_told_its_numbers() {
    let node = Node::start().await;
    let url = format!("http://{}/metrics", node.address);
    let answer = node.client.get(&url).send().await.unwrap();
    assert_eq!(problem(answer, 401).await.code, "SC6001");
    for (name, namespace, status) in [("part", "payments", 403), ("whole", "*", 200)] {
        let asked = json!({"name": name, "roles": [{"namespace": namespace, "role": "viewer"}]});
        let made = node.post("/api/v1/tokens", asked.to_string()).await;
        let made: MadeToken = body_of(made).await;
        let request = node.client.get(&url).bearer_auth(made.secret);
        assert_eq!(request.send().await.unwrap().status(), status, "{name}");
    }
    node.stop().await;
}

#[tokio::test]
async fn a_real_prometheus_reads_a_server() {
    let node = Node::start().await;
    let _: Applied = body_of(node.post("/api/v1/jobs:apply", ON_REQUEST).await).await;
    let worker = TestWorker::start(&node, "w1");
    ended(&node, "/api/v1/jobs/default/on-request/runs", "succeeded").await;
    if let Some(monitor) = Prometheus::start(node.address, &node.token) {
        let url = monitor.url();
        let ask = |path: &'static str| node.client.get(format!("{url}{path}")).send();
        let ready = || async { ask("/-/ready").await.unwrap().status() == StatusCode::OK };
        until("Prometheus is ready", ready).await;
        let asked = async |query: &'static str| {
            let answer: serde_json::Value = ask(query).await.unwrap().json().await.unwrap();
            let found = answer["data"]["result"].as_array().cloned();
            found.unwrap_or_default()
        };
        let read = || async {
            let up = asked("/api/v1/query?query=up").await;
            up.first().is_some_and(|up| up["value"][1] == "1")
        };
        until("Prometheus has read it", read).await;
        let settled = || async {
            let settled = asked("/api/v1/query?query=sichen_runs_settled_total").await;
            let of = |state: &str| {
                settled
                    .iter()
                    .find(|s| s["metric"]["state"] == state)
                    .cloned()
            };
            let value = |state| of(state).map(|series| series["value"][1].clone());
            value("succeeded") == Some("1".into()) && value("failed") == Some("0".into())
        };
        until("Prometheus has the number", settled).await;
        for expr in panels() {
            let encoded = expr
                .bytes()
                .map(|b| format!("%{b:02X}"))
                .collect::<String>();
            let asked = format!("{url}/api/v1/query?query={encoded}");
            let answer = node.client.get(asked).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK, "{expr}");
        }
    }
    worker.drain(&node).await;
    node.stop().await;
}

/// What the panels of the dashboard ask for.
fn panels() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("deploy/grafana/sichen.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect()
}

/// That Prometheus takes what they ask is shown where there is one
/// ([`a_real_prometheus_reads_a_server`]).
#[test]
fn every_panel_asks_for_what_the_guide_lists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_to_string(root.join("docs/guide/monitoring.md")).unwrap();
    let mut asked = std::collections::BTreeSet::new();
    for expr in panels() {
        let words = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names = words.filter(|word| word.starts_with("sichen_"));
        asked.extend(names.map(|name| name.trim_end_matches("_bucket").to_owned()));
    }
    assert!(asked.len() > 15, "{asked:?}");
    for name in &asked {
        assert!(guide.contains(&format!("`{name}`")), "{name} is not listed");
    }
}

#[tokio::test]
async fn a_node_that_can_do_nothing_says_so_in_its_numbers() {
    let node = Node::without_duties().await;
    let text = shown(&node).await;
    assert_eq!(value(&text, "sichen_ready"), Some(0.0), "{text}");
    assert_eq!(value(&text, "sichen_nodes"), Some(0.0), "{text}");
    node.stop().await;
}

/// MISS-009: The rules of `deploy/`, as the guide shows them: each is raised and cleared by series of its own.
#[test]
fn each_rule_is_raised_and_cleared() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rules = std::fs::read_to_string(root.join("deploy/prometheus-rules.yml")).unwrap();
    let guide = std::fs::read_to_string(root.join("docs/guide/monitoring.md")).unwrap();
    let (_, below) = rules.split_once('\n').unwrap();
    assert!(guide.contains(below), "the guide shows other rules");
    let dir = tempfile::tempdir().unwrap();
    let tests = dir.path().join("tests.yml");
    let cases = include_str!("prometheus-rules.test.yml");
    std::fs::write(&tests, cases).unwrap();
    let at = dir.path().join("prometheus-rules.yml");
    std::fs::write(&at, &rules).unwrap();
    for line in rules.lines() {
        let Some((_, name)) = line.split_once("- alert: ") else {
            continue;
        };
        assert!(cases.contains(&format!("alertname: {name}\n")), "{name}");
    }
    let Some((ok, said)) = prometheus::tested(&tests) else {
        return;
    };
    assert!(ok, "{said}");
    std::fs::write(&at, rules.replace("> 600", "> 6000")).unwrap();
    let (ok, said) = prometheus::tested(&tests).unwrap();
    assert!(!ok, "a rule that never fires passes: {said}");
}
