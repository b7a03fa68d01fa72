//! One node on a port of its own, over real connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use reqwest::{Client, Method, Response, StatusCode};
use serde::de::DeserializeOwned;
use sichen_core::lease::Rhythm;
use sichen_core::port::Store;
use sichen_engine::context::RandomIds;
use sichen_engine::driver::{Engine, Running, Settings};
use sichen_server::Server;
use sichen_server::auth::{self, Tokens};
use sichen_server::grpc::Streams;
use sichen_server::oidc::Oidc;
use sichen_server::rest::wire::{PROBLEM_JSON, Problem};
use sichen_store::clock::SystemClock;
use sichen_store::memory::MemoryStore;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A job that runs on request.
pub const ON_REQUEST: &str = "
apiVersion: sichen/v1
kind: Job
metadata: {name: on-request}
spec:
  run: {handler: work}
";

/// A running node.
pub struct Node {
    pub address: SocketAddr,
    pub dir: TempDir,
    pub token: String,
    pub client: Client,
    running: Option<Running>,
    stop: oneshot::Sender<()>,
    served: JoinSet<()>,
}

impl Node {
    /// A node on an empty memory store, ready.
    pub async fn start() -> Self {
        Self::ready_on(Arc::new(MemoryStore::new(Arc::new(SystemClock)))).await
    }

    /// A node on `store`, ready.
    pub async fn ready_on(store: Arc<dyn Store>) -> Self {
        Self::on(store, true).await.ready().await
    }

    async fn ready(self) -> Self {
        until("the node is ready", || async {
            self.get("/readyz").await.status() == StatusCode::OK
        })
        .await;
        self
    }

    /// A node whose duties do not run.
    pub async fn without_duties() -> Self {
        Self::on(Arc::new(MemoryStore::new(Arc::new(SystemClock))), false).await
    }

    /// A node on `store` whose duties do not run: another has them.
    pub async fn without_duties_on(store: Arc<dyn Store>) -> Self {
        Self::on(store, false).await
    }

    /// A node whose workers beat often and are given up after three seconds of silence, ready.
    pub async fn impatient() -> Self {
        let rhythm = Rhythm {
            beat: SignedDuration::from_millis(500),
            ttl: SignedDuration::from_secs(10),
        };
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        Self::with(store, true, Some(rhythm)).await.ready().await
    }

    /// A node without duties where people can log in by the provider that `make` makes for its address.
    pub async fn with_oidc(make: impl FnOnce(SocketAddr) -> Oidc) -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        Self::made(store, false, None, |address| Some(make(address))).await
    }

    async fn on(store: Arc<dyn Store>, duties: bool) -> Self {
        Self::with(store, duties, None).await
    }

    async fn with(store: Arc<dyn Store>, duties: bool, rhythm: Option<Rhythm>) -> Self {
        Self::made(store, duties, rhythm, |_| None).await
    }

    async fn made(
        store: Arc<dyn Store>,
        duties: bool,
        rhythm: Option<Rhythm>,
        oidc: impl FnOnce(SocketAddr) -> Option<Oidc>,
    ) -> Self {
        // The HTTP client wants one, even for connections without TLS.
        sichen_server::tls::use_ring();
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = Server::bind(any, false).await.unwrap();
        let address = listener.local_addr().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let tokens = Arc::new(Tokens::open(dir.path()).unwrap());
        let token = auth::read(&dir.path().join(auth::TOKEN_FILE)).unwrap();
        let streams = Arc::new(Streams::default());
        let mut settings = Settings::new(address.to_string());
        settings.worker = rhythm.unwrap_or(settings.worker);
        let engine = Engine::new(store, Arc::new(RandomIds), streams.clone(), settings);
        let engine = Arc::new(engine);
        let mut server = Server::new(engine.clone(), streams, tokens);
        if let Some(oidc) = oidc(address) {
            server = server.with_oidc(oidc);
        }
        let (stop, stopped) = oneshot::channel();
        let mut served = JoinSet::new();
        served.spawn(async move {
            let stopped = async { drop(stopped.await) };
            server.serve(listener, stopped).await;
        });
        let running = duties.then(|| engine.start());
        Self {
            address,
            dir,
            token,
            client: Client::new(),
            running,
            stop,
            served,
        }
    }

    /// Stops the edges, then the duties.
    pub async fn stop(mut self) {
        self.stop.send(()).unwrap();
        self.served.join_next().await.unwrap().unwrap();
        if let Some(running) = self.running {
            running.stop().await.unwrap();
        }
    }

    /// The join token for workers.
    pub fn join_token(&self) -> String {
        auth::read(&self.dir.path().join(auth::JOIN_TOKEN_FILE)).unwrap()
    }

    /// Sends a request with the token; `path` begins with `/`.
    pub async fn send(&self, method: Method, path: &str, body: impl Into<String>) -> Response {
        let url = format!("http://{}{path}", self.address);
        let request = self.client.request(method, url).bearer_auth(&self.token);
        request.body(body.into()).send().await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Response {
        self.send(Method::GET, path, "").await
    }

    pub async fn post(&self, path: &str, body: impl Into<String>) -> Response {
        self.send(Method::POST, path, body).await
    }

    /// Reads `path` as `T`.
    pub async fn read<T: DeserializeOwned>(&self, path: &str) -> T {
        json(self.get(path).await).await
    }
}

/// The body of a successful answer.
pub async fn json<T: DeserializeOwned>(response: Response) -> T {
    let (status, url) = (response.status(), response.url().clone());
    let text = response.text().await.unwrap();
    assert!(status.is_success(), "{url}: {status}: {text}");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{url}: {e}: {text}"))
}

/// The problem in an answer that must have `status`.
pub async fn problem(response: Response, status: u16) -> Problem {
    let (found, url) = (response.status(), response.url().clone());
    let kind = response.headers().get("content-type").cloned();
    let text = response.text().await.unwrap();
    assert_eq!(found, status, "{url}: {text}");
    assert_eq!(kind.unwrap(), PROBLEM_JSON, "{url}: {text}");
    let problem: Problem = serde_json::from_str(&text).unwrap();
    assert_eq!(problem.status, status);
    assert!(!problem.code.is_empty(), "{text}");
    problem
}

/// Waits for something that must become true.
pub async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let done = tokio::time::timeout(PATIENCE, wait).await;
    assert!(done.is_ok(), "did not happen in {PATIENCE:?}: {what}");
}
