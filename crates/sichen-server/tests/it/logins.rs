//! Users who log in with a browser, and those who would like to be one.

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sichen_core::user::{MAX_LOGIN_HOURS, MAX_LOGIN_IDLE_MINUTES};
use sichen_server::rest::wire::{Me, User, Users};
use sichen_store::clock::{ManualClock, SystemClock};
use sichen_store::memory::MemoryStore;

use crate::node::{Node, json as body_of, problem, until};

const PASSWORD: &str = "correct horse battery";
const NAME: &str = "sichen-login";

async fn add(node: &Node, name: &str, namespace: &str, role: &str) {
    let asked = json!({"name": name, "roles": [{"namespace": namespace, "role": role}]});
    body_of::<User>(node.post("/api/v1/users", asked.to_string()).await).await;
    let path = format!("/api/v1/users/{name}/password");
    let asked = json!({ "password": PASSWORD });
    let user: User = body_of(node.post(&path, asked.to_string()).await).await;
    assert!(user.has_password && user.logins == 0);
}

fn request(node: &Node, method: Method, path: &str, cookie: Option<&str>) -> RequestBuilder {
    let url = format!("http://{}/api/v1{path}", node.address);
    let request = node.client.request(method, url);
    match cookie {
        Some(cookie) => request.header("cookie", format!("other=1; {NAME}={cookie}")),
        None => request,
    }
}

async fn try_in(node: &Node, name: &str, password: &str, cookie: Option<&str>) -> Response {
    let asked = json!({"user": name, "password": password}).to_string();
    let request = request(node, Method::POST, "/login", cookie);
    request.body(asked).send().await.unwrap()
}

/// The cookie that an answer sets.
fn cookie_of(answer: &Response) -> String {
    let set = answer.headers().get("set-cookie").expect("a cookie");
    let set = set.to_str().unwrap();
    let (pair, attributes) = set.split_once(';').unwrap();
    for wanted in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(attributes.contains(wanted), "{set}");
    }
    assert!(!attributes.contains("Secure"), "this is no TLS: {set}");
    pair.strip_prefix(&format!("{NAME}=")).unwrap().to_owned()
}

async fn log_in(node: &Node, name: &str) -> String {
    let answer = try_in(node, name, PASSWORD, None).await;
    let cookie = cookie_of(&answer);
    assert_eq!(body_of::<Me>(answer).await.actor, format!("user {name}"));
    cookie
}

async fn me(node: &Node, cookie: &str) -> Response {
    let asked = request(node, Method::GET, "/me", Some(cookie));
    asked.send().await.unwrap()
}

fn digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|b| format!("{b:02x}")).collect()
}

#[tokio::test]
async fn a_user_asks_by_the_cookie_that_his_password_gave_him() {
    let node = Node::start().await;
    body_of::<serde_json::Value>(
        node.post("/api/v1/jobs:apply", crate::node::ON_REQUEST)
            .await,
    )
    .await;
    add(&node, "alice", "*", "operator").await;
    let cookie = log_in(&node, "alice").await;
    let told: Me = body_of(me(&node, &cookie).await).await;
    assert_eq!(told.roles[0].role, "operator");
    assert!(told.expires_at.is_some());
    let start = request(
        &node,
        Method::POST,
        "/jobs/default/on-request/runs",
        Some(&cookie),
    );
    let start = start.header("sichen-console", "1").body(r#"{"key":"k"}"#);
    body_of::<serde_json::Value>(start.send().await.unwrap()).await;
    let edit = request(
        &node,
        Method::DELETE,
        "/jobs/default/on-request",
        Some(&cookie),
    );
    let edit = edit.header("sichen-console", "1").send().await.unwrap();
    let refused = problem(edit, 403).await;
    assert!(
        refused.detail.contains("sichen user roles alice"),
        "{refused:?}"
    );
    let changes: serde_json::Value = node.read("/api/v1/changes?limit=1000").await;
    let by_alice: Vec<&str> = changes["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|change| {
            change["event"]["actor"] == "user alice" || change["actor"] == "user alice"
        })
        .map(|change| {
            change["event"]["kind"]
                .as_str()
                .or(change["kind"].as_str())
                .unwrap()
        })
        .collect();
    for kind in ["user_logged_in", "run_created"] {
        assert!(by_alice.contains(&kind), "{kind} in {by_alice:?}");
    }
    let out = request(&node, Method::POST, "/logout", Some(&cookie));
    let out = out.header("sichen-console", "1").send().await.unwrap();
    assert_eq!(cookie_of(&out), "", "the browser forgets it");
    assert_eq!(problem(me(&node, &cookie).await, 401).await.code, "SC6038");
    node.stop().await;
}

/// Session fixation.
#[tokio::test]
async fn a_login_goes_on_with_no_cookie_that_the_browser_brought_along() {
    let node = Node::start().await;
    add(&node, "alice", "*", "viewer").await;
    let planted = format!("scs_{}", "0".repeat(64));
    let answer = try_in(&node, "alice", PASSWORD, Some(&planted)).await;
    let first = cookie_of(&answer);
    assert_ne!(first, planted);
    problem(me(&node, &planted).await, 401).await;
    let second = cookie_of(&try_in(&node, "alice", PASSWORD, Some(&first)).await);
    assert_ne!(second, first);
    assert_eq!(problem(me(&node, &first).await, 401).await.code, "SC6038");
    assert_eq!(me(&node, &second).await.status(), 200);
    let users: Users = node.read("/api/v1/users").await;
    assert_eq!(users.items[0].logins, 1, "one browser, one login");
    // Whosever it was.
    add(&node, "bob", "*", "viewer").await;
    let third = cookie_of(&try_in(&node, "bob", PASSWORD, Some(&second)).await);
    problem(me(&node, &second).await, 401).await;
    assert_eq!(
        body_of::<Me>(me(&node, &third).await).await.actor,
        "user bob"
    );
    node.stop().await;
}

#[tokio::test]
async fn a_change_by_cookie_is_taken_from_an_own_page_alone() {
    let node = Node::start().await;
    body_of::<serde_json::Value>(
        node.post("/api/v1/jobs:apply", crate::node::ON_REQUEST)
            .await,
    )
    .await;
    add(&node, "alice", "*", "admin").await;
    let cookie = log_in(&node, "alice").await;
    let own = format!("http://{}", node.address);
    let pause = |headers: &[(&str, &str)]| {
        let path = "/jobs/default/on-request/pause";
        let request = request(&node, Method::POST, path, Some(&cookie));
        let headers = headers.iter();
        headers
            .fold(request, |request, (name, value)| {
                request.header(*name, *value)
            })
            .send()
    };
    let header = ("sichen-console", "1");
    for foreign in [
        vec![],
        vec![("origin", own.as_str())],
        vec![header, ("origin", "http://evil.example")],
        vec![header, ("origin", "null")],
        vec![header, ("sec-fetch-site", "cross-site")],
        vec![
            header,
            ("sec-fetch-site", "same-site"),
            ("origin", own.as_str()),
        ],
    ] {
        let refused = problem(pause(&foreign).await.unwrap(), 403).await;
        assert_eq!(refused.code, "SC6034", "{foreign:?}");
    }
    for taken in [
        vec![header],
        vec![header, ("origin", own.as_str())],
        vec![
            header,
            ("sec-fetch-site", "same-origin"),
            ("origin", own.as_str()),
        ],
    ] {
        assert_eq!(pause(&taken).await.unwrap().status(), 200, "{taken:?}");
    }
    // Another site's page logs nobody in either.
    let asked = json!({"user": "alice", "password": PASSWORD}).to_string();
    let foreign = request(&node, Method::POST, "/login", None);
    let foreign = foreign.header("origin", "http://evil.example").body(asked);
    let refused = problem(foreign.send().await.unwrap(), 403).await;
    assert_eq!(refused.code, "SC6034");
    node.stop().await;
}

/// What was typed wrong, of whom: the same words; and then a wait, which ends.
#[tokio::test]
async fn failed_logins_must_wait_and_are_told_in_the_same_words() {
    let node = Node::start().await;
    add(&node, "alice", "*", "viewer").await;
    add(&node, "carol", "*", "viewer").await;
    node.post("/api/v1/users/carol/disable", "").await;
    let mut words = Vec::new();
    for (name, password) in [
        ("alice", "wrong horse battery"),
        ("nobody", PASSWORD),
        ("carol", PASSWORD),
        ("no name at all", PASSWORD),
        ("alice", ""),
        ("alice", &"x".repeat(1_000)),
    ] {
        let answer = try_in(&node, name, password, None).await;
        assert!(answer.headers().get("set-cookie").is_none());
        let refused = problem(answer, 401).await;
        assert_eq!(refused.code, "SC6031", "{name}");
        words.push(refused.detail);
    }
    words.dedup();
    assert_eq!(words.len(), 1, "{words:?}");
    for _ in 0..2 {
        problem(
            try_in(&node, "alice", "wrong horse battery", None).await,
            401,
        )
        .await;
    }
    let waits = try_in(&node, "alice", PASSWORD, None).await;
    let after = waits.headers()["retry-after"].to_str().unwrap();
    assert!((1..=2).contains(&after.parse::<u32>().unwrap()), "{after}");
    assert_eq!(problem(waits, 429).await.code, "SC6032");
    until("the wait is over", || async {
        try_in(&node, "alice", PASSWORD, None).await.status() == 200
    })
    .await;
    // The password was right, so nothing stands against her any more.
    let wrong = try_in(&node, "alice", "wrong horse battery", None).await;
    problem(wrong, 401).await;
    log_in(&node, "alice").await;
    let huge = try_in(&node, "alice", &"x".repeat(5_000), None).await;
    assert_eq!(problem(huge, 413).await.code, "SC5023");
    node.stop().await;
}

#[tokio::test]
async fn a_user_who_is_disabled_is_so_at_once_everywhere() {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let node = Node::ready_on(store.clone()).await;
    let other = Node::without_duties_on(store).await;
    add(&node, "alice", "*", "viewer").await;
    let cookie = log_in(&node, "alice").await;
    assert_eq!(me(&other, &cookie).await.status(), 200, "any node answers");
    let roles = json!({"roles": [{"namespace": "payments", "role": "editor"}]});
    let path = "/api/v1/users/alice/roles";
    body_of::<User>(node.post(path, roles.to_string()).await).await;
    let told: Me = body_of(me(&node, &cookie).await).await;
    assert_eq!(told.roles[0].namespace, "payments", "and the login goes on");
    let user: User = body_of(node.post("/api/v1/users/alice/disable", "").await).await;
    assert_eq!((user.state.as_str(), user.logins), ("disabled", 0));
    problem(me(&node, &cookie).await, 401).await;
    let within = async {
        while me(&other, &cookie).await.status() != 401 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(4), within).await;
    assert!(within.is_ok(), "2 seconds, and some for a busy machine");
    let user: User = body_of(node.post("/api/v1/users/alice/enable", "").await).await;
    assert_eq!(user.state, "active");
    problem(me(&node, &cookie).await, 401).await;
    let again = log_in(&node, "alice").await;
    // Another password ends it as well.
    let asked = json!({ "password": "another horse battery" });
    let path = "/api/v1/users/alice/password";
    body_of::<User>(node.post(path, asked.to_string()).await).await;
    problem(me(&node, &again).await, 401).await;
    problem(try_in(&node, "alice", PASSWORD, None).await, 401).await;
    other.stop().await;
    node.stop().await;
}

#[tokio::test]
async fn a_login_ends_with_its_time() {
    let clock = Arc::new(ManualClock::new("2026-08-30T00:00:00Z".parse().unwrap()));
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let node = Node::without_duties_on(store).await;
    add(&node, "alice", "*", "viewer").await;
    let idle = log_in(&node, "alice").await;
    let over = async |cookie: &str| {
        until("the login is over", || async {
            me(&node, cookie).await.status() == 401
        })
        .await;
    };
    clock.advance(SignedDuration::from_mins(MAX_LOGIN_IDLE_MINUTES));
    over(&idle).await;
    let used = log_in(&node, "alice").await;
    let hour = SignedDuration::from_hours(1);
    for _ in 1..MAX_LOGIN_HOURS {
        clock.advance(hour);
        node.post("/api/v1/users/alice/enable", "").await;
        assert_eq!(me(&node, &used).await.status(), 200);
    }
    clock.advance(hour);
    over(&used).await;
    node.stop().await;
}

#[tokio::test]
async fn nobody_takes_over_a_user_who_may_more() {
    let node = Node::start().await;
    add(&node, "chief", "*", "admin").await;
    add(&node, "alice", "payments", "admin").await;
    add(&node, "bob", "payments", "viewer").await;
    let alice = log_in(&node, "alice").await;
    let ask = async |path: &str, body: serde_json::Value| {
        let asked = request(&node, Method::POST, path, Some(&alice));
        let asked = asked.header("sichen-console", "1").body(body.to_string());
        asked.send().await.unwrap().status().as_u16()
    };
    let roles = |namespace: &str| json!({"roles": [{"namespace": namespace, "role": "admin"}]});
    for path in ["password", "disable", "enable", "roles"] {
        let path = format!("/users/chief/{path}");
        let body = match path.ends_with("roles") {
            true => roles("payments"),
            false => json!({"password": "another horse battery"}),
        };
        assert_eq!(ask(&path, body).await, 404, "{path}");
    }
    assert_eq!(ask("/users/bob/roles", roles("*")).await, 403);
    assert_eq!(ask("/users/alice/roles", roles("reports")).await, 403);
    assert_eq!(ask("/users/bob/roles", roles("payments")).await, 200);
    let made = json!({"name": "more", "roles": [{"namespace": "*", "role": "viewer"}]});
    assert_eq!(ask("/users", made).await, 403);
    let listed = request(&node, Method::GET, "/users", Some(&alice));
    let listed: Users = body_of(listed.send().await.unwrap()).await;
    let names: Vec<&str> = listed.items.iter().map(|user| user.name.as_str()).collect();
    assert_eq!(names, ["alice", "bob"]);
    log_in(&node, "chief").await;
    node.stop().await;
}

#[tokio::test]
async fn passwords_and_cookies_come_back_by_no_channel() {
    let node = Node::start().await;
    add(&node, "alice", "*", "admin").await;
    let cookie = log_in(&node, "alice").await;
    for path in [
        "/users",
        "/events?limit=1000",
        "/export",
        "/changes",
        "/me",
        "/server",
    ] {
        let asked = request(&node, Method::GET, path, Some(&cookie));
        let text = asked.send().await.unwrap().text().await.unwrap();
        for secret in [PASSWORD, "argon2id", &cookie[4..], &digest(&cookie)] {
            assert!(!text.contains(secret), "{path} has {secret}");
        }
    }
    node.stop().await;
}

#[tokio::test]
async fn users_that_make_no_sense_are_refused_with_a_code() {
    let node = Node::start().await;
    add(&node, "alice", "*", "viewer").await;
    let viewer = json!([{"namespace": "*", "role": "viewer"}]);
    for (path, body, status, code) in [
        (
            "/users",
            json!({"name": "alice", "roles": viewer}),
            409,
            "SC6035",
        ),
        (
            "/users",
            json!({"name": "api", "roles": viewer}),
            409,
            "SC6035",
        ),
        ("/users", json!({"name": "bob", "roles": []}), 400, "SC6037"),
        (
            "/users",
            json!({"name": "B B", "roles": viewer}),
            400,
            "SC1001",
        ),
        (
            "/users/alice/roles",
            json!({"roles": [{"namespace": "*", "role": "king"}]}),
            400,
            "SC6037",
        ),
        (
            "/users/alice/password",
            json!({"password": "short"}),
            400,
            "SC6037",
        ),
        ("/users/bob/disable", json!({}), 404, "SC5001"),
    ] {
        let answer = node.post(&format!("/api/v1{path}"), body.to_string()).await;
        assert_eq!(problem(answer, status).await.code, code, "{path} {body}");
    }
    node.stop().await;
}
