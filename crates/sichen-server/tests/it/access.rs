//! Who may ask, and what becomes of requests that make no sense.

use reqwest::{Method, StatusCode};

use crate::node::{Node, ON_REQUEST, problem};

/// Every route that the API describes, with its segments filled in.
fn routes() -> Vec<(Method, String)> {
    let openapi = serde_json::to_value(sichen_server::rest::openapi()).unwrap();
    let mut routes = Vec::new();
    for (path, item) in openapi["paths"].as_object().unwrap() {
        let path = path
            .replace("{namespace}", "default")
            .replace("{name}", "on-request")
            .replace("{id}", "1")
            .replace("{no}", "0");
        for method in item.as_object().unwrap().keys() {
            let method = method.to_uppercase().parse().unwrap();
            routes.push((method, path.clone()));
        }
    }
    routes.push((Method::GET, "/api/v1/openapi.json".to_owned()));
    routes.push((Method::GET, "/api/v1/no-such-route".to_owned()));
    routes.push((Method::PATCH, "/api/v1/jobs".to_owned()));
    routes
}

#[tokio::test]
async fn every_route_asks_for_the_token() {
    let node = Node::start().await;
    let routes = routes();
    assert!(routes.len() > 20, "{routes:?}");
    let join = node.join_token();
    for (method, path) in routes {
        let url = format!("http://{}{path}", node.address);
        let bare = node.client.request(method.clone(), &url);
        let bare = bare.body(ON_REQUEST).send().await.unwrap();
        assert_eq!(bare.headers()["www-authenticate"], "Bearer");
        assert_eq!(problem(bare, 401).await.code, "SC6001", "{method} {path}");
        for wrong in ["", "x", &join, &node.token[1..]] {
            let request = node.client.request(method.clone(), &url);
            let answer = request.bearer_auth(wrong).send().await.unwrap();
            assert_eq!(problem(answer, 401).await.code, "SC6001", "{method} {path}");
        }
        let basic = node.client.request(method.clone(), &url);
        let basic = basic.basic_auth("user", Some(&node.token));
        problem(basic.send().await.unwrap(), 401).await;
    }
    let jobs: sichen_server::rest::wire::JobPage = node.read("/api/v1/jobs").await;
    assert_eq!(jobs.items, [], "nothing was carried out");
    node.stop().await;
}

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
