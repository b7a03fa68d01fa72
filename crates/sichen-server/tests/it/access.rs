//! Who may ask, and what becomes of requests that make no sense.

use reqwest::{Method, StatusCode};

use crate::node::{Node, ON_REQUEST, problem};

/// Every route that the API describes, with its segments filled in, and those that it does not.
fn routes() -> Vec<(Method, String)> {
    let openapi = serde_json::to_value(sichen_server::rest::openapi()).unwrap();
    let mut routes = Vec::new();
    for (path, item) in openapi["paths"].as_object().unwrap() {
        let path = path
            .replace("{namespace}", "default")
            .replace("{name}", "on-request")
            .replace("{token}", "some")
            .replace("{id}", "1")
            .replace("{no}", "0");
        let filled = path.split('{').map(|piece| piece.rsplit('}').next());
        let path = filled.flatten().collect::<Vec<_>>().join("1");
        for method in item.as_object().unwrap().keys() {
            let method = method.to_uppercase().parse().unwrap();
            routes.push((method, path.clone()));
        }
    }
    for other in [
        "/api/v1/openapi.json",
        "/api/v1/no-such-route",
        "/metrics",
        "/debug/pprof",
        "/api/v2/jobs",
    ] {
        routes.push((Method::GET, other.to_owned()));
    }
    routes.push((Method::PATCH, "/api/v1/jobs".to_owned()));
    routes
}

/// What is no token of the API, as a header `authorization` says it.
fn no_tokens(node: &Node) -> Vec<Option<String>> {
    let token = &node.token;
    let mut headers = vec![None];
    let some = [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer null".to_owned(),
        "Bearer undefined".to_owned(),
        "Bearer \"\"".to_owned(),
        "Bearer x".to_owned(),
        "null".to_owned(),
        token.clone(),
        format!("Bearer {}", &token[1..]),
        format!("Bearer {}", &token[..token.len() - 1]),
        format!("Bearer {token}0"),
        format!("Bearer {token},{token}"),
        format!("Bearer {}", token.to_uppercase()),
        format!("Bearer sct_{token}"),
        format!("Basic {token}"),
        // For workers.
        format!("Bearer {}", node.join_token()),
    ];
    headers.extend(some.map(Some));
    headers
}

/// SEC-002: what is no token opens nothing, however it is sent, and all are told the same. (Those that are over:
/// `every_route_answers_every_caller_as_the_reviewed_table_says`; workers: `no_worker_joins_with_what_is_no_join_token`.)
#[tokio::test]
async fn every_route_asks_for_the_token() {
    let node = Node::start().await;
    let before: serde_json::Value = node.read("/api/v1/events").await;
    let routes = routes();
    assert!(routes.len() > 20, "{routes:?}");
    let headers = no_tokens(&node);
    let mut told = None;
    // They ask for a password, or have a provider ask.
    let routes = routes
        .into_iter()
        .filter(|(_, path)| !path.contains("/login"));
    for (method, path) in routes {
        let url = format!("http://{}{path}", node.address);
        for header in &headers {
            let mut request = node.client.request(method.clone(), &url).body(ON_REQUEST);
            if let Some(header) = header {
                request = request.header("authorization", header);
            }
            let answer = request.send().await.unwrap();
            assert_eq!(answer.headers()["www-authenticate"], "Bearer");
            let refused = problem(answer, 401).await;
            assert_eq!(refused.code, "SC6001", "{method} {path} {header:?}");
            let words = (refused.title, refused.detail);
            let first = told.get_or_insert_with(|| words.clone());
            assert_eq!(*first, words, "{method} {path} {header:?}");
        }
    }
    let after: serde_json::Value = node.read("/api/v1/events").await;
    assert_eq!(after, before, "nothing was carried out");
    node.stop().await;
}

/// SEC-002.
#[tokio::test]
async fn only_health_needs_no_token() {
    let node = Node::start().await;
    for path in ["/healthz", "/readyz"] {
        let url = format!("http://{}{path}", node.address);
        let answer = node.client.get(url).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
    }
    node.stop().await;
}
