//! A TCP proxy between two real processes that can deliver one way and swallow the other.
//!
//! # Invariants
//! - While a way is swallowed its bytes are read and dropped, so that the sender never notices.
//! - What was swallowed leaves a hole in the stream: cut the connections before opening it again.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A proxy to one server; its threads end with its connections.
pub struct Proxy {
    /// Where it listens, as `http://127.0.0.1:PORT`.
    pub url: String,
    ways: Arc<Ways>,
}

#[derive(Default)]
struct Ways {
    swallow_requests: AtomicBool,
    swallow_answers: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// A proxy to the server at `url`.
    pub fn to(url: &str) -> Self {
        let server = url.strip_prefix("http://").unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let ways = Arc::new(Ways::default());
        let shared = ways.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&server) else {
                    continue;
                };
                let mut open = shared.open.lock().unwrap();
                open.extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                drop(open);
                carry(&client, &server, &shared, |w| &w.swallow_requests);
                carry(&server, &client, &shared, |w| &w.swallow_answers);
            }
        });
        Self { url, ways }
    }

    /// From now on the server hears nothing.
    pub fn swallow_requests(&self) {
        self.ways.swallow_requests.store(true, Ordering::SeqCst);
    }

    /// From now on the server hears everything and its answers are lost.
    pub fn swallow_answers(&self) {
        self.ways.swallow_answers.store(true, Ordering::SeqCst);
    }

    /// Cuts every connection and carries new ones whole.
    pub fn heal(&self) {
        for stream in self.ways.open.lock().unwrap().drain(..) {
            // It may be gone already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.ways.swallow_requests.store(false, Ordering::SeqCst);
        self.ways.swallow_answers.store(false, Ordering::SeqCst);
    }
}

fn carry(from: &TcpStream, to: &TcpStream, ways: &Arc<Ways>, swallows: fn(&Ways) -> &AtomicBool) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let ways = ways.clone();
    std::thread::spawn(move || {
        let mut bytes = [0; 16 * 1024];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            if !swallows(&ways).load(Ordering::SeqCst) && to.write_all(&bytes[..n]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
