//! Documents, addresses and bodies that nobody meant, over the whole way of a request.

use std::sync::Arc;

use axum::body::Body;
use sichen_engine::context::RandomIds;
use sichen_engine::driver::{Engine, Settings};
use sichen_server::auth::{self, Tokens};
use sichen_server::grpc::Streams;
use sichen_server::{Server, document};
use sichen_store::clock::SystemClock;
use sichen_store::memory::MemoryStore;
use tower::ServiceExt as _;

use crate::permissions::DOCUMENTS;

const KEYS: &[&str] = &[
    "apiVersion: sichen/v1\n",
    "kind: Job\n",
    "kind: Calendar\n",
    "kind: Capacity\n",
    "metadata: ",
    "name: ",
    "spec: ",
    "schedules: ",
    "cron: ",
    "every: ",
    "at: ",
    "after: ",
    "timeZone: ",
    "calendars: ",
    "overlap: ",
    "catchUp: ",
    "shards: ",
    "range: ",
    "items: ",
    "retry: ",
    "timeouts: ",
    "placement: ",
    "capacities: ",
    "run: ",
    "handler: ",
    "params: ",
    "daysOff: ",
    "workDays: ",
    "---\n",
    "  ",
    "- ",
    "5m",
    "P1D",
    "2027-02-29",
];

/// A text is read or refused with places that are in it, and what is read is the same when it is written again.
#[test]
fn document() {
    sichen_fuzz::fuzz("document", KEYS, &[], |bytes| {
        match document::read_bytes(bytes) {
            Ok(_) => "good".to_owned(),
            Err(problems) => {
                assert!(!problems.is_empty(), "refused for nothing");
                // YAML ends a line at a carriage return too.
                let ends = bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r'));
                let lines = u64::try_from(ends.count()).unwrap() + 1;
                for problem in &problems {
                    let line = problem.line.unwrap_or(1);
                    assert!((1..=lines + 1).contains(&line), "line {line} of {lines}");
                }
                problems[0].to_string()
            }
        }
    });
}

/// The routes of a server without duties, by way of no network.
struct Edge {
    runtime: tokio::runtime::Runtime,
    router: axum::Router,
    token: String,
    _dir: tempfile::TempDir,
}

impl Edge {
    fn new() -> Self {
        sichen_server::tls::use_ring();
        let dir = tempfile::tempdir().unwrap();
        let tokens = Arc::new(Tokens::open(dir.path()).unwrap());
        let token = auth::read(&dir.path().join(auth::TOKEN_FILE)).unwrap();
        let streams = Arc::new(Streams::default());
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let settings = Settings::new("here".to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        let _inside = runtime.enter();
        let engine = Engine::new(store, Arc::new(RandomIds), streams.clone(), settings);
        let router = Server::new(Arc::new(engine), streams, tokens).router();
        let edge = Self {
            router,
            token,
            _dir: dir,
            runtime: { runtime },
        };
        let applied = edge.ask("POST", "/jobs:apply", DOCUMENTS.as_bytes());
        assert!(applied.starts_with("200"), "{applied}");
        edge
    }

    /// Status and body; what can't be sent at all is told instead.
    fn ask(&self, method: &str, path: &str, body: &[u8]) -> String {
        let request = axum::http::Request::builder()
            .method(method)
            .uri(format!("/api/v1{path}"))
            .header("authorization", format!("Bearer {}", self.token))
            .body(Body::from(body.to_vec()));
        let Ok(request) = request else {
            return "no address".to_owned();
        };
        self.runtime.block_on(async {
            let answer = self.router.clone().oneshot(request).await.unwrap();
            let status = answer.status().as_u16();
            let body = axum::body::to_bytes(answer.into_body(), 1 << 20)
                .await
                .unwrap();
            let body = String::from_utf8_lossy(&body);
            assert!(
                status < 500 || body.contains("SC3") || body.contains("SC5025"),
                "{status} {body}"
            );
            format!("{status} {body}")
        })
    }
}

/// Listings, by number: a target's input begins with one.
const LISTINGS: &[&str] = &[
    "/jobs",
    "/jobs/payments/settle/next",
    "/jobs/payments/settle/preview",
    "/jobs/payments/settle/decisions",
    "/jobs/payments/settle/backfills",
    "/runs",
    "/dead-letters",
    "/events",
    "/changes",
    "/calendars",
    "/capacities",
    "/namespaces",
    "/runs/1/shards",
    "/forecast",
];
const QUERY: &[&str] = &[
    "?",
    "&",
    "=",
    "limit=",
    "after=",
    "job=",
    "state=",
    "from=",
    "to=",
    "entity=",
    "search=",
    "namespace=",
    "payments%2Fsettle",
    "%00",
    "%ff",
    "+",
    "2026-08-30T00:00:00%2B08:00",
    "failed",
    "zone=",
    "count=",
    "actor=",
];

/// Queries and cursors: never a fault of the server.
#[test]
fn query() {
    let edge = Edge::new();
    sichen_fuzz::fuzz("query", QUERY, &[], |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let (number, query) = text.split_once('?').unwrap_or(("0", &text));
        let number: usize = number.parse().unwrap_or(0);
        let path = LISTINGS[number % LISTINGS.len()];
        let plain: String = query
            .chars()
            .filter(|c| c.is_ascii_graphic() && *c != '#')
            .collect();
        edge.ask("GET", &format!("{path}?{plain}"), b"")
    });
}

const POSTS: &[&str] = &[
    "/jobs/payments/settle/runs",
    "/jobs/payments/settle/backfills/preview",
    "/tokens",
    "/users",
    "/login",
    "/jobs:validate",
    "/calendars:compare",
    "/capacities/none/resize",
    "/users/none/roles",
];

/// Bodies: never a fault of the server.
#[test]
fn body() {
    let edge = Edge::new();
    let words = [
        "\"",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "null",
        "true",
        "\"key\":",
        "\"roles\":",
        "\\u0000",
        "\\ud800",
    ];
    sichen_fuzz::fuzz("body", &words, &[], |bytes| {
        let at = bytes.iter().position(|byte| *byte == b' ').unwrap_or(0);
        let (number, body) = bytes.split_at(at);
        let number = String::from_utf8_lossy(number).parse().unwrap_or(0usize);
        edge.ask("POST", POSTS[number % POSTS.len()], body)
    });
}
