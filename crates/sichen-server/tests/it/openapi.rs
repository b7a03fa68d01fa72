//! The API's description.

use crate::node::Node;

#[test]
fn the_description_changes_only_as_meant() {
    let openapi = sichen_server::rest::openapi();
    insta::assert_snapshot!(openapi.to_pretty_json().unwrap());
}

/// Every `$ref` in `value`.
fn references(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == "$ref" => found.push(text.to_owned()),
                    _ => references(value, found),
                }
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|v| references(v, found)),
        _ => {}
    }
}

#[test]
fn clients_can_be_generated_names_are_unique_and_references_lead_somewhere() {
    let openapi = serde_json::to_value(sichen_server::rest::openapi()).unwrap();
    let mut found = Vec::new();
    references(&openapi, &mut found);
    assert!(found.len() > 20);
    for reference in found {
        let place = reference.strip_prefix('#').unwrap();
        assert!(openapi.pointer(place).is_some(), "{reference}");
    }
    let mut names = std::collections::BTreeSet::new();
    for item in openapi["paths"].as_object().unwrap().values() {
        for operation in item.as_object().unwrap().values() {
            let name = operation["operationId"].as_str().unwrap().to_owned();
            assert!(names.insert(name.clone()), "{name} is there twice");
        }
    }
}

/// Found by schemathesis: without a token the schemas answered 401, which they did not say.
#[test]
fn every_operation_says_how_it_refuses() {
    let openapi = serde_json::to_value(sichen_server::rest::openapi()).unwrap();
    for (path, item) in openapi["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let refusal = &operation["responses"]["default"]["content"];
            let body = &refusal["application/problem+json"]["schema"]["$ref"];
            assert_eq!(body, "#/components/schemas/Problem", "{method} {path}");
        }
    }
}

#[tokio::test]
async fn the_description_is_served_as_it_is() {
    let node = Node::start().await;
    let served: serde_json::Value = node.read("/api/v1/openapi.json").await;
    assert!(served["openapi"].as_str().unwrap().starts_with("3.1"));
    let own = serde_json::to_value(sichen_server::rest::openapi()).unwrap();
    assert_eq!(served, own);
    node.stop().await;
}

#[test]
fn the_page_lists_the_routes_that_there_are() {
    let page = include_str!("../../../../docs/api.md");
    let openapi = serde_json::to_value(sichen_server::rest::openapi()).unwrap();
    let mut described: Vec<String> = Vec::new();
    for (path, item) in openapi["paths"].as_object().unwrap() {
        let path = path.strip_prefix("/api/v1").unwrap();
        for method in item.as_object().unwrap().keys() {
            described.push(format!("{} {path}", method.to_uppercase()));
        }
    }
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut listed: Vec<String> = rows
        .filter_map(|row| row.split('`').next())
        .map(|route| route.split('?').next().unwrap().to_owned())
        .filter(|route| route != "GET /openapi.json")
        .collect();
    described.sort();
    listed.sort();
    assert_eq!(listed, described);
}
