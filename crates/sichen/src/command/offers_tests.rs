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
    check(process, &some, &["/bin/true", "allow_programs"]);
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

#[test]
fn what_a_placement_asks_for_and_nobody_has_is_named() {
    let placed =
        |placement| serde_json::json!({"run": {"handler": "echo"}, "placement": placement});
    let mut some = worker("default", &["echo"]);
    some.labels = [("zone".to_owned(), "a".to_owned())].into();
    some.resources = [
        ("memory".to_owned(), "4Gi".to_owned()),
        ("gpu/t4".to_owned(), "1".to_owned()),
    ]
    .into();
    let other = Worker {
        labels: [("disk".to_owned(), "ssd".to_owned())].into(),
        resources: std::collections::BTreeMap::new(),
        ..some.clone()
    };
    let workers = [some, other];
    let require = |labels| placed(serde_json::json!({"labels": {"require": labels}}));
    check(require(serde_json::json!({"zone": "a"})), &workers, &[]);
    check(
        require(serde_json::json!({"zone": "b"})),
        &workers,
        &["has the label zone=b"],
    );
    check(
        require(serde_json::json!({"zoen": "a"})),
        &workers,
        &["label zoen=a", "did you mean the label zone?"],
    );
    check(
        require(serde_json::json!({"zone": "a", "disk": "ssd"})),
        &workers,
        &["no one worker that offers echo has all of disk=ssd and zone=a"],
    );
    let resources = |resources| placed(serde_json::json!({"resources": resources}));
    check(
        resources(serde_json::json!({"memory": "4Gi", "gpu": 1})),
        &workers,
        &[],
    );
    check(
        resources(serde_json::json!({"memory": "5Gi"})),
        &workers,
        &["memory 5Gi", "`resources`"],
    );
}
