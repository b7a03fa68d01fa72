//! The API's description.

use crate::node::Node;

#[test]
fn the_description_changes_only_as_meant() {
    let openapi = sichen_server::rest::openapi();
    insta::assert_snapshot!(openapi.to_pretty_json().unwrap());
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
