//! Claims about requests that break, hang or are too large.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use sichen_engine::context::RandomIds;
use sichen_engine::driver::{Engine, Settings};
use sichen_store::clock::SystemClock;
use sichen_store::memory::MemoryStore;
use tokio::sync::Notify;
use tower::ServiceExt;

use super::*;
use crate::access::Access;
use crate::auth::{self, Tokens};
use crate::grpc::Streams;
use crate::rest::wire::Problem;

/// `routes` behind the gate, and the token that opens it.
struct Gated {
    router: Router,
    api: Api,
    token: String,
}

impl Gated {
    fn new(routes: Router<Api>, timeout: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Arc::new(Tokens::open(dir.path()).unwrap());
        let token = auth::read(&dir.path().join(auth::TOKEN_FILE)).unwrap();
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let settings = Settings::new("test".to_owned());
        let streams = Arc::new(Streams::default());
        let engine = Engine::new(store, Arc::new(RandomIds), streams.clone(), settings);
        let access = Arc::new(Access::new(tokens, engine.context.store.clone()));
        let api = Api::new(
            Arc::new(engine),
            streams,
            access,
            Arc::default(),
            None,
            timeout,
        );
        let gate = from_fn_with_state(api.clone(), pass);
        let router = routes.layer(gate).with_state(api.clone());
        Self { router, api, token }
    }

    async fn send(&self, method: &str, path: &str, body: impl Into<Body>) -> Response {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(AUTHORIZATION, format!("bearer {}", self.token));
        let request = request.body(body.into()).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn refused(&self, method: &str, path: &str, body: impl Into<Body>) -> Problem {
        let response = self.send(method, path, body).await;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), MAX_BODY_BYTES);
        let problem: Problem = serde_json::from_slice(&body.await.unwrap()).unwrap();
        assert_eq!(problem.status, status.as_u16());
        problem
    }
}

async fn broken() -> &'static str {
    panic!("broken on purpose")
}

#[tokio::test]
async fn a_panic_is_the_answer_to_one_request() {
    let routes = Router::new()
        .route("/broken", get(broken))
        .route("/well", get(|| async { "well" }));
    let gated = Gated::new(routes, REQUEST_TIMEOUT);
    for _ in 0..2 {
        let problem = gated.refused("GET", "/broken", "").await;
        assert_eq!((problem.status, problem.code.as_str()), (500, "SC9001"));
        assert_eq!(gated.send("GET", "/well", "").await.status(), 200);
    }
    assert_eq!(gated.api.0.room.available_permits(), MAX_REQUESTS);
}

#[tokio::test]
async fn what_takes_too_long_is_answered_and_still_carried_out() {
    let go = Arc::new(Notify::new());
    let done = Arc::new(AtomicBool::new(false));
    let handler = {
        let (go, done) = (go.clone(), done.clone());
        move || async move {
            go.notified().await;
            done.store(true, Ordering::SeqCst);
        }
    };
    let routes = Router::new().route("/slow", post(handler));
    let gated = Gated::new(routes, Duration::from_millis(20));
    let problem = gated.refused("POST", "/slow", "").await;
    assert_eq!((problem.status, problem.code.as_str()), (503, "SC5024"));
    assert!(!done.load(Ordering::SeqCst));
    go.notify_one();
    gated.api.0.running.close();
    gated.api.0.running.wait().await;
    assert!(done.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_body_has_at_most_a_mebibyte() {
    let routes = Router::new().route(
        "/size",
        post(|body: axum::body::Bytes| async move { body.len().to_string() }),
    );
    let gated = Gated::new(routes, REQUEST_TIMEOUT);
    let most = gated
        .send("POST", "/size", vec![b'x'; MAX_BODY_BYTES])
        .await;
    assert_eq!(most.status(), 200);
    let problem = gated
        .refused("POST", "/size", vec![b'x'; MAX_BODY_BYTES + 1])
        .await;
    assert_eq!((problem.status, problem.code.as_str()), (413, "SC5023"));
}

#[tokio::test]
async fn a_body_in_a_coding_is_refused_unread() {
    let routes = Router::new().route("/size", post(|| async { "read" }));
    let gated = Gated::new(routes, REQUEST_TIMEOUT);
    for (coding, status) in [("br", 415), ("gzip", 415), ("identity", 200)] {
        let request = Request::post("/size").header(CONTENT_ENCODING, coding);
        let request = request.header(AUTHORIZATION, format!("bearer {}", gated.token));
        let request = request.body(Body::from("x")).unwrap();
        let answer = gated.router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), status, "{coding}");
    }
}

#[tokio::test]
async fn more_requests_than_there_is_room_for_are_asked_to_come_again() {
    let routes = Router::new().route("/well", get(|| async { "well" }));
    let gated = Gated::new(routes, REQUEST_TIMEOUT);
    let all = u32::try_from(MAX_REQUESTS).unwrap();
    let taken = gated
        .api
        .0
        .room
        .clone()
        .acquire_many_owned(all)
        .await
        .unwrap();
    let response = gated.send("GET", "/well", "").await;
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(gated.refused("GET", "/well", "").await.code, "SC5025");
    drop(taken);
    assert_eq!(gated.send("GET", "/well", "").await.status(), 200);
}
