//! A TCP proxy between two real processes that can deliver one way and swallow the other, or both.
//!
//! # Invariants
//! - While a way is swallowed its bytes are read and dropped, so that the sender never notices; who
//!   connects meanwhile is taken in and answered nothing.
//! - What was swallowed leaves a hole in the stream: healing cuts every connection first.
//!
//! # Not here
//! The drills' own proxy, which ships with the program (`sichen-drill`).

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How much is carried at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// A proxy to one server; its threads end with its connections.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens, as `127.0.0.1:PORT`.
    pub address: String,
    /// The same as `http://127.0.0.1:PORT`.
    pub url: String,
    ways: Arc<Ways>,
}

#[derive(Debug, Default)]
struct Ways {
    target: Mutex<String>,
    swallow_requests: AtomicBool,
    swallow_answers: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// A proxy to the server at `HOST:PORT` or `http://HOST:PORT`.
    ///
    /// # Panics
    /// If no port is free.
    pub fn to(target: &str) -> Self {
        let proxy = Self::ahead();
        proxy.leads_to(target);
        proxy
    }

    /// One whose server is not there yet; until then it closes what comes.
    ///
    /// # Panics
    /// If no port is free.
    pub fn ahead() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let ways = Arc::new(Ways::default());
        let shared = Arc::clone(&ways);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Nobody there, or gone meanwhile: the client sees its connection close.
                let _ = shared.take(&client);
            }
        });
        Self {
            url: format!("http://{address}"),
            address,
            ways,
        }
    }

    /// Where it leads from now on.
    pub fn leads_to(&self, target: &str) {
        let target = target.strip_prefix("http://").unwrap_or(target);
        target.clone_into(&mut lock(&self.ways.target));
    }

    /// From now on the server hears nothing.
    pub fn swallow_requests(&self) {
        self.ways.swallow_requests.store(true, Ordering::SeqCst);
    }

    /// From now on the server hears everything and its answers are lost.
    pub fn swallow_answers(&self) {
        self.ways.swallow_answers.store(true, Ordering::SeqCst);
    }

    /// From now on nothing passes, and nobody is told.
    pub fn swallow_all(&self) {
        self.swallow_requests();
        self.swallow_answers();
    }

    /// Cuts every connection and carries new ones whole.
    pub fn heal(&self) {
        // Who is taken in meanwhile waits here, and is carried whole.
        let mut open = lock(&self.ways.open);
        for stream in open.drain(..) {
            // It may be gone already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.ways.swallow_requests.store(false, Ordering::SeqCst);
        self.ways.swallow_answers.store(false, Ordering::SeqCst);
    }
}

impl Ways {
    fn take(self: &Arc<Self>, client: &TcpStream) -> std::io::Result<()> {
        let target = lock(&self.target).clone();
        let server = TcpStream::connect(target)?;
        let mut open = lock(&self.open);
        open.extend([client.try_clone()?, server.try_clone()?]);
        self.carry(client, &server, |ways| &ways.swallow_requests)?;
        self.carry(&server, client, |ways| &ways.swallow_answers)
    }

    fn carry(
        self: &Arc<Self>,
        from: &TcpStream,
        to: &TcpStream,
        swallows: fn(&Ways) -> &AtomicBool,
    ) -> std::io::Result<()> {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        let ways = Arc::clone(self);
        std::thread::spawn(move || {
            let mut bytes = [0; CHUNK_BYTES];
            while let Ok(n @ 1..) = from.read(&mut bytes) {
                let part = bytes.get(..n).unwrap_or_default();
                if !swallows(&ways).load(Ordering::SeqCst) && to.write_all(part).is_err() {
                    break;
                }
            }
            // The other side may be gone already.
            let _ = to.shutdown(Shutdown::Both);
        });
        Ok(())
    }
}

/// What a thread that panicked has left is as good as before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
