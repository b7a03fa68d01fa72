//! Wires one server node: store, duties, edges.
//!
//! # Invariants
//! - This is the only place that knows a concrete store and a server together.
//! - A stop is graceful: no new connection, duties end their step and are handed over, then the
//!   store is closed.
//!
//! # Not here
//! What any of the parts does.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::SignedDuration;
use sichen_core::lease::Rhythm;
use sichen_engine::context::RandomIds;
use sichen_engine::driver::{Engine, Settings};
use sichen_server::Server;
use sichen_server::auth::Tokens;
use sichen_server::grpc::Streams;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Exit, Failure};
use crate::store_at::StoreAt;

/// What a node is.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where its tokens are, and its database unless `store` is another.
    pub data: PathBuf,
    /// Where jobs, runs and history are.
    pub store: StoreAt,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Whether other machines may reach it without encryption.
    pub beyond_loopback: bool,
    /// Workers' beats and sessions.
    pub worker: Rhythm,
    /// How long ended runs are kept.
    pub retention: SignedDuration,
}

/// A node that has opened everything and not started yet.
#[derive(Debug)]
pub struct Opened {
    engine: Arc<Engine>,
    streams: Arc<Streams>,
    server: Server,
    listener: TcpListener,
    address: SocketAddr,
}

/// Opens the data directory (nobody else may have it), the tokens and the port.
pub async fn open(node: &Node) -> Result<Opened, Failure> {
    let data = node.data.clone();
    make_private(&data).map_err(|error| {
        let text = format!(
            "SC7009: the data directory {} can't be made: {error}",
            data.display()
        );
        Failure::new(Exit::Usage, text)
    })?;
    let store = node.store.open().await?;
    let tokens = Tokens::open(&data).map_err(|e| Failure::new(Exit::Denied, e.to_string()))?;
    let listener = Server::bind(node.listen, node.beyond_loopback)
        .await
        .map_err(|error| bind_failure(node, &error))?;
    let address = listener.local_addr()?;
    let mut settings = Settings::new(format!("http://{address}"));
    settings.worker = node.worker;
    settings.retention = node.retention;
    let streams = Arc::new(Streams::default());
    let engine = Engine::new(store, Arc::new(RandomIds), streams.clone(), settings);
    let engine = Arc::new(engine);
    let server = Server::new(engine.clone(), streams.clone(), Arc::new(tokens));
    Ok(Opened {
        engine,
        streams,
        server,
        listener,
        address,
    })
}

fn bind_failure(node: &Node, error: &std::io::Error) -> Failure {
    let text = match error.kind() {
        std::io::ErrorKind::InvalidInput => {
            format!("{error} (--allow-plaintext)")
        }
        _ => format!(
            "SC7010: {} can't be listened on: {error}; choose another with --listen",
            node.listen
        ),
    };
    let exit = match error.kind() {
        std::io::ErrorKind::AddrInUse => Exit::Refused,
        _ => Exit::Usage,
    };
    Failure::new(exit, text)
}

/// Makes the directory, for its owner alone.
fn make_private(path: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

impl Opened {
    /// Where it answers.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves until `stop`, then ends gracefully.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), Failure> {
        let running = self.engine.start();
        tracing::info!(address = %self.address, "the server is ready");
        self.server.serve(self.listener, stop).await;
        self.streams.close().await;
        if let Err(error) = running.stop().await {
            tracing::warn!(%error, "duties could not be handed over; a peer takes them when the lease ends");
        }
        tracing::info!("the server has stopped");
        Ok(())
    }
}

/// Resolves at SIGTERM or SIGINT. Registered at once, so that none is missed.
pub fn stop_signal() -> Result<impl Future<Output = ()>, Failure> {
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    })
}
