//! Claims about what is said of handlers that nobody offers.

use super::*;

fn worker(pool: &str, handlers: &[&str]) -> Worker {
    let worker = serde_json::json!({
        "session": 1, "name": "w", "uid": "u", "incarnation": "i", "pool": pool, "slots": 1,
        "held": 0, "handlers": handlers, "draining": false,
        "registered_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T00:00:00Z",
    });
    serde_json::from_value(worker).unwrap()
}

fn job(spec: serde_json::Value) -> Document {
    let job = serde_json::json!({
        "apiVersion": "sichen/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec,
    });
    serde_json::from_value(job).unwrap()
}

fn check(spec: serde_json::Value, workers: &[Worker], expect: &[&str]) {
    let said = missing(&job(spec.clone()), workers).unwrap_or_default();
    assert_eq!(said.is_empty(), expect.is_empty(), "{spec}: {said}");
    for part in expect {
        assert!(said.contains(part), "{spec}: {said}");
    }
}

#[test]
fn what_nobody_offers_is_named_with_the_nearest_that_is() {
    let echo = serde_json::json!({"run": {"handler": "echo"}});
    let typo = serde_json::json!({"run": {"handler": "ehco"}});
    let process = serde_json::json!({"run": {"process": {"argv": ["/bin/true"]}}});
    let query = serde_json::json!({
        "run": {"handler": "echo"},
        "shards": {"range": {"count": 2, "bounds": {"query": {"dataSource": "ledger", "sql": "x"}}}},
    });
    let some = [worker("default", &["noop", "echo"])];
    check(echo.clone(), &some, &[]);
    check(typo, &some, &["handler ehco", "did you mean echo?"]);
    check(process, &some, &["handler process", "allow_programs"]);
    check(query, &some, &["data source ledger", "data_sources"]);
    check(echo.clone(), &[], &["pool default", "sichen worker --pool"]);
    check(
        echo.clone(),
        &[worker("gpu", &["echo"])],
        &["workers in: gpu"],
    );
    let mut draining = worker("default", &["echo"]);
    draining.draining = true;
    check(echo, &[draining], &["no worker serves its pool default"]);
}
