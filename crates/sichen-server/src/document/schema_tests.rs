//! Claims about the published schema: it says the same as the reader.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sichen_core::document::{calendar_schema, schema};

use super::{read, read_all};

/// Documents that together have every field and every alternative.
fn full() -> Vec<Value> {
    let base = |run: Value, shards: Value, backoff: Value| {
        // A job has one of them.
        let follows = if backoff["fixed"].is_null() {
            json!({"after": "10m"})
        } else {
            json!({"continuous": {"minWait": "1s", "maxWait": "5m"}})
        };
        json!({
            "apiVersion": "sichen/v1", "kind": "Job",
            "metadata": {"name": "j", "namespace": "default", "title": "t", "labels": {"a": "b"}},
            "spec": {
                "schedules": [
                    {"cron": "0 5 * * *", "dialect": "crontab", "gap": "shift", "fold": "first",
                     "timeZone": "UTC", "from": "2026-01-01T00:00:00Z",
                     "until": "2027-01-01T00:00:00Z",
                     "calendars": [{"name": "c", "use": "working-days", "version": 1}]},
                    {"every": "90m", "phase": "5m"},
                    {"at": "2026-08-30T00:00:00Z"},
                    follows,
                ],
                "timeZone": "Asia/Shanghai", "run": run, "pool": "default",
                "parameters": {"a": [1, "x", null], "from": 1, "to": 9}, "shards": shards,
                "parallelism": 4, "priority": -3, "maxRunningShards": 9,
                "placement": {
                    "strategy": "consistentHash", "key": {"parameter": "a"},
                    "labels": {
                        "require": {"zone": "a"}, "prefer": {"disk": ["ssd", "nvme"]},
                        "avoid": {"spot": "yes"},
                    },
                    "resources": {"cpu": 1.5, "memory": "4Gi"},
                },
                "retry": {
                    "maxAttempts": 5, "backoff": backoff,
                    "rules": [
                        {"exitCodes": [3, "10-19"], "errors": ["e"], "ends": ["failed", "timedOut"],
                         "action": "retry", "delay": "9s"},
                        {"ends": ["lost"], "action": "failRun"},
                        {"errors": ["x"], "action": "failShard"},
                        {"errors": ["y"], "action": "ignore"},
                    ],
                },
                "timeouts": {"attempt": "1m", "stall": "1m", "run": "1h", "activeDeadline": "1h"},
                "preemption": {"preempts": true, "yields": {"after": "1m", "times": 10}},
                "overlap": "allow",
                "catchUp": {"policy": {"all": 3}, "startingDeadline": "1h", "rate": 60},
                "countsMustMatch": true, "jitter": "1m", "period": "elapsed",
            },
        })
    };
    let grown = json!({"base": "1s", "factor": 2.0, "max": "1m"});
    let handler = json!({"handler": "h"});
    let range = |bounds: Value| json!({"range": {"bounds": bounds, "count": 3}});
    let time = json!({"range": {"keys": "time", "bounds": "period", "size": "1h"}});
    let process = json!({"process": {"argv": ["p"], "env": {"A": "b"}, "directory": "/tmp"}});
    let query = json!({"query": {"dataSource": "d", "sql": "select 1"}});
    vec![
        base(process, time, json!({"fullJitter": grown})),
        base(
            handler.clone(),
            json!({"count": 7}),
            json!({"exponential": grown}),
        ),
        base(
            handler.clone(),
            json!({"items": {"values": ["a"]}}),
            json!({"fixed": "1s"}),
        ),
        base(
            handler.clone(),
            json!({"items": {"parameter": "a"}}),
            json!({"fixed": "1s"}),
        ),
        base(
            handler.clone(),
            range(json!({"literal": {"from": 1, "to": 9}})),
            json!({"fixed": "1s"}),
        ),
        base(
            handler.clone(),
            range(json!({"parameters": {"from": "from", "to": "to"}})),
            json!({"fixed": "1s"}),
        ),
        base(handler, range(query), json!({"fixed": "1s"})),
    ]
}

fn valid(document: &Value) -> Result<(), String> {
    let root = schema();
    judge(&root, &root, document)
}

/// Judges `value` by the keywords that the schema uses; one that is not known here fails the test.
fn judge(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(anything) = schema.as_bool() {
        return anything
            .then_some(())
            .ok_or_else(|| "nothing is allowed here".to_owned());
    }
    for (keyword, want) in schema.as_object().unwrap() {
        let one = |of: &Value| judge(root, of, value);
        let fits = match keyword.as_str() {
            "$schema"
            | "$id"
            | "$defs"
            | "title"
            | "description"
            | "examples"
            | "default"
            | "format"
            | "additionalProperties" => true,
            "$ref" => {
                return judge(
                    root,
                    root.pointer(&want.as_str().unwrap()[1..]).unwrap(),
                    value,
                );
            }
            "const" => value == want,
            "enum" => want.as_array().unwrap().contains(value),
            "type" => {
                let kinds = want
                    .as_array()
                    .cloned()
                    .unwrap_or_else(|| vec![want.clone()]);
                kinds.iter().any(|kind| is_a(value, kind.as_str().unwrap()))
            }
            "minimum" => value.as_f64().is_none_or(|n| n >= want.as_f64().unwrap()),
            "maximum" => value.as_f64().is_none_or(|n| n <= want.as_f64().unwrap()),
            "oneOf" => {
                want.as_array()
                    .unwrap()
                    .iter()
                    .filter(|of| one(of).is_ok())
                    .count()
                    == 1
            }
            "anyOf" => want.as_array().unwrap().iter().any(|of| one(of).is_ok()),
            "required" => {
                let names = want.as_array().unwrap().iter();
                value.is_object()
                    && names
                        .into_iter()
                        .all(|n| value.get(n.as_str().unwrap()).is_some())
            }
            "properties" => true,
            "items" => {
                let mut items = value.as_array().into_iter().flatten();
                items.try_for_each(|item| judge(root, want, item))?;
                true
            }
            other => panic!("the keyword {other} is not known here"),
        };
        if !fits {
            return Err(format!("{value} does not fit {keyword}: {want}"));
        }
    }
    let properties = schema.get("properties");
    for (name, inner) in value.as_object().into_iter().flatten() {
        let own = properties.and_then(|p| p.get(name));
        if let Some(schema) = own.or_else(|| schema.get("additionalProperties")) {
            judge(root, schema, inner).map_err(|e| format!("{name}: {e}"))?;
        }
    }
    Ok(())
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("the type {other} is not known here"),
    }
}

#[test]
fn what_the_reader_takes_is_valid_by_the_schema() {
    for document in full() {
        let text = document.to_string();
        read(&text).unwrap_or_else(|problems| panic!("{problems:?} in {text}"));
        valid(&document).unwrap_or_else(|e| panic!("{e} in {text}"));
    }
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        let known = path.extension().and_then(|e| e.to_str());
        if !matches!(known, Some("yaml" | "yml" | "json")) {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let all = read_all(&text).unwrap_or_else(|problems| panic!("{path:?}: {problems:?}"));
        for one in all.calendars {
            let (root, stored) = (
                calendar_schema(),
                serde_json::to_value(&one.document).unwrap(),
            );
            judge(&root, &root, &stored).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        }
        for one in all.jobs {
            // As it is stored and handed out again.
            let stored = serde_json::to_value(&one.document).unwrap();
            valid(&stored).unwrap_or_else(|e| panic!("{path:?}: {e}"));
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen} examples");
}

#[test]
fn what_is_misspelt_misplaced_or_mistyped_is_not_valid() {
    let broken = |path: &str, value: Value| {
        let mut document = full().remove(0);
        *document.pointer_mut(path).unwrap() = value;
        document
    };
    for document in [
        broken("/apiVersion", json!("sichen/v2")),
        broken("/kind", json!("Cron")),
        broken("/spec/priority", json!("high")),
        broken("/spec/retry/maxAttempts", json!(0)),
        broken("/spec/retry/rules/0/action", json!("explode")),
        broken("/spec/timeouts", json!({"atempt": "1m"})),
        broken("/spec/run", json!({"shell": "rm -rf"})),
        broken("/spec/shards", json!({"count": "many"})),
        broken("/metadata", json!({})),
        json!([]),
        json!({}),
    ] {
        assert!(valid(&document).is_err(), "{document}");
        assert!(read(&document.to_string()).is_err(), "{document}");
    }
}

/// Follows references.
fn resolved<'a>(root: &'a Value, mut node: &'a Value) -> &'a Value {
    while let Some(to) = node["$ref"].as_str() {
        node = root.pointer(to.trim_start_matches('#')).unwrap();
    }
    node
}

/// The alternatives of a schema, itself if there are none.
fn branches<'a>(root: &'a Value, node: &'a Value) -> Vec<&'a Value> {
    let node = resolved(root, node);
    let alternatives = ["oneOf", "anyOf", "allOf"];
    let inner: Vec<&Value> = alternatives
        .iter()
        .filter_map(|word| node[*word].as_array())
        .flatten()
        .collect();
    if inner.is_empty() {
        return vec![node];
    }
    inner.into_iter().flat_map(|n| branches(root, n)).collect()
}

/// The names between backticks behind `nown are`: what the reader says that it knows.
fn known(message: &str) -> Option<BTreeSet<String>> {
    let (_, list) = message.split_once("nown are ")?;
    Some(
        list.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect(),
    )
}

/// Walks a document and its schema together, and calls `see` for every value.
fn walk<'a>(
    root: &'a Value,
    schema: &'a Value,
    value: &Value,
    path: String,
    see: &mut dyn FnMut(&str, &[&'a Value]),
) {
    let here = branches(root, schema);
    see(&path, &here);
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                let with_name = here
                    .iter()
                    .find_map(|branch| branch["properties"].get(name));
                if let Some(schema) = with_name {
                    walk(root, schema, inner, format!("{path}/{name}"), see);
                }
            }
        }
        Value::Array(items) => {
            for (i, inner) in items.iter().enumerate() {
                if let Some(schema) = here.iter().find_map(|branch| branch.get("items")) {
                    walk(root, schema, inner, format!("{path}/{i}"), see);
                }
            }
        }
        _ => {}
    }
}

/// The fields of every object of the schema that takes no others, if it has more than one.
fn closed_objects(node: &Value, all: &mut BTreeSet<BTreeSet<String>>) {
    if node["additionalProperties"] == json!(false)
        && let Some(properties) = node["properties"].as_object().filter(|p| p.len() > 1)
    {
        all.insert(properties.keys().cloned().collect());
    }
    match node {
        Value::Object(fields) => fields.values().for_each(|n| closed_objects(n, all)),
        Value::Array(items) => items.iter().for_each(|n| closed_objects(n, all)),
        _ => {}
    }
}

/// Every field and every choice that the reader knows is in the schema, and the reverse: the reader
/// is asked what it knows by a name that it can't know.
#[test]
fn schema_and_reader_know_the_same_fields_and_choices() {
    let root = schema();
    let (mut structs, mut choices) = (BTreeSet::new(), BTreeSet::new());
    for document in full() {
        walk(&root, &root, &document, String::new(), &mut |path, here| {
            let closed = |b: &&&Value| b["additionalProperties"] == json!(false);
            let fields: BTreeSet<String> = here
                .iter()
                .filter(closed)
                .filter_map(|b| b["properties"].as_object())
                .flat_map(|properties| properties.keys().cloned())
                .collect();
            let words: BTreeSet<String> = here
                .iter()
                .flat_map(|b| {
                    let listed = b["enum"].as_array().into_iter().flatten();
                    listed.chain(b.get("const")).filter_map(Value::as_str)
                })
                .map(str::to_owned)
                .collect();
            let mut asked = document.clone();
            let one_struct = here.iter().filter(closed).count() == 1 && words.is_empty();
            let is_choice = !words.is_empty() || here.iter().filter(closed).count() > 1;
            if one_struct && fields.len() > 1 {
                let object = asked.pointer_mut(path).unwrap().as_object_mut().unwrap();
                object.insert("zzzzzzzz".to_owned(), Value::Null);
                let problems = read(&asked.to_string()).unwrap_err();
                let knows = problems.iter().find_map(|p| known(&p.message));
                assert_eq!(knows.as_ref(), Some(&fields), "{path}: {problems:?}");
                structs.insert(fields);
            } else if is_choice && !["/apiVersion", "/kind"].contains(&path) {
                *asked.pointer_mut(path).unwrap() = "zzzzzzzz".into();
                let problems = read(&asked.to_string()).unwrap_err();
                let knows = problems.iter().find_map(|p| known(&p.message));
                let all: BTreeSet<String> = fields.union(&words).cloned().collect();
                assert_eq!(knows.as_ref(), Some(&all), "{path}: {problems:?}");
                choices.insert(all);
            }
        });
    }
    let mut all = BTreeSet::new();
    closed_objects(&root, &mut all);
    assert_eq!(structs, all, "the documents here have every kind of fields");
    assert!(choices.len() >= 13, "{choices:?}");
}
