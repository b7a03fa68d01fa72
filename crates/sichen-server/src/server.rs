//! One port for everything: the REST API and the workers' gRPC sessions, HTTP/1.1 and HTTP/2.
//!
//! # Invariants
//! - Everything has a limit: connections, headers, time for a request's head.
//! - A stop takes at most [`STOP_GRACE_SECONDS`]: no new connection, workers' streams closed, open
//!   requests finished, what is left is cut.
//! - Loopback, unless somebody says otherwise.
//!
//! - With a certificate everything is TLS: who speaks otherwise is told so and turned away.
//!
//! # Not here
//! The certificate ([`crate::tls`]).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use sichen_engine::driver::Engine;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::codegen::Service;
use tonic::service::Routes;

use crate::access::Access;
use crate::auth::Tokens;
use crate::grpc::{self, Streams};
use crate::oidc::Oidc;
use crate::tls::{Peer, Tls};
use crate::{console, rest};

/// Connections that are open at once; more wait to be accepted.
pub const MAX_CONNECTIONS: usize = 10_000;
/// How long a stop waits for open requests, in seconds.
pub const STOP_GRACE_SECONDS: u64 = 5;
/// How long a client may take to send a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a silent HTTP/2 peer is asked for a sign of life, and how long it may take.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The edges of one node.
#[derive(Debug)]
pub struct Server {
    engine: Arc<Engine>,
    streams: Arc<Streams>,
    access: Arc<Access>,
    tls: Option<Arc<Tls>>,
    oidc: Option<Arc<Oidc>>,
    about: Arc<rest::About>,
}

impl Server {
    /// The edges of `engine`, whose courier is `streams`. Starts nothing.
    #[must_use]
    pub fn new(engine: Arc<Engine>, streams: Arc<Streams>, tokens: Arc<Tokens>) -> Self {
        let access = Access::new(tokens, engine.context.store.clone());
        Self {
            engine,
            streams,
            access: Arc::new(access),
            tls: None,
            oidc: None,
            about: Arc::default(),
        }
    }

    /// What it says of itself.
    #[must_use]
    pub fn with_about(mut self, about: rest::About) -> Self {
        self.about = Arc::new(about);
        self
    }

    /// The same, where people can log in by a provider too.
    #[must_use]
    pub fn with_oidc(mut self, oidc: Oidc) -> Self {
        self.oidc = Some(Arc::new(oidc));
        self
    }

    /// The same over TLS.
    #[must_use]
    pub fn with_tls(mut self, tls: Arc<Tls>) -> Self {
        self.tls = Some(tls);
        self
    }

    /// A listener on `address`.
    ///
    /// # Errors
    /// If the address is not on this machine's loopback and `beyond_loopback` does not say that
    /// this is meant; what the system says.
    pub async fn bind(address: SocketAddr, beyond_loopback: bool) -> io::Result<TcpListener> {
        if !address.ip().is_loopback() && !beyond_loopback {
            let message = format!(
                "SC6020: {address} can be reached from other machines, without encryption; \
                 give a certificate, listen on 127.0.0.1, or say that this is meant"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        TcpListener::bind(address).await
    }

    /// All routes.
    pub fn router(&self) -> Router {
        let (engine, streams) = (self.engine.clone(), self.streams.clone());
        let certified = self.tls.as_ref().is_some_and(|tls| tls.wants_of_workers());
        let sessions = grpc::service(engine, streams, self.access.clone(), certified);
        let rest = rest::router(
            self.engine.clone(),
            self.streams.clone(),
            self.access.clone(),
            self.about.clone(),
            self.oidc.clone(),
        );
        Routes::new(sessions)
            .prepare()
            .into_axum_router()
            .reset_fallback()
            .merge(rest)
            .merge(console::router())
    }

    /// Serves `listener` until `shutdown`, then stops gracefully.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let router = self.router();
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let stop = CancellationToken::new();
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            let next = async {
                let slot = slots.clone().acquire_owned().await;
                (slot, listener.accept().await)
            };
            tokio::select! {
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => {}
                (slot, accepted) = next => match accepted {
                    Ok((stream, from)) => {
                        let (tls, stop) = (self.tls.clone(), stop.clone());
                        let served = connection(stream, from, tls, router.clone(), stop);
                        connections.spawn(async move {
                            served.await;
                            drop(slot);
                        });
                    }
                    Err(error) => {
                        // Out of file descriptors, most likely: others must end first.
                        tracing::warn!(%error, "a connection could not be accepted");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        }
        drop(listener);
        stop.cancel();
        let drained = async {
            self.streams.close().await;
            while connections.join_next().await.is_some() {}
        };
        let grace = Duration::from_secs(STOP_GRACE_SECONDS);
        if tokio::time::timeout(grace, drained).await.is_err() {
            tracing::warn!(
                open = connections.len(),
                "connections were cut, their requests did not end in time"
            );
            connections.shutdown().await;
        }
    }
}

/// What a client is told that speaks no TLS where it must.
const NO_TLS: &str = r#"{"type":"urn:sichen:error:SC6024","title":"Bad Request","status":400,"detail":"this server speaks TLS alone; use https://","code":"SC6024"}"#;
/// The first byte of every TLS connection: a handshake.
const HANDSHAKE: u8 = 22;

async fn connection(
    mut stream: TcpStream,
    from: SocketAddr,
    tls: Option<Arc<Tls>>,
    router: Router,
    stop: CancellationToken,
) {
    // A socket without this option only answers later.
    let _ = stream.set_nodelay(true);
    // Whether it speaks HTTP/1 or HTTP/2 is seen from its first bytes; they are not awaited for ever.
    let mut first = [0u8; 1];
    let spoke = tokio::select! {
        spoke = tokio::time::timeout(HEAD_TIMEOUT, stream.peek(&mut first)) => spoke,
        () = stop.cancelled() => return,
    };
    if !matches!(spoke, Ok(Ok(1..))) {
        return;
    }
    let Some(tls) = tls else {
        let known = Known::new(from, false, None);
        return speak(stream, router, known, stop).await;
    };
    if first[0] != HANDSHAKE {
        tracing::debug!("a client that speaks no TLS was turned away");
        let answer = format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-type: {}\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{NO_TLS}",
            rest::wire::PROBLEM_JSON,
            NO_TLS.len()
        );
        // It may be gone already.
        let _ = tokio::time::timeout(HEAD_TIMEOUT, turn_away(&mut stream, &answer)).await;
        return;
    }
    let shaking = tls.acceptor().accept(stream).into_fallible();
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(HEAD_TIMEOUT, shaking) => shaken,
        () = stop.cancelled() => return,
    };
    match shaken {
        Ok(Ok(stream)) => {
            let shown = stream.get_ref().1.peer_certificates().map(<[_]>::to_vec);
            let peer = shown.as_ref().and_then(|chain| chain.first());
            let peer = peer.map(|own| Arc::new(Peer::of(own)));
            tokio::select! {
                () = speak(stream, router, Known::new(from, true, peer), stop) => {}
                () = tls.disowns(shown) => {
                    tracing::info!("a connection was cut: the certificate of its client is good no more");
                }
            }
        }
        Ok(Err((error, mut stream))) => {
            tracing::debug!(%error, "a TLS handshake failed");
            // It was told why; while it still writes, a cut would take that away from it.
            let _ = tokio::time::timeout(HEAD_TIMEOUT, turn_away(&mut stream, "")).await;
        }
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// Sends an answer and reads on until the client has it, so that the system does not cut it off.
async fn turn_away(stream: &mut TcpStream, answer: &str) -> io::Result<()> {
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let mut sink = [0u8; 1_024];
    while stream.read(&mut sink).await? > 0 {}
    Ok(())
}

/// What is known of who is at the other end of a connection; each request brings it along.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    /// From where he came: a proxy, if there is one between.
    pub address: IpAddr,
    /// Whether nobody between reads what he sends.
    pub is_private: bool,
}

#[derive(Clone)]
struct Known {
    remote: Remote,
    /// His certificate, if he showed one.
    peer: Option<Arc<Peer>>,
}

impl Known {
    fn new(from: SocketAddr, is_private: bool, peer: Option<Arc<Peer>>) -> Self {
        let address = from.ip();
        Self {
            remote: Remote {
                address,
                is_private,
            },
            peer,
        }
    }
}

/// All routes, for a client of whom something is known.
#[derive(Clone)]
struct Introduced {
    router: Router,
    known: Known,
}

impl<B> Service<Request<B>> for Introduced
where
    Router: Service<Request<B>>,
{
    type Response = <Router as Service<Request<B>>>::Response;
    type Error = <Router as Service<Request<B>>>::Error;
    type Future = <Router as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.router.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let extensions = request.extensions_mut();
        extensions.insert(self.known.remote.clone());
        if let Some(peer) = &self.known.peer {
            extensions.insert(peer.clone());
        }
        self.router.call(request)
    }
}

/// Serves one connection, once its bytes are in clear.
async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    known: Known,
    stop: CancellationToken,
) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE);
    let service = TowerToHyperService::new(Introduced { router, known });
    let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stop.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}
