//! Claims about what differs between documents.

use serde_json::json;

use super::*;

fn document(spec: Value) -> Document {
    let document = json!({
        "apiVersion": "sichen/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec,
    });
    serde_json::from_value(document).expect("the shape is right")
}

#[track_caller]
fn check(old: Value, new: Value, expect: &[(&str, Value, Value)]) {
    let found = differences(&document(old), &document(new));
    let shown: Vec<(&str, Value, Value)> = found
        .iter()
        .map(|d| {
            let value = |v: &Option<Value>| v.clone().unwrap_or(Value::Null);
            (d.path.as_str(), value(&d.old), value(&d.new))
        })
        .collect();
    assert_eq!(shown, expect);
}

#[test]
fn what_differs_is_named_by_its_field() {
    let run = json!({"handler": "h"});
    check(json!({"run": run}), json!({"run": run}), &[]);
    check(
        json!({"run": run, "priority": 0, "pool": "default", "retry": {"maxAttempts": 3}}),
        json!({"run": run}),
        &[],
    );
    check(
        json!({"run": run, "schedules": [{"cron": "0 5 * * *"}], "parameters": {"a": 1}}),
        json!({
            "run": {"handler": "g"}, "retry": {"maxAttempts": 5},
            "schedules": [{"cron": "0 6 * * *"}, {"every": "1h"}],
        }),
        &[
            ("spec.parameters", json!({"a": 1}), Value::Null),
            ("spec.retry.maxAttempts", json!(3), json!(5)),
            ("spec.run.handler", json!("h"), json!("g")),
            (
                "spec.schedules[0].cron",
                json!("0 5 * * *"),
                json!("0 6 * * *"),
            ),
            ("spec.schedules[1]", Value::Null, json!({"every": "1h"})),
        ],
    );
}
