//! A TCP proxy between two processes of a cluster: cuts, stalls, and loses one way of the two.
//!
//! # Invariants
//! - While a way is lost its bytes are read and dropped, so that the sender never notices.
//! - What was lost leaves a hole in the stream: a mend cuts the connections that have one.
//! - It ends with its handle, and its connections with it.
//!
//! # Not here
//! When to do what ([`crate::stage`]).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::beats::Beats;

/// Connections at once; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 512;
/// How much is carried at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// What a proxy does with what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Carries it.
    Carry,
    /// Delivers requests, loses answers.
    LoseAnswers,
    /// Loses requests, delivers answers.
    LoseRequests,
    /// Takes workers' beats out of what it delivers to the server.
    LoseBeats,
    /// Carries nothing and loses nothing.
    Stall,
    /// Cuts connections and refuses new ones.
    Cut,
}

/// The state of a proxy, and how often it was mended: connections of an earlier age are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    mode: Mode,
    age: u64,
}

/// A running proxy.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    lost: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// A proxy to `to`, on a free port of this machine.
    pub(crate) async fn to(to: String) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (state, seen) = watch::channel(State {
            mode: Mode::Carry,
            age: 0,
        });
        let lost = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, to, seen, lost.clone()));
        Ok(Self {
            address,
            state,
            lost,
            _tasks: tasks,
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on.
    pub(crate) fn set(&self, mode: Mode) {
        self.state.send_modify(|state| {
            // A way that was lost has a hole; a stall has none and goes on where it was.
            let holed = matches!(
                state.mode,
                Mode::LoseAnswers | Mode::LoseRequests | Mode::LoseBeats
            );
            if holed || mode == Mode::Cut {
                state.age += 1;
            }
            state.mode = mode;
        });
    }

    /// Bytes that it has lost.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

async fn accept(
    listener: TcpListener,
    to: String,
    state: watch::Receiver<State>,
    lost: Arc<AtomicU64>,
) {
    let mut open = JoinSet::new();
    loop {
        while open.len() >= MAX_CONNECTIONS {
            open.join_next().await;
        }
        let Ok((client, _)) = listener.accept().await else {
            // No descriptor is free: one will be.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while open.try_join_next().is_some() {}
        if state.borrow().mode == Mode::Cut {
            reset(&client);
            continue;
        }
        open.spawn(connect(client, to.clone(), state.clone(), lost.clone()));
    }
}

/// A reset, not an orderly end: what a dead machine's neighbour says.
fn reset(stream: &TcpStream) {
    // Only the manner of the end changes if it can't be had.
    let _ = stream.set_zero_linger();
}

async fn connect(
    client: TcpStream,
    to: String,
    state: watch::Receiver<State>,
    lost: Arc<AtomicU64>,
) {
    let Ok(server) = TcpStream::connect(&to).await else {
        reset(&client);
        return;
    };
    // What is small goes at once: the proxy adds no waiting of its own.
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let age = state.borrow().age;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut cut = state.clone();
    let gone = async move {
        // An error: the proxy's handle is gone.
        let _ = cut.wait_for(|s| s.age != age).await;
    };
    tokio::select! {
        () = gone => {}
        () = async {
            tokio::join!(
                carry(from_client, to_server, state.clone(), Mode::LoseRequests, &lost),
                carry(from_server, to_client, state.clone(), Mode::LoseAnswers, &lost),
            );
        } => {}
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    lost_in: Mode,
    lost: &AtomicU64,
) {
    let mut bytes = vec![0; CHUNK_BYTES];
    let mut beats = (lost_in == Mode::LoseRequests).then(Beats::default);
    loop {
        let n = match from.read(&mut bytes).await {
            Ok(0) | Err(_) => break,
            Ok(n) => n,
        };
        if state.wait_for(|s| s.mode != Mode::Stall).await.is_err() {
            break;
        }
        let count = u64::try_from(n).unwrap_or(0);
        if state.borrow().mode == lost_in {
            lost.fetch_add(count, Ordering::Relaxed);
            continue;
        }
        let passing = match &mut beats {
            Some(beats) => {
                let dropping = state.borrow().mode == Mode::LoseBeats;
                let (passing, dropped) = beats.take(&bytes[..n], dropping);
                lost.fetch_add(dropped, Ordering::Relaxed);
                passing
            }
            None => bytes[..n].to_vec(),
        };
        if to.write_all(&passing).await.is_err() {
            break;
        }
    }
    // The other way may go on.
    let _ = to.shutdown().await;
}

#[cfg(test)]
mod tests;
