//! Claims about placements in documents.

use super::*;
use crate::document::check;

fn document(placement: serde_json::Value) -> Result<Document, serde_json::Error> {
    serde_json::from_value(serde_json::json!({
        "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": "j" },
        "spec": {
            "run": { "handler": "h" }, "parameters": { "customer": "acme" }, "placement": placement,
        },
    }))
}

#[test]
fn a_placement_is_read_and_written_alike() {
    let written = serde_json::json!({
        "strategy": "consistentHash",
        "key": { "parameter": "customer" },
        "labels": { "require": { "zone": ["a", "b"] }, "avoid": { "spot": "yes" } },
        "resources": { "cpu": 1.5, "memory": "4Gi", "gpu/a100": 1 },
    });
    let read = document(written).unwrap();
    assert_eq!(check(&read), []);
    let again: Document = serde_json::from_value(serde_json::to_value(&read).unwrap()).unwrap();
    assert_eq!(again, read);
    let terms = read.placement().unwrap();
    assert_eq!(terms.strategy, Strategy::ConsistentHash);
    assert_eq!(terms.key, Key::Parameter("customer".to_owned()));
    assert_eq!(terms.require[0].to_string(), "zone=a|b");
    let needs: Vec<(&str, u64)> = terms.needs.iter().collect();
    let memory = 4 * 1_024 * 1_024 * 1_024 * 1_000;
    assert_eq!(
        needs,
        [
            ("cpu", 1_500),
            ("gpu", 1_000),
            ("gpu/a100", 1_000),
            ("memory", memory)
        ]
    );
    assert_eq!(document(serde_json::json!({})).unwrap().placement(), None);
}

#[test]
fn what_makes_no_sense_is_named_with_what_was_meant() {
    let codes = |placement| -> Vec<String> {
        let problems = check(&document(placement).unwrap()).into_iter();
        problems
            .map(|p| format!("{} {}", p.path, p.message))
            .collect()
    };
    let one = |placement, expected: &[&str]| {
        let found = codes(placement);
        assert_eq!(found.len(), 1, "{found:?}");
        for part in expected {
            assert!(found[0].contains(part), "{found:?}");
        }
    };
    one(
        serde_json::json!({ "key": "job" }),
        &["spec.placement.key", "SC1067"],
    );
    one(
        serde_json::json!({ "strategy": "consistentHash", "key": { "parameter": "custmer" } }),
        &["SC1068", "did you mean `customer`?"],
    );
    one(
        serde_json::json!({ "labels": { "prefer": { "": "x" } } }),
        &["SC1070"],
    );
    one(
        serde_json::json!({ "labels": { "require": { "zone": [] } } }),
        &["SC1071"],
    );
    one(
        serde_json::json!({ "resources": { "CPU": 1 } }),
        &["SC1072"],
    );
    for bad in ["none", "-1", "1.2345", "0"] {
        let refused = document(serde_json::json!({ "resources": { "cpu": bad } }));
        assert!(refused.unwrap_err().to_string().contains("500m or 4Gi"));
    }
    assert!(document(serde_json::json!({ "strategy": "random" })).is_err());
}

#[test]
fn a_broadcast_is_cut_by_its_workers_and_has_a_time() {
    let read = |spec: serde_json::Value| -> Document {
        let mut whole = serde_json::json!({
            "run": { "handler": "h" }, "placement": { "strategy": "broadcast" },
            "timeouts": { "run": "10m" },
        });
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let head = serde_json::json!({
            "apiVersion": "sichen/v1", "kind": "Job", "metadata": { "name": "j" }, "spec": whole,
        });
        serde_json::from_value(head).unwrap()
    };
    let codes = |document: &Document| -> Vec<String> {
        let found = check(document).into_iter();
        found.map(|p| p.message[..6].to_owned()).collect()
    };
    let plain = read(serde_json::json!({}));
    assert_eq!(codes(&plain), [""; 0]);
    let cut = read(serde_json::json!({ "shards": { "count": 2 } }));
    assert_eq!(codes(&cut), ["SC1073"]);
    let endless = read(serde_json::json!({ "timeouts": {} }));
    assert_eq!(codes(&endless), ["SC1074"]);
    let filled = read(serde_json::json!({ "parameters": { "sichen_workers": ["a"] } }));
    assert_eq!(codes(&filled), ["SC1075"]);
    let asked = |document: &Document, parameters: serde_json::Value| {
        let request = crate::document::Request {
            job: crate::ids::JobUid(uuid::Uuid::nil()),
            revision: crate::ids::Revision(1),
            occasion: crate::ids::Occasion::Manual {
                key: "k".to_owned(),
            },
            period: None,
            parameters: parameters.as_object().cloned().unwrap_or_default(),
            digest: String::new(),
        };
        crate::document::new_run(document, request, jiff::Timestamp::UNIX_EPOCH)
    };
    let addressed = plain.addressed(vec!["a".to_owned(), "b".to_owned()]);
    let run = asked(&addressed, serde_json::json!({})).unwrap();
    let item = |name: &str| crate::layout::Descriptor::Item(name.to_owned());
    assert_eq!(*run.shards, [item("a"), item("b")]);
    assert_eq!(
        crate::place::broadcast_to(&run.terms.parameters),
        ["a", "b"]
    );
    let own = serde_json::json!({ "sichen_workers": ["c"] });
    assert!(
        asked(&addressed, own)
            .unwrap_err()
            .message
            .starts_with("SC1075")
    );
}
