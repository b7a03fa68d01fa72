//! One port for everything: the REST API and the workers' gRPC sessions, HTTP/1.1 and HTTP/2.
//!
//! # Invariants
//! - Everything has a limit: connections, headers, time for a request's head.
//! - A stop takes at most [`STOP_GRACE_SECONDS`]: no new connection, workers' streams closed, open
//!   requests finished, what is left is cut.
//! - Loopback, unless somebody says otherwise.
//!
//! # Not here
//! TLS: put it in front, or stay on loopback.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use sichen_engine::driver::Engine;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::auth::Tokens;
use crate::grpc::{self, Streams};
use crate::rest;

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
    tokens: Arc<Tokens>,
}

impl Server {
    /// The edges of `engine`, whose courier is `streams`. Starts nothing.
    #[must_use]
    pub fn new(engine: Arc<Engine>, streams: Arc<Streams>, tokens: Arc<Tokens>) -> Self {
        Self {
            engine,
            streams,
            tokens,
        }
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
                 listen on 127.0.0.1, or say that this is meant"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        TcpListener::bind(address).await
    }

    /// All routes.
    pub fn router(&self) -> Router {
        let (engine, streams) = (self.engine.clone(), self.streams.clone());
        let sessions = grpc::service(engine, streams, self.tokens.clone());
        let rest = rest::router(self.engine.clone(), self.tokens.clone());
        Routes::new(sessions)
            .prepare()
            .into_axum_router()
            .reset_fallback()
            .merge(rest)
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
                    Ok((stream, _peer)) => {
                        let served = connection(stream, router.clone(), stop.clone());
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

async fn connection(stream: TcpStream, router: Router, stop: CancellationToken) {
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
    let service = TowerToHyperService::new(router);
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
